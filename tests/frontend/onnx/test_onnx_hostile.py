"""Hostile and broken models: one message each, little memory, no code run, no other file read."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from unchecked_models import call, doubling, function, model, node, numbers, port

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError

HUGE = 2**40
BEYOND = 2**50
"""More than any machine can address."""
PEAK = 2**26
"""The most bytes that refusing a model may take: none here has a file of that size."""

CONV_SHAPE = (1, 4, 8, 8)


def raw(dims: Sequence[int], content: bytes, element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model that adds a weight of these dimensions and bytes."""
    weight = onnx.TensorProto(name="w", data_type=element, dims=dims, raw_data=content)
    return model(node("Add", ["x", "w"], ["y"]), weights=[weight])


def conv(**attributes: Any) -> onnx.ModelProto:
    kernel = numbers("w", np.ones((2, 4, 1, 1)), np.float32)
    made = node("Conv", ["x", "w"], ["y"], **attributes)
    return model(made, inputs=[port("x", CONV_SHAPE)], weights=[kernel])


def with_input(op_type: str, values: Any, **attributes: Any) -> onnx.ModelProto:
    """A node on the input and a constant of integers."""
    made = node(op_type, ["x", "c"], ["y"], **attributes)
    return model(made, weights=[numbers("c", values)])


def chain(depth: int) -> onnx.ModelProto:
    functions = [function(f"F{i}", call(f"F{i + 1}", "a", "b")) for i in range(depth)]
    last = function(f"F{depth}", node("Relu", ["a"], ["b"]))
    return model(call("F0", "x", "y"), functions=[*functions, last])


def sparse(dims: Sequence[int], index: int) -> onnx.ModelProto:
    made = onnx.SparseTensorProto(dims=dims)
    made.values.CopyFrom(numbers("w", [1], np.float32))
    made.indices.CopyFrom(numbers("at", [index]))
    changed = model(node("Add", ["x", "w"], ["y"]))
    changed.graph.sparse_initializer.append(made)
    return changed


def reference_outside() -> onnx.ModelProto:
    changed = model(node("Softmax", ["x"], ["y"]))
    attribute = onnx.AttributeProto(name="axis", ref_attr_name="k", type=onnx.AttributeProto.INT)
    changed.graph.node[0].attribute.append(attribute)
    return changed


def nested(depth: int) -> bytes:
    """The bytes of a model with an If in an If in an If; protobuf itself cannot write them."""

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *length, size]) + content

    def tagged(number: int, value: int) -> bytes:
        return bytes([number << 3, value])

    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph)
        made = field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute)
        graph = field(1, made) + field(2, b"g")
    return tagged(1, 10) + field(7, graph) + field(8, tagged(2, 21))


RELU = node("Relu", ["x"], ["y"])
TWO_VALUES = onnx.TensorProto(
    name="w", data_type=TensorProto.FLOAT, dims=[1], float_data=[1], raw_data=b"0000"
)

BROKEN: dict[str, tuple[onnx.ModelProto | bytes, str, str]] = {
    # -- what is no model
    "zeros": (bytes(10_000), "B102", "other bytes"),
    "gzip": (b"\x1f\x8b\x08\0" + bytes(100), "B102", "other bytes"),
    "json": (b'{"irVersion": "8", "graph": {}}', "B102", "other bytes"),
    "cut off": (model(RELU).SerializeToString()[:60], "B102", "expected an ONNX model"),
    "nested too deep": (nested(1000), "B102", "other bytes"),
    "names that are no text": (
        model(node("Relu", ["x"], ["y"], name="zzzz"))
        .SerializeToString()
        .replace(b"zzzz", b"\xff\xfez\x80"),
        "B102",
        "expected names in UTF-8",
    ),
    # -- graphs
    "cycle": (
        model(
            node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Neg", ["b"], ["y"])
        ),
        "B103",
        "input 'b' of node",
    ),
    "cycle of one": (model(node("Add", ["x", "y"], ["y"])), "B103", "input 'y' of node"),
    "value made twice": (model(RELU, node("Neg", ["x"], ["y"])), "B103", "'y' has been used"),
    "input twice": (model(RELU, inputs=[port("x"), port("x")]), "B103", "'x' has been used"),
    "weight twice": (
        model(
            node("Add", ["x", "w"], ["y"]),
            weights=[numbers("w", [1], np.float32), numbers("w", [2], np.float32)],
        ),
        "B103",
        "w initializer name is not unique",
    ),
    "output of nothing": (model(node("Relu", ["x"], ["z"])), "B103", "'y' is not an output"),
    "output of another type": (
        model(RELU, output=TensorProto.INT64),
        "B103",
        "expected an output of i64, as the model says, found f32",
    ),
    "input of no type": (model(RELU, inputs=[port("x", (1,), 99)]), "B105", "found type 99"),
    "input of negative size": (model(RELU, inputs=[port("x", (-4, 2))]), "B105", "[-4, 2]"),
    "operands of two types": (with_input("Add", [1]), "B105", "found f32 and i64"),
    # -- operators and attributes
    "unknown operator": (model(node("Reluu", ["x"], ["y"])), "B105", "found Reluu"),
    "unknown domain": (model(node("Relu", ["x"], ["y"], domain="no")), "B103", "domain 'no'"),
    "unknown attribute": (model(node("Relu", ["x"], ["y"], speed=3)), "B103", "speed"),
    "attribute of another type": (
        model(node("Softmax", ["x"], ["y"], axis="1")),
        "B103",
        "Expected: 'INT', actual: 'STRING'",
    ),
    "attribute of no function": (reference_outside(), "B103", "found a reference to 'k'"),
    "inputs missing": (model(node("Concat", [], ["y"], axis=0)), "B103", "input size 0"),
    "opset of the future": (model(RELU, opset=2**60), "B104", "found 1152921504606846976"),
    "opset below 0": (model(RELU, opset=-1), "B104", "found -1"),
    # -- functions
    "function that calls itself": (
        model(call("F", "x", "y"), functions=[function("F", call("F", "a", "b"))]),
        "B103",
        "F",
    ),
    "functions that double": (doubling(40), "B103", "found 1,099,511,627,776"),
    "functions in a row": (chain(2000), "B103", "depth exceeds limit"),
    "function that lacks its result": (
        model(call("F", "x", "y"), functions=[function("F", node("Relu", ["a"], ["c"]))]),
        "B105",
        "found 'y'",
    ),
    # -- weights
    "weight without values": (raw([HUGE], b""), "B103", "one and only one value"),
    "weight of few bytes": (raw([HUGE], b"0000"), "B103", "4398046511104 bytes required"),
    "weight of an overflowing size": (raw([2**62, 2**62], b"0000"), "B103", "overflow"),
    "weight of a negative size": (raw([-2, -2], bytes(16)), "B103", "Negative dimension"),
    "large weight of negative sizes": (raw([-64, -64], bytes(2**14)), "B103", "(tensor 'w')"),
    "large weight of few bytes": (raw([4000], bytes(2**13)), "B103", "(tensor 'w')"),
    "weight of an odd byte": (raw([4], bytes(17)), "B105", "expected a complete tensor"),
    "weight of no type": (raw([1], b"0000", 99), "B105", "numbers or strings"),
    "weight of two values": (
        model(node("Add", ["x", "w"], ["y"]), weights=[TWO_VALUES]),
        "B103",
        "one and only one value",
    ),
    "huge sparse weight": (sparse([HUGE], 0), "B105", "expected a sparse tensor of at most"),
    "sparse index outside": (sparse([4], 9), "B103", "out of range"),
    "sparse index below 0": (sparse([4], -1), "B103", "out of range"),
    # -- attributes that make no sense
    "stride 0": (conv(strides=[0, 0]), "B105", "expected strides >= 1"),
    "dilation 0": (conv(dilations=[0, 0]), "B105", "expected dilations >= 1"),
    "negative pad": (conv(pads=[-9, 0, 0, 0]), "B105", "expected pads >= 0"),
    "three pads": (conv(pads=[1, 1, 1]), "B105", "expected 4 pads, found 3"),
    "huge window": (
        model(
            node("MaxPool", ["x"], ["y"], kernel_shape=[HUGE, HUGE]),
            inputs=[port("x", CONV_SHAPE)],
        ),
        "B105",
        "expected sizes of at least 0",
    ),
    "reshape to too many": (with_input("Reshape", [2**62, 2**62]), "B105", "of 4 elements"),
    "split into many": (
        model(node("Split", ["x"], ["y"], axis=1, num_outputs=HUGE)),
        "B105",
        "expected 1099511627776 outputs, found 1",
    ),
    "more than there are": (with_input("TopK", [HUGE]), "B103", "output size"),
    "recurrence of matrices": (
        model(
            node("LSTM", ["x", "x", "x"], ["y"], hidden_size=HUGE),
        ),
        "B105",
        "expected operands of rank 3",
    ),
    "negative size of a constant": (
        model(
            node("ConstantOfShape", ["c"], ["z"]),
            node("Add", ["x", "z"], ["y"]),
            weights=[numbers("c", [-5])],
        ),
        "B105",
        "expected sizes of at least 0, found [-5]",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models(name: str) -> None:
    made, code, message = BROKEN[name]
    content = made if isinstance(made, bytes) else made.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(ByocirError) as caught:
            byocir.compile(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (caught.value.code, message in caught.value.message) == (code, True), caught.value
    assert "\n" not in caught.value.message
    assert peak < PEAK


def test_the_command_prints_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    for made, code, _ in list(BROKEN.values())[::7]:
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        assert main(["compile", str(path)]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("error["), "Traceback" in err) == ("", 1, False)
        assert f"error[{code}]" in err


def constant(op_type: str, *values: Any, element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A node on constants only."""
    names = [f"c{i}" for i in range(len(values))]
    weights = [onnx.numpy_helper.from_array(np.array(v), n) for v, n in zip(values, names)]  # noqa: B905
    return model(node(op_type, names, ["y"]), weights=weights, output=element)


BOMBS = {
    "constant of shape": constant("ConstantOfShape", [BEYOND, 4]),
    "range": constant("Range", 0, BEYOND, 1, element=TensorProto.INT64),
    "endless range": constant("Range", 0, 5, 0, element=TensorProto.INT64),
    "expand": constant("Expand", np.int32(1), [BEYOND, 4], element=TensorProto.INT32),
    "tile": constant("Tile", np.array([1], np.int32), [BEYOND], element=TensorProto.INT32),
    "pad": constant("Pad", np.array([1], np.int32), [0, BEYOND], element=TensorProto.INT32),
}
"""Models that are valid, or nearly so, and say no more than numbers."""


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_be_huge_is_not_made(name: str) -> None:
    code = "B312" if name == "endless range" else "B140.*for what"
    tracemalloc.start()
    try:
        with pytest.raises(ByocirError, match=code):
            byocir.compile(BOMBS[name]).run({"x": np.ones((1, 4), np.float32)})
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


def test_an_index_outside_is_found_when_it_is_used() -> None:
    package = byocir.compile(constant("Gather", [1, 2], [7], element=TensorProto.INT64))
    with pytest.raises(ByocirError, match="B303"):
        package.run({"x": np.ones((1, 4), np.float32)})


def test_a_one_hot_deeper_than_memory_is_refused() -> None:
    values = np.array([0, 1], np.int32)
    with pytest.raises(ByocirError, match="B140"):
        byocir.compile(constant("OneHot", [1], BEYOND, values, element=TensorProto.INT32))


def test_random_inputs_fit_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(RELU, inputs=[port("x", (HUGE, HUGE))]), path)
    assert main(["run", str(path)]) == 1
    assert "error[B140]: expected at most" in capsys.readouterr().err


EXTERNAL: dict[str, tuple[dict[str, str], str]] = {
    "absolute": ({"location": "/etc/passwd"}, "expected a location inside the model's folder"),
    "up": ({"location": "../secret"}, "expected a location inside the model's folder"),
    "up from inside": ({"location": "a/../../secret"}, "inside the model's folder"),
    "of windows": ({"location": "C:\\secret"}, "inside the model's folder"),
    "empty": ({"location": ""}, "inside the model's folder"),
    "null": ({"location": "a\0b"}, "inside the model's folder"),
    "link": ({"location": "link"}, "found link 'link'"),
    "folder that is a link": ({"location": "folder/secret"}, "found link"),
    "hard link": ({"location": "hard"}, "found hard link 'hard'"),
    "folder": ({"location": "real"}, "expected a file 'real' beside the model"),
    "nothing": ({"location": "none"}, "expected a file 'none' beside the model"),
    "beyond the end": ({"location": "w", "offset": "8"}, "found 8"),
    "far beyond": ({"location": "w", "offset": "9" * 30, "length": "16"}, "expected a file of"),
    "below 0": ({"location": "w", "offset": "-4"}, "expected offset of the external data as a"),
    "no number": ({"location": "w", "length": "0x10"}, "expected length of the external data"),
    "too short": ({"location": "w", "length": "4"}, "expected 16 bytes of values, found 4"),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data(name: str, tmp_path: Path) -> None:
    entries, message = EXTERNAL[name]
    folder = tmp_path / "model"
    (folder / "real").mkdir(parents=True)
    for path in (tmp_path / "secret", folder / "w"):
        path.write_bytes(np.ones(4, np.float32).tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    os.link(tmp_path / "secret", folder / "hard")
    made = raw([4], b"")
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ByocirError) as caught:
        byocir.import_onnx(folder / "m.onnx")
    assert caught.value.code == "B103"
    assert message in caught.value.message


def test_names_are_only_names(tmp_path: Path) -> None:
    """Quotes, braces and line ends of names survive text, and are no MLIR."""
    from byocir.dialects.text import parse_module, print_module

    name = '"}\n\t%0 = '
    made = model(node("Relu", [name], ["y"], name=name), inputs=[port(name)])
    module = byocir.import_onnx(made)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    package = byocir.compile(made)
    assert list(package.inputs) == [name]
    x = np.array([[-1, 0, 1, 2]], np.float32)
    np.testing.assert_array_equal(package.run({name: x})["y"], np.maximum(x, 0))
