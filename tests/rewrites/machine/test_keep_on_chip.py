"""What passes between the composites of a region stays in the memories of a described machine."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from narrowing_engine import Engine, Step, net
from xdsl.ir import Operation

import byocir
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import Machine
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import hazards_of
from byocir.patterns.target_classes import register
from byocir.rewrites.host.assign_layouts import AssignLayoutsPass
from byocir.rewrites.machine import keep_on_chip
from byocir.rewrites.machine.trial_selection import TrialSelection
from byocir.runtime.package import Package
from byocir.runtime.page import page
from byocir.runtime.report_text import summary
from byocir.targets.described import functions_of
from byocir.targets.hand_off_passes import partition_pipeline


def compiled_right(
    side: int, channels: int, *steps: Step, pads: bool = False, windows: bool = False
) -> Package:
    """The package of a net, which computes what the evaluator computes, in any order that its waits
    allow."""
    register("narrowing", Engine)
    target = Engine(pads, windows)
    module = net(side, channels, steps)
    feeds = random_feeds(module)
    package = byocir.compile(module.clone(), targets=[target], levels=("tensor",))
    found = package.run(feeds)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found[name], expected)
    assert all(decision.taken for decision in package.report.decisions)
    for function in functions_of(package.blobs["narrowing"]).values():
        assert hazards_of(target.machine, calls_in(target.machine, function.body.block)) == []
    return package


def test_bytes_between_two_layers_are_not_moved() -> None:
    side, channels = 2, 16
    package = compiled_right(side, channels, (0, 1), (1, 3))
    (region,) = package.report.regions
    assert region.kept == 2 * side * side * channels
    text = package.blobs["narrowing"]["program.mlir"].decode()
    assert f"tir.alloc : memref<1x{side}x{side}x{channels}xi8>" not in text
    assert f"{region.kept:>14,}   on the chip, between composites" in summary(package.report)
    assert f'"kept": {region.kept}' in package.report.to_json()
    assert f"{region.kept:,} stay on the chip" in page(package.report, "two layers")


def test_what_memories_have_no_room_for_is_moved() -> None:
    package = compiled_right(12, 4, (0, 1), (1, 1))
    assert package.report.regions[0].kept == 0
    assert "bytes kept" not in summary(package.report)


def test_zeros_that_loads_set_are_set_around_what_stays() -> None:
    """Each row of the windows would load what it reads of the image."""
    side, channels = 3, 8
    package = compiled_right(side, channels, (0, 1), (1, 3), pads=True)
    loaded = (3 * side - 2) * side * channels
    assert package.report.regions[0].kept == side * side * channels + loaded


def test_windows_read_zeros_outside_of_what_stays() -> None:
    """Calls at the upper and the lower border of the image read other pads."""
    side, channels = 5, 8
    package = compiled_right(side, channels, (0, 1), (1, 3), pads=True, windows=True)
    (region,) = package.report.regions
    assert region.kept == 2 * side * side * channels
    text = package.blobs["narrowing"]["program.mlir"].decode()
    assert '- 1, c] pad 0 : i8 : memref<1x5x5x8xi8, "narrowing.near">' in text


@pytest.mark.parametrize(
    ("pads", "windows", "frames"),
    [(False, False, "copied"), (True, False, "zeros"), (False, True, "zeros")],
)
def test_the_host_copies_images_where_nothing_pads_them(pads, windows, frames) -> None:
    """A unit that pads what it reads is enough: images between layers can then stay on the chip."""

    class Asking(Engine):
        channels_last = True

    module = net(3, 8, [(0, 1)])
    passes = partition_pipeline(module, [Asking(pads, windows)], ["tensor"])
    (layouts,) = [each for each in passes if isinstance(each, AssignLayoutsPass)]
    assert layouts.frames == frames


@pytest.mark.parametrize(("total", "stays"), [(9.0, True), (10.0, True), (11.0, False)])
def test_what_takes_all_units_longer_is_moved(
    total: float, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To set borders may take longer than the loads that it saves, of units that are not the
    busiest."""

    class Told(TrialSelection):
        def __init__(
            self, machine: Machine, ops: Iterable[Operation], before: TrialSelection | None = None
        ) -> None:
            super().__init__(machine, ops, before)
            self.busy = (5.0, 10.0 if before is None else total)

    monkeypatch.setattr(keep_on_chip, "TrialSelection", Told)
    package = compiled_right(3, 8, (0, 1), (1, 3), pads=True)
    assert (package.report.regions[0].kept > 0) == stays


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Layers and sums, each of any images that are there before it: chains and residual sums."""
    found: list[Step] = []
    for at in range(draw(st.integers(2, 5))):
        images = st.integers(0, at)
        if at and draw(st.booleans()):
            found.append((0, draw(st.just(at) | images), draw(images)))
        else:
            found.append((draw(st.just(at) | images), draw(st.sampled_from([1, 3]))))
    return found


@settings(max_examples=2 if settings.default.max_examples < 100 else 500)
@given(st.integers(1, 5), st.integers(1, 20), steps(), st.booleans(), st.booleans())
def test_nets_compute_right_whatever_stays(side, channels, steps, pads, windows) -> None:
    package = compiled_right(side, channels, *steps, pads=pads, windows=windows)
    event(f"{package.report.regions[0].kept > 0}")


def test_instructions_of_a_changed_program_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a change does not touch is not selected anew."""
    compared = list[tuple[float, float] | None]()

    class Compared(TrialSelection):
        def __init__(
            self, machine: Machine, ops: Iterable[Operation], before: TrialSelection | None = None
        ) -> None:
            program = list(ops)
            super().__init__(machine, program, before)
            compared.append(self.busy)
            assert before is None or self.busy == TrialSelection(machine, program).busy

    monkeypatch.setattr(keep_on_chip, "TrialSelection", Compared)
    compiled_right(4, 8, (0, 1), (1, 3), (2, 3), pads=True)
    assert len(set(compared)) > 2
