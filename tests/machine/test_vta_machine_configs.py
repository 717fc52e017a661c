"""VTA as a description, in other sizes: the integers of the default one, on both simulators."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from nets.int8_nets import with_powers_of_two
from quantised_nets import Net
from test_vta_machine import EXAMPLE, expect_equal, has_words, pooled
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.errors import ByocirError
from byocir.targets.vta_files import streams
from byocir.vta_sim import DEFAULT_CONFIG, AluOp, Opcode, VTAConfig, decode

CONFIGS = {
    "block of 8": "1x8_i8w8a32_15_14_16_16",
    "block of 32": "1x32_i8w8a32_15_15_18_17",
    "a quarter of INP": "1x16_i8w8a32_15_13_18_17",
    "a quarter of WGT": "1x16_i8w8a32_15_15_16_17",
    "a quarter of ACC": "1x16_i8w8a32_15_15_18_15",
    "no loads of bytes": replace(DEFAULT_CONFIG, acc_8bit=False).name,
}
NO_MUL = replace(DEFAULT_CONFIG, alu_mul=False).name


def residual_net(inputs: int = 16, channels: int = 32, side: int = 5) -> onnx.ModelProto:
    """Two convolutions, the second of which is added to the first."""
    net = Net((1, inputs, side, side), per_channel=False)
    first = net.conv(net.value, (inputs, channels))
    total = net.add(first, net.conv(first, (channels, channels)))
    return net.of(total, (1, channels, side, side))


def one_layer() -> onnx.ModelProto:
    net = Net((1, 16, 4, 4), per_channel=False)
    return net.of(net.conv(net.value, (16, 16), 1), (1, 16, 4, 4))


LATER = "a quarter of INP", "a quarter of WGT"
QUICK = [
    pytest.param(name, id=name, marks=[pytest.mark.slow] if name in LATER else [])
    for name in CONFIGS
]


def net_for(name: str) -> ModuleOp:
    """A net of several blocks, one that is larger than the memory that is small, or one whose pool
    would load bytes."""
    if name == "no loads of bytes":
        return pooled("GlobalAveragePool", 16, 6, {})
    large = {
        "a quarter of INP": (64, 96, 8),
        "a quarter of WGT": (64, 96, 8),
        "a quarter of ACC": (16, 32, 24),
    }
    return byocir.import_onnx(residual_net(*large.get(name, (32, 64))))


@pytest.mark.parametrize("name", QUICK)
def test_every_size_gives_the_same_integers(name: str) -> None:
    package = expect_equal(net_for(name), None, config=CONFIGS[name])
    assert package.report.macs["host"] == 0
    assert has_words(package)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_size_gives_the_same_digits(config: str) -> None:
    path = Path(EXAMPLE).parent / "digits" / "digits_int8.onnx"
    module = byocir.import_onnx(str(path), shapes={"image": (1, 1, 8, 8)})
    assert expect_equal(module, None, config=config).report.macs["host"] == 0


def test_loads_of_bytes_make_no_net_slower() -> None:
    """Cycles compare where both machines take all of a net: those of the host are not counted."""
    module, cycles = byocir.import_onnx(residual_net(side=8)), dict[str, int]()
    for config in (DEFAULT_CONFIG.name, CONFIGS["no loads of bytes"]):
        target = f"{EXAMPLE}:Vta16{{config={config}}}"
        package = byocir.compile(module.clone(), targets=[target], levels=["tensor"])
        (cycles[config],) = (profile.cycles or 0 for profile in package.profile())
    assert 0 < cycles[DEFAULT_CONFIG.name] <= cycles[CONFIGS["no loads of bytes"]]


def test_a_file_gives_the_sizes_of_a_machine(tmp_path: Path) -> None:
    path, name = tmp_path / "vta_config.json", CONFIGS["a quarter of INP"]
    config = VTAConfig.from_name(name)
    assert config is not None
    path.write_text(json.dumps(config.to_dict()))
    package = byocir.compile(one_layer(), targets=[f"{EXAMPLE}:Vta16{{config={path}}}"])
    (blobs,) = package.blobs.values()
    interfaces = [json.loads(blob) for file, blob in blobs.items() if file.endswith(".json")]
    assert interfaces
    assert all(each["config"] == config.to_dict() for each in interfaces)


def test_without_products_in_its_alu_it_shifts() -> None:
    """Factors that are no powers of two keep a net on the host, and it is said why."""
    model = residual_net()
    powers = byocir.import_onnx(with_powers_of_two(model.SerializeToString()))
    package = expect_equal(powers, None, config=NO_MUL)
    assert package.report.macs["host"] == 0
    for each in streams(package.blobs["vta16"]).values():
        words = decode(each.insns)
        products = words.columns["alu_opcode"] == AluOp.MUL
        assert not (products & (words.opcode == Opcode.ALU)).any()
    target = f"{EXAMPLE}:Vta16{{config={NO_MUL}}}"
    report = byocir.partition(byocir.import_onnx(model), [target], levels=["tensor"])
    assert not any(each.taken for each in report.decisions)
    reasons = [each.reason for each in report.decisions]
    assert any(re.search(r"none does (x \* \d+|\d+ \* x) of i32", reason) for reason in reasons)


def test_vectors_of_several_images_are_refused() -> None:
    expected = "expected a VTA of batch 1 for a described machine, found 2x16"
    target = f"{EXAMPLE}:Vta16{{config=2x16_i8w8a32_15_15_18_17}}"
    with pytest.raises(ByocirError, match=expected) as error:
        byocir.partition(byocir.import_onnx(one_layer()), targets=[target])
    assert error.value.code == "B270"
