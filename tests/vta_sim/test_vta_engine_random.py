"""The numpy engine against the loop-by-loop oracle, on random programs and configs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vta_oracle import Oracle, Row

from byocir.vta_sim import (
    DEFAULT_CONFIG,
    Machine,
    Memory,
    Program,
    VTAConfig,
    encode,
    encode_uops,
    engine_numpy,
    plans,
    run_in_order,
)

BATCH2 = VTAConfig(log_batch=1)
BLOCK8 = VTAConfig(
    log_block=3,
    log_uop_buff_size=12,
    log_inp_buff_size=13,
    log_wgt_buff_size=15,
    log_acc_buff_size=15,
)
BATCH4_BLOCK4 = VTAConfig(
    log_batch=2,
    log_block=2,
    log_uop_buff_size=10,
    log_inp_buff_size=12,
    log_wgt_buff_size=12,
    log_acc_buff_size=14,
)
CONFIGS = {c.name: c for c in (DEFAULT_CONFIG, BATCH2, BLOCK8, BATCH4_BLOCK4)}
DRAM_BYTES = 1 << 15
UOPS = 64
INDEX = 12  # base indices stay below this, so that steps collide often

small = st.integers(0, 3)


@st.composite
def memory_rows(draw: st.DrawFn, config: VTAConfig) -> Row:
    kind = draw(st.sampled_from(["load", "load", "store"]))
    loadable = [Memory.INP, Memory.WGT, Memory.ACC, Memory.ACC_8BIT]
    memory = draw(st.sampled_from(loadable)) if kind == "load" else Memory.OUT
    y, x = draw(st.integers(0, 3)), draw(st.integers(0, 4))
    stride = draw(st.integers(0, 6))
    room = DRAM_BYTES // config.element_bytes(memory) - 30
    fields = {
        "memory_type": int(memory),
        "sram_base": draw(st.integers(0, INDEX)),
        "dram_base": draw(st.integers(0, room)),
        "y_size": y,
        "x_size": x,
        "x_stride": stride,
    }
    if kind == "load":
        fields |= {name: draw(small) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    return kind, fields


@st.composite
def loop_rows(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(["gemm", "alu"]))
    begin = draw(st.integers(0, UOPS - 8))
    fields = {
        "uop_bgn": begin,
        "uop_end": begin + draw(st.integers(0, 7)),
        "iter_out": draw(small),
        "iter_in": draw(st.integers(0, 4)),
    }
    operands = ("dst", "src", "wgt") if kind == "gemm" else ("dst", "src")
    for operand in operands:
        fields |= {f"{operand}_factor_{loop}": draw(small) for loop in ("out", "in")}
    if kind == "gemm":
        return kind, fields | {"reset_reg": draw(st.sampled_from([0, 0, 0, 1]))}
    use_imm = draw(st.integers(0, 1))
    imm = draw(st.one_of(st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-31, 31)))
    return kind, fields | {"alu_opcode": draw(st.integers(0, 4)), "use_imm": use_imm, "imm": imm}


def programs(config: VTAConfig) -> st.SearchStrategy[list[Row]]:
    uop_load: Row = ("load", {"memory_type": 0, "y_size": 1, "x_size": UOPS, "x_stride": UOPS})
    rows = st.lists(st.one_of(memory_rows(config), loop_rows()), min_size=1, max_size=12)
    dump: Row = ("store", {"memory_type": 4, "y_size": 1, "x_size": 32, "dram_base": 40})
    return rows.map(lambda middle: [uop_load, *middle, dump])


def image(config: VTAConfig, seed: int) -> np.ndarray:
    """Random bytes, with UOPS valid micro-ops first."""
    rng = np.random.default_rng(seed)
    dram = rng.integers(0, 256, DRAM_BYTES, dtype=np.uint8)
    dst, src, wgt = (rng.integers(0, INDEX, UOPS) for _ in range(3))
    dram[: UOPS * 4] = encode_uops(dst, src, wgt, config).view(np.uint8)
    return dram


def oracle_result(rows: list[Row], dram: np.ndarray, config: VTAConfig) -> bytes:
    dst_bits = config.log_depth(Memory.ACC)
    widths = dst_bits, max(dst_bits, config.log_depth(Memory.INP))
    return Oracle(dram.tobytes(), config.batch, config.block_in, widths).run(rows)


def encode_rows(rows: list[Row], config: VTAConfig) -> np.ndarray:
    return np.stack([encode(kind, config=config, **fields) for kind, fields in rows])


@settings(max_examples=40, deadline=None)
@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_nests_planned_in_pieces(rows: list[Row], seed: int) -> None:
    """Nests too long for one plan are cut; a tiny limit makes every nest one of those."""
    dram = image(DEFAULT_CONFIG, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "MAX_STEPS", 5)
        patch.setattr(engine_numpy, "MAX_STEPS", 5)
        result = run_in_order(encode_rows(rows, DEFAULT_CONFIG), dram)
    assert result.tobytes() == oracle_result(rows, dram, DEFAULT_CONFIG)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 1 << 16))
def test_engine_equals_oracle(name: str, data: st.DataObject, seed: int) -> None:
    config = CONFIGS[name]
    rows = data.draw(programs(config))
    dram = image(config, seed)
    before = dram.copy()
    result = run_in_order(encode_rows(rows, config), dram, config)
    assert result.tobytes() == oracle_result(rows, dram, config)
    assert np.array_equal(dram, before)


QUEUES = {"gemm": 1, "alu": 1, "finish": 1, "store": 2}


def queue_of(row: Row) -> int:
    kind, fields = row
    if kind == "load":
        return 0 if fields["memory_type"] in (Memory.INP, Memory.WGT) else 1
    return QUEUES[kind]


def serialise(rows: list[Row]) -> list[Row]:
    """Add tokens (and compute NOPs between load and store) that force program order."""
    chained: list[Row] = []
    for row in [*rows, ("finish", {})]:
        if chained and abs(queue_of(chained[-1]) - queue_of(row)) == 2:
            chained.append(("load", {"memory_type": 0}))
        chained.append((row[0], dict(row[1])))
    for first, second in pairwise(chained):
        step = queue_of(second) - queue_of(first)
        if step:
            first[1]["push_next" if step > 0 else "push_prev"] = 1
            second[1]["pop_prev" if step > 0 else "pop_next"] = 1
    return chained


@settings(max_examples=60, deadline=None)
@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_serialised_programs_run_like_program_order(rows: list[Row], seed: int) -> None:
    dram = image(DEFAULT_CONFIG, seed)
    insns = encode_rows(serialise(rows), DEFAULT_CONFIG)
    expected = oracle_result(rows, dram, DEFAULT_CONFIG)
    for order in (None, seed):
        assert Program(insns, seed=order).run(dram).dram.tobytes() == expected


@settings(max_examples=30, deadline=None)
@given(rows=programs(DEFAULT_CONFIG), seed=st.integers(0, 1 << 16))
def test_kept_plans_follow_the_micro_ops(rows: list[Row], seed: int) -> None:
    """A program run again on an image with other micro-ops must not use the old plan."""
    program = Program(encode_rows(serialise(rows), DEFAULT_CONFIG))
    for dram in (image(DEFAULT_CONFIG, seed), image(DEFAULT_CONFIG, seed + 1)):
        assert program.run(dram).dram.tobytes() == oracle_result(rows, dram, DEFAULT_CONFIG)


@settings(max_examples=40, deadline=None)
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
