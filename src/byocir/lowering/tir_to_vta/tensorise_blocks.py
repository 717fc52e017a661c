"""Reads blocks on scratchpad buffers as GEMM and ALU work.

A block counts single numbers; an instruction counts SRAM elements of 16 lanes (or 16 x 16 weights),
of two batches of 16 where the machine has a batch of 2.
So the iterators of the lanes are stripped, and each operand's index becomes one linear function of
the other iterators: its SRAM element relative to the start of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.tir import BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape, shape_of, strides_of
from byocir.dialects.vta import AluKind
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.legalise_lanes import IMMEDIATE
from byocir.lowering.tir_to_vta.micro_ops import Axis, MicroOpNest, Offsets, nests
from byocir.lowering.tir_to_vta.tile_nest import SCOPES, element_rank
from byocir.patterns.scalars import number
from byocir.rewrites.schedule.write_out import PaddedBox
from byocir.vta_sim import VTAConfig

ALU_KINDS = {
    "add": AluKind.ADD,
    "mul": AluKind.MUL,
    "max": AluKind.MAX,
    "min": AluKind.MIN,
    "shr": AluKind.SHR,
    "shl": AluKind.SHR,
}
"""The operation of the ALU that does what a scalar operator does."""

MEMORIES = {scope: memory for memory, scope in SCOPES.items()}
"""The scratchpad of each scope."""


def element_shape(scope: str, config: VTAConfig) -> tuple[int, ...]:
    """Gives the trailing dimensions of a buffer in this scope that lie inside one SRAM element."""
    lanes = (config.block_out if scope == "vta.wgt" else config.batch, config.block_out)
    return lanes[-element_rank(MEMORIES[scope], config) :]


def elements_of(value: SSAValue, config: VTAConfig) -> int:
    """Counts the SRAM elements that a buffer takes."""
    rank = len(element_shape(scope_of(value.type), config))
    return math.prod(shape_of(value.type)[:-rank])


@dataclass(frozen=True, eq=False)
class Work:
    """Lists the instructions that a block becomes, with indices relative to the buffers' addresses.

    `kind` is None for GEMM; `wgt` is there for GEMM only; `src` is absent when the ALU takes the
    number `immediate`.
    """

    kind: AluKind | None
    immediate: int | None
    dst: SSAValue
    src: SSAValue | None
    wgt: SSAValue | None
    nests: tuple[MicroOpNest, ...]


def work_of(op: BlockOp, config: VTAConfig) -> Work:
    """Makes the work of a block in buffer form; raises ByocirError B333 and B334."""
    if op.bases:
        raise _unsupported("a block in local coordinates, found one with bases", op)
    if len(op.outs) != 1 or any(pad is not None for pad in op.pad_values):
        raise _unsupported("one destination and no pads", op)
    dst = op.outs[0]
    if scope_of(dst.type) != "vta.acc":
        raise _unsupported(f"a destination in vta.acc, found {dst.type}", op)
    values, out = [*op.ins, *op.outs], len(op.ins)
    factors = _gemm_operands(op)
    if factors is not None:
        kind, immediate, operands = None, None, (out, *factors)
    else:
        kind, immediate, source = _alu_step(op)
        operands = (out,) if source is None else (out, source)
    indices, lanes = _indices(op, operands, config)
    _, src, wgt = (*(values[position] for position in operands), None, None)[:3]
    return Work(kind, immediate, dst, src, wgt, _nests(op, indices, lanes, config))


def _unsupported(expected: str, op: Operation) -> ByocirError:
    return unsupported("B333", f"expected {expected}", op, help="run the passes before this one")


# The body.


def _gemm_operands(op: BlockOp) -> tuple[int, int] | None:
    """Finds the input and the weights of a block whose body is `acc + x.to(i32) * w.to(i32)`, by
    position; None for other bodies.
    """
    if not forms.CONTRACTION.fits(op):
        return None
    scopes = [scope_of(value.type) for value in op.ins]
    if sorted(scopes) != ["vta.inp", "vta.wgt"]:
        found_scopes = " and ".join(map(repr, scopes))
        raise _unsupported(f"one factor in vta.inp and one in vta.wgt, found {found_scopes}", op)
    return scopes.index("vta.inp"), scopes.index("vta.wgt")


def _alu_step(op: BlockOp) -> tuple[AluKind, int | None, int | None]:
    """Reads a body `acc = acc <op> source`: the operation, and its number or its source's
    position.
    """
    for name, kind in ALU_KINDS.items():
        found = forms.alu_immediate(name, number("number")).numbers(op)
        if found is not None:
            return kind, _immediate(name, int(found["number"]), op), None
        if forms.alu(name).fits(op):
            source = op.ins[0].type
            if scope_of(source) != "vta.acc":
                raise _unsupported(f"a source in vta.acc, found {source}", op)
            return kind, None, 0
    raise _unsupported("a multiply-accumulate or one ALU operation on the destination", op)


def _immediate(name: str, number: int, op: BlockOp) -> int:
    if name in ("shl", "shr"):
        if not 0 <= number <= 31:
            raise unsupported("B334", f"expected a shift by 0 to 31, found {number}", op)
        return -number if name == "shl" else number
    if not IMMEDIATE.holds(number):
        raise unsupported(
            "B334",
            f"expected a constant that fits 16 bits, found {number}",
            op,
            help="larger constants have to come as a buffer in vta.acc",
        )
    return number


# The iteration space.


def _indices(
    op: BlockOp, operands: Sequence[int], config: VTAConfig
) -> tuple[list[Linear[int]], set[int]]:
    """Gives the SRAM element of each operand as a function of the iterators, and the iterators over
    lanes.
    """
    values, maps = [*op.ins, *op.outs], [*op.in_maps, *op.out_maps]
    accesses = [(values[position], maps[position]) for position in operands]
    lanes = [
        _lanes(op, map_, element_shape(scope_of(value.type), config)) for value, map_ in accesses
    ]
    (*rows, out), expected = lanes[0], [lanes[0]] * len(operands)
    if len(operands) == 3:
        inner = lanes[1][-1]
        expected = [[*rows, out], [*rows, inner], [out, inner]]
        if inner not in op.reductions:
            raise _unsupported("a reduction over the lanes of the input", op)
    if lanes != expected:
        raise _unsupported("operands that agree on the iterators of the lanes", op)
    stripped = {lane for group in lanes for lane in group}
    ranks = [len(group) for group in lanes]
    indices = [
        _index(op, map_, shape_of(value.type)[:-rank], stripped)
        for (value, map_), rank in zip(accesses, ranks, strict=True)
    ]
    return indices, stripped


def _lanes(op: BlockOp, map_: AffineMap, shape: Shape) -> list[int]:
    """Finds the iterators that run over the lanes of an element of this shape."""
    result: list[int] = []
    for expr, size in zip(map_.results[-len(shape) :], shape, strict=True):
        form = linear(expr)
        is_lane = form is not None and form.constant == 0 and len(form.terms) == 1
        if form is None or not is_lane or form.terms[0][1] != 1:
            raise _unsupported("an iterator over all lanes of an element", op)
        iterator = form.terms[0][0]
        if op.extents[iterator] != size:
            raise _unsupported(f"{size} lanes per element, found {op.extents[iterator]}", op)
        result.append(iterator)
    return result


def _index(op: BlockOp, map_: AffineMap, shape: Shape, lanes: set[int]) -> Linear[int]:
    """Gives the SRAM element, relative to the start of a buffer of this shape, at which an operand
    is accessed.
    """
    element: Linear[int] = Linear()
    for stride, expr in zip(strides_of(shape), map_.results, strict=False):
        form = linear(expr)
        if form is None or any(i in lanes for i, _ in form.terms):
            raise _unsupported("indices that are linear in the iterators", op)
        element += form * stride
    return element


def _nests(
    op: BlockOp, indices: Sequence[Linear[int]], lanes: set[int], config: VTAConfig
) -> tuple[MicroOpNest, ...]:
    """Makes the instructions for the points of a block that its guard admits."""
    gemm = len(indices) == 3
    # An ALU instruction without a source still checks the index: let it be the destination's.
    columns = [*indices, *([indices[0]] if len(indices) == 1 else [])]
    positions = range(len(op.extents))
    steps = [_offsets([column.coefficient(i) for column in columns]) for i in positions]
    result: list[MicroOpNest] = []
    for box in PaddedBox.of(op).guarded(op.reductions):
        if any(box.sides[i] != (0, op.extents[i]) for i in lanes):
            raise _unsupported("a guard in the iterators other than the lanes", op)
        lows = [low for low, _ in box.sides]
        start = _offsets([column.value(lows.__getitem__) for column in columns])
        axes = (
            Axis(end - low, step)
            for i, ((low, end), step) in enumerate(zip(box.sides, steps, strict=True))
            if i not in lanes
        )
        result += nests(tuple(axes), start, config, gemm=gemm)
    return tuple(result)


def _offsets(numbers: Sequence[int]) -> Offsets:
    dst, src, *wgt = numbers
    return dst, src, wgt[0] if wgt else 0
