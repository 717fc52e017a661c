"""A composite as one loop nest: what it moves, keeps and computes, as functions of tile sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, FillOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape, element_type_of, i8
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.vta_sim import Memory, VTAConfig

SCOPES = {Memory.INP: "vta.inp", Memory.WGT: "vta.wgt", Memory.ACC: "vta.acc"}
"""The names of VTA's memories as scopes of buffers."""

BUS_BYTES = 8
"""The bytes that are loaded or stored in a cycle."""


WIDENING_CYCLES = 2
"""To set an accumulator to 0 and to add an input to it, where no load widens."""


def element_cycles(memory: Memory, config: VTAConfig) -> int:
    """Cycles to load an element from main memory, or to write one after it is read."""
    moved = -(-config.element_bytes(memory) // BUS_BYTES)
    return moved + 1 if memory is Memory.OUT else moved


def element_rank(memory: Memory, config: VTAConfig) -> int:
    """Counts the trailing dimensions of a buffer that are inside one element of a memory."""
    return 2 if memory is Memory.WGT or config.batch > 1 else 1


@dataclass(frozen=True)
class Buffer:
    """A buffer in one of VTA's memories, of the box that a tile reaches; `index` has a form of the
    iterators for each dimension but the lanes. `cycles` is what an element costs to load, 0 for a
    buffer that is filled on the chip; a buffer that does not `occupy` memory is loaded into the
    place of another one."""

    memory: Memory
    index: tuple[Linear[int], ...]
    cycles: int
    occupies: bool = True


@dataclass(frozen=True)
class CompositeNest:
    """The loop nest of a composite: the parallel iterators, the last of which, or the last two,
    count lanes, then the reductions. `work` has, for each op, the iterators it runs over and cycles
    per point."""

    extents: Shape
    parallels: int
    loops: tuple[int, ...]
    """The iterators that can be tiled, outermost loop first."""
    channels: tuple[int, ...]
    """Of these, the reduction over blocks of input channels, if there is one."""
    buffers: tuple[Buffer, ...]
    work: tuple[tuple[tuple[int, ...], int], ...]
    lanes: int = 1
    """The number of parallel iterators that count lanes: those of channels, and of a batch."""
    joined: tuple[tuple[int, int], ...] = ()
    """Pairs of iterators that index one dimension of the result together, the outer one first."""

    @property
    def outer(self) -> int:
        """The number of parallel iterators that count no lanes."""
        return self.parallels - self.lanes

    @property
    def reductions(self) -> tuple[int, ...]:
        return tuple(i for i in self.loops if i >= self.parallels)


def is_contraction(block: BlockOp) -> bool:
    """Tells if this is a block for the GEMM unit: inputs, weights and a reduction over lanes."""
    return bool(block.reductions) and len(block.ins) == 2


def adds_lanes(block: BlockOp) -> bool:
    """Tells if this is a contraction over the lanes of one vector, which is never tiled."""
    return is_contraction(block) and len(block.reductions) == 1


def is_widening(block: BlockOp) -> bool:
    """Tells if this block brings i8 values into i32 where they are, as a load can."""
    same_rank = _only(block, arith.ExtSIOp) and (
        len(block.in_maps[0].results) == len(block.out_maps[0].results)
    )
    return same_rank and len(block.ins) == 1


def factor_of(block: BlockOp) -> int | None:
    """Reads by what number a block multiplies bytes that it adds to accumulators; None for other
    blocks."""
    if block.reductions or len(block.ins) != 1:
        return None
    factors = [op for op in block.body.block.ops if isinstance(op, arith.ConstantOp)]
    products = [op for op in block.body.block.ops if isinstance(op, arith.MuliOp)]
    if not factors or not products or element_type_of(block.ins[0].type) != i8:
        return None
    assert isinstance(factors[0].value, IntegerAttr)
    return factors[0].value.value.data


def is_narrowing(block: BlockOp) -> bool:
    """Tells if this block writes i32 values as i8."""
    return _only(block, arith.TruncIOp) and len(block.ins) == 1


def _only(block: BlockOp, kind: type[Operation]) -> bool:
    first = block.body.block.first_op
    return not block.reductions and isinstance(first, kind) and len(block.body.block.ops) == 2


def memory_of(block: BlockOp, operand: int) -> Memory:
    """Gives the memory that must hold input `operand` of a block when it runs."""
    if factor_of(block) is not None:
        return Memory.INP
    if not is_contraction(block):
        return Memory.ACC
    return Memory.INP if operand == 0 else Memory.WGT


def steps_of(composite: CompositeOp) -> list[FillOp | BlockOp]:
    """The fills and blocks of a composite, in order; raises ByocirError B327 for other ops."""
    steps: list[FillOp | BlockOp] = []
    for op in composite.body.block.ops:
        if isinstance(op, FillOp | BlockOp):
            steps.append(op)
        elif not isinstance(op, AllocOp | ConstantOp | YieldOp):
            raise unsupported("B327", f"expected a composite on memory, found {op.name}", op)
    return steps


def nest_of(composite: CompositeOp, config: VTAConfig) -> CompositeNest:
    """The loop nest of a composite in buffer form, for this VTA. Raises ByocirError B327 unless all
    its blocks run over the same parallel iterators and at most one reduces over more than lanes."""
    blocks = [op for op in steps_of(composite) if isinstance(op, BlockOp)]
    widest = max(blocks, key=lambda op: len(op.extents))
    parallels = len(widest.parallels)
    for op in blocks:
        same = op.extents[:parallels] == widest.extents[:parallels]
        in_order = op.parallels == list(range(parallels)) and not op.bases
        if not (same and in_order) or (op is not widest and len(op.reductions) > adds_lanes(op)):
            raise unsupported(
                "B327",
                "expected blocks over the same parallel iterators, one of them with reductions, "
                f"found {', '.join(str(list(op.extents)) for op in blocks)}",
                op,
            )
    return _nest(composite, widest, config)


def _nest(composite: CompositeOp, widest: BlockOp, config: VTAConfig) -> CompositeNest:
    reductions = widest.reductions[:-1] if is_contraction(widest) else widest.reductions
    parallels, lanes = len(widest.parallels), element_rank(Memory.ACC, config)
    spatial = range(2, parallels - lanes)
    return CompositeNest(
        widest.extents,
        parallels,
        (1, 0, *spatial, *reductions),
        tuple(reductions[:1]) if is_contraction(widest) else (),
        tuple(_buffers(composite, parallels - lanes, config)),
        tuple(_work(op, parallels - lanes) for op in steps_of(composite)),
        lanes,
        tuple(_joined(widest)),
    )


def _joined(block: BlockOp) -> Iterator[tuple[int, int]]:
    for form in index_of(block.out_maps[0], block):
        if len(form.terms) > 1:
            (inner, _), (outer, _) = sorted(form.terms, key=lambda term: abs(term[1]))
            yield outer, inner


def _buffers(composite: CompositeOp, outer: int, config: VTAConfig) -> list[Buffer]:
    plain = tuple(Linear(((i, 1),)) for i in range(outer))
    found: list[Buffer] = []
    seen: set[tuple[SSAValue, AffineMap]] = set()
    for op in composite.body.block.ops:
        if isinstance(op, AllocOp):
            found.append(Buffer(Memory.ACC, plain, 0))
        if not isinstance(op, BlockOp) or is_narrowing(op):
            continue
        for i, (value, map_) in enumerate(zip(op.ins, op.in_maps, strict=True)):
            if isinstance(value.owner, AllocOp) or (value, map_) in seen:
                continue
            if not is_widening(op):
                seen.add((value, map_))
            found += _loaded(op, i, map_, config)
    factors = {factor_of(op) for op in composite.body.block.ops if isinstance(op, BlockOp)} - {None}
    if not config.acc_8bit and any(buffer.cycles == WIDENING_CYCLES for buffer in found):
        factors.add(1)
    diagonals = [Buffer(Memory.WGT, (), element_cycles(Memory.WGT, config)) for _ in factors]
    return found + diagonals


def _loaded(op: BlockOp, operand: int, map_: AffineMap, config: VTAConfig) -> Iterator[Buffer]:
    memory = memory_of(op, operand)
    widens = memory is Memory.ACC and element_type_of(op.ins[operand].type) == i8
    cycles = element_cycles(Memory.ACC_8BIT if widens else memory, config)
    index = index_of(map_, op)[: -element_rank(memory, config)]
    if widens and not config.acc_8bit:
        yield Buffer(Memory.INP, index, cycles)
        cycles = WIDENING_CYCLES
    yield Buffer(memory, index, cycles, occupies=not is_widening(op))


def index_of(map_: AffineMap, op: BlockOp) -> tuple[Linear[int], ...]:
    """An index map as linear forms; raises ByocirError B327 for one that divides."""
    forms: list[Linear[int]] = []
    for expr in map_.results:
        form = linear(expr)
        if form is None:
            raise unsupported("B327", f"expected linear indices, found {map_}", op)
        forms.append(form)
    return tuple(forms)


def _work(op: FillOp | BlockOp, outer: int) -> tuple[tuple[int, ...], int]:
    """The iterators that an op runs over, and its cycles for each point."""
    over = tuple(range(outer))
    if isinstance(op, FillOp):
        return over, 1
    if is_contraction(op):
        return (*over, *op.reductions[:-1]), 1
    if is_widening(op) or is_narrowing(op):
        return over, 0
    # A second operand of the ALU takes a second cycle to read.
    return (*over, *op.reductions), 1 if not op.ins or factor_of(op) is not None else 2
