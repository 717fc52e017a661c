"""Scales that are known are brought to where instructions read them: as numbers of main memory, or
as rows of a memory with a scale for each lane."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import f32, i8, i32
from byocir.machine import MAIN, Interlocked, Machine, up_to
from byocir.patterns import Pattern, block, composite, constant, wildcard
from byocir.patterns import ScalarPattern as Scalar

TYPE = "tensor<6x16xi8>"
SUM = f"""
func.func @main(%x: {TYPE}, %y: {TYPE}) -> {TYPE} {{
  %sx = graph.constant #graph.array<[0.75] : tensor<f32>>
  %sy = graph.constant #graph.array<[0.4] : tensor<f32>>
  %one = graph.constant #graph.array<[1.0] : tensor<f32>>
  %a = graph.requantize %x, %sx, %one {{rounding = #graph.float_half_even}} : ({TYPE}, tensor<f32>, tensor<f32>) -> {TYPE}
  %b = graph.requantize %y, %sy, %one {{rounding = #graph.float_half_even}} : ({TYPE}, tensor<f32>, tensor<f32>) -> {TYPE}
  %aw = graph.cast %a {{to = i32}} : ({TYPE}) -> tensor<6x16xi32>
  %bw = graph.cast %b {{to = i32}} : ({TYPE}) -> tensor<6x16xi32>
  %sum = graph.add %aw, %bw : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi32>
  %q = graph.requantize %sum, %sy, %one {{rounding = #graph.float_half_even}} : (tensor<6x16xi32>, tensor<f32>, tensor<f32>) -> {TYPE}
  func.return %q : {TYPE}
}}
"""  # noqa: E501
"""A residual sum of bytes, each of which is scaled, and so is the sum."""


def scaled(_: Scalar, x: Scalar, scale: Scalar) -> Scalar:
    return (x.to(f32) * scale).roundeven().clamp(-128, 127).to(i8)


@composite("post.add")
def add() -> Pattern:
    given = (wildcard(name, dtype=i8)["*i"] for name in "xy")
    narrow = [block("*i", x, constant(f"scale{i}")[""], scaled) for i, x in enumerate(given)]
    x, y = (block("*i", x["*i"], lambda _, x: x.to(i32))["*i"] for x in narrow)
    total = block("*i", x, y, lambda _, x, y: x + y)
    return block("*i", total["*i"], constant("scale")[""], scaled)


def described(in_rows: bool, narrow_in_rows: bool, adds_alone: bool, loads: bool) -> Machine:
    """A machine that scales bytes into sums, and sums into bytes, on its own memories. Each reads
    its scales in rows of a memory, one for each lane, or a number in main memory. Sums are added to
    while bytes are scaled, or by an instruction of its own. Bytes are scaled in a memory or while
    they are loaded."""
    machine = Machine("post")
    dma, post = machine.unit("dma", queue=4), machine.unit("post", queue=4)
    near = machine.memory("near", i8, row=(8,), rows=64, inside_rows=True)
    sums = machine.memory("sums", i32, row=(8,), rows=64, inside_rows=True)
    machine.order(Interlocked((near, sums)))
    sizes: dict[str, Any] = {"rows": up_to(4), "lanes": up_to(8)}
    sizes["cycles"] = lambda s: 4 + s["rows"]
    machine.copy("load", MAIN, near, unit=dma, **sizes)
    machine.copy("store", near, MAIN, unit=dma, **sizes)
    scales = machine.memory("scales", f32, row=(8,), rows=8) if in_rows or narrow_in_rows else MAIN
    if scales != MAIN:
        machine.copy("load_scales", MAIN, scales, unit=dma, **sizes)

    def factor(is_row: bool) -> Any:
        return scales("s")["lanes"] if is_row else wildcard("s", dtype=f32)[""]

    scaling: dict[str, Any] = {} if loads else {"strided": ("x",)}

    @machine.instruction(dma if loads else post, into=sums, **scaling, **sizes)
    def widen() -> Pattern:
        source = wildcard("x", dtype=i8) if loads else near("x")
        read = source["rows lanes"], factor(in_rows)
        begun = block("rows lanes", *read, lambda _, x, s: scaled(_, x, s).to(i32))
        added = (*read, lambda total, x, s: total + scaled(total, x, s).to(i32))
        return begun if adds_alone else begun | block("rows lanes", *added, init=sums("total"))

    if adds_alone:

        @machine.instruction(post, into=sums, strided=("x",), **sizes)
        def plus() -> Pattern:
            x = sums("x")["rows lanes"]
            return block("rows lanes", x, lambda total, x: total + x, init=sums("total"))

    @machine.instruction(post, into=near, strided=("x",), **sizes)
    def narrow() -> Pattern:
        return block("rows lanes", sums("x")["rows lanes"], factor(narrow_in_rows), scaled)

    return machine


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("adds_alone", [False, True])
@pytest.mark.parametrize("narrow_in_rows", [False, True])
@pytest.mark.parametrize("in_rows", [False, True])
def test_scales_are_brought_to_where_instructions_read_them(
    in_rows: bool, narrow_in_rows: bool, adds_alone: bool, loads: bool
) -> None:
    class Post(byocir.Target):
        name, patterns = "post", (add,)
        machine = described(in_rows, narrow_in_rows, adds_alone, loads)

        @property
        def fixed_point(self) -> Literal["float_scale"]:
            return "float_scale"

    package = byocir.compile(parse_module(SUM), targets=[Post()], levels=("tensor",))
    assert len(package.report.regions) == 1
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, (6, 16)).astype(np.int8) for _ in range(2))
    found = package.run({"arg0": x, "arg1": y}, check=True)["res0"]
    terms = (np.rint(x * np.float32(0.75)), np.rint(y * np.float32(0.4)))
    expected = np.clip(np.rint(sum(terms) * np.float32(0.4)), -128, 127)
    np.testing.assert_array_equal(found, expected)


MEAN = """
func.func @main(%x: tensor<4x5x16xi8>) -> tensor<4x16xi8> {
  %zero = tir.fill 0 : i32 : tensor<4x16xi32>
  %y = tir.block [m: 4, n: 16 | k: 5] ins(%x[m, k, n] : tensor<4x5x16xi8>) outs(%zero[m, n] : tensor<4x16xi32>) {
  ^bb0(%a: i8, %acc: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    tir.yield %1 : i32
  }
  %s = graph.constant #graph.array<[0.2] : tensor<f32>>
  %one = graph.constant #graph.array<[1.0] : tensor<f32>>
  %q = graph.requantize %y, %s, %one {rounding = #graph.float_half_even} : (tensor<4x16xi32>, tensor<f32>, tensor<f32>) -> tensor<4x16xi8>
  func.return %q : tensor<4x16xi8>
}
"""  # noqa: E501


@composite("post.mean")
def mean() -> Pattern:
    bytes_ = wildcard("x", dtype=i8)["m k n"]
    total = block("m n | k", bytes_, lambda old, x: old + x.to(i32))
    return block("m n", total["m n"], constant("scale")[""], scaled)


def test_sums_that_only_begin_are_where_their_instruction_has_them() -> None:
    """The unit adds whole sums of zero, and cannot add to what is there: its sums are in a memory
    all the same, from which they are scaled with a row of the number."""
    described_ = described(in_rows=True, narrow_in_rows=True, adds_alone=False, loads=False)
    near, sums = described_.memories[:2]

    @described_.instruction(described_.units[1], into=sums, strided=("x",), cycles=lambda s: 4)
    def whole_sums() -> Pattern:
        return block("m n | k", near("x")["m k n"], lambda old, x: old + x.to(i32))

    class Post(byocir.Target):
        name, patterns, machine = "post", (mean,), described_

        @property
        def fixed_point(self) -> Literal["float_scale"]:
            return "float_scale"

    package = byocir.compile(parse_module(MEAN), targets=[Post()], levels=("tensor",))
    assert len(package.report.regions) == 1
    x = np.random.default_rng(0).integers(-128, 128, (4, 5, 16)).astype(np.int8)
    found = package.run({"arg0": x}, check=True)["res0"]
    expected = np.rint(x.sum(1, dtype=np.int32) * np.float32(0.2)).clip(-128, 127)
    np.testing.assert_array_equal(found, expected)
