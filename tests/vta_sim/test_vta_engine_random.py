"""The numpy engine against the loop-by-loop oracle, on random programs and configs."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_choices import strategy
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_oracle import Oracle
from vta_streams import (
    CONFIGS,
    Row,
    encode_rows,
    random_image,
    random_rows,
    serialise,
)

from byocir.vta_sim import (
    DEFAULT_CONFIG,
    Machine,
    Memory,
    Program,
    VTAConfig,
    encode,
    encode_uops,
    engine_numpy,
    engine_numpy_plans,
    run_in_order,
)

image = random_image
few = settings(max_examples=settings.default.max_examples // 2)


def programs(config: VTAConfig) -> st.SearchStrategy[list[Row]]:
    return strategy(lambda choose: random_rows(choose, config))


def oracle_result(rows: list[Row], dram: np.ndarray, config: VTAConfig) -> bytes:
    dst_bits = config.log_depth(Memory.ACC)
    widths = dst_bits, max(dst_bits, config.log_depth(Memory.INP))
    return Oracle(dram.tobytes(), config.batch, config.block_in, widths).run(rows)


@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_nests_planned_in_pieces(rows: list[Row], seed: int) -> None:
    """Nests too long for one plan are cut; a tiny limit makes every nest one of those."""
    dram = image(DEFAULT_CONFIG, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_numpy_plans, "MAX_STEPS", 5)
        patch.setattr(engine_numpy, "MAX_STEPS", 5)
        result = run_in_order(encode_rows(rows, DEFAULT_CONFIG), dram)
    assert result.tobytes() == oracle_result(rows, dram, DEFAULT_CONFIG)


@pytest.mark.parametrize("name", CONFIGS)
@few
@given(data=st.data(), seed=st.integers(0, 1 << 16))
def test_engine_equals_oracle(name: str, data: st.DataObject, seed: int) -> None:
    config = CONFIGS[name]
    rows = data.draw(programs(config))
    dram = image(config, seed)
    before = dram.copy()
    result = run_in_order(encode_rows(rows, config), dram, config)
    assert result.tobytes() == oracle_result(rows, dram, config)
    assert np.array_equal(dram, before)


@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_serialised_programs_run_like_program_order(rows: list[Row], seed: int) -> None:
    dram = image(DEFAULT_CONFIG, seed)
    insns = encode_rows(serialise(rows), DEFAULT_CONFIG)
    expected = oracle_result(rows, dram, DEFAULT_CONFIG)
    for order in (None, seed):
        assert Program(insns, seed=order).run(dram).dram.tobytes() == expected


@few
@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_kept_plans_follow_the_micro_ops(rows: list[Row], seed: int) -> None:
    """A program run again on an image with other micro-ops must not use the old plan."""
    program = Program(encode_rows(serialise(rows), DEFAULT_CONFIG))
    for dram in (image(DEFAULT_CONFIG, seed), image(DEFAULT_CONFIG, seed + 1)):
        assert program.run(dram).dram.tobytes() == oracle_result(rows, dram, DEFAULT_CONFIG)


@few
@given(
    seed=st.integers(0, 1 << 16),
    uops=st.integers(1, 20),
    out=st.integers(1, 12),
    inner=st.integers(1, 12),
    data=st.data(),
)
def test_long_sums_and_many_weights(
    seed: int, uops: int, out: int, inner: int, data: st.DataObject
) -> None:
    """Extreme values and up to thousands of products per accumulator stay exact."""
    rng = np.random.default_rng(seed)
    machine, oracle = Machine(np.zeros(0, np.uint8)), Oracle(b"")
    machine.inp[:64] = rng.choice([-128, -127, 127, 0], machine.inp[:64].shape)
    machine.wgt[:64] = rng.choice([-128, 127], machine.wgt[:64].shape)
    machine.uop[:uops] = encode_uops(*(rng.integers(0, n, uops) for n in (4, 8, 8)))
    oracle.inp = {i: v.astype(int).ravel().tolist() for i, v in enumerate(machine.inp[:64])}
    oracle.wgt = {i: v.T.astype(int).ravel().tolist() for i, v in enumerate(machine.wgt[:64])}
    oracle.uop = {i: [int(v)] for i, v in enumerate(machine.uop[:uops])}
    fields = {"uop_end": uops, "iter_out": out, "iter_in": inner, "uop_bgn": 0}
    for name in ("dst", "src", "wgt"):
        limit = 1 if name == "dst" else 2
        for loop in ("out", "in"):
            fields[f"{name}_factor_{loop}"] = data.draw(st.integers(0, limit))
    machine.run_in_order(encode("gemm", **fields)[None])
    oracle.gemm(**fields)
    for index, values in oracle.acc.items():
        assert machine.acc[index].ravel().tolist() == values
