"""Models at the edges of ONNX through the whole compiler: no elements, no dimensions, numbers that
are not finite, names of any letters, values that are no arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.dialects.graph import ConstantOp, ForeignOp, Graph, GraphOp
from byocir.errors import ByocirError
from byocir.patterns import Composite, op, wildcard
from byocir.patterns.nodes import AnyOperandsPattern

node = helper.make_node
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@dataclass(frozen=True)
class Everything(byocir.Target):
    """Takes whatever there is, by name alone."""

    name: ClassVar[str] = "everything"
    patterns: ClassVar[tuple[Composite, ...]] = tuple(
        Composite(kind.name.removeprefix("graph."), (AnyOperandsPattern(kind.name),))
        for kind in Graph.operations
        if issubclass(kind, GraphOp | ForeignOp) and kind is not ConstantOp
    )


def port(name: str, shape: Any = (2, 3), element: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    *nodes: onnx.NodeProto,
    inputs: Sequence[onnx.ValueInfoProto] = (port("x"),),
    outputs: Sequence[onnx.ValueInfoProto] = (port("y", None),),
    **weights: Any,
) -> onnx.ModelProto:
    arrays = [numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items()]
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


WAYS: dict[str, dict[str, Any]] = {
    "evaluator": {"targets": ()},
    "a target that takes all": {"targets": [Everything()]},
    "json": {"targets": "json"},
}


def check(made: onnx.ModelProto, feeds: Mapping[str, Any], expected: Sequence[Any]) -> None:
    """On each way the outputs are these, without a warning."""
    for way, options in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = byocir.compile(made, **options).run(feeds)
        for value, wanted in zip(found.values(), expected, strict=True):
            np.testing.assert_array_equal(value, wanted, err_msg=way, strict=True)


@pytest.mark.parametrize("name", ["模型", "a/b:0", "é", 'a "ü"', "%0", "int", "\n", "1"])
def test_names_of_any_letters(name: str, tmp_path: Path):
    made = model(node("Relu", [name], ["y"], name=name), inputs=[port(name)])
    check(made, {name: X}, [np.maximum(X, 0)])
    for way, options in WAYS.items():
        byocir.compile(made, **options).save(tmp_path / "model.bpkg")
        saved = byocir.load(tmp_path / "model.bpkg", targets=options.get("targets", ()))
        np.testing.assert_array_equal(saved.run({name: X})["y"], np.maximum(X, 0), err_msg=way)


def test_names_that_differ_in_signs_only():
    made = model(
        node("Relu", ["a.b"], ["y.a"], name="n"),
        node("Neg", ["a/b"], ["y/a"], name="n"),
        inputs=[port("a.b"), port("a/b")],
        outputs=[port("y.a"), port("y/a")],
    )
    check(made, {"a.b": X, "a/b": X}, [np.maximum(X, 0), -X])


def test_one_value_under_several_names():
    made = model(
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["b"]),
        node("Relu", ["x"], ["c"]),
        outputs=[port(name) for name in ("a", "b", "c", "x")],
    )
    check(made, {"x": X}, [np.maximum(X, 0)] * 3 + [X])


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("Relu", (0, 3), np.zeros((0, 3))),
        ("ReduceSum", (2, 0), np.zeros((1, 1))),
        ("ReduceProd", (2, 0), np.ones((1, 1))),
        ("ReduceMax", (2, 0), np.full((1, 1), -np.inf)),
        ("Softmax", (0, 3), np.zeros((0, 3))),
        ("Transpose", (0, 3), np.zeros((3, 0))),
        ("Relu", (), np.ones(())),
        ("ReduceSum", (), np.ones(())),
    ],
)
def test_no_elements_and_no_dimensions(kind: str, shape: tuple[int, ...], expected: np.ndarray):
    made = model(node(kind, ["x"], ["y"]), inputs=[port("x", shape)])
    check(made, {"x": np.ones(shape, np.float32)}, [expected.astype(np.float32)])


def test_a_mean_of_nothing_is_zero_and_no_reason_to_warn():
    """ONNX leaves open what it is; numpy's warning is of no use to who runs a model."""
    made = model(node("ReduceMean", ["x"], ["y"]), inputs=[port("x", (2, 0))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(made, {"x": np.zeros((2, 0), np.float32)}, [np.zeros((1, 1), np.float32)])


def test_a_product_over_nothing_is_zero():
    made = model(node("MatMul", ["x", "w"], ["y"]), inputs=[port("x", (3, 0)), port("w", (0, 4))])
    feeds = {"x": np.zeros((3, 0), np.float32), "w": np.zeros((0, 4), np.float32)}
    check(made, feeds, [np.zeros((3, 4), np.float32)])


@pytest.mark.parametrize("sizes", [(0, 16, 8), (1, 0, 8), (1, 16, 0)])
def test_a_quantised_convolution_of_nothing(sizes: tuple[int, int, int]):
    """No images, no channels to sum over, none to compute: no target needs to think of it."""
    images, channels, out = sizes
    grid = ["s", "z"]
    made = model(
        node("QuantizeLinear", ["x", *grid], ["q"]),
        node("DequantizeLinear", ["q", *grid], ["d"]),
        node("DequantizeLinear", ["w", *grid], ["wd"]),
        node("Conv", ["d", "wd"], ["c"]),
        node("QuantizeLinear", ["c", *grid], ["cq"]),
        node("DequantizeLinear", ["cq", *grid], ["y"]),
        inputs=[port("x", (images, channels, 2, 2))],
        w=np.ones((out, channels, 1, 1), np.int8),
        s=np.float32(0.5),
        z=np.int8(0),
    )
    feeds = {"x": np.ones((images, channels, 2, 2), np.float32)}
    expected = np.full((images, out, 2, 2), channels / 2, np.float32)
    for targets in ("vta", "json"):
        found = byocir.compile(made, targets=targets).run(feeds)["y"]
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("alpha", [np.inf, -np.inf, np.nan])
def test_slopes_that_are_not_finite(alpha: float):
    """They meet negative numbers only: no product of zero and infinity shows."""
    x = np.array([2, 0, -3], np.float32)
    expected = np.array([2, 0, -3 * alpha], np.float32)
    for made in (
        model(node("LeakyRelu", ["x"], ["y"], alpha=alpha), inputs=[port("x", (3,))]),
        model(node("PRelu", ["x", "a"], ["y"]), inputs=[port("x", (3,))], a=np.float32(alpha)),
    ):
        check(made, {"x": x}, [expected])


STRINGS = np.array([["a", "é"], ["", "b"]], object)


def test_strings_cross_into_a_region():
    """How many bytes they are nobody knows before."""
    ports = [port(name, (2, 2), TensorProto.STRING) for name in ("x", "y")]
    made = model(node("Transpose", ["x"], ["y"]), inputs=ports[:1], outputs=ports[1:])
    package = byocir.compile(made, targets=[Everything()])
    assert [(region.bytes, region.nodes) for region in package.report.regions] == [
        (0, ["Transpose_0"])
    ]
    np.testing.assert_array_equal(package.run({"x": STRINGS})["y"], STRINGS.T)


SEQUENCE = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, (2, 3))
OPTIONAL = helper.make_value_info(
    "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3)))
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (X, "expected a list of tensor<2x3xf32> for input 's', found ndarray"),
        ([X, X[0]], "expected tensor<2x3xf32> for input 's', at 1, found 3 of float32"),
        (None, "expected a list of tensor<2x3xf32> for input 's', found NoneType"),
    ],
)
def test_what_is_no_list_is_no_sequence(given: Any, message: str):
    made = model(node("ConcatFromSequence", ["s"], ["y"], axis=0), inputs=[SEQUENCE])
    package = byocir.compile(made, targets=())
    np.testing.assert_array_equal(package.run({"s": (X, -X)})["y"], np.concatenate([X, -X]))
    with pytest.raises(ByocirError, match="B310") as caught:
        package.run({"s": given})
    assert caught.value.message == message


def test_what_may_be_absent_is_of_its_type_if_it_is_not():
    made = model(
        node("OptionalHasElement", ["o"], ["y"]),
        inputs=[OPTIONAL],
        outputs=[port("y", (), TensorProto.BOOL)],
    )
    package = byocir.compile(made, targets=())
    assert [bool(package.run({"o": given})["y"]) for given in (X, None)] == [True, False]
    with pytest.raises(ByocirError, match=r"B310.*for input 'o', found 3 of float32"):
        package.run({"o": X[0]})


@pytest.mark.parametrize("feeds", [{1: X}, {None: X}, {"z": X}, {"x": X, (): X}])
def test_feeds_of_no_input(feeds: dict[Any, Any]):
    package = byocir.compile(model(node("Relu", ["x"], ["y"])), targets=())
    with pytest.raises(ByocirError, match=r"B310.*expected feeds for the inputs x, found"):
        package.run(feeds)


def test_feeds_of_a_model_without_inputs():
    made = model(node("Constant", [], ["y"], value_floats=[1.0]), inputs=[])
    package = byocir.compile(made, targets=())
    with pytest.raises(ByocirError, match=r"B310.*expected feeds for no inputs, found 'x'"):
        package.run({"x": X})


def test_an_input_with_a_value_in_the_model_is_that_constant():
    made = model(node("Mul", ["x", "w"], ["y"]), inputs=[port("x"), port("w", (3,))], w=X[0])

    @dataclass(frozen=True)
    class Npu(byocir.Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = (
            Composite("npu.mul", (op("graph.mul", wildcard(), wildcard()),)),
        )

    package = byocir.compile(made, targets=[Npu()])
    assert list(package.inputs) == ["x"]
    np.testing.assert_array_equal(package.run({"x": X})["y"], X * X[0])
