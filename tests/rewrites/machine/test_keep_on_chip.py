"""What passes between the composites of a region stays in the memories of a described machine."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing_engine import Engine, engine, two_layers

import byocir
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import hazards_of
from byocir.patterns.target_classes import register
from byocir.runtime.explain import summary
from byocir.runtime.package import Package
from byocir.runtime.page import page
from byocir.targets.described import functions_of


def compiled_right(*sizes: int) -> Package:
    """The package of two layers, which computes what the evaluator computes, in any order that its
    waits allow."""
    register("narrowing", Engine)
    module = parse_module(two_layers(*sizes))
    feeds = random_feeds(module)
    package = byocir.compile(module.clone(), targets=[Engine()], levels=("tensor",))
    expected = evaluate(module, feeds)["res0"]
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected)
    for function in functions_of(package.blobs["narrowing"]).values():
        assert hazards_of(engine, calls_in(engine, function.body.block)) == []
    return package


def test_bytes_between_two_layers_are_not_moved() -> None:
    side, channels = 2, 16
    package = compiled_right(side, channels, 1, 3)
    (region,) = package.report.regions
    assert region.kept == 2 * side * side * channels
    text = package.blobs["narrowing"]["program.mlir"].decode()
    assert f"tir.alloc : memref<1x{side}x{side}x{channels}xi8>" not in text
    assert f"{region.kept:>14,}   on the chip, between composites" in summary(package.report)
    assert f'"kept": {region.kept}' in package.report.to_json()
    assert f"{region.kept:,} stay on the chip" in page(package.report, "two layers")


def test_what_memories_have_no_room_for_is_moved() -> None:
    package = compiled_right(12, 4, 1, 1)
    assert package.report.regions[0].kept == 0
    assert "bytes kept" not in summary(package.report)


windows = st.sampled_from([1, 3])


@settings(max_examples=1 if settings.default.max_examples < 100 else 200)
@given(st.integers(1, 5), st.integers(1, 20), windows, windows)
def test_two_layers_compute_right_whatever_stays(side, channels, first, second) -> None:
    compiled_right(side, channels, first, second)
