"""Requests to schedules at random, granted or not."""

from __future__ import annotations

from hypothesis import strategies as st

from byocir.dialects.text import print_module
from byocir.dialects.tir import BlockOp, ForOp
from byocir.errors import ByocirError
from byocir.patterns import block, composite, wildcard
from byocir.rewrites.schedule import Schedule
from byocir.testing.buffers import Program

SIZES = st.integers(1, 6)


def pick(draw, things):
    """One of these; ops are too long to show."""
    return things[draw(st.integers(0, len(things) - 1))]


def a_block(s: Schedule, draw) -> BlockOp:
    return pick(draw, s.blocks())


def a_loop(s: Schedule, draw) -> ForOp:
    loops = [op for op in s.root.walk() if isinstance(op, ForOp)]
    if not loops:
        block = a_block(s, draw)
        name = draw(st.sampled_from(block.names))
        return s.tile(block, **{name: 1})[0]
    return pick(draw, loops)


def tile(s: Schedule, draw) -> None:
    block = a_block(s, draw)
    names = draw(st.lists(st.sampled_from(block.names), min_size=1, unique=True))
    extents = dict(zip(block.names, block.extents, strict=True))
    sizes = {name: min(draw(SIZES), extents[name]) for name in names}
    s.tile(block, remainder=draw(st.sampled_from(["refuse", "guard", "overlap"])), **sizes)


def split(s: Schedule, draw) -> None:
    """Into two loops, or into iterations."""
    loop = a_loop(s, draw)
    factor = draw(st.integers(0, 3))
    s.split(loop, factor, guard=draw(st.booleans())) if factor else s.iterations(loop)


def reorder(s: Schedule, draw) -> None:
    block = a_block(s, draw)
    if not s.loops(block):
        s.tile(block, **{name: 1 for name in block.names})
    loops = s.loops(block)
    first = draw(st.integers(0, len(loops) - 1))
    last = draw(st.integers(first, len(loops) - 1))
    order = draw(st.permutations(range(first, last + 1)))
    s.reorder(*(loops[i] for i in order))


def fuse(s: Schedule, draw) -> None:
    inner = a_loop(s, draw)
    outer = inner.parent_op()
    s.fuse(outer, inner) if isinstance(outer, ForOp) else None


def kind(s: Schedule, draw) -> None:
    loop = a_loop(s, draw)
    getattr(s, draw(st.sampled_from(["unroll", "vectorise", "parallel", "vthread"])))(loop)


def stage(s: Schedule, draw) -> None:
    """Mostly within a tile."""
    block = a_block(s, draw)
    if not s.loops(block):
        name = pick(draw, block.names)
        s.tile(block, **{name: 1})
    operand = draw(st.integers(0, len(block.ins) + len(block.outs) - 1))
    at = pick(draw, [None, *s.loops(block)])
    scope, strided = draw(st.sampled_from(["near", "far"])), draw(st.booleans())
    s.stage(block, operand, scope, at=at, strided=strided)


def compute_at(s: Schedule, draw) -> None:
    """Mostly into a loop that reads what the block makes."""
    block = a_block(s, draw)
    readers = [b for b in s.blocks() if block.outs[0] in b.ins and b is not block]
    if readers and not s.loops(readers[-1]):
        s.tile(readers[-1], remainder="guard", **{readers[-1].names[0]: 1})
    loops = s.loops(readers[-1]) if readers else []
    s.compute_at(block, pick(draw, loops) if loops else a_loop(s, draw))


def pack(s: Schedule, draw) -> None:
    block = a_block(s, draw)
    values = [*block.ins, *block.outs]
    operand = draw(st.integers(0, len(values) - 1))
    shape = values[operand].type.get_shape()
    dims = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    s.pack(block, operand, {d: min(draw(SIZES), shape[d]) for d in dims})


@composite("npu.subtract")
def subtract():
    return block("*i", wildcard("x")["*i"], lambda acc, x: acc - x, init=wildcard("old"))


def tensorise(s: Schedule, draw) -> None:
    """The updates in place are an instruction; other blocks are not."""
    s.tensorise(a_block(s, draw), subtract)


REQUESTS = [tile, split, reorder, fuse, kind, stage, compute_at, pack, tensorise]


def granted(program: Program, ask, draw) -> bool:
    """Asks for something; whether it was granted. What is refused changes nothing."""
    had_loops = any(isinstance(op, ForOp) for op in program.module.walk())
    before = print_module(program.module)
    try:
        ask(Schedule(program.function), draw)
    except ByocirError as error:
        if not error.code.startswith("B25"):
            raise
        if (
            had_loops and ask not in (compute_at, fuse, stage)
        ) or ask is tile:  # others make loops to ask about
            assert print_module(program.module) == before
        return False
    return True
