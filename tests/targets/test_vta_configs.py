"""VTA in other configurations: the same integers, and code for machines that lack something."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets.classic_nets import REDUCED, feeds
from nets.int8_nets import quantised_net, with_powers_of_two
from qdq_models import images, models
from quantised_nets import Net
from test_vta_nets import fixed
from test_vta_products import product
from xdsl.dialects.builtin import StringAttr

import byocir
from byocir.evaluate.module import evaluate
from byocir.patterns.targets import targets_of
from byocir.runtime.report_text import explain
from byocir.targets.vta_files import streams
from byocir.vta_sim import AluOp, Memory, Opcode, VTAConfig, decode
from byocir.vta_sim.config import PRESETS

CONFIGS = {
    "batch of 2": "2x16_i8w8a32_15_15_18_17",
    "block of 8": "1x8_i8w8a32_15_14_16_16",
    "block of 32": "1x32_i8w8a32_15_15_18_17",
    "a quarter of INP": "1x16_i8w8a32_15_13_18_17",
    "a quarter of WGT": "1x16_i8w8a32_15_15_16_17",
    "a quarter of ACC": "1x16_i8w8a32_15_15_18_15",
}
FPGA = "pynq"
DIGITS = sorted((Path(__file__).parents[2] / "examples" / "digits").glob("digits_*8*.onnx"))
INT8 = next(path for path in DIGITS if path.stem == "digits_int8")
LEVELS = (("graph",), ("tensor",))


def target(config: str, **options: str) -> str:
    given = {**options, "config": config}
    return f"vta{{{' '.join(f'{name}={value}' for name, value in given.items())}}}"


def expect_same(model: bytes | Path, config: str, levels: tuple[str, ...]) -> byocir.Package:
    """Compiles for the default and for another machine, and compares."""
    inputs = inputs_of(model)
    shapes = {name: array.shape for name, array in inputs.items()}
    other = byocir.compile(model, targets=target(config), shapes=shapes, levels=levels)
    found = other.run(inputs, check=True)
    for name, array in outputs_of(model).items():
        assert np.array_equal(found[name], array)
    return other


def inputs_of(model: bytes | Path) -> dict[str, np.ndarray]:
    if isinstance(model, bytes):
        return feeds(model, 3)
    return {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}


@cache
def outputs_of(model: bytes | Path) -> dict[str, np.ndarray]:
    """What the default VTA gives."""
    inputs = inputs_of(model)
    shapes = {name: array.shape for name, array in inputs.items()}
    return byocir.compile(model, targets="vta", shapes=shapes).run(inputs)


def used(package: byocir.Package) -> tuple[Counter[AluOp], set[Memory]]:
    """The operations of the ALU, and the memories that are loaded."""
    operations, loaded = Counter[AluOp](), set[Memory]()
    for code in streams(package.blobs["vta"]).values():
        decoded = decode(code.insns, code.config)
        alu, loads = decoded.opcode == Opcode.ALU, decoded.opcode == Opcode.LOAD
        operations.update(map(AluOp, decoded.columns["alu_opcode"][alu].tolist()))
        loaded |= set(map(Memory, decoded.columns["memory_type"][loads].tolist()))
    return operations, loaded


def test_a_net_gives_the_integers_of_the_default() -> None:
    """A net of a batch of 2; the published design does without what it lacks."""
    expect_same(INT8, CONFIGS["batch of 2"], ("graph",))
    bare = expect_same(INT8, FPGA, ("tensor",))
    assert not bare.report.macs["host"]
    operations, loaded = used(bare)
    assert not operations[AluOp.MUL]
    assert Memory.ACC_8BIT not in loaded


@pytest.mark.parametrize(("channels", "size"), [(16, 20), (40, 12)])
def test_loads_of_bytes_make_no_pool_slower(channels: int, size: int) -> None:
    """Loads of accumulators are the compute module's own time; those of inputs overlap with it."""
    net = Net((1, channels, size, size), per_channel=False)
    sums = net.node("AveragePool", [net.value], kernel_shape=[2, 2], strides=[2, 2])
    model = net.of(net.requantize(sums, net.scale), (1, channels, size // 2, size // 2))
    cycles = dict[str, int]()
    for lacks in ("", "_noacc8"):
        package = expect_same(
            model.SerializeToString(), f"1x16_i8w8a32_15_15_18_17{lacks}", ("tensor",)
        )
        (cycles[lacks],) = (profile.cycles or 0 for profile in package.profile())
    assert 0 < cycles[""] <= cycles["_noacc8"]


@pytest.mark.slow
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("config", [*CONFIGS, FPGA])
def test_all_nets_give_the_integers_of_the_default(config: str, levels: tuple[str, ...]) -> None:
    nets: list[bytes | Path] = [*DIGITS]
    for name in ("ResNet-18", "MobileNetV2"):
        nets += [quantised_net(name, kind, "QDQ", REDUCED) for kind in ("u8s8", "s8s8")]
    for net in nets:
        expect_same(net, CONFIGS.get(config, config), levels)


@given(
    model=models(),
    config=st.sampled_from([*CONFIGS.values(), FPGA, "2x8_i8w8a32_15_14_16_16_nomul_noacc8"]),
    rounding=st.sampled_from(["floor", "half_up", "half_even"]),
    levels=st.sampled_from(LEVELS),
)
@settings(max_examples=settings.default.max_examples // 12)
def test_any_net_gives_the_evaluators_integers(
    model: onnx.ModelProto, config: str, rounding: str, levels: tuple[str, ...]
) -> None:
    package = byocir.compile(model, targets=target(config, rounding=rounding), levels=levels)
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    image = images(shape)[0]
    expected = evaluate(fixed(model, rounding), {"x": image})
    found = package.run({"x": image}, check=True)
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["floor", "half_up", "half_even"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_published_design_takes_powers_of_two_in_whole(
    rounding: str, per_channel: bool
) -> None:
    model = quantised_net("ResNet-18", "symmetric", "QDQ", REDUCED, per_channel=per_channel)
    powers = with_powers_of_two(model)
    package = byocir.compile(powers, targets=target(FPGA, rounding=rounding))
    reference = byocir.compile(powers, targets=f"vta{{rounding={rounding}}}")
    assert not package.report.macs["host"]
    inputs = feeds(powers, 3)
    expected, found = reference.run(inputs), package.run(inputs, check=True)
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


def one_convolution(*, per_channel: bool) -> onnx.ModelProto:
    net = Net((1, 4, 3, 3))
    weight, _ = net.weights((5, 4, 1, 1), per_channel=per_channel, axis=0)
    value = net.requantize(net.node("Conv", [net.value, weight]), net.scale)
    return net.of(value, (1, 5, 3, 3))


def test_scales_of_channels_are_declined_without_products() -> None:
    package = byocir.compile(one_convolution(per_channel=True), targets=target(FPGA))
    (node,) = [node.name for node in package.report.nodes if node.op_type == "Conv"]
    sentence = "rule fails: This VTA has no MUL, so factors are powers of two"
    assert package.report.macs["vta"] == 0
    assert sentence in explain(package.report, node)


def test_weights_of_their_own_for_each_of_a_batch_are_declined() -> None:
    net = Net((2, 3, 12))
    rhs, _ = net.weights((2, 12, 5), per_channel=False, axis=2)
    model = net.of(product(net, net.value, rhs, 12), (2, 3, 5))
    for config, taken in (("1x16_i8w8a32_15_15_18_17", True), (CONFIGS["batch of 2"], False)):
        package = byocir.compile(model, targets=target(config))
        assert (package.report.macs["vta"] > 0) is taken
    (node,) = [node.name for node in package.report.nodes if node.op_type == "MatMul"]
    assert "rule fails: The weights are the same for all of a batch" in explain(
        package.report, node
    )


def test_buffers_that_fit_find_room() -> None:
    """Tiles leave no room for gaps: a pool over [512, 7, 7] with its sums in the middle."""
    net = Net((1, 512, 7, 7))
    pooled = net.requantize(net.node("GlobalAveragePool", [net.value]), net.scale)
    model = net.of(pooled, (1, 512, 1, 1))
    package = byocir.compile(model, targets="vta{rounding=half_even}")
    image = np.random.default_rng(0).normal(0, 3, (1, 512, 7, 7)).astype(np.float32)
    expected = evaluate(fixed(model, "half_even"), {"x": image})
    found = package.run({"x": image}, check=True)
    assert [np.array_equal(found[name], array) for name, array in expected.items()] == [True]


# The option.


def test_a_file_is_read_once_and_kept_by_what_it_says(tmp_path: Path) -> None:
    """A saved module names no file."""
    path = tmp_path / "vta_config.json"
    given = {**VTAConfig(log_batch=1).to_dict(), "TARGET": "pynq", "HW_VER": "0.0.2"}
    del given["ALU_MUL"], given["ACC_8BIT"]
    path.write_text(json.dumps(given))
    name = "2x16_i8w8a32_15_15_18_17_nomul_noacc8"
    model = one_convolution(per_channel=False)
    for options in ({}, {"config": str(path)}):
        targets = "vta" if options else f"vta{{config={path}}}"
        package = byocir.compile(model, targets=targets, **options)
        (code,) = streams(package.blobs["vta"]).values()
        assert code.config.name == name
        (saved,) = targets_of(package.module)
        assert saved.options.data["config"] == StringAttr(name)
    assert byocir.Vta(config=name) == byocir.Vta(config=name, block=16)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_names(name: str) -> None:
    assert byocir.Vta(config=name).machine_config == PRESETS[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"LOG_BLOCK": 3}, "expected GEMM word 1 to fit 64 bits, found"),
        ({"LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 19}, "a micro-op to fit 32 bits, found 33"),
        ({"LOG_UOP_BUFF_SIZE": 17}, "expected GEMM word 0 to fit 64 bits, found 67 bits"),
        ({"LOG_ACC_BUFF_SIZE": 5}, "room for one ACC element in its buffer"),
        ({"LOG_INP_WIDTH": 2, "LOG_INP_BUFF_SIZE": 14}, "8-bit inputs and weights and 32-bit"),
        ({"TARGET": "zynq"}, "expected TARGET to be one of sim, intelfocl"),
    ],
)
def test_a_file_of_no_vta_is_one_message(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**VTAConfig().to_dict(), **change}))
    with pytest.raises(byocir.ByocirError, match="B338") as caught:
        byocir.compile(DIGITS[0], targets=f"vta{{config={path}}}")
    assert message in caught.value.message
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("vta{config=none.json}", "B338", "expected a readable file of UTF-8 text"),
        ("vta{config=zynq}", "B338", "expected a readable file of UTF-8 text"),
        ("vta{config=1x8_i8w8a32_15_15_18_17}", "B338", "that can be encoded, found 1x8_"),
        ("vta{config=3x16_i8w8a32_15_15_18_17}", "B338", "expected powers of two for batch"),
        ("vta{config=pynq block=8}", "B213", "expected block 16 as in config 1x16_i8w8a32"),
        ("vta{config=4}", "B213", "expected option config of target 'vta' as str, found 4"),
    ],
)
def test_other_values_are_one_message(text: str, code: str, message: str) -> None:
    with pytest.raises(byocir.ByocirError, match=code) as caught:
        byocir.compile(DIGITS[0], targets=text)
    assert message in caught.value.message


def test_an_instance_reads_no_file(tmp_path: Path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps(VTAConfig().to_dict()))
    with pytest.raises(byocir.ByocirError, match=r"B338.*expected option config to be sim, "):
        byocir.Vta(config=str(path))
