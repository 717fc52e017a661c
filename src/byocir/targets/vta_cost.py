"""Estimates the cost of a match on VTA before it is compiled, from shapes alone.

It assumes what a perfect schedule would reach: computation at full speed, loads beside it, and each
value moved once. It ignores halos, tiles that do not fit, and waits. Constants are those of the
simulator's models: `TimingModel.de10` and `EnergyModel`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

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
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import nbytes, shape_of
from byocir.lowering.tir_to_vta.legalise_groups import sharing
from byocir.targets.vta_cost_blocks import work_of_blocks
from byocir.targets.vta_work import (
    UnitWork,
    inputs_of,
    padded,
    requantise_steps,
    vectors,
)
from byocir.vta_sim import EnergyModel, TimingModel
from byocir.vta_sim.energy import UOP_BYTES, Traffic, energy_for

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
    work = _work_of(ops, block, rounding) if is_graph else work_of_blocks(ops, block, rounding)
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


def _work_of(ops: Sequence[Operation], block: int, rounding: str) -> UnitWork:
    work, weights, channels = UnitWork(), dict[SSAValue, int](), 1
    for op in ops:
        if isinstance(op, ConvOp | MatmulOp):
            positions, blocks = _contraction(op, block)
            work.gemm += positions * blocks
            matrices = math.prod(shape_of(op.rhs.type)[:-2]) if isinstance(op, MatmulOp) else 1
            weights[op.operands[1]] = matrices * blocks * block * block
        if isinstance(op, MatmulOp):
            channels = len(shape_of(op.result.type)) - 1
    pool = next((op for op in ops if isinstance(op, MaxPoolOp)), None)
    for op in ops:
        immediate, register = _alu_steps(op, rounding)
        # Maxima are those of the sums: what is computed of these is computed of the maxima.
        count = vectors((pool or op).results[0].type, block, channels)
        work.immediate += immediate * count
        work.register += register * count
        work.multiplies += isinstance(op, RequantizeOp) * count
    if work.moves_nothing:
        return work
    for value in inputs_of(ops):
        size = (
            nbytes(value.type) if is_constant_value(value) else padded(value.type, block, channels)
        )
        work.read += weights.get(value, size)
    work.written = sum(padded(result.type, block, channels) for result in ops[0].results)
    return work


def _contraction(op: ConvOp | MatmulOp, block: int) -> tuple[int, int]:
    """Counts the positions of the result, and the blocks of weights that each of them takes."""
    result = shape_of(op.result.type)
    if isinstance(op, MatmulOp):
        inputs, outputs = shape_of(op.rhs.type)[-2:]
        return math.prod(result[:-1]), math.ceil(inputs / block) * math.ceil(outputs / block)
    (channels, inputs, *kernel), groups = shape_of(op.weight.type), op.group.value.data
    outputs = channels // groups
    shared = sharing(inputs, outputs, block) if groups > 1 else 1
    each = math.ceil(shared * inputs / block) * math.ceil(shared * outputs / block)
    blocks = math.ceil(groups / shared) * each * math.prod(kernel)
    return math.prod(result) // channels, blocks


def _alu_steps(op: Operation, rounding: str) -> tuple[int, int]:
    """Counts the steps for each vector of the result: with an immediate, and on two registers."""
    if isinstance(op, RequantizeOp):
        return requantise_steps(rounding)
    if isinstance(op, ReluOp):
        return 1, 0
    if isinstance(op, ClipOp):
        return (op.min is not None) + (op.max is not None), 0
    if isinstance(op, MaxPoolOp | SumPoolOp):
        return 0, math.prod(op.kernel_shape.get_values())
    biased = isinstance(op, ConvOp) and op.bias is not None
    return 0, int(biased or isinstance(op, AddOp | MulOp))


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
