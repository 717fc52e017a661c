"""Whatever is given to the simulator, it answers or raises VTAError."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from any_text import LETTERS
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from vta_configs import vta_configs

from byocir.vta_sim import (
    Program,
    VTAConfig,
    VTAError,
    assemble,
    decode,
    decode_uops,
    disassemble,
    encode_columns,
    encode_uops,
    estimate,
    run_in_order,
    simulate,
)

PROGRAM = """
load.uop y=1 x=2
load.inp dram=0x10 y=2 x=2 stride=2 {push_next}
load.wgt dram=0x2 y=1 x=1 {push_next}
load.acc dram=0x10 y=1 x=8 stride=1
load.uop {pop_prev}
gemm uop=0,2 out=2 in=2 dst=2,1 src=2,1 {pop_prev}
alu.shr.imm uop=0,2 out=1 in=4 dst=0,1 src=0,1 imm=3 {push_next}
store.out dram=0x80 y=2 x=2 stride=3 {pop_prev,push_prev}
finish {pop_next}
"""
DRAM = np.zeros(4096, np.uint8)

odd_arrays = st.one_of(
    hnp.arrays(
        dtype=st.one_of(
            hnp.integer_dtypes(endianness="?"),
            hnp.unsigned_integer_dtypes(endianness="?"),
            hnp.floating_dtypes(),
            hnp.boolean_dtypes(),
            hnp.unicode_string_dtypes(),
            hnp.datetime64_dtypes(),
            st.just(np.dtype(object)),
            st.just(np.dtype([("a", np.uint8), ("b", ">u4")])),
        ),
        shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=32),
    ),
    st.none(),
    st.binary(max_size=64),
    st.lists(st.integers(), max_size=4),
    st.text(LETTERS, max_size=4),
)


@given(odd_arrays)
def test_odd_streams(insns: object) -> None:
    for use in (decode, disassemble, estimate, Program):
        with suppress(VTAError):
            use(insns)  # type: ignore[operator]
    with suppress(VTAError):
        simulate(insns, DRAM, check=True, timing=True)  # type: ignore[arg-type]


@given(odd_arrays)
def test_odd_images(dram: object) -> None:
    with suppress(VTAError):
        simulate(assemble(PROGRAM), dram, check=True)  # type: ignore[arg-type]
    with suppress(VTAError):
        run_in_order(assemble(PROGRAM), dram)  # type: ignore[arg-type]


@given(odd_arrays, odd_arrays)
def test_odd_micro_ops(dst: object, src: object) -> None:
    with suppress(VTAError):
        decode_uops(dst)  # type: ignore[arg-type]
    with suppress(VTAError):
        dst_again, _, _ = decode_uops(encode_uops(dst, src))  # type: ignore[arg-type]
        assert (dst_again == np.asarray(dst)).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.asfortranarray(a),
        lambda a: a.astype(">u1"),
        lambda a: np.ma.masked_array(a),
        lambda a: np.ma.masked_array(a, mask=True),
        lambda a: a[::-1].copy()[::-1],
    ],
)
def test_memory_layout_changes_nothing(view) -> None:
    insns = assemble(PROGRAM)
    dram = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8)
    dram[:8] = encode_uops([0, 4], [0, 0], 0).view(np.uint8)
    expected = simulate(insns, dram, check=True).dram
    for result in (simulate(view(insns), dram), simulate(insns, view(dram))):
        assert type(result.dram) is np.ndarray
        assert np.array_equal(result.dram, expected)


@given(cut=st.integers(0, 16 * 9), config=vta_configs(computable=True))
def test_truncated_streams(cut: int, config: VTAConfig) -> None:
    with suppress(VTAError):
        insns = assemble(PROGRAM, config)
        whole = insns.reshape(-1)[:cut]
        with suppress(VTAError):
            simulate(whole, DRAM, config, check=True, timing=True)
        if cut < insns.size:
            with pytest.raises(VTAError, match="V101" if cut % 16 else "V3"):
                Program(whole, config)


@settings(max_examples=60 if settings.default.max_examples < 100 else 2000)
@given(data=st.data(), config=vta_configs())
def test_flipped_bits(data: st.DataObject, config: VTAConfig) -> None:
    """A correct program with some bits changed: it runs, or is refused. Loops stay short."""
    try:
        insns = assemble(PROGRAM, config).copy()
    except VTAError:
        return
    flat = insns.reshape(-1)
    for _ in range(data.draw(st.integers(1, 4))):
        flat[data.draw(st.integers(0, flat.size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(VTAError):
        decoded = decode(insns, config)
        short = {name: decoded.columns[name] & 3 for name in ("iter_out", "iter_in")}
        insns = encode_columns(decoded.opcode, decoded.columns | short, config)
    for check in (False, True):
        with suppress(VTAError):
            simulate(insns, DRAM, config, check=check, timing=True)
