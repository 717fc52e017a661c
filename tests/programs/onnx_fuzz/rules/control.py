"""Operators that hold graphs: If, Loop, Scan. Their graphs add, multiply and compare what they are
given, and what is around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_fuzz.cases import element_of
from onnx_fuzz.draft import Draft
from onnx_fuzz.rules.registry import rule

NUMBERS = ("float32", "float64", "int32", "int64", "float16")
STEPS = ("Add", "Sub", "Mul", "Max", "Min")


class Body:
    """A graph inside of a node, as it grows."""

    def __init__(self, d: Draft, prefix: str) -> None:
        self._d, self._prefix = d, f"n{len(d.case.nodes)}_{prefix}"
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def given(self, dtype: np.dtype, shape: Sequence[int] | None) -> str:
        """Gives a new input."""
        name = self.name()
        self.inputs.append(helper.make_tensor_value_info(name, element_of(dtype), shape))
        return name

    def do(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def step(self, *values: str) -> str:
        """Adds a node on two of the values, or more."""
        made = self._d.draws.one(values)
        for _ in range(self._d.draws.upto(2)):
            made = self.do(self._d.draws.one(STEPS), made, self._d.draws.one(values))
        return made

    def graph(self, outputs: Sequence[tuple[str, np.dtype]]) -> onnx.GraphProto:
        ports = [helper.make_tensor_value_info(name, element_of(t), None) for name, t in outputs]
        return helper.make_graph(self.nodes, self._prefix, self.inputs, ports)


def around(d: Draft, count: int) -> tuple[list[str], np.dtype]:
    """Gives values of the graph around, of one type and shape, made if there are none; and their
    type.
    """
    fits = [
        name
        for name, value in d.case.values.items()
        if not value.is_sequence and value.dtype.name in NUMBERS and value.is_exact
    ]
    if fits and d.maybe(0.7):
        first = d.draws.one(fits)
        value = d.case.values[first]
        dtype, shape = value.dtype, value.data.shape
        names = [
            n
            for n in fits
            if d.case.values[n].dtype == dtype and d.case.values[n].data.shape == shape
        ][:count]
    else:
        dtype, shape = np.dtype(d.draws.one(NUMBERS)), d.draws.shape(0, 3, 60)
        names = []
    while len(names) < count:
        names.append(d.hold(d.draws.array(dtype, shape, *(() if dtype.kind == "f" else (-4, 4)))))
    return names, dtype


@rule("If")
def if_(d: Draft) -> None:
    names, dtype = around(d, 2)
    d.put("cond", np.array(d.maybe()), 0.2)
    outputs = d.draws.upto(2)
    for branch in ("then_branch", "else_branch"):
        body = Body(d, branch[0])
        d.attributes[branch] = body.graph([(body.step(*names), dtype) for _ in range(outputs)])
    d.outputs = outputs


@rule("Loop")
def loop(d: Draft) -> None:
    names, dtype = around(d, 2)
    shape = d.case.values[names[0]].data.shape
    count = d.draws.upto(4, 0)
    if d.maybe(0.85):
        d.put("M", np.array(count, np.int64), 0.6)
    limited = not d.has_operand("M") or d.maybe(0.3)
    if limited or d.maybe(0.3):
        d.put("cond", np.array(not d.maybe(0.1)), 0.6)
    body = Body(d, "b")
    turn, going = body.given(np.dtype(np.int64), []), body.given(np.dtype(np.bool_), [])
    carried = [body.given(dtype, shape) for _ in range(d.draws.upto(2))]
    for name in names[: len(carried)]:
        d.use("v_initial", name)
    on = body.do("Identity", going)
    if limited:
        last = body.do("Constant", value_int=d.draws.upto(3, 0))
        on = body.do("Less", turn, last)
    number = body.do("Cast", turn, to=element_of(dtype))
    results = [body.step(*carried, number, names[-1]) for _ in carried]
    results = [
        body.do("Identity", each) if each in (number, names[-1]) else each for each in results
    ]
    results = [
        body.do("Expand", r, body.do("Constant", value_ints=list(shape))) if shape else r
        for r in results
    ]
    scans = [body.do("Identity", body.step(*carried, number)) for _ in range(d.draws.upto(2, 0))]
    d.attributes["body"] = body.graph(
        [(on, np.dtype(np.bool_)), *((r, dtype) for r in (*results, *scans))]
    )
    d.outputs = len(results) + len(scans)


@rule("Scan")
def scan(d: Draft) -> None:
    dtype = np.dtype(d.draws.one(NUMBERS))
    shape, length = d.draws.shape(0, 2, 20), d.draws.upto(4)
    body = Body(d, "b")
    states = d.draws.upto(2, 0)
    inputs = d.draws.upto(2)
    held = [body.given(dtype, shape) for _ in range(states)]
    given = [body.given(dtype, shape) for _ in range(inputs)]
    name = d.schema.inputs[0].name
    for _ in held:
        d.put(name, d.draws.array(dtype, shape, -3, 3))
    axes = [d.draws.upto(len(shape), -len(shape) - 1) for _ in given]
    axes = d.attr("scan_input_axes", axes, [0] * inputs)
    for axis in axes:
        at = axis + len(shape) + 1 if axis < 0 else axis
        d.put(name, d.draws.array(dtype, [*shape[:at], length, *shape[at:]], -3, 3))
    results = [body.do("Identity", body.step(*held, *given)) for _ in held]
    scans = [
        body.do("Identity", body.step(*held, *given))
        for _ in range(d.draws.upto(2, 0 if held else 1))
    ]
    d.attributes["num_scan_inputs"] = inputs
    d.attr("scan_input_directions", [d.draws.upto(1, 0) for _ in given], [0] * inputs)
    outer = [d.draws.upto(len(shape), -len(shape) - 1) for _ in scans]
    if scans:
        d.attr("scan_output_axes", outer, outer)
        d.attr("scan_output_directions", [d.draws.upto(1, 0) for _ in scans], [0] * len(scans))
    d.left_out |= {"directions", "scan_output_axes", "scan_output_directions"}
    d.attributes["body"] = body.graph([(r, dtype) for r in (*results, *scans)])
    d.outputs = len(results) + len(scans)


@rule("SequenceMap")
def sequence_map(d: Draft) -> None:
    dtype, shape = np.dtype(d.draws.one(NUMBERS)), d.draws.shape(0, 2, 30)
    d.put("input_sequence", [d.draws.array(dtype, shape) for _ in range(d.draws.upto(3))])
    body = Body(d, "b")
    given = [body.given(dtype, None)]
    if d.maybe():
        d.put("additional_inputs", d.draws.array(dtype, shape))
        given.append(body.given(dtype, None))
    d.attributes["body"] = body.graph([(body.do("Identity", body.step(*given)), dtype)])
