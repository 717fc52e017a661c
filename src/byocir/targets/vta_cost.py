"""Estimates the cost of a match on VTA before it is compiled, from shapes alone.

It assumes what a perfect schedule would reach: computation at full speed, loads beside it, and each
value moved once. It ignores halos, tiles that do not fit, and waits. Constants are those of the
simulator's models: `TimingModel.de10` and `EnergyModel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    ConvOp,
    GraphOp,
    MatmulOp,
    MaxPoolOp,
    MulOp,
    ReluOp,
    RequantizeOp,
    SumPoolOp,
)
from byocir.dialects.tir import BlockOp, EmptyOp, FillOp
from byocir.dialects.tir.affine import iterators_in
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import dtype_of, element_type_of, i64, nbytes, shape_of
from byocir.lowering.tir_to_vta.layout import Data, contraction_roles, weights_of
from byocir.lowering.tir_to_vta.legalise_groups import sharing
from byocir.vta_sim import EnergyModel, TimingModel
from byocir.vta_sim.energy import UOP_BYTES, Traffic, energy_for

AnyOp = TypeVar("AnyOp", bound=Operation)

HALF_EVEN_STEPS = 7
"""ALU instructions that rounding ties to even takes beside those of rounding them up."""


@dataclass
class UnitWork:
    """Counts the work of a match: steps of the units, of one vector of `block` lanes each, and
    bytes read and written.
    """

    gemm: int = 0
    immediate: int = 0
    register: int = 0
    multiplies: int = 0
    """Those of the steps on registers that multiply."""
    read: int = 0
    written: int = 0


@dataclass
class Contracted:
    """Counts what the contractions of a match take of the GEMM unit: its steps, and the bytes that
    are read of operands, where these are not simply whole vectors. `channels` is the dimension of
    channels.
    """

    steps: int = 0
    read: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    channels: int = 1


def work_of(
    ops: Sequence[AnyOp],
    gemm: Contracted,
    alu_steps: Callable[[AnyOp], tuple[int, int, int]],
    pool: AnyOp | None,
    block: int,
) -> UnitWork:
    """Counts the work of ops that are one composite, the last one first, after that of their
    contractions. `alu_steps` counts those for each vector of a result: with an immediate, on two
    registers, and how many of the latter multiply. `pool` takes maxima of windows of sums. A match
    on which no unit computes is only a view, and moves nothing.
    """
    work, channels = UnitWork(gemm.steps), gemm.channels
    for op in ops:
        # Maxima are those of the sums: what is computed of these is computed of the maxima.
        count = vectors((pool or op).results[0].type, block, channels)
        immediate, register, multiplies = (count * steps for steps in alu_steps(op))
        work.immediate += immediate
        work.register += register
        work.multiplies += multiplies
    if not work.gemm + work.immediate + work.register:
        return work
    for value in inputs_of(ops):
        own = (
            nbytes(value.type) if is_constant_value(value) else padded(value.type, block, channels)
        )
        work.read += gemm.read.get(value, own)
    work.written = sum(padded(result.type, block, channels) for result in ops[0].results)
    return work


def squares_of(groups: int, inputs: int, outputs: int, positions: int, block: int) -> int:
    """Counts the squares of weights, `block` by `block`, of a contraction in groups with these
    channels each, at so many positions of its window.
    """
    shared = sharing(inputs, outputs, block) if groups > 1 else 1
    each = math.ceil(shared * inputs / block) * math.ceil(shared * outputs / block)
    return math.ceil(groups / shared) * each * positions


def requantise_steps(rounding: str) -> tuple[int, int]:
    """Counts the steps of a requantisation for each vector, with an immediate and on two registers:
    it multiplies by a register, then adds (unless it rounds down), shifts and clips.
    """
    return 4 + HALF_EVEN_STEPS * (rounding == "half_even") - (rounding == "floor"), 1


def inputs_of(ops: Sequence[Operation]) -> list[SSAValue]:
    """Lists the values from outside, each once, except the initial values of blocks."""
    inside = {result for op in ops for result in op.results}
    operands = dict.fromkeys(value for op in ops for value in op.operands)
    return [v for v in operands if v not in inside and not isinstance(v.owner, FillOp | EmptyOp)]


def vectors(type_: Attribute, block: int, channels: int = 1) -> int:
    """Counts the vectors of `block` channels that hold a tensor, whose channels are dimension
    `channels`.
    """
    shape = [*shape_of(type_)]
    shape += [1] * (channels + 1 - len(shape))
    lanes = shape.pop(channels)
    return math.prod(shape) * math.ceil(lanes / block)


def padded(type_: Attribute, block: int, channels: int = 1) -> int:
    """Counts the bytes of a tensor in whole vectors."""
    return vectors(type_, block, channels) * block * dtype_of(element_type_of(type_)).itemsize


FREE = (arith.ConstantOp, arith.ExtSIOp, arith.TruncIOp)
"""Ops that take no step of the ALU: they are how values are loaded and stored."""


def work_of_blocks(ops: Sequence[Operation], block: int, rounding: str) -> UnitWork | None:
    """Counts the work of blocks that are one composite, the last one first. None for a contraction
    whose arrays have no layout with `block` lanes.
    """
    blocks, gemm = [op for op in ops if isinstance(op, BlockOp)], Contracted()
    for op in blocks:
        if op.reductions and len(op.ins) == 2:
            roles = contraction_roles(op)
            if roles is None:
                return None
            x, _, result = roles
            steps, squares = _squares(op, x, result, block)
            weights, data = op.ins[weights_of(op)], op.ins[1 - weights_of(op)]
            own = {weights: squares * block * block, data: padded(data.type, block, x.channels)}
            gemm = Contracted(gemm.steps + steps, {**gemm.read, **own}, result.channels)
    pool = next((op for op in blocks if _takes_maxima(op)), None)
    return work_of(blocks, gemm, partial(_alu_steps_of_block, rounding=rounding), pool, block)


def _squares(op: BlockOp, x: Data, result: Data, block: int) -> tuple[int, int]:
    """Counts the steps of the GEMM unit, and the squares of weights that are loaded."""
    of_w, of_x = op.in_maps[weights_of(op)].results, op.in_maps[1 - weights_of(op)].results
    out, shape = op.out_maps[0].results, shape_of(op.results[0].type)
    lanes = iterators_in(out[result.channels : result.channels + 1])
    summed = iterators_in(of_w) - iterators_in(out)
    groups = _extent(op, lanes & iterators_in(of_x))
    outputs = max(1, shape[result.channels] // groups)
    inputs = _extent(op, summed & iterators_in(of_x[x.channels : x.channels + 1]))
    squares = squares_of(groups, inputs, outputs, _extent(op, summed) // inputs, block)
    matrices = _extent(op, iterators_in(of_w) & iterators_in(out) - lanes)
    return math.prod(shape) // shape[result.channels] * squares, matrices * squares


def _extent(op: BlockOp, iterators: set[int]) -> int:
    return math.prod(op.extents[i] for i in iterators)


def _alu_steps_of_block(op: BlockOp, rounding: str) -> tuple[int, int, int]:
    """Counts the steps for each vector of the result, with an immediate and on two registers, and
    how many of the latter multiply. A product is done by the GEMM unit; a window takes a step for
    each of its elements; a requantisation takes the steps that VTA's lowering makes of its body.
    """
    points = math.prod(op.extents[i] for i in op.reductions)
    if op.reductions:
        return (0, 0, 0) if len(op.ins) == 2 else (0, points, 0)
    steps = [inner for inner in op.body.block.ops if inner.operands and not isinstance(inner, FREE)]
    steps = [inner for inner in steps if inner.results]
    register = [step for step in steps if not any(map(_is_number, step.operands))]
    products = [step for step in register if isinstance(step, arith.MuliOp)]
    shifts = any(isinstance(step, arith.ShRSIOp) for step in steps)
    if shifts and any(step.results[0].type == i64 for step in products):
        return (*requantise_steps(rounding), 1)
    return len(steps) - len(register), len(register), len(products)


def _takes_maxima(op: BlockOp) -> bool:
    return bool(op.reductions) and isinstance(op.yielded[0].owner, arith.MaxSIOp)


def _is_number(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)


ACC_BYTES = 4


def cost_of(ops: Sequence[Operation], block: int, rounding: str) -> dict[str, float]:
    """Estimates seconds by "latency", joules by "energy" and the bytes that cross by "bytes", for
    graph ops or blocks that are one composite, the last one first; empty for blocks whose arrays
    have no layout for VTA.

    - latency: cycles / clock, where cycles are the most of GEMM and ALU steps times their
      intervals, bytes read / bus width, and bytes written / bus width: the units overlap. A GEMM
      step is one position of the result times one block of `block` x `block` weights, channels
      rounded up to whole blocks.
    - energy: multiply-accumulates and ALU lanes with padding, bytes of scratchpads and of DRAM,
      each times its figure in `EnergyModel`.
    - bytes: inputs and results without padding; constants are on the device.
    """
    is_graph = all(isinstance(op, GraphOp) for op in ops)
    count = _work_of_graph if is_graph else work_of_blocks
    work = count(ops, block, rounding)
    if work is None:
        return {}
    timing = TimingModel.de10()
    compute = (
        work.gemm * timing.gemm_interval
        + work.immediate * timing.alu_immediate_interval
        + work.register * timing.alu_register_interval
    )
    bus = timing.bus_bytes or math.inf
    cycles = max(compute, work.read / bus, work.written / bus)
    crossing = [value for value in inputs_of(ops) if not is_constant_value(value)] + [
        *ops[0].results
    ]
    return {
        "latency": cycles / (timing.clock_mhz * 1e6),
        "energy": energy_for(_traffic(work, block), EnergyModel()).total * 1e-12,
        "bytes": float(sum(nbytes(value.type) for value in crossing)),
    }


def _work_of_graph(ops: Sequence[Operation], block: int, rounding: str) -> UnitWork:
    gemm = Contracted()
    for op in ops:
        if isinstance(op, ConvOp | MatmulOp):
            positions, blocks, matrices = _contraction(op, block)
            read = {**gemm.read, op.operands[1]: matrices * blocks * block * block}
            is_product = isinstance(op, MatmulOp)
            channels = len(shape_of(op.result.type)) - 1 if is_product else gemm.channels
            gemm = Contracted(gemm.steps + positions * blocks, read, channels)
    pool = next((op for op in ops if isinstance(op, MaxPoolOp)), None)
    return work_of(ops, gemm, partial(_alu_steps, rounding=rounding), pool, block)


def _contraction(op: ConvOp | MatmulOp, block: int) -> tuple[int, int, int]:
    """Counts the positions of the result, the squares of weights that each of them takes, and the
    matrices of weights.
    """
    result = shape_of(op.result.type)
    if isinstance(op, MatmulOp):
        *matrices, inputs, outputs = shape_of(op.rhs.type)
        squares = squares_of(1, inputs, outputs, 1, block)
        return math.prod(result[:-1]), squares, math.prod(matrices)
    (channels, inputs, *kernel), groups = shape_of(op.weight.type), op.group.value.data
    squares = squares_of(groups, inputs, channels // groups, math.prod(kernel), block)
    return math.prod(result) // channels, squares, 1


def _alu_steps(op: Operation, rounding: str) -> tuple[int, int, int]:
    """Counts the steps for each vector of the result: with an immediate, on two registers, and how
    many of the latter multiply.
    """
    if isinstance(op, RequantizeOp):
        return (*requantise_steps(rounding), 1)
    if isinstance(op, ReluOp):
        return 1, 0, 0
    if isinstance(op, ClipOp):
        return (op.min is not None) + (op.max is not None), 0, 0
    if isinstance(op, MaxPoolOp | SumPoolOp):
        return 0, math.prod(op.kernel_shape.get_values()), 0
    biased = isinstance(op, ConvOp) and op.bias is not None
    return 0, int(biased or isinstance(op, AddOp | MulOp)), 0


def _traffic(work: UnitWork, block: int) -> Traffic:
    """Counts the traffic that the energy model prices, in the simulator's way but without
    instructions.
    """
    acc = block * ACC_BYTES
    gemm = UOP_BYTES + block + block * block + 2 * acc
    alu = work.immediate * (UOP_BYTES + 2 * acc) + work.register * (UOP_BYTES + 3 * acc)
    moved = work.read + work.written
    return Traffic(
        macs=work.gemm * block * block,
        alu_lanes=(work.immediate + work.register - work.multiplies) * block,
        alu_multiply_lanes=work.multiplies * block,
        scratchpad_bytes=work.gemm * gemm + alu + moved,
        dram_bytes=moved,
    )
