"""The native engine against the numpy engine and the oracle, byte for byte and word for word.

Programs are racy on purpose, under random legal interleavings: both engines take the same order
for a seed, so they must agree on what a race gives, too. Others are broken on purpose, bit by bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from test_vta_engine_random import image, oracle_result, programs
from vta_engines import needs_native
from vta_streams import (
    BATCH2,
    BATCH4_BLOCK4,
    BLOCK8,
    Row,
    encode_rows,
    queue_of,
    serialise,
)

from byocir.vta_sim import (
    DEFAULT_CONFIG,
    Machine,
    Memory,
    Program,
    VTAConfig,
    VTAError,
    decode,
    encode,
)
from byocir.vta_sim.engine_native import NativeMachine, native_stream
from byocir.vta_sim.simulation import count
from byocir.vta_sim.token_order import link, order_of

BLOCK32_BATCH2 = VTAConfig(
    log_batch=1, log_block=5, log_inp_buff_size=13, log_wgt_buff_size=17, log_acc_buff_size=15
)
BATCH8_BLOCK2 = VTAConfig(
    log_batch=3, log_block=1, log_uop_buff_size=9, log_inp_buff_size=12, log_wgt_buff_size=10,
    log_acc_buff_size=13,
)  # fmt: skip
CONFIGS = {
    config.name: config
    for config in (*(DEFAULT_CONFIG, BATCH2, BLOCK8, BATCH4_BLOCK4, BLOCK32_BATCH2, BATCH8_BLOCK2),)
}
IS_FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EXAMPLES = 10_000 if IS_FUZZ else 60  # per test
MAX_STEPS = 20_000  # flipped bits make loops long
Outcome = tuple[bytes, str, list[int]]

configs = st.sampled_from(list(CONFIGS.values()))
checks = st.sampled_from([False, False, True])
seeds = st.none() | st.integers(-(1 << 70), 1 << 70)
thorough = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture(autouse=True, scope="module")
def _native() -> None:
    needs_native()


def outcome(run: Callable[[list[int]], Machine | NativeMachine]) -> Outcome:
    """The image after a run, or the message; and the order that ``run`` notes."""
    order: list[int] = []
    try:
        return run(order).dram.tobytes(), "", order
    except VTAError as error:
        return b"", str(error), order


def native(
    insns: np.ndarray, dram: np.ndarray, config: VTAConfig, seed: int | None, check: bool
) -> Outcome:
    def run(order: list[int]) -> NativeMachine:
        program = Program(insns, config, seed=seed)
        stream = native_stream(insns, config, seed)
        assert stream is not None
        order += stream.order.tolist()
        assert program.counters == count(program.decoded)
        machine = NativeMachine(dram, config, check=check)
        machine.run(stream)
        return machine

    return outcome(run)


def numpy(
    insns: np.ndarray, dram: np.ndarray, config: VTAConfig, seed: int | None, check: bool
) -> Outcome:
    def run(order: list[int]) -> Machine:
        decoded = decode(insns, config)
        order += order_of(decoded, link(decoded), seed)
        machine = Machine(dram, config, check=check)
        machine.run(decoded.instruction(index) for index in order)
        return machine

    return outcome(run)


def loosened(rows: list[Row], dropped: set[int]) -> list[Row]:
    """A serialised program without some of its token pairs; the last of each queue stay."""
    rows = [(kind, dict(fields)) for kind, fields in rows]
    last = {queue_of(row): index for index, row in enumerate(rows)}
    for index, (first, second) in enumerate(pairwise(rows)):
        if index not in dropped or index in last.values():
            continue
        for push, pop in (("push_prev", "pop_next"), ("push_next", "pop_prev")):
            if push in first[1] and pop in second[1]:
                del first[1][push], second[1][pop]
    return rows


@settings(thorough, max_examples=EXAMPLES if IS_FUZZ else 20)
@given(
    data=st.data(),
    config=configs,
    dram_seed=st.integers(0, 1 << 16),
    seed=seeds,
    check=st.booleans(),
)
def test_engines_agree_under_any_interleaving(
    data: st.DataObject, config: VTAConfig, dram_seed: int, seed: int | None, check: bool
) -> None:
    rows = serialise(data.draw(programs(config)))
    dropped = data.draw(st.sets(st.integers(0, len(rows))))
    insns = encode_rows(loosened(rows, dropped), config)
    dram = image(config, dram_seed)
    expected = numpy(insns, dram, config, seed, check)
    assert native(insns, dram, config, seed, check) == expected


@thorough
@given(
    data=st.data(),
    config=configs,
    dram_seed=st.integers(0, 1 << 16),
    seed=seeds,
    check=st.booleans(),
)
def test_engines_refuse_alike(
    data: st.DataObject, config: VTAConfig, dram_seed: int, seed: int | None, check: bool
) -> None:
    """Bits flipped at random: opcodes, memory types, tokens, ranges, extents."""
    insns = encode_rows(serialise(data.draw(programs(config))), config)
    flips = st.tuples(st.integers(0, len(insns) - 1), st.integers(0, 127))
    for row, bit in data.draw(st.lists(flips, min_size=1, max_size=4)):
        insns[row, bit // 8] ^= 1 << bit % 8
    if not (insns[:, 0] & 7 > 4).any():
        counters = count(decode(insns, config))
        assume(counters.gemm_counter + counters.alu_counter < MAX_STEPS)
        resets = insns.copy()
        resets[:, 0] &= 0x7F
        assume(count(decode(resets, config)).gemm_counter < MAX_STEPS)
    dram = image(config, dram_seed)
    expected = numpy(insns, dram, config, seed, check)
    assert native(insns, dram, config, seed, check) == expected


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), config=configs, seed=st.integers(0, 1 << 16))
def test_native_engine_equals_oracle(data: st.DataObject, config: VTAConfig, seed: int) -> None:
    rows = data.draw(programs(config))
    dram = image(config, seed)
    machine = NativeMachine(dram, config)
    machine.run_in_order(encode_rows(rows, config))
    assert machine.dram.tobytes() == oracle_result(rows, dram, config)


@pytest.mark.parametrize("log_block", [0, 1, 3, 4, 5, 6])
@pytest.mark.parametrize("log_batch", [0, 2])
def test_products_of_any_block_are_exact(log_block: int, log_batch: int) -> None:
    """The largest values there are, in both engines, against integers of 64 bits."""
    element = log_batch + log_block
    config = VTAConfig(
        log_block=log_block, log_batch=log_batch, log_uop_buff_size=4,
        log_inp_buff_size=max(element, 3) + 1, log_wgt_buff_size=2 * log_block + 1,
        log_acc_buff_size=max(element, 3) + 3,
    )  # fmt: skip
    rng = np.random.default_rng(element)
    batch, block = config.batch, config.block_in
    inp = rng.choice(np.array([-128, 127], np.int8), (2, batch, block))
    wgt = rng.choice(np.array([-128, -127], np.int8), (2, block, block))
    acc = np.full((1, batch, block), 2**31 - 1, np.int32)
    inp[1], wgt[1] = -128, -128
    sums = sum(inp[i].astype(np.int64) @ wgt[i].astype(np.int64).T for i in range(2))
    expected = (sums + 2**31 - 1).astype(np.int32)
    gemm = encode("gemm", config=config, uop_end=1, iter_out=2, iter_in=1, src_factor_out=1,
                  wgt_factor_out=1)  # fmt: skip
    nothing = np.zeros(0, np.uint8)
    slow, fast = Machine(nothing, config), NativeMachine(nothing, config)
    for memory, values in ((Memory.INP, inp), (Memory.WGT, wgt), (Memory.ACC, acc)):
        slow.write(memory, slice(len(values)), values)
        fast.write(memory, 0, values)
    slow.run_in_order(gemm[None])
    fast.run_in_order(gemm[None])
    assert np.array_equal(slow.acc[0], expected)
    assert np.array_equal(fast.read(Memory.ACC)[0], expected)
