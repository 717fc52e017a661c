"""The public interface: arguments, results, counters, reuse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from byocir.vta_sim import (
    Machine,
    Program,
    VTAConfig,
    VTAError,
    assemble,
    encode_uops,
    simulate,
)

TEXT = """
load.uop y=1 x=1
load.inp dram=0x10 y=2 x=2 stride=2 pad=1,0,0,0 {push_next}
load.wgt dram=0x2 y=1 x=1 {push_next}
load.acc dram=0x10 y=1 x=4
load.acc_8bit sram=0x4 dram=0x40 y=1 x=2
load.uop {pop_prev}
gemm uop=0,1 out=2 in=2 dst=2,1 src=2,1 {pop_prev}
gemm.reset uop=0,1 out=1 in=1
alu.max.imm uop=0,1 out=1 in=4 dst=0,1 src=0,1 {push_next}
store.out dram=0x80 y=2 x=2 stride=3 {pop_prev,push_prev}
finish {pop_next}
"""


def image(seed: int = 0) -> np.ndarray:
    dram = np.random.default_rng(seed).integers(0, 256, 4096, dtype=np.uint8)
    dram[:4] = encode_uops([0], [0], [0]).view(np.uint8)
    return dram


def test_result_and_untouched_input() -> None:
    insns, dram = assemble(TEXT), image()
    before = dram.copy()
    result = simulate(insns, dram)
    assert np.array_equal(dram, before)
    assert result.dram is not dram
    assert result.dram.dtype == np.uint8
    changed = np.flatnonzero(result.dram != before)
    assert changed.min() >= 0x80 * 16
    assert changed.max() < (0x80 + 5) * 16
    assert (result.cycles, result.timeline) == (None, None)


def test_a_read_only_image_is_fine() -> None:
    dram = image()
    dram.flags.writeable = False
    assert simulate(assemble(TEXT), dram).dram.flags.writeable


def test_timing_on_request() -> None:
    result = simulate(assemble(TEXT), image(), timing=True)
    assert result.timeline is not None
    assert result.cycles == result.timeline.cycles == result.timeline.end[-1]


def test_counters_follow_upstream() -> None:
    counters = simulate(assemble(TEXT), image()).counters
    assert counters.inp_load_nbytes == 4 * 16
    assert counters.wgt_load_nbytes == 256
    assert counters.acc_load_nbytes == (4 + 2) * 64
    assert counters.uop_load_nbytes == 4
    assert counters.out_store_nbytes == 4 * 16
    assert counters.gemm_counter == 4
    assert counters.alu_counter == 4
    assert counters.instructions == {"LOAD": 6, "STORE": 1, "GEMM": 2, "FINISH": 1, "ALU": 1}


def test_a_program_runs_on_many_images() -> None:
    program = Program(assemble(TEXT))
    for seed in range(4):
        expected = simulate(assemble(TEXT), image(seed), check=True).dram
        assert np.array_equal(program.run(image(seed)).dram, expected)


@pytest.mark.parametrize(
    ("dram", "text"),
    [
        (b"", "a numpy array as dram, found bytes"),
        (np.zeros(4, np.int8), "found int8 of shape [4]"),
        (np.zeros((4, 4), np.uint8), "found uint8 of shape [4, 4]"),
    ],
)
def test_bad_images(dram: np.ndarray, text: str) -> None:
    with pytest.raises(VTAError) as caught:
        simulate(assemble("finish"), dram)
    assert caught.value.code == "V002"
    assert text in str(caught.value)


def test_unknown_engine_lists_the_choices() -> None:
    with pytest.raises(VTAError, match=r"V003.*an engine of auto, native, numpy, found 'fast'"):
        simulate(assemble("finish"), np.zeros(0, np.uint8), engine="fast")


def test_widths_the_engine_does_not_compute() -> None:
    with pytest.raises(VTAError, match="V207"):
        Machine(np.zeros(0, np.uint8), VTAConfig(log_inp_width=4, log_inp_buff_size=16))


def test_imports_nothing_but_numpy_the_toolchain_and_the_standard_library() -> None:
    code = (
        "import sys, byocir.vta_sim\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('xdsl', 'onnx')]\n"
        "base = ('errors', 'memory', 'files', 'toolchain', 'machine_sim', 'vta_sim', 'lazy')\n"
        "allowed = tuple('byocir.' + room for room in base)\n"
        "bad += [m for m in sys.modules if m.startswith('byocir.') and not m.startswith(allowed)]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
