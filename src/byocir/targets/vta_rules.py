"""The rules of composites that depend on the VTA: on its GEMM unit, and on what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.graph import MulOp, RequantizeOp
from byocir.dialects.tir import BlockOp
from byocir.lowering.tir_to_vta.layout import contraction_roles, order_of, weights_of
from byocir.patterns import Match
from byocir.patterns.match import constant_array
from byocir.patterns.rules import Check
from byocir.patterns.scalars import constant_number
from byocir.vta_sim import VTAConfig


def rules_for(composite: str, config: VTAConfig) -> Iterator[tuple[Check, str]]:
    """The rules that a composite has on this VTA beside its own, each with what users can do."""
    if composite in ("conv", "contraction"):
        side = config.block_out
        fix = (
            f"choose channels of each group as a multiple or a divisor of {side}, or another block"
        )
        yield _groups_fill_blocks(side), fix
    if config.batch > 1 and composite in ("product", "contraction"):
        yield weights_serve_a_batch, "give all of the batch the same weights"
    if not config.alu_mul and composite in SCALED:
        yield factors_are_shifts, "quantise with scales that are powers of two, or per tensor"


SCALED = (
    *("conv", "dense", "product", "add", "multiply", "leaky_relu", "avg_pool", "requantize"),
    *("contraction", "window_sum", "elementwise"),
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
    from byocir.lowering.tir_to_vta.legalise_products import is_shifts  # to list, not needed

    for op in m.ops:
        for factor in _factors(op):
            if factor is None:
                return False, "a product of arrays"
            if not is_shifts(factor):
                return False, f"factors {factor.min()} to {factor.max()}"
    return True, "shifts"


def _factors(op: Operation) -> Iterator[np.ndarray | None]:
    """The numbers that an op of either level multiplies by in the ALU; None for arrays that are
    computed."""
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
    """The numbers that a scalar of a block stands for, if they are known."""
    while isinstance(value.owner, arith.ExtSIOp):
        value = value.owner.input
    if isinstance(value.owner, arith.ConstantOp):
        number = constant_number(value)
        return np.array([number]) if isinstance(number, int) else None
    arguments = zip(block.body.block.args, block.ins, strict=False)
    return next((_known(array) for scalar, array in arguments if scalar is value), None)


def _known(value: SSAValue) -> np.ndarray | None:
    """The array of a constant of either level; ones where its bytes are absent, for a rule on
    shapes alone can still be asked."""
    found = constant_array(value)
    if found is None:
        return None
    return found.values() if found.present else np.ones(1, np.int32)


def _groups_fill_blocks(side: int) -> Check:
    def groups_fill_blocks(m: Match) -> tuple[bool, Any]:
        """Groups of channels, several together if they are small, fill whole blocks."""
        from byocir.lowering.tir_to_vta.legalise_groups import groups_fit  # to list, not needed

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
