"""Bad models give one ByocirError that names the place, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import one_node

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.frontend.onnx import import_onnx

X = np.ones((1, 2, 4, 4), np.float32)


def fails(
    model: Any, code: str, message: str, shapes: dict[str, Sequence[int]] | None = None
) -> ByocirError:
    with pytest.raises(ByocirError) as caught:
        import_onnx(model, shapes=shapes)
    assert caught.value.code == code
    assert message in caught.value.message
    return caught.value


def test_files(tmp_path: Path) -> None:
    error = fails(tmp_path / "none.onnx", "B101", "expected a file, found nothing")
    assert error.where.endswith("none.onnx")
    fails(str(tmp_path), "B101", "expected a file, found a folder")
    fails(b"", "B102", "found no graph")
    fails(b"not a model at all", "B102", "found other bytes")
    path = tmp_path / "empty.onnx"
    path.touch()
    assert fails(path, "B102", "found no graph").where == str(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated(share: float) -> None:
    content = one_node("Add", {"x": X}, {"w": X}).SerializeToString()
    with pytest.raises(ByocirError) as caught:
        import_onnx(content[: int(len(content) * share)])
    assert caught.value.code in ("B102", "B103", "B104")


def test_every_cut_and_flip_is_one_error() -> None:
    """Whatever a file holds, there is a module or a ByocirError."""
    content = bytearray(one_node("Conv", {"x": X}, {"w": X[:, :, :2, :2]}).SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        try:
            import_onnx(bytes(damaged))
        except ByocirError as error:
            assert error.code.startswith("B10")  # noqa: PT017


def test_invalid() -> None:
    model = one_node("Relu", {"x": X})
    model.graph.node[0].input[0] = "missing"
    fails(model, "B103", "expected a valid model, found")


def test_missing_external_data(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = one_node("Add", {"x": X}, {"w": X})
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    fails(path.read_bytes(), "B103", "found external data")
    (tmp_path / "w.bin").unlink()
    error = fails(path, "B103", "expected a file 'w.bin' beside the model, found none (tensor 'w')")
    assert error.where == str(path)


def test_external_data_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(X.nbytes))
    folder = tmp_path / "inside"
    folder.mkdir()
    model = one_node("Add", {"x": X}, {"w": X})
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    proto = onnx.load(folder / "m.onnx", load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../secret.bin"
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    fails(folder / "m.onnx", "B103", "expected a location inside the model's folder")


def test_opset() -> None:
    model = one_node("Relu", {"x": X})
    model.opset_import[0].version = 99
    error = fails(model, "B104", "expected opset 1 to")
    assert "older opset" in error.help


@pytest.mark.parametrize("model", [None, 3, ["m.onnx"]])
def test_what_is_no_model(model: Any) -> None:
    found = f"expected a path, bytes or an onnx.ModelProto, found {type(model).__name__}"
    fails(model, "B101", found)
    with pytest.raises(ByocirError, match="B101"):
        byocir.compile(model)


def test_bytes_of_any_kind() -> None:
    content = one_node("Relu", {"x": X}).SerializeToString()
    for made in (content, bytearray(content), memoryview(content)):
        assert "graph.relu" in str(import_onnx(made))  # type: ignore[arg-type]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(tmp_path / ("m" * 300 + ".onnx"), "B101", "found: File name too long")
    path = tmp_path / "m.onnx"
    onnx.save(one_node("Relu", {"x": X}), path)

    def refuse(path: Path, mode: str) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    fails(path, "B101", "expected a file that can be read, found: Permission denied")


def test_external_data_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = one_node("Add", {"x": X}, {"w": np.ones(X.shape, np.float32)})
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)

    def refuse(*_: object) -> np.ndarray:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "memmap", refuse)
    fails(path, "B103", "expected a file that can be read, found: Permission denied (tensor 'w')")


def test_invalid_models_are_told_in_whole_sentences() -> None:
    model = one_node("Relu", {"x": X})
    model.graph.node[0].input[0] = "late"
    model.graph.node.append(helper.make_node("Neg", ["x"], ["late"]))
    error = fails(model, "B103", "is not output of any previous nodes")
    assert "\n" not in str(error.message)
    model = one_node("Relu", {"x": X}, alpha=3)
    assert fails(model, "B103", "Unrecognized attribute: alpha").where == (
        "model, node 'node' (Relu)"
    )


def test_unknown_operator() -> None:
    model = one_node("Relu", {"x": X})
    model.graph.node[0].op_type = "Rellu"
    error = fails(model, "B105", "expected an operator of ONNX, found Rellu")
    assert error.where == "node 'node' (Rellu)"


@pytest.mark.parametrize(
    ("op_type", "weights", "attributes", "message"),
    [
        ("Softmax", {}, {"axis": 4}, "expected axis from -4 to 3, found 4"),
        ("Add", {"w": (3,)}, {}, "expected shapes that broadcast, found 1x2x4x4 and 3"),
        ("MatMul", {"w": (3, 3)}, {}, "expected inner dimensions to agree"),
        ("Flatten", {}, {"axis": 7}, "expected axis from -4 to 4, found 7"),
        ("MaxPool", {}, {"kernel_shape": [2]}, "expected 2 kernel_shape, found 1"),
        ("MaxPool", {}, {"kernel_shape": [2], "auto_pad": "SAME_UPPER"}, "of 2 dimensions"),
        ("MaxPool", {}, {"kernel_shape": [0, 2]}, "expected kernel_shape >= 1"),
        ("Gemm", {"w": (4, 4)}, {}, "expected matrices"),
    ],
)
def test_values(
    op_type: str, weights: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    arrays = {name: np.ones(shape, np.float32) for name, shape in weights.items()}
    names = ["x", *arrays]
    node = helper.make_node(op_type, names, ["y"], name="here", **attributes)
    assert fails(_unchecked(node, arrays), "B105", message).where == f"node 'here' ({op_type})"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([-1, -1], "expected at most one -1"),
        ([5, -1], "expected a shape of 32 elements"),
        ([0, 0, 0, 0, 0], "expected zeros only for dimensions of the input"),
    ],
)
def test_reshape(shape: list[int], message: str) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    fails(_unchecked(node, {"s": np.array(shape, np.int64)}), "B105", message)


# -- shapes


def dynamic(*shape: int | str | None) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["image"], ["y"])],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ((1, 1), "expected shape [batch, 1, ?] for input 'image', found [1, 1]"),
        ((1, 2, 3), "expected shape [batch, 1, ?] for input 'image', found [1, 2, 3]"),
        ((0, 1, 3), "found [0, 1, 3]"),
        ((-1, 1, 3), "found [-1, 1, 3]"),
    ],
)
def test_wrong_pins(pin: tuple[int, ...], message: str) -> None:
    fails(dynamic("batch", 1, None), "B106", message, {"image": pin})


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_have_a_help(size: int) -> None:
    error = fails(dynamic("batch", 1), "B106", f"found [{size}, 1]", {"image": (size, 1)})
    assert error.help.startswith("a size is 1 or more")


@pytest.mark.parametrize("pin", [("batch", 1, 3), "1,1,3", (1.0, 1, 3), 3, None])
def test_pins_are_integers(pin: Any) -> None:
    words = "expected integers as the shape of input 'image', found "
    error = fails(dynamic("batch", 1, None), "B106", words + repr(pin), {"image": pin})
    assert "shapes={" in error.help


def test_pins_are_a_mapping() -> None:
    shapes: Any = [("image", (1, 1, 3))]
    fails(dynamic("batch", 1, None), "B106", "expected a mapping of names to shapes", shapes)


def test_numpy_integers_are_sizes() -> None:
    shape = np.array([2, 1, 3])
    module = import_onnx(dynamic("batch", 1, None), shapes={"image": shape})  # type: ignore[dict-item]
    assert "tensor<2x1x3xf32>" in str(module)


def test_inputs_of_open_size_say_how_to_pin_them() -> None:
    with pytest.raises(ByocirError, match=r"B106.*found 'image' \[batch, 1, \?\]") as caught:
        random_feeds(import_onnx(dynamic("batch", 1, None)))
    assert "--shape image=1,1,1 or shapes=" in caught.value.help


def test_one_name_has_one_size() -> None:
    error = fails(dynamic("n", "n"), "B106", "found [2, 3]", {"image": (2, 3)})
    assert error.help == "'n' is 2 in another dimension"


def test_pins_of_unknown_inputs() -> None:
    error = fails(dynamic("batch", 1), "B106", "found one for 'imgae'", {"imgae": (1, 1)})
    assert error.help == "did you mean 'image'?"


def _unchecked(
    node: onnx.NodeProto,
    weights: dict[str, np.ndarray],
    element: int = TensorProto.FLOAT,
    result: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model whose shapes onnx need not accept."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, X.shape)],
        [helper.make_tensor_value_info("y", result, ["?"])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def weights(gates: int, hidden: int = 2, inputs: int = 3) -> dict[str, np.ndarray]:
    shapes = {"w": (1, gates * hidden, inputs), "r": (1, gates * hidden, hidden)}
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("clip", [{}, {"clip": 1.0}], ids=["core", "foreign"])
def test_recurrent_weights_of_other_sizes(kind: str, gates: int, clip: dict[str, float]) -> None:
    """Than the attributes say; be it in our core set or not."""
    feeds = {"x": np.zeros((2, 1, 3), np.float32)}

    def model(weights: dict[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
        return one_node(kind, feeds, weights, **clip, **attributes)

    right = weights(gates)
    import_onnx(model(right, hidden_size=2))
    rows = f"1x{gates * 5}x3 for hidden_size 5, found 1x{gates * 2}x3"
    fails(model(right, hidden_size=5), "B105", f"expected W of {rows}")
    fails(model({**right, "w": weights(gates, 3)["w"]}, hidden_size=2), "B105", "expected W of")
    fails(model(weights(gates, inputs=4), hidden_size=2), "B105", "expected W of")
    bias = {"b": np.zeros((1, 5), np.float32)}
    fails(model(right | bias, hidden_size=2), "B105", f"expected B of 1x{4 * gates} for hidden")
    fails(model(right, hidden_size=2, direction="bidirectional"), "B105", "expected W of 2x")


@pytest.mark.parametrize(
    ("weight", "attributes", "message"),
    [
        ((3, 2, 3, 3), {"kernel_shape": [2, 2]}, "kernel_shape [3, 3] as the weight has, found"),
        ((4, 2, 3, 3), {"group": 3}, "expected an input of 2 x 3 channels, found 2"),
        ((4, 3, 3, 3), {}, "expected an input of 3 x 1 channels, found 2"),
        ((3, 1, 3, 3), {"group": 2}, "expected outputs in 2 groups, found 3"),
    ],
)
def test_convolutions_of_other_sizes(
    weight: tuple[int, ...], attributes: dict[str, Any], message: str
) -> None:
    w = {"w": np.zeros(weight, np.float32)}
    fails(one_node("Conv", {"x": X}, w, **attributes), "B105", message)


@pytest.mark.parametrize(
    ("op_type", "weights", "attributes", "message"),
    [
        ("ConvTranspose", [(3, 2, 3, 3)], {}, "an input of 3 channels, found 2"),
        ("ConvTranspose", [(2, 2, 3, 3)], {"kernel_shape": [3, 2]}, "as the weight has, found"),
        ("ConvTranspose", [(2, 2, 3, 3)], {"group": 3}, "expected inputs in 3 groups, found 2"),
        ("ConvTranspose", [(2, 2, 3, 3)], {"output_padding": [0]}, "2 output_padding, found 1"),
        ("ConvTranspose", [(2, 2, 3, 3), (3,)], {}, "expected a bias of [2], found [3]"),
        ("BatchNormalization", [(3,)] * 4, {}, "expected inputs of [2], one number for each"),
        ("InstanceNormalization", [(2,), (1,)], {}, "expected inputs of [2], one number for each"),
        ("GroupNormalization", [(2,), (2,)], {"num_groups": 3}, "in 3 groups, found 2"),
        ("LayerNormalization", [(4,)], {"axis": 2**62}, "an axis of 4 dimensions, found 4611"),
        ("LayerNormalization", [(3,)], {}, "expected scale to broadcast to [1, 2, 4, 4]"),
        ("LayerNormalization", [(4,), (5,)], {}, "expected bias to broadcast to [1, 2, 4, 4]"),
        ("PRelu", [(3,)], {}, "expected slope to broadcast to [1, 2, 4, 4], found [3]"),
        ("Softmax", [], {"axis": 2**62}, "an axis of 4 dimensions, found 4611"),
        ("LogSoftmax", [], {"axis": -6}, "an axis of 4 dimensions, found -6"),
        ("Hardmax", [], {"axis": 2**62}, "an axis of 4 dimensions, found 4611"),
        ("LpNormalization", [], {"axis": 4}, "an axis of 4 dimensions, found 4"),
    ],
)
def test_attributes_that_contradict_shapes(
    op_type: str, weights: Sequence[Sequence[int]], attributes: dict[str, Any], message: str
) -> None:
    arrays = {f"w{i}": np.ones(shape, np.float32) for i, shape in enumerate(weights)}
    node = helper.make_node(op_type, ["x", *arrays], ["y"], name="here", **attributes)
    assert fails(_unchecked(node, arrays), "B105", message).where == f"node 'here' ({op_type})"


def test_what_gemm_adds_broadcasts() -> None:
    arrays = {"b": np.ones((4, 3), np.float32), "c": np.ones(4, np.float32)}
    model = one_node("Gemm", {"x": np.ones((2, 4), np.float32)}, arrays)
    fails(model, "B105", "expected C to broadcast to [2, 3], found [4]")
