"""Operators on quantised tensors that ONNX Runtime adds in its domain com.microsoft.

ONNX has no schemas of them, so that their signatures are written here; ONNX Runtime alone says what
they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import defs, helper

from onnx_fuzz.draft import Draft, Unfit
from onnx_fuzz.rules.matrices import matrix_sizes
from onnx_fuzz.rules.registry import rule
from onnx_fuzz.rules.windows import image, kernel_for, window

DOMAIN = "com.microsoft"

TYPES: Mapping[str, Sequence[str]] = {
    "bool": ["bool"],
    "bytes": ["int8", "uint8"],
    "bytes2": ["int8", "uint8"],
    "float": ["float"],
    "floats": ["float", "float16"],
    "int": ["int32"],
    "octets": ["uint8"],
    "words": ["int8", "uint8", "int16", "uint16"],
}
"""Maps the letters of signatures to the types of inputs."""

_ONE = "X:bytes x_scale:float x_zero_point:bytes? y_scale:float y_zero_point:bytes?"
_TWO = (
    "A:bytes A_scale:float A_zero_point:bytes? B:bytes B_scale:float B_zero_point:bytes? "
    "C_scale:float C_zero_point:bytes?"
)
_WINDOW = {
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "count_include_pad": 0,
    "kernel_shape": [1],
    "pads": [0],
    "strides": [1],
}

SIGNATURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "DynamicQuantizeMatMul": (
        "A:float B:bytes b_scale:float b_zero_point:bytes? bias:float? -> float",
        {},
    ),
    "MatMulIntegerToFloat": (
        "A:bytes B:bytes2 a_scale:float b_scale:float a_zero_point:bytes? b_zero_point:bytes2? "
        "bias:float? -> float",
        {},
    ),
    "MatMulNBits": (
        "A:float B:octets scales:float zero_points:octets? -> float",
        {"K": 0, "N": 0, "bits": 4, "block_size": 0},
    ),
    "DequantizeLinear": ("x:words x_scale:floats x_zero_point:words? -> floats", {"axis": 1}),
    "QGemm": (
        "A:bytes a_scale:float a_zero_point:bytes B:bytes2 b_scale:float b_zero_point:bytes2 "
        "C:int? y_scale:float? y_zero_point:bytes? -> bytes",
        {"alpha": 1.0, "transA": 0, "transB": 0},
    ),
    "QLinearAdd": (f"{_TWO} -> bytes", {}),
    "QLinearAveragePool": (f"{_ONE} -> bytes", _WINDOW),
    "QLinearConcat": ("Y_scale:float Y_zero_point:bytes inputs:bytes* -> bytes", {"axis": 0}),
    "QLinearGlobalAveragePool": (f"{_ONE.replace('?', '')} -> bytes", {}),
    "QLinearLeakyRelu": (f"{_ONE} -> bytes", {"alpha": 0.01}),
    "QLinearMul": (f"{_TWO} -> bytes", {}),
    "QLinearSigmoid": (f"{_ONE} -> bytes", {}),
    "QLinearSoftmax": (f"{_ONE} -> bytes", {"axis": -1, "opset": 13}),
    "QLinearWhere": (
        "condition:bool X:bytes x_scale:float x_zero_point:bytes Y:bytes y_scale:float "
        "y_zero_point:bytes z_scale:float z_zero_point:bytes -> bytes",
        {},
    ),
    "QuantizeLinear": ("x:floats y_scale:floats y_zero_point:words? -> words", {"axis": 1}),
}
"""By operator: inputs with their types, `?` behind those that may be left out, `*` behind the last
if there are any number of it, and the type of the result; attributes with their defaults."""


def _schema(name: str, signature: str, attributes: Mapping[str, Any]) -> defs.OpSchema:
    inputs, output = signature.split(" -> ")
    named = (each.split(":") for each in inputs.split())
    used = sorted({each.split(":")[-1].rstrip("?*") for each in [*inputs.split(), output]})
    return defs.OpSchema(
        name,
        DOMAIN,
        1,
        inputs=[_formal(each, kind) for each, kind in named],
        outputs=[defs.OpSchema.FormalParameter("Y", output)],
        type_constraints=[(kind, [f"tensor({t})" for t in TYPES[kind]], "") for kind in used],
        attributes=[
            defs.OpSchema.Attribute(each, helper.make_attribute(each, value))
            for each, value in attributes.items()
        ],
    )


def _formal(name: str, kind: str) -> defs.OpSchema.FormalParameter:
    options = defs.OpSchema.FormalParameterOption
    option = {"?": options.Optional, "*": options.Variadic}.get(kind[-1], options.Single)
    return defs.OpSchema.FormalParameter(name, kind.rstrip("?*"), param_option=option)


SCHEMAS = {f"{DOMAIN}.{name}": _schema(name, *said) for name, said in SIGNATURES.items()}
"""By operator with its domain."""


def grid(
    d: Draft, scale: str, zero: str, low: float = 0.01, high: float = 0.2, least: float = 0.0
) -> None:
    """Adds a scale and a zero point, which may be left out where it is so much less than
    `least`."""
    d.put(scale, d.draws.array(np.dtype(np.float32), (), low, high), 0.9)
    if not d.maybe(least):
        d.put(zero, d.draws.array(d.bind(zero), ()), 0.9)


@rule(*(f"{DOMAIN}.QLinear{kind}" for kind in ("LeakyRelu", "Sigmoid", "Softmax")))
def of_one(d: Draft) -> None:
    x = d.take("X", rank=(1, 4))
    grid(d, "x_scale", "x_zero_point", least=0.2)
    grid(d, "y_scale", "y_zero_point", 0.004, 0.1)
    if d.has("axis"):
        d.axis(x.ndim)
        d.attributes["opset"] = d.draws.one([11, 13, 13])
    if d.has("alpha"):
        d.attr("alpha", d.draws.one([0.0, 0.1, 0.5, -0.2]), 0.01)


@rule(f"{DOMAIN}.QLinearGlobalAveragePool", f"{DOMAIN}.QLinearAveragePool")
def pool(d: Draft) -> None:
    x = image(d, "X", least=4)
    grid(d, "x_scale", "x_zero_point")
    grid(d, "y_scale", "y_zero_point", 0.01, 0.3)
    if not d.has("kernel_shape"):
        return
    kernel = kernel_for(d, x.shape[2:])
    d.attributes["kernel_shape"] = kernel
    window(d, x.shape[2:], kernel)


@rule(f"{DOMAIN}.QLinearAdd", f"{DOMAIN}.QLinearMul")
def of_two(d: Draft) -> None:
    x = d.take("A")
    grid(d, "A_scale", "A_zero_point", least=0.1)
    d.take("B", shape=d.draws.broadcast(x.shape))
    grid(d, "B_scale", "B_zero_point", least=0.1)
    grid(d, "C_scale", "C_zero_point", 0.1, 2, least=0.1)


@rule(f"{DOMAIN}.QLinearWhere")
def where(d: Draft) -> None:
    x = d.take("X")
    grid(d, "x_scale", "x_zero_point")
    d.take("Y", shape=d.draws.broadcast(x.shape))
    grid(d, "y_scale", "y_zero_point")
    d.take("condition", shape=d.draws.broadcast(x.shape))
    grid(d, "z_scale", "z_zero_point")


@rule(f"{DOMAIN}.QLinearConcat")
def concat(d: Draft) -> None:
    grid(d, "Y_scale", "Y_zero_point")
    dtype, first = d.bind("Y_zero_point"), d.draws.shape(1, 4)
    axis = d.axis(len(first))
    for _ in range(d.draws.upto(3)):
        shape = [d.draws.upto(4) if i == axis else size for i, size in enumerate(first)]
        d.put("inputs", d.draws.array(dtype, shape))
        d.use("inputs", d.hold(d.draws.array(np.dtype(np.float32), (), 0.01, 0.2), 1.0))
        d.use("inputs", d.hold(d.draws.array(dtype, ()), 1.0))


@rule(f"{DOMAIN}.QGemm")
def qgemm(d: Draft) -> None:
    rows, depth, columns = matrix_sizes(d)
    trans_a, trans_b = (d.attr(name, d.draws.upto(1, 0), 0) for name in ("transA", "transB"))
    d.take("A", shape=[depth, rows] if trans_a else [rows, depth])
    grid(d, "a_scale", "a_zero_point")
    d.take("B", shape=[columns, depth] if trans_b else [depth, columns])
    grid(d, "b_scale", "b_zero_point")
    if d.maybe():
        d.take("C", shape=[columns], low=-500, high=500)
    if d.maybe(0.8):
        grid(d, "y_scale", "y_zero_point", 0.2, 4)
    d.attr("alpha", d.draws.one([0.5, 2.0]), 1.0)


@rule(f"{DOMAIN}.MatMulIntegerToFloat", f"{DOMAIN}.DynamicQuantizeMatMul")
def product_as_float(d: Draft) -> None:
    rows, depth, columns = matrix_sizes(d)
    d.take("A", shape=[*d.draws.shape(0, 2, 3), rows, depth])
    b = d.take("B", shape=[depth, columns])
    if d.has_input("a_scale"):
        grid(d, "a_scale", "a_zero_point", least=0.3)
    shape = (columns,) if d.maybe() else ()
    d.put("b_scale", d.draws.array(np.dtype(np.float32), shape, 0.01, 0.2), 0.9)
    if d.maybe(0.7):
        d.put("b_zero_point", d.draws.array(b.dtype, shape), 0.9)
    if d.maybe():
        d.take("bias", shape=[columns])


@rule(f"{DOMAIN}.MatMulNBits")
def product_of_few_bits(d: Draft) -> None:
    rows, depth, columns = matrix_sizes(d)
    bits, size = d.attr("bits", d.draws.one([4, 8]), 4), d.draws.one([16, 32])
    blocks = -(-depth // size)
    d.attributes.update(K=depth, N=columns, block_size=size)
    d.take("A", shape=[rows, depth])
    octets = np.dtype(np.uint8)
    d.put("B", d.draws.array(octets, (columns, blocks, size * bits // 8)), 1.0)
    d.put("scales", d.draws.array(np.dtype(np.float32), (columns * blocks,), 0.01, 0.2), 1.0)
    if d.maybe():
        d.put("zero_points", d.draws.array(octets, (columns * -(-blocks * bits // 8),)), 1.0)


@rule(f"{DOMAIN}.QuantizeLinear", f"{DOMAIN}.DequantizeLinear")
def convert(d: Draft) -> None:
    scale, zero = (
        ("y_scale", "y_zero_point") if d.has_input("y_scale") else ("x_scale", "x_zero_point")
    )
    x = d.take("x")
    shape: tuple[int, ...] = ()
    if x.ndim and d.maybe():
        shape = (x.shape[d.axis(x.ndim)],)
    d.left_out.add("axis")
    if 0 in shape:
        raise Unfit
    numbers = d.draws.rng.choice([0.5, 0.25, 0.1, 0.031], shape)
    d.put(scale, np.asarray(numbers, d.bind(scale)), 0.9)
    if d.maybe(0.8):
        d.put(zero, d.draws.array(d.bind(zero), shape, 0, 5), 0.9)
