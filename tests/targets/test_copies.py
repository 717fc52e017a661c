"""Copies by hand, as memory engines make them: a target takes them as it takes blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import i32

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import CopyOp
from byocir.patterns import Composite, block, composite, op, supports, wildcard
from byocir.rewrites.pipeline import run_passes
from byocir.targets.c import CTarget

A = np.random.default_rng(0).integers(-128, 128, (4, 6), dtype=np.int8)
B = np.random.default_rng(1).integers(-128, 128, (6, 4), dtype=np.int8)
PRODUCT = A.astype(np.int32) @ B.astype(np.int32)
BODY = """
    ^bb0(%x: i8, %y: i8, %acc: i32):
      %p = arith.extsi %x : i8 to i32
      %q = arith.extsi %y : i8 to i32
      %r = arith.muli %p, %q : i32
      %s = arith.addi %acc, %r : i32
      tir.yield %s : i32
"""
PORTS = "%a: memref<4x6xi8>, %b: memref<6x4xi8>, %c: memref<4x4xi32>"
IN, WEIGHTS, SUMS = 'memref<4x6xi8, "in">', 'memref<6x4xi8, "in">', 'memref<4x4xi32, "acc">'
BY_HAND = f"""
func.func @main({PORTS}) {{
  %near = tir.alloc : {IN}
  %weights = tir.alloc : {WEIGHTS}
  %sums = tir.alloc : {SUMS}
  tir.copy %a to %near sizes [4, 6] : memref<4x6xi8> to {IN} loc("load a")
  tir.copy %b to %weights sizes [6, 4] : memref<6x4xi8> to {WEIGHTS} loc("load b")
  tir.fill 0 : i32 into %sums : {SUMS} loc("zero")
  tir.block [m: 4, n: 4 | k: 6] ins(%near[m, k] : {IN}, %weights[k, n] : {WEIGHTS})
      outs(%sums[m, n] : {SUMS}) {{ {BODY} }} loc("product")
  tir.copy %sums to %c sizes [4, 4] : {SUMS} to memref<4x4xi32> loc("store")
  func.return
}}
"""
NEAR, TILE = 'memref<2x3xi8, "in">', 'memref<2x2xi32, "acc">'
IN_TILES = f"""
func.func @main({PORTS}) {{
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  tir.fill 0 : i32 into %c : memref<4x4xi32>
  tir.for %i = 0 to 2 serial {{
    %m0 = arith.muli %i, %c2 : index
    tir.for %j = 0 to 2 serial {{
      %n0 = arith.muli %j, %c2 : index
      %sums = tir.alloc : {TILE}
      tir.copy %c[%m0, %n0] to %sums sizes [2, 2] : memref<4x4xi32> to {TILE}
      tir.for %l = 0 to 2 serial {{
        %k0 = arith.muli %l, %c3 : index
        %near = tir.alloc : {NEAR}
        tir.copy %a[%m0, %k0] to %near sizes [2, 3] : memref<4x6xi8> to {NEAR}
        %weights = tir.alloc : memref<3x2xi8, "in">
        tir.copy %b[%k0, %n0] to %weights sizes [3, 2] : memref<6x4xi8> to memref<3x2xi8, "in">
        tir.block [m: 2, n: 2 | k: 3] ins(%near[m, k] : {NEAR},
            %weights[k, n] : memref<3x2xi8, "in">) outs(%sums[m, n] : {TILE}) {{ {BODY} }}
      }}
      tir.copy %sums to %c[%m0, %n0] sizes [2, 2] : {TILE} to memref<4x4xi32>
    }}
  }}
  func.return
}}
"""


def widened(x):
    return x.to(i32)


def product(a, b):
    return block(
        "m n | k", a["m k"], b["k n"], lambda acc, x, y: acc + x.to(i32) * y.to(i32), init=0
    )


@composite("dma.gemm")
def gemm():
    return product(wildcard("a"), wildcard("b"))


@composite("dma.copy")
def copy():
    return op("tir.copy", wildcard("from"), wildcard("to"))


@copy.rule
def box_has_at_least_16_elements(m) -> tuple[bool, int]:
    """A copy moves at least 16 elements."""
    seen = int(np.prod(m.root.box))
    return seen >= 16, seen


@supports("tir.copy", name="move")
def move(m) -> tuple[bool, str]:
    """Any copy."""
    return True, m["op"].op.name


@composite("staged_gemm")
def staged_gemm():
    near = op("tir.copy", wildcard("a"), wildcard("near"))
    weights = op("tir.copy", wildcard("b"), wildcard("weights"))
    return op("tir.copy", product(near, weights), wildcard("c")) @ "store"


@dataclass(frozen=True)
class Dma(byocir.Target):
    name, patterns = "dma", (gemm, copy)


@dataclass(frozen=True)
class Whole(byocir.Target):
    name, patterns = "whole", (staged_gemm,)


@composite("sum")
def added():
    return block("i", wildcard("x")["i"], lambda acc, x: acc + x, init=wildcard("y"))


@dataclass(frozen=True)
class Engine(CTarget):
    """Its code is the C that byocir writes of the functions in memory."""

    name, patterns = "engine", (staged_gemm, added)
    codegen_level = "tensor"


def taken(package: byocir.Package) -> list[tuple[str, list[str]]]:
    found = [c for region in package.report.regions for c in region.composites]
    assert {c.level for c in found} <= {"tensor"}
    return [(c.pattern, [*c.nodes]) for c in found]


def check(package: byocir.Package) -> None:
    (result,) = package.run({"arg0": A, "arg1": B}).values()
    np.testing.assert_array_equal(result, PRODUCT)


@pytest.mark.parametrize("host", ["reference", "c"])
def test_copies_of_a_product_are_taken_and_run(host: str):
    package = byocir.compile(parse_module(BY_HAND), targets=Dma(), host=host)
    assert taken(package) == [
        ("dma.copy", ["load a"]),
        ("dma.copy", ["load b"]),
        ("dma.gemm", ["zero", "product"]),
        ("dma.copy", ["store"]),
    ]
    check(package)


@pytest.mark.parametrize("host", ["reference", "c"])
def test_code_of_a_region_in_memory_writes_what_is_handed_to_it(host: str, tmp_path: Path):
    package = byocir.compile(parse_module(BY_HAND), targets=Engine(), host=host)
    assert taken(package) == [
        ("engine.staged_gemm", ["load a", "load b", "zero", "product", "store"])
    ]
    assert package.has_code("engine_0")
    check(package)
    package.save(tmp_path / "model.bpkg")
    with byocir.isolate():
        check(byocir.load(tmp_path / "model.bpkg", targets=[Engine()]))


def test_code_of_a_region_in_memory_is_given_what_was_there():
    type_ = "memref<4xi32>"
    text = f"""
    func.func @main(%x: {type_}, %y: {type_}) {{
      tir.fill 5 : i32 into %y : {type_}
      tir.block [i: 4] ins(%x[i] : {type_}) outs(%y[i] : {type_}) {{
      ^bb0(%a: i32, %acc: i32):
        %s = arith.addi %acc, %a : i32
        tir.yield %s : i32
      }} loc("sum")
      func.return
    }}
    """
    package = byocir.compile(parse_module(text), targets=Engine())
    assert taken(package) == [("engine.sum", ["sum"])]
    (result,) = package.run({"arg0": np.arange(4, dtype=np.int32)}).values()
    np.testing.assert_array_equal(result, [5, 6, 7, 8])


def test_a_product_with_its_copies_is_one_pattern():
    package = byocir.compile(parse_module(BY_HAND), targets=Whole())
    assert taken(package) == [
        ("whole.staged_gemm", ["load a", "load b", "zero", "product", "store"])
    ]
    check(package)


def test_a_pattern_with_copies_is_of_the_tensor_level():
    x = wildcard("x")
    assert [c.level for c in (copy, move, staged_gemm)] == ["tensor"] * 3
    assert Composite("dma.relu", (op("graph.relu", x),)).level == "graph"


def test_a_copy_that_stays_says_why():
    small = BY_HAND.replace("4x4", "3x4").replace("[m: 4", "[m: 3").replace("[4, 4]", "[3, 4]")
    small = small.replace("4x6", "3x6").replace("[4, 6]", "[3, 6]")
    package = byocir.compile(parse_module(small), targets=Dma())
    declined = [d for d in package.report.decisions if d.nodes == ["store"]]
    assert [d.reason for d in declined] == ["1 of 1 rules fail"]


def test_a_product_staged_in_tiles_is_one_product():
    module = parse_module(IN_TILES)
    run_passes(module, load_context(), "raise-scf-to-tir")
    assert not any(isinstance(each, CopyOp) for each in module.walk())
    package = byocir.compile(module, targets=Dma())
    assert [pattern for pattern, _ in taken(package)] == ["dma.gemm"]
    (result,) = package.run({"arg0": A, "arg1": B}).values()
    np.testing.assert_array_equal(result, PRODUCT)
