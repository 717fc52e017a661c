"""Configs: the table of derived quantities, the JSON keys, and refusals."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from any_text import LETTERS
from hypothesis import given
from hypothesis import strategies as st
from vta_configs import vta_configs

from byocir.vta_sim import Memory, VTAConfig, VTAError, assemble, simulate
from byocir.vta_sim.config import PRESETS
from byocir.vta_sim.engine_native import NativeMachine

KEYS = {
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}


@pytest.mark.parametrize(
    ("memory", "size", "depth"),
    [
        (Memory.UOP, 4, 8192),
        (Memory.INP, 16, 2048),
        (Memory.WGT, 256, 1024),
        (Memory.ACC, 64, 2048),
        (Memory.OUT, 16, 2048),
        (Memory.ACC_8BIT, 16, 2048),
    ],
)
def test_default_memories(memory: Memory, size: int, depth: int) -> None:
    config = VTAConfig()
    assert (config.element_bytes(memory), config.depth(memory)) == (size, depth)
    assert 1 << config.log_depth(memory) == depth


def test_defaults_are_the_sample_config() -> None:
    config = VTAConfig.from_dict({**KEYS, "TARGET": "sim", "HW_VER": "0.0.2"})
    assert config == VTAConfig()
    assert (config.batch, config.block_in, config.block_out) == (1, 16, 16)
    assert config.name == "1x16_i8w8a32_15_15_18_17"


def test_targets_say_what_a_machine_has() -> None:
    """The published designs lack MUL and ACC_8BIT; keys of a config may say otherwise."""
    pynq = VTAConfig.from_dict({**KEYS, "TARGET": "pynq"})
    assert pynq == PRESETS["pynq"] == VTAConfig(alu_mul=False, acc_8bit=False)
    mine = VTAConfig.from_dict({**KEYS, "TARGET": "ultra96", "ALU_MUL": True})
    assert (mine.alu_mul, mine.acc_8bit) == (True, False)
    assert mine.name == "1x16_i8w8a32_15_15_18_17_noacc8"
    assert VTAConfig.from_dict(mine.to_dict()) == mine


@given(vta_configs(), st.booleans(), st.booleans())
def test_a_name_is_all_of_a_config(config: VTAConfig, mul: bool, acc: bool) -> None:
    whole = replace(config, alu_mul=mul, acc_8bit=acc)
    assert VTAConfig.from_name(whole.name) == whole


@pytest.mark.parametrize("text", ["pynq", "1x16", "1x16_i8w8a32_15_15_18_17_", "a" * 99, "٢x16"])
def test_other_text_is_no_name(text: str) -> None:
    assert VTAConfig.from_name(text) is None


def test_a_machine_refuses_what_it_lacks() -> None:
    """Both engines: a product in the ALU, and a load that widens."""
    programs = {"V104": "load.uop y=1 x=1\nalu.mul.imm uop=0,1 out=1 in=1 imm=3\nfinish"}
    programs["V103"] = "load.acc_8bit dram=0x1 y=1 x=1\nfinish"
    for code, text in programs.items():
        insns, dram = assemble(text), np.zeros(4096, np.uint8)
        assert simulate(insns, dram).counters
        for engine in ("native", "numpy"):
            with pytest.raises(VTAError, match=rf"{code}.*1x16_i8w8a32_15_15_18_17_nomul_noacc8"):
                simulate(insns, dram, PRESETS["pynq"], engine)
        with pytest.raises(VTAError, match=code):
            NativeMachine(dram, PRESETS["pynq"]).run_in_order(insns)


def test_batch_and_block_change_the_memories() -> None:
    config = VTAConfig(log_batch=1)
    assert config.element_bytes(Memory.ACC) == 128
    assert config.depth(Memory.ACC) == 1024
    assert config.depth(Memory.WGT) == 1024


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"LOG_FOO": 1}, "unknown LOG_FOO"),
        ({"LOG_BATCH": None}, "LOG_BATCH to be an integer in 0..31, found None"),
        ({"LOG_BATCH": -1}, "found -1"),
        ({"LOG_BATCH": True}, "found True"),
        ({"LOG_BATCH": 3.0}, "found 3.0"),
        ({"LOG_UOP_BUFF_SIZE": 16}, "GEMM word 0 to fit 64 bits, found 65 bits"),
        ({"LOG_ACC_BUFF_SIZE": 18}, "to fit 64 bits"),
        ({"LOG_INP_BUFF_SIZE": 3}, "room for one INP element"),
        ({"LOG_ACC_WIDTH": 2}, "at least as wide as inputs"),
        ({"LOG_ACC_WIDTH": 2, "LOG_INP_WIDTH": 1}, "at least as wide as weights, found 4 and 8"),
        ({"LOG_ACC_WIDTH": 6}, "LOG_ACC_WIDTH to be an integer in 0..5, found 6"),
        ({"LOG_INP_WIDTH": 0, "LOG_BLOCK": 1}, "INP elements of 1..4096 bytes, found 2 bits"),
        ({"LOG_BLOCK": 7, "LOG_WGT_BUFF_SIZE": 24}, "WGT elements of 1..4096 bytes, found 16384"),
        ({"LOG_INP_BUFF_SIZE": 22}, "at most 65536 INP elements, found 2^18"),
        ({"LOG_WGT_BUFF_SIZE": 19}, "GEMM word 1 to fit 64 bits, found 66 bits"),
        ({"LOG_BLOCK": 10**30}, "LOG_BLOCK to be an integer in 0..31, found 1000000000"),
        ({"LOG_BLOCK": 10**9999}, "found a very large int"),
        ({"LOG_BLOCK": float("nan")}, "found nan"),
        ({"LOG_BLOCK": "4"}, "found '4'"),
        ({"LOG_BLOCK": [4]}, "found [4]"),
        ({"TARGET": 3}, "TARGET to be a string, found 3"),
        ({"TARGET": "zynq"}, "TARGET to be one of sim, intelfocl, tsim, pynq"),
        ({"ALU_MUL": 1}, "ALU_MUL to be true or false, found 1"),
        ({"HW_VER": None}, "HW_VER to be a string, found None"),
        ({"\n": 3}, "unknown '\\n'"),
    ],
)
def test_refusals(change: dict[str, object], text: str) -> None:
    with pytest.raises(VTAError) as caught:
        VTAConfig.from_dict({**KEYS, **change})
    assert caught.value.code == "V004"
    assert text in str(caught.value)


def test_the_class_checks_what_it_is_given() -> None:
    with pytest.raises(VTAError, match=r"V004.*LOG_BLOCK to be an integer in 0\.\.31, found 4\.0"):
        VTAConfig(log_block=4.0)  # type: ignore[arg-type]
    with pytest.raises(VTAError, match=r"V004.*an object with the keys of a config, found list"):
        VTAConfig.from_dict([])  # type: ignore[arg-type]


@given(vta_configs())
def test_depths_and_words_follow_the_formulas(config: VTAConfig) -> None:
    """hw_spec.h, spelled out: log2 depth = log2 buffer bytes + 3 - log2 element bits."""
    lanes, block = config.log_batch + config.log_block, config.log_block
    uop = config.log_uop_buff_size - 5 + 3
    inp = config.log_inp_buff_size - lanes - config.log_inp_width + 3
    wgt = config.log_wgt_buff_size - 2 * block - config.log_wgt_width + 3
    acc = config.log_acc_buff_size - lanes - config.log_acc_width + 3
    logs = {Memory.UOP: uop, Memory.INP: inp, Memory.WGT: wgt, Memory.ACC: acc, Memory.OUT: acc}
    for memory, log in logs.items():
        assert config.depth(memory) == 1 << log
    assert 7 + 1 + uop + (uop + 1) + 14 + 14 <= 64
    assert 2 * (acc + inp + wgt) <= 64
    assert 4 * acc + 3 + 1 + 16 <= 64
    assert acc + max(acc, inp) + wgt <= 32
    assert VTAConfig.from_dict(config.to_dict()) == config


def test_from_json_reads_the_eleven_keys(tmp_path: Path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps({"TARGET": "sim", "HW_VER": "0.0.2", **KEYS, "LOG_BLOCK": 5}))
    config = VTAConfig.from_json(path)
    assert (config.block_in, config.name) == (32, "1x32_i8w8a32_15_15_18_17")


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"", "V006", "a JSON object, found Expecting value: line 1 column 1"),
        (b"{", "V006", "line 1 column 2"),
        (b"[1]", "V006", "a JSON object, found [1]"),
        (b"3", "V006", "found 3"),
        (b'"\xff"', "V006", "UTF-8 text"),
        (b"[" * 100_000, "V006", "nested too deeply"),
        (b'{"LOG_BLOCK": 4, "LOG_BLOCK": 4}', "V006", "each key once, found LOG_BLOCK again"),
        (b'{"LOG_BLOCK": %s}' % (b"9" * 5000), "V006", "Exceeds the limit"),
        (b"{}", "V004", "missing LOG_ACC_BUFF_SIZE"),
        (json.dumps({**KEYS, "LOG_BLOCK": -3}).encode(), "V004", "found -3"),
    ],
)
def test_bad_files_are_one_message(data: bytes, code: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(VTAError) as caught:
        VTAConfig.from_json(path)
    assert (caught.value.code, caught.value.where) == (code, str(path))
    assert text in caught.value.expected + ", found " + caught.value.found


@pytest.mark.parametrize("name", ["none.json", ".", "a\0b"])
def test_unreadable_files(name: str, tmp_path: Path) -> None:
    with pytest.raises(VTAError, match=r"V006.*a readable file"):
        VTAConfig.from_json(str(tmp_path) + "/" + name)


numbers = st.one_of(
    st.integers(-2, 40),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(LETTERS, max_size=3),
)
json_values = st.recursive(
    numbers, lambda inner: st.lists(inner) | st.dictionaries(st.text(LETTERS), inner), max_leaves=8
)


@given(
    base=st.sampled_from([{}, KEYS]),
    change=st.dictionaries(
        st.sampled_from([*KEYS, "TARGET", "HW_VER"]) | st.text(LETTERS), json_values
    ),
)
def test_random_json_gives_a_config_or_one_error(
    base: dict[str, object], change: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "random_config.json"
    path.write_text(json.dumps(base | change))
    with suppress(VTAError):
        config = VTAConfig.from_json(path)
        assert VTAConfig.from_dict(config.to_dict()) == config


@given(st.binary(max_size=60))
def test_random_bytes_are_no_config(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "random.json"
        path.write_bytes(data)
        with pytest.raises(VTAError):
            VTAConfig.from_json(path)


def test_missing_and_unknown_keys_are_one_error() -> None:
    keys = {key: value for key, value in KEYS.items() if key != "LOG_BLOCK"}
    with pytest.raises(VTAError, match=r"unknown A, B; missing LOG_BLOCK"):
        VTAConfig.from_dict({**keys, "B": 1, "A": 2})
