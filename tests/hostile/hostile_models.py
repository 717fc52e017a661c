"""Hostile ONNX models: sizes, graphs, names, types, bytes, functions, weights beside the model."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hostile_cases import Case
from onnx import TensorProto, helper
from unchecked_models import F, call, doubling, function, model, node, numbers, port

I64 = TensorProto.INT64
RELU = node("Relu", ["x"], ["y"])


def on(
    op_type: str,
    *constants: Any,
    inputs: Sequence[Any] | None = None,
    output: int = F,
    **attributes: Any,
) -> onnx.ModelProto:
    """A node on the inputs and then on constants; None is an input that is left out."""
    ports = [port("x")] if inputs is None else inputs
    made = [np.asarray(c) if c is not None else None for c in constants]
    names = [p.name for p in ports] + ["" if c is None else f"c{i}" for i, c in enumerate(made)]
    weights = [
        onnx.numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(made) if c is not None
    ]
    return model(
        node(op_type, names, ["y"], name="big", **attributes),
        inputs=ports,
        weights=weights,
        output=output,
    )


def content(made: onnx.ModelProto | bytes) -> bytes:
    return made if isinstance(made, bytes) else made.SerializeToString()


def compiled(name: str, made: onnx.ModelProto | bytes, code: str = "") -> Case:
    return Case(name, "byocir compile @/m.onnx --target vta", {"m.onnx": content(made)}, code=code)


def run(name: str, made: onnx.ModelProto | bytes, host: str = "reference", code: str = "") -> Case:
    command = f"byocir run @/m.onnx --target vta --host {host}"
    return Case(name, command, {"m.onnx": content(made)}, code=code)


IMAGE = (1, 1, 8, 8)
HUGE = (2**31, 2**40, 2**62)


def _f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _sized(n: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models that make something of `n` elements, or more, from next to nothing."""
    image, column = [port("x", IMAGE)], [port("x", (n, 1))]
    yield "constant of shape", on("ConstantOfShape", [n, 4], inputs=[])
    yield "expand", on("Expand", [n, 4])
    yield "tile", on("Tile", [n, 1])
    yield "range", on("Range", 0, n, 1, inputs=[], output=I64)
    yield "pad", on("Pad", [0, 0, 0, n])
    yield "pad edge", on("Pad", [0, n, 0, 0], mode="edge")
    yield "pad wrap", on("Pad", [0, n, 0, 0], mode="wrap")
    yield "conv pads", on("Conv", _f(1, 1, 3, 3), inputs=image, pads=[n, n, n, n])
    yield (
        "conv pads and strides",
        on("Conv", _f(1, 1, 3, 3), inputs=image, pads=[n] * 4, strides=[n, n]),
    )
    yield "conv dilations", on("Conv", _f(1, 1, 3, 3), inputs=image, pads=[n] * 4, dilations=[n, n])
    yield "max pool pads", on("MaxPool", inputs=image, kernel_shape=[2, 2], pads=[n] * 4)
    yield "max pool kernel", on("MaxPool", inputs=image, kernel_shape=[n, n], pads=[n - 1] * 4)
    yield (
        "average pool kernel",
        on("AveragePool", inputs=image, kernel_shape=[n, n], pads=[n - 1] * 4, strides=[n, n]),
    )
    yield (
        "lp pool kernel",
        on("LpPool", inputs=image, kernel_shape=[n, 1], pads=[n - 1, 0, n - 1, 0]),
    )
    yield (
        "transposed conv strides",
        on("ConvTranspose", _f(1, 1, 2, 2), inputs=image, strides=[n, 1]),
    )
    yield (
        "transposed conv dilations",
        on("ConvTranspose", _f(1, 1, 2, 2), inputs=image, dilations=[n, 1]),
    )
    yield "input", model(RELU, inputs=[port("x", (n, 4))])
    yield "matmul", on("MatMul", inputs=[*column, port("z", (1, n))])
    yield "broadcast", on("Add", inputs=[*column, port("z", (1, n))])
    yield "one hot", on("OneHot", [1], n, np.float32([0, 1]), inputs=[])
    yield "resize", on("Resize", None, None, [1, 1, n, 8], inputs=image)
    yield (
        "resize by scales",
        on("Resize", None, np.float32([1, 1, n, 1]), inputs=image, mode="linear"),
    )
    yield (
        "gather of a slice",
        model(
            node("Expand", ["c", "s"], ["i"]),
            node("Gather", ["x", "i"], ["y"], axis=1),
            weights=[numbers("c", [0]), numbers("s", [n])],
        ),
    )
    yield "random normal", on("RandomNormal", inputs=[], shape=[n, 4])
    yield "random uniform", on("RandomUniform", inputs=[], shape=[n])
    yield "multinomial", on("Multinomial", output=TensorProto.INT32, sample_size=n)
    yield "window", on("HannWindow", n, inputs=[])
    yield "mel weights", on("MelWeightMatrix", 8, n, 16, 1.0, 4.0, inputs=[])
    yield "dft", on("DFT", n, inputs=[port("x", (1, 8, 1))])
    yield "affine grid", on("AffineGrid", [1, 1, n, n], inputs=[port("x", (1, 2, 3))])
    yield (
        "region of interest",
        on("RoiAlign", _f(1, 4), [0], inputs=image, output_height=n, output_width=4),
    )
    yield (
        "unpool",
        on(
            "MaxUnpool", np.zeros(IMAGE, np.int64), [1, 1, n, 16], inputs=image, kernel_shape=[2, 2]
        ),
    )
    yield "crop and pad", on("CenterCropPad", [n, 4])
    yield (
        "unsqueezed outer product",
        model(
            node("Expand", ["x", "s"], ["a"]),
            node("Transpose", ["a"], ["b"]),
            node("MatMul", ["b", "a"], ["y"]),
            inputs=[port("x", (1, 1))],
            weights=[numbers("s", [1, n])],
        ),
    )
    yield (
        "loop",
        model(
            node(
                "Loop",
                ["n", "", "x"],
                ["z", "y"],
                body=helper.make_graph(
                    [
                        node("Identity", ["c"], ["d"]),
                        node("Identity", ["a"], ["b"]),
                        node("Identity", ["a"], ["e"]),
                    ],
                    "body",
                    [port("i", (), I64), port("c", (), TensorProto.BOOL), port("a")],
                    [port("d", (), TensorProto.BOOL), port("b"), port("e")],
                ),
            ),
            inputs=[port("x", (64, 4096))],
            weights=[numbers("n", n)],
        ),
    )


NEVER_ENDS = {"average pool kernel"}
"""What C does in a few bytes, but not in a lifetime."""


def sizes() -> Iterator[Case]:
    """Sizes that no memory holds, or that would take long."""
    for n in HUGE:
        for what, made in _sized(n):
            yield run(f"{what} of 2^{n.bit_length() - 1}", made)
            if n == 2**40 and what not in NEVER_ENDS:
                yield run(f"{what} of 2^40 in C", made, "c")


NAMES = {
    "null": "a\0b",
    "escape": "\x1b[2J\x1b[31m",
    "line": "a\nerror[B000]: forged",
    "bell": "\a\b\x7f",
    "backwards": "\u202egpj.exe",
    "invisible": "a\u200b\u2066b",
    "long": "n" * 8000,
    "long and wide": "\u5927" * 4000,
    "words": "word " * 1600,
}


def names() -> Iterator[Case]:
    """Names that break or flood a terminal."""
    for kind, name in NAMES.items():
        bad = {
            "node": model(node("Conv", ["x", "x"], ["y"], name=name, strides=[0, 0])),
            "operator": model(node(name, ["x"], ["y"])),
            "input": model(RELU, inputs=[port("x"), port(name, (1,), 99)]),
            "value": model(node("Add", ["x", name], ["y"])),
            "attribute": model(node("Relu", ["x"], ["y"], **{name: 1})),
            "domain": model(node("Relu", ["x"], ["y"], domain=name)),
            "weight": model(
                node("Add", ["x", name], ["y"]),
                weights=[onnx.TensorProto(name=name, data_type=F, dims=[4], raw_data=b"1")],
            ),
            "text": on("Einsum", inputs=[port("x")], equation=name),
            "size": model(RELU, inputs=[port("x", [name, 4])]),
        }
        for place, made in bad.items():
            yield run(f"name that is {kind}, of {place}", made)
        good = model(node("Relu", ["x"], ["y"], name=name), inputs=[port("x")])
        yield Case(
            f"name that is {kind}, explained", "byocir explain @/m.onnx", {"m.onnx": content(good)}
        )


def _nested(depth: int) -> onnx.ModelProto:
    """An If in an If in an If."""
    graph = helper.make_graph([node("Identity", ["x"], ["o"])], "g", [], [port("o")])
    for i in range(depth):
        inner = node(
            "If",
            ["c"],
            [f"o{i}"],
            then_branch=graph,
            else_branch=graph
            if i < 6
            else helper.make_graph([node("Identity", ["x"], ["p"])], "g", [], [port("p")]),
        )
        graph = helper.make_graph([inner], "g", [], [port(f"o{i}")])
    return model(
        graph.node[0],
        node("Identity", [f"o{depth - 1}"], ["y"]),
        inputs=[port("x"), port("c", (), TensorProto.BOOL)],
    )


def graphs() -> Iterator[Case]:
    """Graphs that no program is."""
    yield compiled("1,000 dimensions", model(RELU, inputs=[port("x", [1] * 1000)]))
    yield compiled("100,000 dimensions", model(RELU, inputs=[port("x", [1] * 100000)]))
    yield compiled("1,000 huge dimensions", model(RELU, inputs=[port("x", [2**62] * 1000)]))
    yield run("1,000 huge dimensions, run", model(RELU, inputs=[port("x", [2**62] * 1000)]))
    for depth in (8, 20):
        yield compiled(f"If nested {depth} times", _nested(depth))
    for depth in (14, 18, 24, 60):
        yield compiled(f"functions that double {depth} times", doubling(depth))
    circle = [function("F", call("G", "a", "b")), function("G", call("F", "a", "b"))]
    yield compiled("functions in a circle", model(call("F", "x", "y"), functions=circle))
    yield compiled(
        "function twice",
        model(call("F", "x", "y"), functions=[function("F", node("Relu", ["a"], ["b"]))] * 2),
    )
    yield compiled("function of no such name", model(call("F", "x", "y")))
    yield compiled(
        "function of two inputs for one",
        model(
            node("F", ["x", "x", "x"], ["y"], domain="own"),
            functions=[function("F", node("Relu", ["a"], ["b"]))],
        ),
    )
    yield compiled(
        "cycle",
        model(
            node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["y"]), node("Relu", ["y"], ["b"])
        ),
    )
    yield compiled("output of nothing", model(node("Relu", ["x"], ["z"])))
    yield compiled("no nodes", model())
    yield compiled("nothing in, nothing out", helper.make_model(helper.make_graph([], "g", [], [])))
    yield compiled("output without a name", model(node("Relu", ["x"], [""])))
    yield compiled("input without a name", model(RELU, inputs=[port("x"), port("")]))
    yield compiled("value twice", model(RELU, node("Neg", ["x"], ["y"])))
    yield compiled(
        "branch that lacks its result",
        model(
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=helper.make_graph([], "g", [], [port("q")]),
                else_branch=helper.make_graph([], "g", [], [port("q")]),
            ),
            inputs=[port("x"), port("c", (), 9)],
        ),
    )
    yield compiled("If of a number", model(node("If", ["x"], ["y"])))
    yield compiled(
        "10,000 outputs of a split",
        model(node("Split", ["x"], ["y", *(f"o{i}" for i in range(10000))], axis=1)),
    )
    yield compiled("constant without a value", model(node("Constant", [], ["y"])))
    yield compiled(
        "constant of two values",
        model(node("Constant", [], ["y"], value_int=1, value_float=1.0), output=I64),
    )
    for opset in (0, 1, 6, 99, 2**62, -(2**62)):
        yield compiled(f"opset {opset}", model(RELU, opset=opset))
    for element in (0, 8, 14, 15, 16, 17, 22, 24, 99, 2**30):
        yield compiled(f"element type {element}", model(RELU, inputs=[port("x", (1, 4), element)]))
    for shape in ([0], [-1, -1], [-5], [2**63 - 1], [2**63 - 1] * 3, []):
        yield run(f"input of {shape}", model(RELU, inputs=[port("x", shape)]))
    for op_type, attributes in {
        "Softmax": {"axis": 2**62},
        "Concat": {"axis": -(2**62)},
        "Transpose": {"perm": [0, 0]},
        "Flatten": {"axis": 99},
        "LRN": {"size": 2**62},
        "Cast": {"to": 2**30},
        "DepthToSpace": {"blocksize": 2**40},
        "SpaceToDepth": {"blocksize": 0},
        "Gemm": {},
        "ReduceMax": {"keepdims": 2**40},
        "Selu": {"alpha": float("nan")},
        "TopK": {"axis": 5},
        "Einsum": {"equation": "a" * 5000},
        "LSTM": {"hidden_size": 2**62},
        "Shape": {"start": 2**62},
        "EyeLike": {"k": 2**62},
        "Trilu": {"upper": 2**62},
        "CumSum": {"exclusive": 7},
        "GlobalLpPool": {"p": 2**62},
        "LpNormalization": {"p": 0},
        "GroupNormalization": {"num_groups": 0},
        "Dropout": {},
        "Hardmax": {"axis": 2**40},
    }.items():
        yield run(f"{op_type} {str(attributes)[:40]}", on(op_type, **attributes))


CHANGED = "(B10[2-6]|B14[01]|B31[0-3])?"
"""What may be said of bytes that were changed, which may still be a model."""


def bytes_() -> Iterator[Case]:
    """Bytes that are nearly a model."""
    sound = content(on("Add", _f(1, 4)))
    for share in range(1, 10):
        yield compiled(f"cut off at {share} tenths", sound[: len(sound) * share // 10])
    chosen = random.Random(7)
    for i in range(30):
        changed = bytearray(sound)
        for _ in range(1 + i % 3):
            changed[chosen.randrange(len(changed))] = chosen.randrange(256)
        yield run(f"bytes changed, {i}", bytes(changed), code=CHANGED)
    for i in range(10):
        at, junk = chosen.randrange(len(sound)), chosen.randbytes(1 + 7 * i)
        yield compiled(f"bytes put in between, {i}", sound[:at] + junk + sound[at:], CHANGED)
    yield compiled("length beyond the end", b"\x3a\xff\xff\xff\xff\x0f")
    yield compiled("length that overflows", b"\x3a" + b"\xff" * 9 + b"\x01")
    yield compiled("tag 0", b"\0\0")
    yield compiled("groups of protobuf", b"\x3b" * 500)
    yield compiled("two graphs", sound + sound)
    yield compiled("empty", b"")
    yield compiled("random", chosen.randbytes(5000))
    yield compiled("text", b"ir_version: 8 graph { }")
    yield compiled("UTF-16", "model".encode("utf-16") * 100)


def weights() -> Iterator[Case]:
    """Weights that are not what they say."""

    def add(
        dims: Sequence[int], raw: bytes = b"", element: int = F, **fields: Any
    ) -> onnx.ModelProto:
        made = onnx.TensorProto(name="w", data_type=element, dims=dims, **fields)
        if raw:
            made.raw_data = raw
        return model(node("Add", ["x", "w"], ["y"]), weights=[made])

    for dims in ([2**40], [2**62, 2**62], [-2, -2], [2**63 - 1], [0, 2**62], [1] * 1000):
        yield compiled(f"weight of {str(dims)[:30]}", add(dims, b"0000"))
    yield compiled("weight with other values than its type", add([1], int64_data=[1]))
    yield compiled("weight of text", add([1], element=8, string_data=[b"\0\xff"]))
    yield compiled("weight of half a byte", add([3], b"1", 22))
    yield compiled("weight of an odd byte", add([4], bytes(17)))
    for index, dims in ((9, [4]), (-1, [4]), (0, [2**40]), (0, [2**62] * 4), (2**62, [2**63 - 1])):
        sparse = onnx.SparseTensorProto(
            dims=dims, values=numbers("w", [1], np.float32), indices=numbers("i", [index])
        )
        made = model(node("Add", ["x", "w"], ["y"]))
        made.graph.sparse_initializer.append(sparse)
        yield compiled(f"sparse weight of {str(dims)[:30]} at {index}", made)


def _external(**entries: str) -> bytes:
    made = onnx.TensorProto(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return content(model(node("Add", ["x", "w"], ["y"]), weights=[made]))


def external() -> Iterator[Case]:
    """Weights in other files, or in what is none."""
    places = {
        "absolute": {"location": "/etc/passwd"},
        "up": {"location": "../secret"},
        "up from inside": {"location": "a/../../secret"},
        "windows": {"location": "C:\\secret"},
        "empty": {"location": ""},
        "null": {"location": "a\0b"},
        "long": {"location": "w" * 5000},
        "link": {"location": "link"},
        "folder that is a link": {"location": "folder/passwd"},
        "hard link": {"location": "hard"},
        "pipe": {"location": "pipe"},
        "folder": {"location": "real"},
        "nothing": {"location": "none"},
        "device": {"location": "../../dev/zero"},
        "beyond the end": {"location": "w", "offset": "8"},
        "far beyond": {"location": "w", "offset": "9" * 5000, "length": "16"},
        "below 0": {"location": "w", "offset": "-4"},
        "no number": {"location": "w", "length": "0x10"},
        "too short": {"location": "w", "length": "4"},
        "other digits": {"location": "w", "length": "\u0661\u0666"},
        "control characters": {"location": "\x1b[2J"},
    }
    files = {
        "w": bytes(16),
        "real/w": bytes(16),
        "other": bytes(16),
        "link": lambda path: path.symlink_to("/etc/passwd"),
        "folder": lambda path: path.symlink_to("/etc"),
        "hard": lambda path: os.link(path.with_name("other"), path),
        "pipe": os.mkfifo,
    }
    for name, entries in places.items():
        case = compiled(f"external weights: {name}", _external(**entries))
        yield Case(case.name, case.command, {**case.files, **files})


def model_paths() -> Iterator[Case]:
    """What is no file."""
    for name, made in {
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "link to itself": lambda p: p.symlink_to(p),
    }.items():
        yield Case(f"model that is a {name}", "byocir compile @/m.onnx", {"m.onnx": made})
    for path in (
        "/dev/zero",
        "/dev/null",
        "/proc/self/mem",
        "n" * 5000,
        "a\nb.onnx",
        "\x1b[2J.onnx",
        "\udcff.onnx",
    ):
        yield Case(f"model at {ascii(path)[:40]}", "byocir compile", words=(path,))


MODELS = (sizes, names, graphs, bytes_, weights, external, model_paths)
