"""The cycle model on random streams: against a clock that ticks, and the laws that docs/vta.md
states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from vta_clock import Clock, Stuck

from byocir.vta_sim import (
    Instruction,
    Memory,
    Timeline,
    TimingModel,
    VTAError,
    decode,
    encode,
    estimate,
)
from byocir.vta_sim.isa import Opcode, Queue
from byocir.vta_sim.token_order import TOKEN_FIFOS, link, route

MODELS = {
    "de10": TimingModel.de10(),
    "pynq": TimingModel.pynq(),
    "tight": replace(TimingModel.de10(), command_queue=2, token_queue=1, fetch_chunk=3),
    "narrow": replace(TimingModel.pynq(), command_queue=3, token_queue=2, bus_bytes=4),
    "unlimited": replace(TimingModel.de10(), bus_bytes=None),
    "tight unlimited": replace(TimingModel.pynq(), bus_bytes=None, command_queue=2, token_queue=1),
}
UNLIMITED = [name for name in MODELS if name.endswith("unlimited")]
PUSH = {
    (Queue.LOAD, Queue.COMPUTE): ("push_next", "pop_prev"),
    (Queue.COMPUTE, Queue.LOAD): ("push_prev", "pop_next"),
    (Queue.COMPUTE, Queue.STORE): ("push_next", "pop_prev"),
    (Queue.STORE, Queue.COMPUTE): ("push_prev", "pop_next"),
}
Row = tuple[str, dict[str, int]]
END: list[Row] = [
    ("load", {"memory_type": int(Memory.INP), "push_next": 1}),
    ("store", {"push_prev": 1}),
    ("finish", {"pop_prev": 1, "pop_next": 1}),
]

small = st.integers(0, 3)
few = settings(max_examples=settings.default.max_examples // 3)


@st.composite
def moves(draw: st.DrawFn) -> Row:
    store = draw(st.booleans()) and draw(st.booleans())
    memory = Memory.OUT if store else draw(st.sampled_from([m for m in Memory if m != Memory.OUT]))
    fields = {"memory_type": int(memory), "dram_base": draw(st.integers(0, 20))}
    fields |= {
        "y_size": draw(st.integers(0, 6)),
        "x_size": draw(st.integers(0, 5)),
        "x_stride": draw(small),
    }
    if not store:
        fields |= {name: draw(small) for name in ("y_pad_0", "x_pad_1")}
    return "store" if store else "load", fields


@st.composite
def loops(draw: st.DrawFn) -> Row:
    fields = {"uop_end": draw(small), "iter_out": draw(small), "iter_in": draw(small)}
    if draw(st.booleans()):
        return "gemm", fields | {"reset_reg": draw(st.integers(0, 1))}
    return "alu", fields | {"use_imm": draw(st.integers(0, 1))}


def unit(row: Row) -> Queue:
    return Queue(int(route(decode(encode(row[0], **row[1])[None]))[0]))


@st.composite
def streams(draw: st.DrawFn) -> np.ndarray:
    """Random instructions, tokens between random earlier and later ones, and a proper end."""
    rows = draw(st.lists(st.one_of(moves(), loops()), max_size=14))
    units = [unit(row) for row in rows]
    for first in range(len(rows)):
        for second in range(first + 1, len(rows)):
            bits = PUSH.get((units[first], units[second]))
            if not bits or rows[first][1].get(bits[0]) or rows[second][1].get(bits[1]):
                continue
            if draw(st.integers(0, 2)) == 0:
                rows[first][1][bits[0]] = rows[second][1][bits[1]] = 1
    return np.stack([encode(kind, **fields) for kind, fields in (*rows, *END)])


def pairs_of(insns: np.ndarray) -> list[tuple[int, str, int, str]]:
    """Every push and the pop that takes its token."""
    decoded = decode(insns)
    queue, found = link(decoded).queue, []
    for fifo in TOKEN_FIFOS:
        pushing = (queue == fifo.producer) & (decoded.columns[fifo.push] != 0)
        popping = (queue == fifo.consumer) & (decoded.columns[fifo.pop] != 0)
        both = zip(np.flatnonzero(pushing).tolist(), np.flatnonzero(popping).tolist(), strict=True)
        found += [(push, fifo.push, pop, fifo.pop) for push, pop in both]
    return found


def without(insns: np.ndarray, *bits: tuple[int, str]) -> np.ndarray:
    """The stream with some token bits flipped to 0."""
    return changed(insns, lambda fields, name: fields | {name: 0}, *bits)


def changed(
    insns: np.ndarray,
    change: Callable[[dict[str, int], str], dict[str, int]],
    *bits: tuple[int, str],
) -> np.ndarray:
    result = insns.copy()
    for index, name in bits:
        insn: Instruction = decode(result).instruction(index)
        result[index] = encode(insn.opcode, **change(insn.fields, name))
    return result


def timed(insns: np.ndarray, model: TimingModel) -> Timeline | None:
    """None if the model's queues are too short."""
    try:
        return estimate(insns, model=model)
    except VTAError as error:
        if error.code != "V306":
            raise
        return None


@pytest.mark.parametrize("name", MODELS)
@few
@given(insns=streams())
def test_the_servers_agree_with_a_clock_that_ticks(name: str, insns: np.ndarray) -> None:
    clock = Clock(decode(insns), MODELS[name])
    try:
        clock.run()
    except Stuck:
        with pytest.raises(VTAError, match="V306"):
            estimate(insns, model=MODELS[name])
        return
    times = estimate(insns, model=MODELS[name])
    assert times.start.tolist() == [clock.start[i] for i in range(len(insns))]
    assert times.end.tolist() == [clock.end[i] for i in range(len(insns))]
    assert times.cycles == clock.now
    for unit_name, causes in clock.causes.items():
        assert times.units[unit_name].to_dict() == {
            cause: causes[cause] for cause in times.units[unit_name].to_dict()
        }, unit_name


@pytest.mark.parametrize("name", MODELS)
@few
@given(insns=streams())
def test_every_cycle_has_one_cause_and_no_bound_is_undercut(name: str, insns: np.ndarray) -> None:
    times = timed(insns, MODELS[name])
    if times is None:
        return
    for causes in times.units.values():
        assert all(cycles >= 0 for cycles in causes.to_dict().values())
        assert sum(causes.to_dict().values()) == times.cycles
    assert all(bound <= times.cycles for bound in times.bounds.values())
    assert times.bounds["gemm"] + times.bounds["alu"] <= times.units["compute"].busy
    assert 0 < times.efficiency <= 1 or not any(times.bounds.values())
    kinds = {"load": ["load"], "store": ["store"]}
    kinds["compute"] = [kind for kind in times.busy if kind not in kinds]
    for unit_name, members in kinds.items():
        assert sum(times.busy[kind] for kind in members) == times.units[unit_name].busy
    spans = times.read_channel
    assert (spans[1:, 1] >= spans[:-1, 2]).all()
    assert (spans[:, 2] > spans[:, 1]).all()


@pytest.mark.parametrize("name", UNLIMITED)
@few
@given(insns=streams(), data=st.data())
def test_with_unlimited_bandwidth_fewer_tokens_take_no_longer(
    name: str, insns: np.ndarray, data: st.DataObject
) -> None:
    pairs = [pair for pair in pairs_of(insns) if pair[0] < len(insns) - len(END)]
    assume(pairs)
    push, push_bit, pop, pop_bit = data.draw(st.sampled_from(pairs))
    fewer = without(insns, (push, push_bit), (pop, pop_bit))
    before = timed(insns, MODELS[name])
    if before is not None:
        assert estimate(fewer, model=MODELS[name]).cycles <= before.cycles


@given(insns=streams(), data=st.data())
def test_one_unmatched_token_is_a_leak_or_a_deadlock(
    insns: np.ndarray, data: st.DataObject
) -> None:
    push, push_bit, pop, pop_bit = data.draw(st.sampled_from(pairs_of(insns)))
    with pytest.raises(VTAError, match="V301"):
        estimate(without(insns, (push, push_bit)))
    with pytest.raises(VTAError, match="V302"):
        estimate(without(insns, (pop, pop_bit)))


@given(insns=streams(), data=st.data())
def test_one_token_too_many_is_a_leak_or_a_deadlock(insns: np.ndarray, data: st.DataObject) -> None:
    decoded = decode(insns)
    queue, columns = route(decoded), decoded.columns
    sides = [(fifo.producer, fifo.push, "V302") for fifo in TOKEN_FIFOS]
    sides += [(fifo.consumer, fifo.pop, "V301") for fifo in TOKEN_FIFOS]
    unset = [
        (index, bit, code)
        for module, bit, code in sides
        for index in np.flatnonzero((queue == module) & (columns[bit] == 0)).tolist()
    ]
    index, bit, code = data.draw(st.sampled_from(unset))
    with pytest.raises(VTAError, match=code):
        estimate(changed(insns, lambda fields, name: fields | {name: 1}, (index, bit)))


@given(insns=streams())
def test_instructions_that_move_no_data_do_not_touch_the_channel(insns: np.ndarray) -> None:
    times = estimate(insns, model=MODELS["unlimited"])
    assert not len(times.read_channel)
    decoded = decode(insns)
    idle = (decoded.opcode == Opcode.GEMM) | (decoded.opcode == Opcode.ALU)
    assert not times.waits["dram"][idle].any()
