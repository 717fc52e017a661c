"""Configs: the table of derived quantities, the JSON keys, and refusals."""

from __future__ import annotations

import pytest

from byocir.vta_sim import Memory, VTAConfig, VTAError

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
        ({"LOG_UOP_BUFF_SIZE": 16}, "GEMM and ALU word 0 to fit 64 bits, found 65 bits"),
        ({"LOG_ACC_BUFF_SIZE": 18}, "to fit 64 bits"),
        ({"LOG_INP_BUFF_SIZE": 3}, "room for one INP element"),
        ({"LOG_ACC_WIDTH": 2}, "at least as wide as inputs"),
        ({"LOG_INP_WIDTH": 0, "LOG_BLOCK": 1}, "elements of at least one byte"),
    ],
)
def test_refusals(change: dict[str, object], text: str) -> None:
    with pytest.raises(VTAError) as caught:
        VTAConfig.from_dict({**KEYS, **change})
    assert caught.value.code == "V004"
    assert text in str(caught.value)


def test_missing_and_unknown_keys_are_one_error() -> None:
    keys = {key: value for key, value in KEYS.items() if key != "LOG_BLOCK"}
    with pytest.raises(VTAError, match=r"unknown A, B; missing LOG_BLOCK"):
        VTAConfig.from_dict({**keys, "B": 1, "A": 2})
