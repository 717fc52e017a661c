"""Machines whose units do not reach each other's memories: copies lead from one to the next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing_engine import layer, multiply_add, narrowed, net
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, composite, number, wildcard


def described(*, whole: bool, detours: bool = False) -> Machine:
    """A machine whose sums pass through another memory to vectors, which are narrowed by one
    instruction or by one operation after the other. Detours are copies that lead elsewhere, and to
    the vectors by way of main memory."""
    far = Machine("far")
    core = far.unit("core")
    near = far.memory("near", i8, row=(16,), rows=128)
    sums = far.memory("sums", i32, row=(16,), rows=64)
    between = far.memory("between", i32, row=(16,), rows=64)
    vectors = far.memory("vectors", i32, row=(16,), rows=8)
    moved = {"rows": up_to(4), "lanes": up_to(16), "cycles": lambda s: s["rows"]}
    far.copy("load", MAIN, near, unit=core, **moved)
    if detours:
        aside = far.memory("aside", i32, row=(16,), rows=64)
        far.copy("keep_aside", sums, aside, unit=core, **moved)
        far.copy("store_aside", aside, MAIN, unit=core, **moved)
        far.copy("store_sums", sums, MAIN, unit=core, **moved)
        far.copy("load_vectors", MAIN, vectors, unit=core, **moved)
    far.copy("leave", sums, between, unit=core, **moved)
    far.copy("enter", between, vectors, unit=core, **moved)
    far.copy("store", vectors, MAIN, unit=core, **moved)

    @far.instruction(core, into=sums, m=up_to(8), n=up_to(16), k=up_to(16), cycles=lambda s: s["m"])
    def product() -> Pattern:
        a, w = near("a")["m k"], near("w")["k n"]
        begun = block("m n | k", a, w, multiply_add)
        return block("m n | k", a, w, multiply_add, init=sums("c")) | begun

    def narrow() -> Pattern:
        return block("rows lanes", vectors("x")["rows lanes"], narrowed)

    def shift() -> Pattern:
        return block("rows lanes", lambda x: x >> number("by"), init=vectors("x"))

    def clamp() -> Pattern:
        x = vectors("x")["rows lanes"]
        return block("rows lanes", x, lambda _, x: x.clamp(number("low"), number("high")).to(i8))

    if whole:
        far.instruction(core, **moved)(narrow)
    else:
        far.instruction(core, into=vectors, **moved)(shift)
        far.instruction(core, **moved)(clamp)
    return far


machines = {whole: described(whole=whole) for whole in (False, True)}


@composite("narrowing.gemm")
def gemm() -> Pattern:
    """A product of matrices of signed bytes."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add)


class Far(byocir.Target):
    name, machine, patterns = "narrowing", machines[False], (layer, gemm)


class FarWhole(byocir.Target):
    name, machine, patterns = "narrowing", machines[True], (layer, gemm)


class FarWithDetours(byocir.Target):
    name, patterns = "narrowing", (layer, gemm)
    machine = described(whole=False, detours=True)


def product_of(m: int, k: int, n: int) -> ModuleOp:
    return parse_module(f"""
    func.func @main(%x: tensor<{m}x{k}xi8>, %w: tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> {{
      %0 = graph.matmul %x, %w
          : (tensor<{m}x{k}xi8>, tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> loc("product")
      func.return %0 : tensor<{m}x{n}xi32>
    }}""")


def compiled_right(module: ModuleOp, target: type[byocir.Target] = Far) -> byocir.Package:
    """The machine does all composites of a program, and right."""
    package = byocir.compile(module.clone(), targets=[target()], levels=("tensor",))
    taken = [each for each in package.report.decisions if each.taken]
    assert taken
    assert all(each.matched == each.total for each in taken)
    feeds = random_feeds(module)
    found = package.run(feeds, check=True)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found[name], expected)
    return package


@pytest.mark.parametrize("size", [3, 32])
def test_tiles_fit_all_memories_on_the_way_out(size: int) -> None:
    compiled_right(product_of(size, 16, size))


@settings(max_examples=2 if settings.default.max_examples < 100 else 200)
@given(
    st.integers(1, 5),
    st.integers(1, 20),
    st.lists(st.sampled_from([1, 3]), min_size=1, max_size=2),
    st.sampled_from([Far, FarWhole]),
)
def test_sums_are_brought_to_the_vectors_that_narrow_them(side, channels, windows, target) -> None:
    steps = [(at, window) for at, window in enumerate(windows)]
    compiled_right(net(side, channels, steps), target)


@pytest.mark.parametrize("target", [Far, FarWhole, FarWithDetours])
def test_a_layer_takes_the_way_over_all_memories(target: type[byocir.Target]) -> None:
    package = compiled_right(net(4, 16, [(0, 1)]), target)
    ((taken,),) = [region.composites for region in package.report.regions]
    assert taken.schedule.startswith("product, leave, enter, ")
