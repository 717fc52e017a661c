"""The `json` target: what it emits, what it takes, how its runtime treats kernels and damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_programs import program_of, same_bits
from safetensors.numpy import load as load_safetensors

import byocir
from byocir.dialects.types import f32
from byocir.evaluate.module import evaluate
from byocir.patterns import block, composite, constant, op, optional, wildcard
from byocir.targets.json import KERNELS, JsonTarget, Step, json_runner

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 1, 8, 8)}


def compiled(target: Any, model: str = "digits_f32.onnx", **options: Any) -> byocir.Package:
    return byocir.compile(DIGITS / model, targets=target, shapes=SHAPES, **options)


@pytest.fixture(scope="module")
def package() -> byocir.Package:
    return compiled("json")


def expected(model: str = "digits_f32.onnx") -> dict[str, np.ndarray]:
    return evaluate(byocir.import_onnx(DIGITS / model, shapes=SHAPES), IMAGE)


# What is emitted.


def test_a_whole_model_runs_from_a_saved_package(package: byocir.Package, tmp_path: Path):
    package.save(tmp_path / "digits.bpkg")
    assert same_bits(byocir.load(tmp_path / "digits.bpkg").run(IMAGE), expected())
    assert package.report.macs["host"] == 0


def test_weights_are_beside_the_program_each_once(package: byocir.Package):
    program = program_of(package)
    arrays = load_safetensors(package.blobs["json"]["constants.safetensors"])
    assert set(arrays) == set(program["constants"])
    for digest, array in arrays.items():
        assert list(array.shape) == program["constants"][digest]["shape"]
    used = [v["constant"] for f in program["functions"] for v in f["values"] if "constant" in v]
    assert sorted(used) == sorted(arrays)
    text = package.blobs["json"]["program.json"].decode()
    for array in arrays.values():
        assert str(float(array.flat[0])) not in text


def test_a_step_says_what_it_came_from_and_in_which_order_constants_are_used():
    program = program_of(compiled(ConvNpu()), "convs")
    first = program["functions"][0]["steps"][0]
    assert (first["composite"], first["level"]) == ("convs.conv_relu", "graph")
    assert first["nodes"] == ["/stem/conv/Conv", "/relu/Relu"]
    conv, relu = first["steps"]
    assert (conv["op"], conv["nodes"]) == ("graph.conv", ["/stem/conv/Conv"])
    assert first["constants"] == conv["inputs"][1:]
    assert (conv["inputs"][:1], relu["inputs"]) == (first["inputs"], conv["outputs"])
    assert conv["attributes"]["group"] == {"type": "i64", "value": 1}


# What it takes.


def test_what_it_takes_is_an_option():
    assert {c.name for c in byocir_target("json{ops=conv,relu}").composites()} == {
        "json.conv",
        "json.relu",
    }
    like = byocir_target('json{like=vta ops="graph.softmax"}').composites()
    assert [c.name for c in like][:3] == ["json.conv_pool", "json.conv_add", "json.conv"]
    assert like[-1].name == "json.softmax"
    assert all(c.level == "graph" for c in like)
    (one,) = byocir_target('json{like="vta.conv"}').composites()
    assert one.rules[-1].sentence.startswith("Groups of channels")


def byocir_target(text: str):
    from byocir.patterns.targets import composites_of, parse_targets

    (attribute,) = parse_targets(text)

    class Given:
        @staticmethod
        def composites():
            return composites_of(attribute)

    return Given


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("json{ops=convolution}", "did you mean 'conv'?"),
        ('json{like="vta.convs"}', "did you mean 'vta.conv'?"),
        ("json{like=vtaa}", "unknown target 'vtaa'"),
        (
            "json{rounding=up}",
            "expected option rounding of target 'json' as '', floor, half_up, half_even",
        ),
    ],
)
def test_mistyped_options_are_refused(target: str, said: str):
    with pytest.raises(byocir.ByocirError) as error:
        compiled(target)
    assert error.value.code in ("B210", "B213")
    assert said in str(error.value)


# Kernels.


@composite("conv_relu")
def conv_relu():
    conv = op("graph.conv", wildcard("x"), constant("w"), constant("b"), group=1)
    return optional(conv @ "conv", lambda v: op("graph.relu", v))


@dataclass(frozen=True)
class ConvNpu(JsonTarget):
    name, patterns = "convs", (conv_relu,)


def test_a_composite_runs_in_one_go_where_it_has_a_kernel():
    package = compiled(ConvNpu())
    blobs, symbol = package.blobs["convs"], package.report.regions[0].symbol
    seen: list[Step] = []

    def fused(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
        seen.append(step)
        assert [array.shape for array in inputs] == [value.shape for value in step.input_types]
        assert step.steps[0].attributes["group"] == 1
        arrays = inputs
        for inner in step.steps:  # as the evaluator would
            arrays = KERNELS[inner.name](inner, arrays)
        return arrays[0]

    function = next(f for f in program_of(package, "convs")["functions"] if f["symbol"] == symbol)
    shapes = [function["values"][i]["shape"] for i in function["inputs"]]
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    ours = json_runner(blobs, {"convs.conv_relu": fused})(symbol, inputs)
    theirs = json_runner(blobs, KERNELS)(symbol, inputs)
    assert seen
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def run_with(package: byocir.Package, **kernels: Callable[..., Any]) -> byocir.ByocirError:
    named = {f"graph.{name}": kernel for name, kernel in kernels.items()}
    symbol = package.report.regions[0].symbol
    with pytest.raises(byocir.ByocirError) as error:
        json_runner(package.blobs["json"], {**KERNELS, **named})(symbol, list(IMAGE.values()))
    return error.value


def test_a_kernel_that_fails_or_lies_is_told_by_op_and_node(package: byocir.Package):
    failed = run_with(package, relu=lambda step, inputs: 1 / 0)
    assert (failed.code, failed.where) == ("B363", "/relu/Relu")
    assert "graph.relu failed with ZeroDivisionError" in failed.message
    lied = run_with(package, relu=lambda step, inputs: inputs[0][0])
    assert lied.code == "B363"
    assert "gave 16x8x8 of float32, expected 1x16x8x8 of float32" in lied.message
    assert "gave nothing" in run_with(package, relu=lambda step, inputs: []).message


def test_a_missing_kernel_is_told_when_the_program_is_loaded(package: byocir.Package):
    kernels = {name: kernel for name, kernel in KERNELS.items() if name != "graph.relu"}
    with pytest.raises(byocir.ByocirError) as error:
        json_runner(package.blobs["json"], kernels)
    assert (error.value.code, error.value.where) == ("B362", "/relu/Relu")
    assert "kernel for graph.relu" in error.value.message


def test_wrong_calls_are_refused(package: byocir.Package):
    run = json_runner(package.blobs["json"], KERNELS)
    with pytest.raises(byocir.ByocirError, match="did you mean 'json_0'"):
        run("json_O", [])
    with pytest.raises(byocir.ByocirError, match="expected 1 inputs of @json_0, found 0"):
        run("json_0", [])


# Damage.


def damaged(package: byocir.Package, change: Callable[[Any], None]) -> byocir.ByocirError:
    program = program_of(package)
    change(program)
    blobs = {**package.blobs["json"], "program.json": json.dumps(program).encode()}
    with pytest.raises(byocir.ByocirError) as error:
        json_runner(blobs, KERNELS)
    return error.value


def _set(*path: Any) -> Callable[[Any], None]:
    *keys, last, value = path

    def change(program: Any) -> None:
        for key in keys:
            program = program[key]
        program[last] = value

    return change


FIRST = ("functions", 0, "steps", 0)


@pytest.mark.parametrize(
    "change",
    [
        _set("version", 2),
        _set("format", "other"),
        _set("functions", {}),
        _set("functions", [3]),
        _set("constants", {"0" * 32: {"shape": [1], "type": "f32"}}),
        _set("functions", 0, "values", 0, "type", "f33"),
        _set("functions", 0, "values", 0, "shape", [-1]),
        _set("functions", 0, "values", 1, "shape", [7]),
        _set("functions", 0, "outputs", [10**6]),
        _set("functions", 0, "outputs", [-1]),
        _set("functions", 0, "inputs", []),
        _set(*FIRST, "steps", [{}]),
        _set(*FIRST, "outputs", ["0"]),
        _set("functions", 0, "steps", []),
    ],
)
def test_a_program_that_byocir_did_not_write_is_refused(
    package: byocir.Package, change: Callable[[Any], None]
):
    assert damaged(package, change).code == "B361"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_text_that_is_no_program_is_refused(package: byocir.Package, text: bytes):
    blobs = {**package.blobs["json"], "program.json": text}
    with pytest.raises(byocir.ByocirError) as error:
        json_runner(blobs, KERNELS)
    assert error.value.code == "B361"


def test_a_missing_or_changed_file_of_constants_is_refused(package: byocir.Package):
    blobs = dict(package.blobs["json"])
    constants = blobs.pop("constants.safetensors")
    for changed, code in ((None, "B361"), (constants[:-1] + b"?", "B108"), (b"", "B122")):
        given = blobs if changed is None else {**blobs, "constants.safetensors": changed}
        with pytest.raises(byocir.ByocirError) as error:
            json_runner(given, KERNELS)
        assert error.value.code == code


def test_what_has_no_form_in_json_is_refused():
    @composite("relu_block")
    def relu_block():
        return block("*i", wildcard("x", dtype=f32)["*i"], lambda acc, x: x.max(0.0))

    @dataclass(frozen=True)
    class Blocks(JsonTarget):
        name, patterns = "blocks", (relu_block,)

    with pytest.raises(byocir.ByocirError, match=r"found tir\.") as error:
        compiled(Blocks())
    assert error.value.code == "B360"
    assert "/relu/Relu" in error.value.where
