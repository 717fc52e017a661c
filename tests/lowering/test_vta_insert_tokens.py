"""Tokens order every conflict, and only what is not ordered otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from vta_staged import Conv, function, parse
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.dialects.context import load_context
from byocir.dialects.tir import ConstantOp
from byocir.dialects.types import i8, i32
from byocir.dialects.vta import (
    AluKind,
    AluKindAttr,
    AluOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    LoadMemory,
    LoadOp,
    ProgramOp,
    StoreOp,
)
from byocir.dialects.vta.base import integer, integers
from byocir.lowering.tir_to_vta.encode import VtaEncodePass
from byocir.lowering.tir_to_vta.insert_tokens import VtaInsertTokensPass, tokens_of, vta_ordering
from byocir.lowering.tir_to_vta.tensorise import VtaTensorisePass
from byocir.machine_sim import Access, Instruction, conflicts
from byocir.machine_sim import Program as NumericProgram
from byocir.vta_sim import DEFAULT_CONFIG, Program, encode_uops, run_in_order
from byocir.vta_sim.isa import Queue

SIZE = 12

# An independent reading of the rules: queues are in order, the k-th pop takes the k-th push.

PREV = {Queue.LOAD: None, Queue.COMPUTE: Queue.LOAD, Queue.STORE: Queue.COMPUTE}
NEXT = {Queue.LOAD: Queue.COMPUTE, Queue.COMPUTE: Queue.STORE, Queue.STORE: None}
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Effects:
    """What an instruction of a unit reads and writes: elements of memories of SIZE, by name."""

    unit: Queue
    reads: Sequence[tuple[str, slice | Index]] = ()
    writes: Sequence[tuple[str, slice | Index]] = ()
    last: bool = False


@dataclass
class Step:
    """A step of a stream with its flags."""

    queue: Queue
    source: int | None
    tokens: set[str]


def orders_of(steps: Sequence[Step]) -> list[int]:
    """For each step, the set (as bits) of the steps that are surely done before it starts."""
    pushed: dict[tuple[Queue, Queue], list[int]] = {}
    popped: dict[tuple[Queue, Queue], list[int]] = {}
    for position, step in enumerate(steps):
        for token in step.tokens:
            action, side = token.split("_")
            other = (PREV if side == "prev" else NEXT)[step.queue]
            assert other is not None, f"{token} in {step.queue.name}"
            if action == "push":
                pushed.setdefault((step.queue, other), []).append(position)
            else:
                popped.setdefault((other, step.queue), []).append(position)
    assert pushed.keys() == popped.keys()
    waits: dict[int, list[int]] = {}
    for key, pops in popped.items():
        assert len(pops) == len(pushed[key]), "every token that is pushed is popped"
        for push, pop in zip(pushed[key], pops, strict=True):
            waits.setdefault(pop, []).append(push)
    before: list[int] = []
    last: dict[Queue, int] = {}
    for position, step in enumerate(steps):
        direct = waits.get(position, []) + ([last[step.queue]] if step.queue in last else [])
        assert all(other < position for other in direct), "program order must be possible"
        bits = 0
        for other in direct:
            bits |= before[other] | 1 << other
        before.append(bits)
        last[step.queue] = position
    return before


def elements(accesses: Sequence[tuple[str, slice | Index]]) -> dict[str, set[int]]:
    return {memory: set(np.arange(SIZE)[index].tolist()) for memory, index in accesses}


def conflict(a: Effects, b: Effects) -> bool:
    reads_a, writes_a = elements(a.reads), elements(a.writes)
    reads_b, writes_b = elements(b.reads), elements(b.writes)
    pairs = ((writes_a, reads_b), (reads_a, writes_b), (writes_a, writes_b))
    return any(x[key] & y[key] for x, y in pairs for key in x.keys() & y.keys())


def violations(steps: Sequence[Step], accesses: Sequence[Effects]) -> list[tuple[int, int]]:
    """Conflicting steps that may run in either order."""
    before = orders_of(steps)
    real = [(i, accesses[s.source]) for i, s in enumerate(steps) if s.source is not None]
    return [
        (i, j)
        for n, (j, b) in enumerate(real)
        for i, a in real[:n]
        if not before[j] >> i & 1 and (conflict(a, b) or b.last)
    ]


def ordered(accesses: Sequence[Effects]) -> list[Step]:
    def touched(ranges: Sequence[tuple[str, slice | Index]]) -> list[Access]:
        return [
            Access(memory, element, element + 1)
            for memory, found in elements(ranges).items()
            for element in found
        ]

    program = [
        Instruction(each.unit, reads=touched(each.reads), writes=touched(each.writes))
        for each in accesses
    ]
    ordering, before = vta_ordering(), conflicts(NumericProgram.of(program))
    for index, access in enumerate(accesses):
        ordering.add(access.unit, before.get(index, ()), last=access.last)
    return [Step(Queue(s.unit), s.source, tokens_of(s)) for s in ordering.steps]


def ranges(spaces: Sequence[str]) -> st.SearchStrategy[tuple[tuple[str, slice], ...]]:
    """Up to two ranges, in different memories."""
    interval = st.tuples(st.integers(0, SIZE - 1), st.integers(1, 4)).map(
        lambda pair: slice(pair[0], min(pair[0] + pair[1], SIZE))
    )
    pairs = st.tuples(st.sampled_from(spaces), interval)
    return st.lists(pairs, max_size=2, unique_by=lambda item: item[0]).map(tuple)


def streams(
    reads: dict[Queue, Sequence[str]], writes: dict[Queue, Sequence[str]]
) -> st.SearchStrategy[list[Effects]]:
    def accesses(queue: Queue) -> st.SearchStrategy[Effects]:
        return st.builds(Effects, st.just(queue), ranges(reads[queue]), ranges(writes[queue]))

    step = st.sampled_from(list(Queue)).flatmap(accesses)
    finish = Effects(Queue.COMPUTE, last=True)
    return st.lists(step, max_size=40).map(lambda steps: [*steps, finish])


ANYWHERE = dict.fromkeys(Queue, ("sram", "dram"))
NEIGHBOURS = {
    Queue.LOAD: ("inp",),
    Queue.COMPUTE: ("inp", "acc"),
    Queue.STORE: ("acc",),
}


@given(streams(ANYWHERE, ANYWHERE))
def test_every_conflict_is_ordered(accesses: list[Effects]) -> None:
    steps = ordered(accesses)
    assert [s.source for s in steps if s.source is not None] == list(range(len(accesses)))
    assert violations(steps, accesses) == []


@given(streams(NEIGHBOURS, NEIGHBOURS))
def test_between_neighbours_no_token_is_superfluous(accesses: list[Effects]) -> None:
    steps = ordered(accesses)
    assert len(steps) == len(accesses)
    for without in without_one_token(steps):
        assert violations(without, accesses)


def without_one_token(steps: Sequence[Step]) -> list[list[Step]]:
    """The stream without one push and the pop that takes it, for each of them."""
    result: list[list[Step]] = []
    for push, pop, producer, consumer in (
        ("push_next", "pop_prev", Queue.LOAD, Queue.COMPUTE),
        ("push_prev", "pop_next", Queue.COMPUTE, Queue.LOAD),
        ("push_next", "pop_prev", Queue.COMPUTE, Queue.STORE),
        ("push_prev", "pop_next", Queue.STORE, Queue.COMPUTE),
    ):
        pushes = [i for i, s in enumerate(steps) if s.queue == producer and push in s.tokens]
        pops = [i for i, s in enumerate(steps) if s.queue == consumer and pop in s.tokens]
        for i, j in zip(pushes, pops, strict=True):
            copies = [Step(s.queue, s.source, set(s.tokens)) for s in steps]
            copies[i].tokens.remove(push)
            copies[j].tokens.remove(pop)
            result.append(copies)
    return result


def test_a_store_before_a_load_goes_through_compute() -> None:
    accesses = [
        Effects(Queue.STORE, writes=(("dram", slice(0, 2)),)),
        Effects(Queue.LOAD, reads=(("dram", slice(1, 3)),)),
    ]
    tokens = [(s.queue, s.source, sorted(s.tokens)) for s in ordered(accesses)]
    assert tokens == [
        (Queue.STORE, 0, ["push_prev"]),
        (Queue.COMPUTE, None, ["pop_next", "push_prev"]),
        (Queue.LOAD, 1, ["pop_next"]),
    ]


def test_a_compute_instruction_between_store_and_load_carries_the_tokens() -> None:
    accesses = [
        Effects(Queue.STORE, writes=(("dram", slice(0, 2)),)),
        Effects(Queue.COMPUTE, writes=(("acc", slice(0, 2)),)),
        Effects(Queue.LOAD, reads=(("dram", slice(1, 3)),)),
    ]
    steps = ordered(accesses)
    assert [s.source for s in steps] == [0, 1, 2]
    assert sorted(steps[1].tokens) == ["pop_next", "push_prev"]


def test_accesses_that_do_not_touch_need_no_token() -> None:
    accesses = [
        Effects(Queue.LOAD, writes=(("inp", np.array([0, 2, 4])),)),
        Effects(Queue.COMPUTE, reads=(("inp", np.array([1, 3, 5])),)),
    ]
    assert [s.tokens for s in ordered(accesses)] == [set(), set()]


# Instructions.

UOPS = 8
DRAM = 24


@st.composite
def instructions(draw: st.DrawFn, arrays: dict[str, SSAValue]) -> InstructionOp:
    kind = draw(st.sampled_from(["inp", "wgt", "acc8", "acc8", "gemm", "gemm", "alu", "store"]))
    if kind in ("gemm", "alu"):
        return draw(nests(kind))
    at, count = draw(st.integers(0, 12)), draw(st.integers(1, 4))
    array = arrays["w" if kind == "wgt" else draw(st.sampled_from(["x", "y"]))]
    limit = 2 if kind == "wgt" else DRAM
    count = min(count, limit)
    offset = draw(st.integers(0, limit - count))
    if kind == "store":
        return StoreOp.of(at, array, offset, (1, count))
    return LoadOp.of(LoadMemory(kind), at, array, offset, (1, count))


@st.composite
def nests(draw: st.DrawFn, kind: str) -> InstructionOp:
    count = draw(st.integers(1, 4))
    begin = draw(st.integers(0, UOPS - count))
    properties: dict[str, Attribute] = {
        "uops": integers((begin, begin + count)),
        "loops": integers(draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))),
        "dst": integers((2, 1)),
        "src": integers(draw(st.sampled_from([(0, 0), (1, 2)]))),
    }
    if kind == "gemm":
        properties["wgt"] = integers((0, 0))
        if draw(st.integers(0, 3)) == 0:
            properties["reset"] = UnitAttr()
        return GemmOp.create(properties=properties)
    properties["kind"] = AluKindAttr(AluKind.ADD)
    if draw(st.booleans()):
        properties["kind"] = AluKindAttr(draw(st.sampled_from(list(AluKind))))
        properties["imm"] = integer(draw(st.integers(0, 31)))
    return AluOp.create(properties=properties)


@st.composite
def programs(draw: st.DrawFn) -> ModuleOp:
    """Random instructions on buffers x and y, which are loaded and stored."""
    byte = MemRefType(i8, (DRAM, 16))
    function = FuncOp("vta_0", ([byte, byte], []))
    function.attributes[TARGET] = TargetAttr.of("vta", {})
    block = function.body.block
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    weights = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    indices = (rng.integers(0, high, UOPS) for high in (8, 8, 4))
    table = encode_uops(*indices).view(np.int32)
    constants = [
        ConstantOp.of(Array.of(weights), MemRefType(i8, weights.shape)),
        ConstantOp.of(Array.of(table), MemRefType(i32, (UOPS,))),
    ]
    x, y = block.args
    uops = LoadOp.of(LoadMemory.UOP, 0, constants[1].result, 0, (1, UOPS))
    body = draw(st.lists(instructions({"x": x, "y": y, "w": constants[0].result}), max_size=30))
    last = [StoreOp.of(0, value, 0, (1, 1)) for value in (x, y)]
    block.add_ops([*constants, uops, *body, *last, FinishOp.of(), ReturnOp()])
    return ModuleOp([function])


@given(programs(), st.integers(0, 2**16))
def test_any_order_the_tokens_allow_gives_the_program_order(module: ModuleOp, seed: int) -> None:
    context = load_context()
    module.verify()
    VtaInsertTokensPass().apply(context, module)
    module.verify()
    VtaEncodePass().apply(context, module)
    program = next(op for op in module.ops if isinstance(op, ProgramOp))
    dram = np.random.default_rng(seed).integers(0, 256, program.dram.value.data).astype(np.uint8)
    dram[: program.image.data.size] = program.image.data.values()
    insns = program.insns.data.values()
    expected = run_in_order(insns, dram)
    for attempt in (None, seed, seed + 1, seed + 2):
        found = Program(insns, DEFAULT_CONFIG, seed=attempt).run(dram).dram
        np.testing.assert_array_equal(found, expected)


def test_a_load_waits_for_the_tile_before_the_last() -> None:
    """Double buffering comes out of the addresses: while one tile is computed, the next loads."""
    layer = Conv((3, 8, 8), 2, (3, 3), 1, 1, 1, (1, 8, 1), (("shrsi", 8),))
    module, context = parse(function([layer])), load_context()
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass()):
        lowering.apply(context, module)
    ops = [op for op in module.walk() if isinstance(op, InstructionOp)]
    gemms = [i for i, op in enumerate(ops) if isinstance(op, GemmOp) and op.reset is None]
    pushing = [i for i, op in enumerate(ops) if op.queue == Queue.COMPUTE and op.push_prev]
    popping = [i for i, op in enumerate(ops) if op.queue == Queue.LOAD and op.pop_next]
    assert len(gemms) == 6
    assert pushing == gemms[:4]
    for push, pop in zip(pushing, popping, strict=True):
        assert sum(push < gemm < pop for gemm in gemms) == 1


@pytest.mark.parametrize("tile", [(1, 8, 1), (2, 2, 2)])
def test_loading_overlaps_computing(tile: tuple[int, int, int]) -> None:
    layer = Conv((4, 16, 16), 4, (3, 3), 1, 1, 1, tile, (("shrsi", 8),))
    module, context = parse(function([layer])), load_context()
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass(), VtaEncodePass()):
        lowering.apply(context, module)
    program = next(op for op in module.ops if isinstance(op, ProgramOp))
    times = Program(program.insns.data.values()).timeline
    assert times.cycles < 0.8 * sum(times.busy.values())
