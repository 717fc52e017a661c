"""Residual sums are done by one instruction that has a factor for each of two arrays of bytes, and
a shift; the factors are numbers of the instruction, or rows of a memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from typing import Any, Literal

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32, i64
from byocir.evaluate.module import evaluate
from byocir.machine import MAIN, Interlocked, Machine, up_to
from byocir.patterns import Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline


def ints(x: Scalar, m: Scalar, then: Callable[[Scalar], Scalar], to: Attribute) -> Scalar:
    low, high = (-128, 127) if to == i8 else (-(1 << 31), (1 << 31) - 1)
    return then(x.to(i64) * m.to(i64)).clamp(low, high).to(to)


def scaled(y: Pattern, name: str, to: Attribute, *ways: Callable[[Scalar], Scalar]) -> Pattern:
    """Integers times a factor, and what is done with that; clamped to a type."""
    read = y["*i"], constant(name, dtype=i32)[""]
    blocks = [block("*i", *read, lambda _, x, m, way=way: ints(x, m, way, to)) for way in ways]
    return reduce(or_, blocks)


def term(name: str) -> Pattern:
    """Bytes times a factor, or as they are, with what their zero point adds."""
    x, zero = wildcard(name, dtype=i8), number(f"zero_{name}")
    plain = block("*i", x["*i"], lambda _, x: x.to(i32) + zero)
    return plain | scaled(x, f"factor_{name}", i32, lambda x: x, lambda x: x + zero)


@composite("adder.add")
def added() -> Pattern:
    """A sum of bytes, rectified, as bytes."""
    y = block("*i", term("x")["*i"], term("y")["*i"], lambda _, x, y: x + y)
    y = optional(y, lambda v: block("*i", v["*i"], lambda _, x: x.max(0)))
    half, shift = number("half"), number("shift")
    y = scaled(y, "factor", i8, lambda x: (x + half) >> shift, lambda x: x + half, lambda x: x)
    return optional(y, lambda v: block("*i", v["*i"], lambda _, x: x.max(number("zero"))))


@cache
def described(in_rows: bool, inside: Attribute) -> Machine:
    """A machine that adds bytes times factors, which lie in rows of a memory or in instructions,
    in integers of a type."""
    machine = Machine("adder")
    dma, post = machine.unit("dma", queue=4), machine.unit("post", queue=4)
    near = machine.memory("near", i8, row=(8,), rows=64, inside_rows=True)
    rows = [machine.memory("factors", i32, row=(8,), rows=8)] if in_rows else []
    machine.order(Interlocked((near, *rows)))
    sizes: dict[str, Any] = {"rows": up_to(4), "lanes": up_to(8)}
    sizes["cycles"] = lambda s: 4 + s["rows"]
    machine.copy("load", MAIN, near, unit=dma, **sizes)
    machine.copy("store", near, MAIN, unit=dma, **sizes)
    for memory in rows:
        machine.copy("load_factors", MAIN, memory, unit=dma, **sizes)

    def scaled_sum(x: Scalar, y: Scalar, f: Scalar, g: Scalar) -> Scalar:
        wide = (x.to(inside) * f + y.to(inside) * g + number("added")) >> number("shift")
        return wide.clamp(number("low"), number("high")).to(i8)

    def numbered(_: Scalar, x: Scalar, y: Scalar) -> Scalar:
        return scaled_sum(x, y, number("f"), number("g"))

    def with_rows(_: Scalar, x: Scalar, y: Scalar, f: Scalar, g: Scalar) -> Scalar:
        return scaled_sum(x, y, f.to(inside), g.to(inside))

    @machine.instruction(post, into=near, strided=("x", "y"), **sizes)
    def add() -> Pattern:
        read = near("x")["rows lanes"], near("y")["rows lanes"]
        factors = [memory(name)["lanes"] for memory in rows for name in "fg"]
        return block("rows lanes", *read, *factors, with_rows if in_rows else numbered)

    return machine


def net(scales: tuple[float, float, float], zeros: tuple[int, int, int], relu: bool) -> str:
    kind, wide = "tensor<3x13xi8>", "tensor<3x13xf32>"
    constants = "\n".join(
        f"  %s{i} = graph.constant #graph.array<[{scale!r}] : tensor<f32>>\n"
        f"  %z{i} = graph.constant #graph.array<[{zero}] : tensor<i8>>"
        for i, (scale, zero) in enumerate(zip(scales, zeros, strict=True))
    )
    given = f"({kind}, tensor<f32>, tensor<i8>) -> {wide}"
    rectified = f"%r = graph.relu %t : ({wide}) -> {wide}" if relu else ""
    return f"""
func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{
{constants}
  %a = graph.dequantize %x, %s0, %z0 {{axis = 1 : i64}} : {given}
  %b = graph.dequantize %y, %s1, %z1 {{axis = 1 : i64}} : {given}
  %t = graph.add %a, %b : ({wide}, {wide}) -> {wide}
  {rectified}
  %q = graph.quantize {"%r" if relu else "%t"}, %s2, %z2 {{axis = 1 : i64}} : ({wide}, tensor<f32>, tensor<i8>) -> {kind}
  func.return %q : {kind}
}}
"""  # noqa: E501


SCALES = st.floats(2.0**-4, 2.0**4, width=32)


def compiled(text: str, machine_: Machine) -> Any:
    class Adder(byocir.Target):
        name, patterns, machine = "adder", (added,), machine_

        @property
        def fixed_point(self) -> Literal["half_up"]:
            return "half_up"

    module, target = parse_module(text), Adder()
    meant = module.clone()
    run_passes(meant, load_context(), meaning_pipeline(meant, [target]))
    package = byocir.compile(module, targets=[target], levels=("tensor",))
    rng = np.random.default_rng(0)
    feeds = {f"arg{i}": rng.integers(-128, 128, (3, 13)).astype(np.int8) for i in range(2)}
    found = package.run(feeds, check=True)["res0"]
    np.testing.assert_array_equal(found, evaluate(meant, feeds)["res0"])
    return package


@settings(deadline=None, max_examples=3 if settings.default.max_examples < 100 else 1000)
@given(st.tuples(SCALES, SCALES, SCALES), st.booleans(), st.booleans(), st.sampled_from([i32, i64]))
@example((1.0, 1.0, 1.0), False, True, i32)
@example((0.5, 1.0, 4.0), True, False, i32)
def test_one_instruction_does_a_residual_sum(
    scales: tuple[float, float, float], relu: bool, in_rows: bool, inside: Attribute
) -> None:
    package = compiled(net(scales, (0, 0, 0), relu), described(in_rows, inside))
    (region,) = package.report.regions
    assert region.composites[0].schedule.startswith("add, = blocks()")


ZEROS = st.integers(-128, 127)


@settings(deadline=None, max_examples=3 if settings.default.max_examples < 100 else 1000)
@given(
    st.tuples(SCALES, SCALES, SCALES), st.tuples(ZEROS, ZEROS, ZEROS), st.booleans(), st.booleans()
)
@example((1.0, 1.0, 1.0), (0, 0, 1), False, False)
@example((1.0, 1.0, 5.0), (0, 3, -128), True, True)
def test_wide_sums_take_zero_points(
    scales: tuple[float, float, float], zeros: tuple[int, int, int], relu: bool, in_rows: bool
) -> None:
    package = compiled(net(scales, zeros, relu), described(in_rows, i64))
    (region,) = package.report.regions
    assert region.composites[0].schedule.startswith("add, = blocks()")
