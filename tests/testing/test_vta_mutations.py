"""Generators give the same program for the same seed; mutations change what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
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
from vta_streams import Stream, encode_rows, random_config, random_rows

from byocir.testing.choose import seeded
from byocir.vta_sim import VTAConfig, decode
from byocir.vta_sim.token_order import link


@pytest.fixture(scope="module")
def stream() -> Stream:
    return random_stream(seeded(7))


def differences(before: np.ndarray, after: np.ndarray, config: VTAConfig) -> set[tuple[int, str]]:
    a, b = decode(before, config).columns, decode(after, config).columns
    return {(int(i), name) for name in a for i in np.flatnonzero(a[name] != b[name])}


@given(st.integers(0, 1 << 16))
def test_a_seed_gives_one_program(seed: int) -> None:
    one, two = random_stream(seeded(seed)), random_stream(seeded(seed))
    assert (one.insns.tobytes(), one.dram.tobytes()) == (two.insns.tobytes(), two.dram.tobytes())
    config = random_config(seeded(seed))
    rows = encode_rows(random_rows(seeded(seed), config), config)
    assert np.array_equal(rows, encode_rows(random_rows(seeded(seed), config), config))


def test_each_token_is_dropped_or_added_once(stream: Stream) -> None:
    mutations = list(token_mutations(stream.insns, stream.config))
    assert len({(m.index, m.field) for m in mutations}) == len(mutations)
    columns = decode(stream.insns, stream.config).columns
    bits = sum(int(columns[n].sum()) for n in ("pop_prev", "pop_next", "push_prev", "push_next"))
    assert sum(m.kind == "drop-token" for m in mutations) == bits
    for mutation in mutations:
        after = apply([mutation], stream.insns, stream.config)
        found = differences(stream.insns, after, stream.config)
        assert found == {(mutation.index, mutation.field)}


def test_dropped_edges_keep_the_queues_balanced(stream: Stream) -> None:
    links = link(decode(stream.insns, stream.config))
    edges = list(dropped_edges(stream.insns, stream.config))
    assert len(edges) == sum(links.popped)
    for push, pop in edges:
        after = link(decode(apply([push, pop], stream.insns, stream.config), stream.config))
        assert push.index in links.waits[pop.index]
        assert after.pushed == after.popped
        others = np.arange(len(stream.insns)) != pop.index
        assert np.array_equal(after.waits[others], links.waits[others])


@given(st.integers(0, 1 << 16))
def test_a_mutation_is_what_it_says(seed: int) -> None:
    stream = random_stream(seeded(3))
    mutation = random_mutation(seeded(seed), stream.insns, stream.config, ADDRESSES + SIZES)
    if mutation is None:
        return
    found = differences(stream.insns, apply([mutation], stream.insns, stream.config), stream.config)
    expected = {(mutation.index, mutation.field)}
    assert found == expected | ({(mutation.index, "uop_end")} & found)
    assert (mutation.kind == "shift-address") == (mutation.field in ADDRESSES)


def test_a_mutation_reads_as_a_sentence() -> None:
    mutation = Mutation("drop-token", 3, "pop_prev", 1, 0)
    assert str(mutation) == "drop-token: instruction 3, pop_prev 1 -> 0"
