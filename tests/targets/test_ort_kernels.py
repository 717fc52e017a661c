"""What ONNX Runtime has no kernel for stays on the host, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.ir import Operation

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.frontend.onnx.exporter import export_onnx
from byocir.targets.ort import Ort
from byocir.targets.ort_kernels import not_taken
from byocir.targets.ort_session import Session
from byocir.testing.draft import NARROW, WIDE
from byocir.testing.matches import find_match
from byocir.vendor.engine import NotComputed

POOL = "strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: {}>, kernel_shape = "
POOL += "array<i64: 2>, ceil_mode = 0 : i64"
RESIZE = """graph.resize %0 {{sizes = array<i64: 1, 1, 4>, mode = "{}", exclude_outside = {} : i64,
  coordinate_transformation_mode = "half_pixel", nearest_mode = "floor",
  cubic_coeff_a = -0.75 : f32, extrapolation_value = 0.0 : f32, antialias = 0 : i64}}"""
REVERSED = "graph.reverse_sequence %0, %1 {batch_axis = 1 : i64, time_axis = 0 : i64}"


def seen(op: str, given: str, made: str, constant: str = "") -> str:
    """What keeps an op on the host, as the rule saw it; empty where ONNX Runtime takes it."""
    first = f"%1 = graph.constant {constant}" if constant else ""
    types = f"({given}, {constant.split(' : ')[1][:-1]})" if constant else f"({given})"
    body = f'{first}\n %2 = {op} : {types} -> {made} loc("n")\n func.return %2 : {made}'
    text = f"func.func @main(%0: {given}) -> {made} {{ {body} }}"
    module = parse_module(text, load_context())
    told = not_taken(next(each for each in module.walk() if each.name == op.split()[0]))
    package = byocir.compile(module, targets=[Ort()])
    assert bool(told) == (package.report.regions == [])
    if not told:
        package.run(random_feeds(package.module))
    return told


@pytest.mark.parametrize(
    ("op", "type_", "wanted"),
    [
        ("graph.relu", "3xi64", "i64, for which it has no kernel"),
        ("graph.relu", "3xi32", ""),
        ("graph.acos", "3xf64", "f64, for which it has no kernel"),
        ("graph.cos", "3xf64", ""),
    ],
)
def test_types_without_a_kernel(op: str, type_: str, wanted: str) -> None:
    assert seen(op + " %0", f"tensor<{type_}>", f"tensor<{type_}>") == wanted


@pytest.mark.parametrize(
    ("op", "given", "made", "constant", "wanted"),
    [
        (
            f"graph.max_pool %0 {{{POOL.format('2, 0')}}}",
            "1x1x4xf32",
            "1x1x5xf32",
            "",
            "a pool whose window lies in 2 pads alone",
        ),
        (f"graph.max_pool %0 {{{POOL.format('1, 0')}}}", "1x1x4xf32", "1x1x4xf32", "", ""),
        (
            RESIZE.format("nearest", 1),
            "1x1x2xf32",
            "1x1x4xf32",
            "",
            "exclude_outside with mode nearest",
        ),
        (
            RESIZE.format("cubic", 1),
            "1x1x2xf32",
            "1x1x4xf32",
            "",
            "a cubic Resize of 3 dimensions, [2] of which change",
        ),
        (RESIZE.format("linear", 0), "1x1x2xf32", "1x1x4xf32", "", ""),
        (
            REVERSED,
            "3x2xf32",
            "3x2xf32",
            "#graph.array<[3, 4] : tensor<2xi64>>",
            "a sequence of length 4 in 3 steps",
        ),
        (REVERSED, "3x2xf32", "3x2xf32", "#graph.array<[3, 1] : tensor<2xi64>>", ""),
    ],
)
def test_attributes_and_values(op: str, given: str, made: str, constant: str, wanted: str) -> None:
    assert seen(op, f"tensor<{given}>", f"tensor<{made}>", constant) == wanted


@pytest.mark.parametrize("type_", ["f16", "f32"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize("op", ["scatter_elements", "scatter_nd"])
def test_scatters_that_fail_when_they_are_run(op: str, reduction: str, type_: str) -> None:
    text = f"graph.{op} %0, %1, %0 {{{'axis = 0 : i64, ' * (op == 'scatter_elements')}"
    text += f'reduction = "{reduction}"}}'
    shape, indices = ("3", "3xi64") if op == "scatter_elements" else ("3", "3x1xi64")
    given = f"tensor<{shape}x{type_}>"
    module = parse_module(
        f"""func.func @main(%0: {given}) -> {given} {{
  %1 = graph.constant #graph.array<[2, 0, 0] : tensor<{indices}>>
  %2 = {text} : ({given}, tensor<{indices}>, {given}) -> {given}
  func.return %2 : {given}
}}""",
        load_context(),
    )
    package = byocir.compile(module, targets=[Ort()])
    fails = type_ == "f16" and (reduction in ("add", "mul") or op == "scatter_nd")
    assert (package.report.regions == []) == (fails and reduction != "none")
    package.run(random_feeds(package.module))


# Slow: all ops in all types, on the ONNX Runtime that is installed.

NAMES = "FLOAT DOUBLE FLOAT16 BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"
TYPES = [TensorProto.DataType.Value(name) for name in NAMES.split()]
WITHOUT_A_NAME = ("graph.foreign", "graph.if", "graph.loop", "graph.scan")


def examples() -> Iterator[tuple[str, onnx.ModelProto]]:
    """By op a few models whose values have different types."""
    for composite in (each.of_target("ort") for each in Ort().composites()):
        count = Counter[str]()
        for seed in range(30):
            found = find_match(composite, 1000 + seed, WIDE if seed % 3 else NARROW)
            if found is None or found.root.name in WITHOUT_A_NAME:
                continue
            first = str([value.type for value in found.root.operands][:1])
            count[first] += 1
            if count[first] <= 2:
                yield found.root.name, export_onnx(found.module)


def retyped(model: onnx.ModelProto, old: int, new: int) -> onnx.ModelProto:
    """The model with values of one element type in another."""
    made, dtype = onnx.ModelProto(), helper.tensor_dtype_to_np_dtype(new)
    made.CopyFrom(model)
    for port in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if port.type.tensor_type.elem_type == old:
            port.type.tensor_type.elem_type = new
    constants = [a.t for n in made.graph.node for a in n.attribute if a.HasField("t")]
    for array in (*made.graph.initializer, *constants):
        if array.data_type == old:
            with np.errstate(all="ignore"):
                values = numpy_helper.to_array(array).astype(dtype)
            array.CopyFrom(numpy_helper.from_array(values, array.name))
    return made


def variants(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    ports = (*model.graph.input, *model.graph.output)
    there = {p.type.tensor_type.elem_type for p in ports}
    there |= {array.data_type for array in model.graph.initializer}
    for old in sorted(there):
        yield from (retyped(model, old, new) for new in TYPES)


def first_op(model: onnx.ModelProto, name: str) -> tuple[Operation | None, onnx.ModelProto | None]:
    """The op of that name, read from the model, and the model that goes to ONNX Runtime."""
    try:
        module = byocir.import_onnx(model)
        return next((op for op in module.walk() if op.name == name), None), export_onnx(module)
    except ByocirError:
        return None, None


@pytest.mark.slow
def test_the_table_is_what_the_installed_one_refuses() -> None:
    wrong = list[str]()
    for name, example in examples():
        for model in variants(example):
            op, region = first_op(model, name)
            if op is None or region is None or not_taken(op):
                continue
            try:
                Session(region)
            except NotComputed as error:
                types = ", ".join(str(value.type) for value in (*op.operands, *op.results))
                wrong.append(f"{name} {types}: {error}")
    assert wrong == []
