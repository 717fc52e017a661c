"""What a match costs on VTA before it is compiled: an estimate from shapes alone.

It takes the computation at full speed, loads beside it and each value moved once, which is what a
perfect schedule would reach; it knows nothing of halos, of tiles that do not fit and of waits.
Constants are those of the simulator's models: `TimingModel.de10` and `EnergyModel`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    ConvOp,
    GraphOp,
    MatmulOp,
    MaxPoolOp,
    ReluOp,
    RequantizeOp,
    SumPoolOp,
)
from byocir.dialects.types import element_type_of, shape_of, width_of
from byocir.lowering.tir_to_vta.legalise_groups import sharing
from byocir.vta_sim import EnergyModel, TimingModel
from byocir.vta_sim.energy import UOP_BYTES, Traffic, energy_for

ACC_BYTES = 4
HALF_EVEN_STEPS = 7
"""ALU instructions that rounding ties to even takes beside those of rounding them up."""


@dataclass
class _Work:
    """Steps of the units, one vector of `block` lanes each, and bytes read and written."""

    gemm: int = 0
    immediate: int = 0
    register: int = 0
    multiplies: int = 0
    """Those of the steps on registers that multiply."""
    read: int = 0
    written: int = 0


def cost_of(ops: Sequence[Operation], block: int, rounding: str) -> dict[str, float]:
    """Seconds by "latency", joules by "energy" and the bytes that cross by "bytes", of graph ops
    that are one composite, the last one first; empty for blocks of the tensor level.

    - latency: cycles / clock, where cycles are the most of GEMM and ALU steps times their
      intervals, bytes read / bus width, and bytes written / bus width: the units overlap. A GEMM
      step is one position of the result times one block of `block` x `block` weights, channels
      rounded up to whole blocks.
    - energy: multiply-accumulates and ALU lanes with padding, bytes of scratchpads and of DRAM,
      each times its figure in `EnergyModel`.
    - bytes: inputs and results without padding; constants are on the device.
    """
    if not all(isinstance(op, GraphOp) for op in ops):
        return {}
    work, timing = _work_of(ops, block, rounding), TimingModel.de10()
    compute = (
        work.gemm * timing.gemm_interval
        + work.immediate * timing.alu_immediate_interval
        + work.register * timing.alu_register_interval
    )
    bus = timing.bus_bytes or math.inf
    cycles = max(compute, work.read / bus, work.written / bus)
    crossing = [value for value in _inputs(ops) if not _is_constant(value)] + [*ops[0].results]
    return {
        "latency": cycles / (timing.clock_mhz * 1e6),
        "energy": energy_for(_traffic(work, block), EnergyModel()).total * 1e-12,
        "bytes": float(sum(_bytes(value.type) for value in crossing)),
    }


def _work_of(ops: Sequence[Operation], block: int, rounding: str) -> _Work:
    work, weights = _Work(), dict[SSAValue, int]()
    for op in ops:
        if isinstance(op, ConvOp | MatmulOp):
            positions, blocks = _contraction(op, block)
            work.gemm += positions * blocks
            weights[op.operands[1]] = blocks * block * block
        immediate, register = _alu_steps(op, rounding)
        vectors = _vectors(op.results[0].type, block)
        work.immediate += immediate * vectors
        work.register += register * vectors
        work.multiplies += isinstance(op, RequantizeOp) * vectors
    if not work.gemm + work.immediate + work.register:
        return work  # a view: nothing moves
    for value in _inputs(ops):
        padded = _bytes(value.type) if _is_constant(value) else _padded(value.type, block)
        work.read += weights.get(value, padded)
    work.written = sum(_padded(result.type, block) for result in ops[0].results)
    return work


def _contraction(op: ConvOp | MatmulOp, block: int) -> tuple[int, int]:
    """Positions of the result, and blocks of weights that each of them takes."""
    result = shape_of(op.result.type)
    if isinstance(op, MatmulOp):
        inputs, outputs = shape_of(op.rhs.type)
        return result[0], math.ceil(inputs / block) * math.ceil(outputs / block)
    (channels, inputs, *kernel), groups = shape_of(op.weight.type), op.group.value.data
    outputs = channels // groups
    shared = sharing(inputs, outputs, block) if groups > 1 else 1
    each = math.ceil(shared * inputs / block) * math.ceil(shared * outputs / block)
    blocks = math.ceil(groups / shared) * each * math.prod(kernel)
    return math.prod(result) // channels, blocks


def _alu_steps(op: Operation, rounding: str) -> tuple[int, int]:
    """Steps for each vector of the result, with an immediate and on two registers.

    Requantisation multiplies by a register, then adds, shifts and clips.
    """
    if isinstance(op, RequantizeOp):
        return 4 + HALF_EVEN_STEPS * (rounding == "half_even"), 1
    if isinstance(op, ReluOp | ClipOp):
        return (1 if isinstance(op, ReluOp) else 2), 0
    if isinstance(op, MaxPoolOp | SumPoolOp):
        return 0, math.prod(op.kernel_shape.get_values())
    biased = isinstance(op, ConvOp) and op.bias is not None
    return 0, int(biased or isinstance(op, AddOp))


def _traffic(work: _Work, block: int) -> Traffic:
    """What the energy model prices; as the simulator counts it, but for instructions."""
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


def _inputs(ops: Sequence[Operation]) -> list[SSAValue]:
    """What comes from outside, each value once."""
    inside = {result for op in ops for result in op.results}
    operands = dict.fromkeys(value for op in ops for value in op.operands)
    return [value for value in operands if value not in inside]


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.has_trait(ConstantLike)


def _vectors(type_: Attribute, block: int) -> int:
    """Vectors of `block` channels that hold a tensor `[N,C,…]`."""
    batch, channels, *spatial = (*shape_of(type_), 1, 1)
    return batch * math.ceil(channels / block) * math.prod(spatial)


def _padded(type_: Attribute, block: int) -> int:
    return _vectors(type_, block) * block * _width(type_)


def _bytes(type_: Attribute) -> int:
    return math.prod(shape_of(type_)) * _width(type_)


def _width(type_: Attribute) -> int:
    """Bytes of one element, an integer as in all that VTA takes."""
    return width_of(element_type_of(type_)) // 8
