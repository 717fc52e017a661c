"""Describes a composite as one loop nest: what it moves, keeps and computes, as functions of tile
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import AllocOp, BlockOp, FillOp
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape, element_type_of, i8
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.tile_spaces import (
    Spaces,
    Step,
    adds_lanes,
    index_of,
    is_contraction,
    target_of,
)
from byocir.vta_sim import Memory, VTAConfig

SCOPES = {Memory.INP: "vta.inp", Memory.WGT: "vta.wgt", Memory.ACC: "vta.acc"}
"""The names of VTA's memories as scopes of buffers."""

BUS_BYTES = 8
"""The bytes that are loaded or stored in a cycle."""


def element_cycles(memory: Memory, config: VTAConfig) -> int:
    """Counts the cycles to load an element from main memory, or to write one after it is read."""
    moved = -(-config.element_bytes(memory) // BUS_BYTES)
    return moved + 1 if memory is Memory.OUT else moved


def element_rank(memory: Memory, config: VTAConfig) -> int:
    """Counts the trailing dimensions of a buffer that are inside one element of a memory."""
    return 2 if memory is Memory.WGT or config.batch > 1 else 1


@dataclass(frozen=True)
class Buffer:
    """Describes a buffer in one of VTA's memories, which holds the box that a tile reaches; `index`
    has a form of the iterators for each dimension but the lanes. Loading an element costs `cycles`,
    0 for a buffer that is filled on the chip. A buffer that does not `occupy` memory is loaded into
    the place of another one.
    """

    memory: Memory
    index: tuple[Linear[int], ...]
    cycles: int
    occupies: bool = True


@dataclass(frozen=True)
class CompositeNest:
    """Describes the loop nest of a composite. Its parallel iterators come first, the last of which,
    or the last two, count lanes, then the reductions. `work` has, for each step, a form of the
    iterators for each side of the box that the step runs over, and the cycles per point.
    """

    extents: Shape
    parallels: int
    loops: tuple[int, ...]
    """The iterators that can be tiled, outermost loop first."""
    channels: tuple[int, ...]
    """Of these, the reduction over blocks of input channels, if there is one."""
    buffers: tuple[Buffer, ...]
    work: tuple[tuple[tuple[Linear[int], ...], int], ...]
    lanes: int = 1
    """The number of parallel iterators that count lanes: those of channels, and of a batch."""
    joined: tuple[tuple[int, int], ...] = ()
    """Pairs of iterators that index one dimension of the result together, the outer one first."""

    @property
    def outer(self) -> int:
        """Counts the parallel iterators that count no lanes."""
        return self.parallels - self.lanes

    @property
    def reductions(self) -> tuple[int, ...]:
        return tuple(i for i in self.loops if i >= self.parallels)


def is_widening(block: BlockOp) -> bool:
    """Tells if a block brings i8 values into i32 at their places, which a load can do."""
    if block.reductions or not forms.WIDENING.fits(block):
        return False
    return len(block.in_maps[0].results) == len(block.out_maps[0].results)


def is_narrowing(block: BlockOp) -> bool:
    """Tells if this block writes i32 values as i8."""
    return not block.reductions and forms.NARROWING.fits(block)


def memory_of(block: BlockOp, operand: int) -> Memory:
    """Gives the memory in which input `operand` of a block must lie when it runs."""
    if not is_contraction(block):
        return Memory.ACC
    return Memory.INP if operand == 0 else Memory.WGT


def nest_of(composite: CompositeOp, config: VTAConfig) -> CompositeNest:
    """Makes the loop nest of a composite in buffer form, for this VTA. Raises ByocirError B327
    unless all its blocks run over the same parallel iterators, but for those in front of a max
    pool, and at most one of them reduces over more than lanes.
    """
    spaces = Spaces.of(composite)
    for steps in (spaces.before, {*spaces.steps} - spaces.before):
        blocks = [op for op in spaces.steps if op in steps and isinstance(op, BlockOp)]
        for op in blocks:
            first = spaces.block_like(op)
            count = len(first.parallels)
            same = op.extents[:count] == first.extents[:count]
            in_order = op.parallels == list(range(count)) and not op.bases
            alone = op in (spaces.widest, spaces.pool) or len(op.reductions) == adds_lanes(op)
            if not (same and in_order and alone):
                raise unsupported(
                    "B327",
                    "expected blocks over the same parallel iterators, one of them with "
                    f"reductions, found {', '.join(str(list(op.extents)) for op in blocks)}",
                    op,
                )
    return _nest(composite, spaces, config)


def _nest(composite: CompositeOp, spaces: Spaces, config: VTAConfig) -> CompositeNest:
    widest = spaces.widest
    reductions = widest.reductions[:-1] if is_contraction(widest) else widest.reductions
    parallels, lanes = spaces.parallels, element_rank(Memory.ACC, config)
    spatial = range(2, parallels - lanes)
    return CompositeNest(
        spaces.extents,
        parallels,
        (1, 0, *spatial, *reductions),
        tuple(reductions[:1]) if is_contraction(widest) else (),
        tuple(_buffers(composite, spaces, parallels - lanes, config)),
        tuple(_work(op, spaces, parallels - lanes) for op in spaces.steps),
        lanes,
        tuple(_joined(spaces.result)),
    )


def _joined(block: BlockOp) -> Iterator[tuple[int, int]]:
    for form in index_of(block.out_maps[0], block):
        if len(form.terms) > 1:
            (inner, _), (outer, _) = sorted(form.terms, key=lambda term: abs(term[1]))
            yield outer, inner


def _buffers(composite: CompositeOp, spaces: Spaces, outer: int, config: VTAConfig) -> list[Buffer]:
    found: list[Buffer] = []
    seen: set[tuple[SSAValue, AffineMap]] = set()
    for op in composite.body.block.ops:
        if isinstance(op, AllocOp):
            found.append(Buffer(Memory.ACC, _index_of_tile(op, spaces, outer), 0))
        if not isinstance(op, BlockOp) or is_narrowing(op):
            continue
        for i, (value, map_) in enumerate(zip(op.ins, op.in_maps, strict=True)):
            if isinstance(value.owner, AllocOp) or (value, map_) in seen:
                continue
            if not is_widening(op):
                seen.add((value, map_))
            found.append(_loaded(op, i, spaces.index(map_, op), config))
    return found


def _index_of_tile(buffer: AllocOp, spaces: Spaces, outer: int) -> tuple[Linear[int], ...]:
    """Gives the index of the tile that steps compute in a buffer."""
    writer = next(op for op in spaces.steps if target_of(op) is buffer.result)
    return _over(writer, spaces, outer)


def _over(step: Step, spaces: Spaces, outer: int) -> tuple[Linear[int], ...]:
    """Gives those of a step's parallel iterators that count no lanes, as forms of the nest's."""
    if step is spaces.pool:
        return tuple(Linear(((i, 1),)) for i in range(outer))
    return tuple(spaces.form(step, i) for i in range(outer))


def _loaded(op: BlockOp, operand: int, index: tuple[Linear[int], ...], config: VTAConfig) -> Buffer:
    memory = memory_of(op, operand)
    widens = memory is Memory.ACC and element_type_of(op.ins[operand].type) == i8
    cycles = element_cycles(Memory.ACC_8BIT if widens else memory, config)
    index = index[: -element_rank(memory, config)]
    return Buffer(memory, index, cycles, occupies=not is_widening(op))


def _work(step: Step, spaces: Spaces, outer: int) -> tuple[tuple[Linear[int], ...], int]:
    """Gives the box that a step runs over, and the step's cycles for each point."""
    over = _over(step, spaces, outer)
    if isinstance(step, FillOp):
        return over, 1
    reductions = [spaces.form(step, i) for i in step.reductions]
    if is_contraction(step):
        return (*over, *reductions[:-1]), 1
    if is_widening(step) or is_narrowing(step):
        return over, 0
    # A second operand of the ALU takes a second cycle to read.
    return (*over, *reductions), 2 if step.ins else 1
