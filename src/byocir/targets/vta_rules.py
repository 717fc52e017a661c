"""Lists the rules of composites that depend on the VTA: on its GEMM unit, and on what it lacks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.array import constant_array
from byocir.dialects.graph import MulOp, RequantizeOp
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import element_type_of, i8, i32
from byocir.lowering.tir_to_vta.layout import contraction_roles, order_of, weights_of
from byocir.patterns import Match
from byocir.patterns.rules import Check
from byocir.patterns.scalars import constant_number
from byocir.vta_sim import Memory, VTAConfig

MOST_STEPS = 24
"""Steps of GEMM for a sum that may be computed twice where windows of a pool share it. ResNet's
stem gains 3 cycles for each sum of 10 steps, and loses 4 for one of 49."""


def rules_for(
    composite: str, config: VTAConfig, gathers: bool
) -> Iterator[tuple[Check, Mapping[str, Any]]]:
    """Lists the rules that a composite has on this VTA beside its own, each with the options of
    `Composite.rule`; `gathers` says whether the host gathers the windows of convolutions of few
    channels.
    """
    if composite in CONTRACTIONS:
        side = config.block_out
        fix = (
            f"choose channels of each group as a multiple or a divisor of {side}, or another block"
        )
        is_graph = not composite.startswith("contraction")
        varied = {"vary": "conv.group", "fails": (3,)} if is_graph else {}
        yield _groups_fill_blocks(side), {"fix": fix, **varied}
    if composite in ("conv_pool", "contraction_pool"):
        fix = "nothing is lost but time: the pool is a composite of its own; gather=true may help"
        varied = {"vary": "w.shape[1]", "holds": (3, 16), "fails": (32 * config.block_in,)}
        yield _sums_stay(config, gathers), {"fix": fix, **varied}
    if config.batch > 1 and composite in ("product", "contraction"):
        yield weights_serve_a_batch, {"fix": "give all of the batch the same weights"}
    if not config.alu_mul and composite in SCALED:
        fix = "quantise with scales that are powers of two, or per tensor"
        yield factors_are_shifts, {"fix": fix}


CONTRACTIONS = (
    *("conv", "conv_pool", "conv_add"),
    *("contraction", "contraction_pool", "contraction_add"),
)
"""The composites of contractions of channels, in groups or not."""

SCALED = (
    *CONTRACTIONS,
    *("dense", "product", "add", "multiply", "leaky_relu", "avg_pool", "requantize"),
    *("window_sum", "elementwise"),
)
"""The composites whose computation may multiply by numbers, or arrays by arrays."""


def weights_serve_a_batch(m: Match) -> tuple[bool, Any]:
    """The weights are the same for all of a batch, of which this VTA's unit takes several."""
    if "matmul" in m:
        weights, result = m["y"].type.shape, m["matmul"].type.shape
        own = len(weights) == len(result) > 2 and weights[0] > 1
        return not own, weights
    block: BlockOp = m["product"].block
    roles = contraction_roles(block)
    if roles is None:
        return True, "no layout"
    first, *_ = order_of(roles[2].channels, len(block.out_maps[0].results))
    of_batch = block.out_maps[0].results[first].used_dims()
    of_weights = set[int]().union(
        *(expr.used_dims() for expr in block.in_maps[weights_of(block)].results)
    )
    own = sorted(i for i in of_batch & of_weights if block.extents[i] > 1)
    return not own, f"weights for each {', '.join(block.names[i] for i in own)}" if own else "one"


def factors_are_shifts(m: Match) -> tuple[bool, Any]:
    """This VTA has no MUL, so factors are powers of two, or one for all that is not negative."""
    # Imported here, as listing targets does not need it.
    from byocir.lowering.tir_to_vta.legalise_products import is_shifts

    for op in m.ops:
        for factor in _factors(op):
            if factor is None:
                return False, "a product of arrays"
            if not is_shifts(factor):
                return False, f"factors {factor.min()} to {factor.max()}"
    return True, "shifts"


def _factors(op: Operation) -> Iterator[np.ndarray | None]:
    """Reads the numbers by which an op of either level multiplies in the ALU; None for computed
    arrays.
    """
    if isinstance(op, RequantizeOp):
        scale = _known(op.operands[1])
        yield None if scale is None or scale.dtype.kind != "i" else scale
    elif isinstance(op, MulOp):
        yield next((known for v in op.operands if (known := _known(v)) is not None), None)
    elif isinstance(op, BlockOp) and not (op.reductions and len(op.ins) == 2):
        for inner in op.body.block.ops:
            if isinstance(inner, arith.MuliOp):
                found = (_scalar(value, op) for value in inner.operands)
                yield next((known for known in found if known is not None), None)


def _scalar(value: SSAValue, block: BlockOp) -> np.ndarray | None:
    """Reads the numbers that a scalar of a block stands for, if they are known."""
    while isinstance(value.owner, arith.ExtSIOp):
        value = value.owner.input
    if isinstance(value.owner, arith.ConstantOp):
        number = constant_number(value)
        return np.array([number]) if isinstance(number, int) else None
    arguments = zip(block.body.block.args, block.ins, strict=False)
    return next((_known(array) for scalar, array in arguments if scalar is value), None)


def _known(value: SSAValue) -> np.ndarray | None:
    """Reads the array of a constant of either level; ones where its bytes are absent, so that rules
    on shapes alone can still be checked.
    """
    found = constant_array(value)
    if found is None:
        return None
    return found.values() if found.present else np.ones(1, np.int32)


def _groups_fill_blocks(side: int) -> Check:
    def groups_fill_blocks(m: Match) -> tuple[bool, Any]:
        """Groups of channels, several together if they are small, fill whole blocks."""
        # Imported here, as listing targets does not need it.
        from byocir.lowering.tir_to_vta.legalise_groups import groups_fit

        groups, inputs, outputs = _groups(m)
        if groups == 1:
            return True, "one group"
        apart = m.get("inputs", inputs), m.get("outputs", outputs)
        if apart != (inputs, outputs):
            return False, f"groups that are {apart} channels apart, of {(inputs, outputs)}"
        fits = groups_fit(groups, inputs, outputs, side)
        return fits, f"{groups} groups of {inputs} and {outputs} channels for blocks of {side}"

    return groups_fill_blocks


def _groups(m: Match) -> tuple[int, int, int]:
    """Counts the groups of a convolution, and the channels of one, of the input and the result."""
    if "conv" in m:
        (outputs, inputs), groups = m["w"].type.shape[:2], m["conv"].attrs["group"]
        return groups, inputs, outputs // groups
    extents = m["product"].extents
    return extents.get("g", 1), extents.get("c", 1), extents.get("o", 1)


def _sums_stay(config: VTAConfig, gathers: bool) -> Check:
    side, depth = config.block_in, config.depth(Memory.ACC)

    def sums_stay(m: Match) -> tuple[bool, Any]:
        """The accumulators hold the sums of two windows of the pool, and windows share none, or
        only such as take few steps of GEMM: tiles compute twice what two of them need."""
        kernel, strides, dilations = _windows(m)
        spans = ((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
        held = 2 * (math.prod(spans) + 1)
        if held > depth:
            return False, f"{held} sums for {depth} accumulators"
        if all(size <= stride for size, stride in zip(kernel, strides, strict=True)):
            return True, "none are shared"
        groups, inputs, _ = _groups(m)
        taps = _taps(m)
        if gathers and groups == 1 and inputs < side and _comes_from_host(m["x"].value):
            inputs, taps = inputs * taps, 1
        steps = math.ceil(inputs / side) * taps
        return steps <= MOST_STEPS, f"sums of {steps} steps"

    return sums_stay


def _windows(m: Match) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Reads the sizes, steps and dilations of a pool's windows."""
    if "conv" in m:
        kernel, strides, dilations = (
            m["pool"].attrs[name] for name in ("kernel_shape", "strides", "dilations")
        )
        return kernel, strides, dilations
    kernel = [m["pool"].extents[name] for name in ("r", "s") if name in m["pool"].extents]
    steps, dilations = (
        [m.get(name, 1) for name in names] for names in (("psh", "psw"), ("pdh", "pdw"))
    )
    return kernel, steps[: len(kernel)], dilations[: len(kernel)]


def _taps(m: Match) -> int:
    """Counts the elements of a convolution's window."""
    if "conv" in m:
        return math.prod(m["w"].type.shape[2:])
    extents = m["product"].extents
    return extents.get("r", 1) * extents.get("s", 1)


def _comes_from_host(value: SSAValue) -> bool:
    """Tells if an array of bytes is an input of the model, or was made by an op whose first operand
    is not i8 or i32.
    """
    if not isinstance(value.owner, Operation):
        return True
    made_of = [element_type_of(operand.type) for operand in value.owner.operands[:1]]
    return bool(made_of) and made_of[0] not in (i8, i32)
