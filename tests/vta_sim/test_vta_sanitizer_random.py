"""The sanitizer against an oracle of all pairs, on correct streams and on mutations of them.

Under the profile `fuzz` the counted tests run at full size: 10 000 correct streams and every token
of 500 multi-buffered ones.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from drawn_choices import strategy
from hazard_oracle import before, conflicts, races, touched, unwritten
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_kernels import random_stream
from vta_mutations import (
    ADDRESSES,
    SIZES,
    Mutation,
    apply,
    dropped_edges,
    random_mutation,
    token_mutations,
)
from vta_streams import (
    Row,
    Stream,
    encode_rows,
    fill_rows,
    random_config,
    random_image,
    random_rows,
    synchronise,
)

from byocir.testing.choose import Choose, seeded
from byocir.vta_sim import (
    DEFAULT_CONFIG,
    HAZARDS,
    Hazard,
    Program,
    VTAError,
    decode,
    run_in_order,
    sanitize,
    simulate,
)
from byocir.vta_sim.engine_numpy import Machine
from byocir.vta_sim.token_order import link, schedule

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
RACES = {"S201", "S202", "S203"}
UNWRITTEN = {"S204", "S205"}
RANGES = {"S208", "S209"}
counted = pytest.mark.hypothesis  # part of `make fuzz`


def rows_of(insns: np.ndarray, stream: Stream) -> list[Row]:
    decoded = decode(insns, stream.config)
    return [(i.opcode.name.lower(), i.fields) for i in decoded.instructions()]


def changed(rows: list[Row], mutations: Sequence[Mutation]) -> list[Row]:
    result = rows.copy()
    for m in mutations:
        kind, fields = result[m.index]
        result[m.index] = (kind, fields | {m.field: m.after})
    return result


def codes(hazards: list[Hazard]) -> set[str]:
    return {hazard.code for hazard in hazards}


def random_ordered(choose: Choose) -> Stream:
    """Any instructions, after loads of all they can read, with tokens where they conflict."""
    config = random_config(choose) if choose(0, 1) else DEFAULT_CONFIG
    dram = random_image(config, choose(0, 1 << 16))
    first, *rest = random_rows(choose, config, 16)
    # Stores keep clear of the micro-ops and of what the loads read before them is not their matter.
    rows = [first, *fill_rows(config), *(_above_micro_ops(row) for row in rest)]
    return Stream(encode_rows(synchronise(rows, dram, config), config), dram, config)


def _above_micro_ops(row: Row) -> Row:
    kind, fields = row
    return (kind, fields | {"dram_base": max(fields["dram_base"], 64)}) if kind == "store" else row


def check_against_oracle(stream: Stream, insns: np.ndarray) -> Counter[str]:
    """Asserts that the findings are those of the oracle; counts the oracle's by code."""
    rows = rows_of(insns, stream)
    sets, order = touched(rows, stream.dram.tobytes(), stream.config), before(rows)
    hazards = sanitize(insns, stream.dram, stream.config)
    if order is None:
        assert "S207" in codes(hazards)
        return Counter(codes(hazards))
    assert "S207" not in codes(hazards)
    expected = races(conflicts(rows, sets), order)
    pairs = {(h.first, h.second, h.memory) for h in hazards if h.code in RACES | {"S210"}}
    found = {(a.index, b.index, name) for a, b, name in pairs if a and b}
    assert found <= expected
    # For each instruction and module one finding stands for all, and it is the last of them.
    assert {(j, name) for _, j, name in found} == {(j, name) for _, j, name in expected if name} | {
        (j, name) for _, j, name in found if not name
    }
    assert any(name == "" for *_, name in found) == any(name == "" for *_, name in expected)
    missing = {(i, name) for i, (name, _) in unwritten(rows, sets, order)}
    alone = {(h.first.index, h.memory) for h in hazards if h.code in UNWRITTEN and h.first}
    assert alone <= missing
    if not expected:
        assert alone == missing
    outside = {i for i, one in enumerate(sets) if one.outside}
    assert outside == {h.first.index for h in hazards if h.code in RANGES and h.first}
    return Counter({"races": len(expected), "unwritten": len(missing), "outside": len(outside)})


@settings(max_examples=settings.default.max_examples // 4)
@given(strategy(random_stream))
def test_multi_buffered_streams_are_clean_and_give_one_result(stream: Stream) -> None:
    assert sanitize(stream.insns, stream.dram, stream.config) == []
    expected = run_in_order(stream.insns, stream.dram, stream.config)
    assert not np.array_equal(expected, stream.dram)
    for seed in range(2):
        result = Program(stream.insns, stream.config, seed=seed).run(stream.dram, check=True)
        assert np.array_equal(result.dram, expected)


@settings(max_examples=settings.default.max_examples // 2)
@given(strategy(random_ordered))
def test_streams_ordered_by_their_conflicts_are_clean(stream: Stream) -> None:
    assert check_against_oracle(stream, stream.insns).total() == 0


@counted
def test_no_false_alarm() -> None:
    """On 10 000 correct streams at full size."""
    for seed in range(10_000 if FULL else 60):
        make = random_ordered if seed % 4 == 3 else random_stream
        stream = make(seeded(seed))
        assert sanitize(stream.insns, stream.dram, stream.config) == [], f"seed {seed}"


@given(strategy(random_ordered), st.data())
def test_findings_are_those_of_the_oracle(stream: Stream, data: st.DataObject) -> None:
    """Several tokens, addresses and sizes are wrong at once."""
    choose: Choose = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    insns = stream.insns
    edges = list(dropped_edges(insns, stream.config))
    for number in range(choose(0, 3)):
        if number % 2 and edges:
            insns = apply(edges.pop(choose(0, len(edges) - 1)), insns, stream.config)
            edges = list(dropped_edges(insns, stream.config))
            continue
        mutation = random_mutation(choose, insns, stream.config, ADDRESSES + SIZES)
        if mutation is not None:
            insns = apply([mutation], insns, stream.config)
    check_against_oracle(stream, insns)


@counted
def test_every_token_that_is_dropped_or_added_is_reported() -> None:
    """One bit alone unbalances its queue: a deadlock or a leak, and no stream that passes."""
    seen: Counter[str] = Counter()
    for seed in range(500 if FULL else 8):
        stream = random_stream(seeded(seed))
        every = list(token_mutations(stream.insns, stream.config))
        dropped = [mutation for mutation in every if mutation.kind == "drop-token"]
        added = [mutation for mutation in every if mutation.kind == "add-token"]
        few = Random(seed).sample(added, min(len(added), 12))
        mutations = (dropped if FULL else dropped[seed % 4 :: 4]) + few
        for mutation in mutations:
            insns = apply([mutation], stream.insns, stream.config)
            reported = codes(sanitize(insns, stream.dram, stream.config))
            assert reported & {"S206", "S207"}, f"seed {seed}, {mutation}"
            pops_more = (mutation.kind == "add-token") == mutation.field.startswith("pop")
            assert ("S207" in reported) or not pops_more
            seen[f"{mutation.kind} {'deadlock' if 'S207' in reported else 'leak'}"] += 1
            seen["of leaks also a race"] += bool(reported & (RACES | {"S210"}))
    print(dict(seen))


@counted
def test_every_dropped_order_that_matters_is_caught() -> None:
    """Push and pop dropped together stay balanced: only the conflicts tell. What the oracle calls
    harmless orders nothing new (other tokens imply it) or nothing that conflicts."""
    seen: Counter[str] = Counter()
    for seed in range(500 if FULL else 5):
        stream = random_stream(seeded(seed))
        rows = rows_of(stream.insns, stream)
        pairs = conflicts(rows, touched(rows, stream.dram.tobytes(), stream.config))
        whole = before(rows)
        for edge in dropped_edges(stream.insns, stream.config):
            insns = apply(edge, stream.insns, stream.config)
            order = before(changed(rows, edge))
            assert order is not None
            matters = bool(races(pairs, order))
            caught = bool(sanitize(insns, stream.dram, stream.config))
            assert caught == matters, f"seed {seed}, {edge[0]}, {edge[1]}"
            implied = "implied by other tokens" if order == whole else "no conflict"
            seen["caught" if matters else f"harmless: {implied}"] += 1
    assert seen["caught"] > 10
    print(dict(seen))


def interleavings(insns: np.ndarray, stream: Stream, seeds: range) -> set[bytes]:
    """Results of random legal orders; leftover tokens and a late FINISH are no matter."""
    decoded = decode(insns, stream.config)
    results: set[bytes] = set()
    for seed in seeds:
        machine = Machine(stream.dram, stream.config)
        instructions = decoded.instructions()
        machine.run(instructions[i] for i in schedule(decoded, link(decoded), seed))
        results.add(machine.dram.tobytes())
    return results


@counted
def test_interleavings_differ_only_where_a_hazard_is_reported() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200 if FULL else 10):
        stream = random_stream(seeded(seed))
        if len(stream.insns) > 60:
            continue
        edges = list(dropped_edges(stream.insns, stream.config))
        for edge in edges if FULL else edges[:: max(1, len(edges) // 4)]:
            insns = apply(edge, stream.insns, stream.config)
            reported = bool(sanitize(insns, stream.dram, stream.config))
            differ = len(interleavings(insns, stream, range(12))) > 1
            assert reported or not differ, f"seed {seed}, {edge[0]}, {edge[1]}"
            seen[f"reported {reported}, results differ {differ}"] += 1
    assert seen["reported True, results differ True"]
    print(dict(seen))


@counted
def test_wrong_addresses_and_sizes() -> None:
    """Of the mutations that change what is stored, all that are hazards or leave a memory are
    reported; the rest are other programs that are as valid, by the oracle."""
    seen: Counter[str] = Counter()
    for seed in range(400 if FULL else 8):
        stream = random_stream(seeded(seed))
        expected = run_in_order(stream.insns, stream.dram, stream.config)
        choose = seeded(seed)
        for _ in range(8):
            mutation = random_mutation(choose, stream.insns, stream.config, ADDRESSES + SIZES)
            if mutation is None:
                continue
            insns = apply([mutation], stream.insns, stream.config)
            wrong = check_against_oracle(stream, insns).total() > 0
            reported = bool(sanitize(insns, stream.dram, stream.config))
            assert reported == wrong, f"seed {seed}, {mutation}"
            try:
                result = run_in_order(insns, stream.dram, stream.config)
                same = np.array_equal(result, expected)
            except VTAError:
                assert reported, f"seed {seed}, {mutation}"
                same = False
            outcome = "caught" if reported else "another valid program"
            seen[f"{mutation.kind}: {'no change, ' * same}{outcome}"] += 1
    assert seen["shift-address: caught"]
    assert seen["change-size: caught"]
    print(dict(sorted(seen.items())))


@given(
    st.binary(max_size=12 * 16),
    st.binary(max_size=256),
    st.sampled_from([0, 64, 1 << 14]),
    st.booleans(),
)
def test_random_bytes_give_results_or_errors(
    words: bytes, start: bytes, size: int, whole: bool
) -> None:
    insns = np.frombuffer(words[: len(words) // 16 * 16] if whole else words, np.uint8).copy()
    if whole:
        insns[::16] = insns[::16] % 5 | insns[::16] & 0x78
    dram = np.zeros(max(size, len(start)), np.uint8)
    dram[: len(start)] = np.frombuffer(start, np.uint8)
    check_errors(Stream(insns, dram, DEFAULT_CONFIG))


@given(st.integers(0, 50), st.data())
def test_broken_programs_give_results_or_errors(seed: int, data: st.DataObject) -> None:
    """Bits flipped in a program and in its micro-ops, or the end cut off."""
    stream = random_stream(seeded(seed))
    insns, dram = stream.insns.copy(), stream.dram.copy()
    bits = data.draw(st.lists(st.integers(0, insns.size * 8 - 1), max_size=4))
    for bit in bits:
        insns.reshape(-1)[bit // 8] ^= 1 << bit % 8
    for address in data.draw(st.lists(st.integers(4096, dram.size - 1), max_size=40)):
        dram[address] ^= 0xFF
    cut = data.draw(st.integers(0, 2))
    rows = insns[: len(insns) - cut]
    check_errors(Stream(rows, dram[: dram.size - 64 * cut], stream.config))


def check_errors(stream: Stream) -> None:
    """Nothing but a user error comes out, whatever goes in."""
    insns, dram, config = stream.insns, stream.dram, stream.config
    try:
        hazards = sanitize(insns, dram, config)
    except VTAError:
        with pytest.raises(VTAError):
            simulate(insns, dram, config)
        return
    assert codes(hazards) <= HAZARDS.keys()
    assert all(str(hazard) for hazard in hazards)
    if hazards:
        with pytest.raises(VTAError):
            simulate(insns, dram, config, check=True)
        return
    with contextlib.suppress(VTAError):  # a shift that only running reveals
        simulate(insns, dram, config, check=True)
