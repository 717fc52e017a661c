"""Whatever machine is described, its programs compute what they should, or are refused with a
reason; each pass on the way keeps results; waits order all that must be."""

from __future__ import annotations

import random
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_machines import (
    Drawn,
    conv_module,
    gemm,
    machine_by,
    machines,
    multiply_add,
    pool_module,
    product_module,
)
from window_engines import engine_by, window_engines
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import byocir
from byocir.compiler import partition
from byocir.dialects.byoc import TARGET
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.types import i8, i32
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Call, Machine, exactly, multiples_of, up_to
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import hazards_of, model_of, numbers_of
from byocir.machine.simulator import Simulator
from byocir.machine_sim import legal_order, order_of
from byocir.patterns import Match, Pattern, block
from byocir.patterns.target_classes import register
from byocir.rewrites.machine import PASSES
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.report_of_module import report_of
from byocir.targets import described

ENGINE = str(Path(__file__).parents[3] / "examples" / "counted_engine.py")
REFUSALS = {"B270", "B273"}
QUICK = settings.default.max_examples < 100
MOST = 1000 if QUICK else 10**6
"""Multiplications of a product. As machines are small, few are enough for tiles, ragged ends and
waits, and programs of thousands of calls take ten times as long."""
sizes = st.integers(1, 20) | st.sampled_from([8, 16, 24])
products = st.tuples(sizes, sizes, sizes).filter(lambda each: prod(each) <= MOST)


def brought_down(drawn: Drawn, module: ModuleOp) -> FuncOp | None:
    """The function of a machine after all passes, each checked; None for a refusal, which has a
    code and says why."""
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    try:
        lowered = module
        partition(lowered, targets=[drawn.register()()], levels=("tensor",))
        runner = PassRunner(keeps_start=False)
        for name in f"apply-schedules,{PASSES}".split(","):
            runner.run(lowered, name)
            np.testing.assert_array_equal(evaluate(lowered, feeds)["res0"], expected, name)
    except ByocirError as error:
        if error.code not in REFUSALS:
            raise
        return None
    functions = [f for f in lowered.ops if isinstance(f, FuncOp) and TARGET in f.attributes]
    if not functions:
        decisions = report_of(lowered).decisions
        assert decisions
        assert all(each.reason for each in decisions)
        return None
    (function,) = functions
    if any(not each.taken for each in report_of(lowered).decisions):
        return None  # the host does the rest
    arrays = [*map(np.asarray, feeds.values()), np.zeros_like(expected)]
    Simulator(drawn.machine).run(function, arrays)
    np.testing.assert_array_equal(arrays[-1], expected)
    for call in calls_in(drawn.machine, function.body.block):
        assert all(each.memory.inside_rows or not each.lane for each in call.places.values())
    return function


def disordered(drawn: Drawn, function: FuncOp, module: ModuleOp, seed: int) -> None:
    """Expects the same bytes in whatever order the machine may run the calls, and each wait that is
    taken away to be missed, unless what a FIFO holds back says as much."""
    calls = calls_in(drawn.machine, function.body.block)
    assert hazards_of(drawn.machine, calls) == []
    feeds, pick = random_feeds(module), random.Random(seed)
    expected = evaluate(module, feeds)["res0"]

    def run() -> None:
        for choose in (max, pick.choice):
            arrays = [*map(np.asarray, feeds.values()), np.zeros_like(expected)]
            waits = order_of(model_of(drawn.machine), numbers_of(drawn.machine, calls))
            order = [calls[index] for index in legal_order(waits, choose)]
            Simulator(drawn.machine).run(function, arrays, order)
            np.testing.assert_array_equal(arrays[-1], expected)

    run()
    waiting = [call for call in calls if call.op.counts]
    for call in pick.sample(waiting, min(2, len(waiting))):
        counts = call.op.counts
        unit = pick.choice(list(counts))
        call.op.set_order({name: n for name, n in counts.items() if name != unit})
        if not hazards_of(drawn.machine, calls):
            assert drawn.machine.guarded, f"expected {call.op} to need its wait for {unit}"
            run()
        call.op.set_order(counts)


@settings(max_examples=10 if QUICK else 500)
@given(machines(), products, st.booleans())
def test_a_described_machine_computes_right_or_says_why_not(drawn, sizes, relu) -> None:
    relu = relu and drawn.choices["stores relu"]
    function = brought_down(drawn, product_module(*sizes, relu=relu))
    event("computed" if function is not None else "refused")
    if function is not None:
        disordered(drawn, function, product_module(*sizes, relu=relu), sum(sizes))


@settings(max_examples=2 if QUICK else 200)
@given(machines(), products)
def test_views_of_one_memory_share_its_rows(drawn, sizes) -> None:
    given = {**drawn.choices, "views": True, "fifos": ()}
    drawn = machine_by(lambda options: options[0], given)
    function = brought_down(drawn, product_module(*sizes, relu=False))
    event("computed" if function is not None else "refused")
    if function is not None:
        disordered(drawn, function, product_module(*sizes, relu=False), sum(sizes))


def test_calls_of_several_lanes_fit_rows_of_one() -> None:
    """The blocks of lanes that a call writes follow each other in tiles of one row alone."""
    given = {"views": True, "size": 2, "near rows": 8, "sums rows": 8, "starts": "flag"}
    given |= {f"limit {each}": up_to(2) for each in "mnk"} | {"order": "in order", "copy rows": 1}
    drawn = machine_by(lambda options: options[0], given)
    assert drawn.machine.memories[1].row == (1,)
    assert brought_down(drawn, product_module(2, 8, 1, relu=False)) is not None


TWO_STORES = {"size": 8, "lanes": 8, "near rows": 512, "sums rows": 128, "copy rows": 8}
"""Two calls store a tile."""


@pytest.mark.parametrize("order", ["counted", "tokens", "interlocked"])
def test_stores_take_turns_with_the_work_behind_them(order: str) -> None:
    """They are more calls than the queue in front of their unit holds, which would hold that work
    back until most of them had begun."""
    given = {"units": ("core", "store"), "order": order, **TWO_STORES}
    drawn = machine_by(lambda options: options[0], given)
    function = brought_down(drawn, product_module(40, 32, 8, relu=False))
    assert function is not None
    calls = calls_in(drawn.machine, function.body.block)
    assert any(op.is_beside for op in calls.ops if op.result.memory.is_main)
    disordered(drawn, function, product_module(40, 32, 8, relu=False), 40)


sides = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(0, 2)
)
images = st.tuples(st.integers(5, 9), st.integers(5, 12), st.sampled_from([1, 4, 8, 16, 20]))
windows = st.tuples(sides, sides)


@settings(max_examples=8 if QUICK else 500)
@given(machines(), images, windows, st.booleans())
def test_pools_of_bytes_are_taken_in_wider_numbers(drawn, image, window, summed) -> None:
    given = {**drawn.choices, "pools": True}
    drawn = machine_by(lambda options: options[0], given)
    module = pool_module(image, window, summed=summed)
    function = brought_down(drawn, module.clone())
    event("computed" if function is not None else "refused")
    if function is not None:
        disordered(drawn, function, module, sum(image))


ROWS = {"sums rows": 32, "sums banks": 2, "sums granule": 4, "units": ("core", "store"), "size": 8}
"""Room for few sums: an image is read in several tiles, each as wide as the image with its pads."""


@pytest.mark.parametrize(
    ("given", "image", "window"),
    [
        ({"lanes": 16, **ROWS}, (7, 6, 4), ((2, 2, 1, 2, 1), (3, 1, 2, 2, 1))),
        ({"lanes": 16, "sums rows": 128}, (5, 9, 20), ((1, 3, 2, 1, 0), (2, 2, 2, 2, 2))),
        ({"lanes": 4}, (5, 6, 4), ((1, 1, 1, 1, 0), (1, 2, 1, 0, 1))),
    ],
    ids=["wider", "alone", "pads"],
)
def test_pools_reach_over_the_borders_of_images(given, image, window) -> None:
    fixed = {"pools": True, "starts": "zeros", **given}
    drawn = machine_by(lambda options: options[0], fixed)
    assert brought_down(drawn, pool_module(image, window)) is not None


def multiplications(image, window, outputs: int) -> int:
    """Those of a convolution that has as many pixels as its image."""
    return prod(image) * prod(kernel for kernel, *_ in window) * outputs


convs = st.tuples(images, windows, st.sampled_from([1, 4, 8, 20]))


@settings(max_examples=6 if QUICK else 500)
@given(machines(), convs.filter(lambda each: multiplications(*each) <= 4 * MOST))
def test_convolutions_read_zeros_around_images(drawn, conv) -> None:
    image, window, outputs = conv
    module = conv_module(image, window, outputs)
    function = brought_down(drawn, module.clone())
    event("computed" if function is not None else "refused")
    if function is not None:
        disordered(drawn, function, module, sum(image))


@settings(max_examples=4 if QUICK else 500)
@given(window_engines(), images, windows, st.sampled_from([0, 0, -3, "max", "sum"]))
def test_windows_in_one_call_are_computed_right_or_refused(drawn, image, window, what) -> None:
    """Numbers are what convolutions read around images."""
    if isinstance(what, int):
        module = conv_module(image, window, 8, around=what)
    else:
        module = pool_module(image, window, summed=what == "sum")
    function = brought_down(drawn, module.clone())
    event("computed" if function is not None else "refused")
    if function is not None:
        disordered(drawn, function, module, sum(image))


@pytest.mark.parametrize("starts", ["flag", "only"])
@pytest.mark.parametrize("step", [2, 3])
def test_rules_on_steps_decline_what_no_call_can_do(step: int, starts: str) -> None:
    """Steps of 3 do not fit the instruction: tiles have one point of each window then, without what
    lies between its pixels. Where sums begin with a number alone, they cannot be taken so."""
    given = {"most step": 2, "starts": starts, "image rows": 1024, "weights rows": 1024}
    given |= {"sums rows": 1024, "pads": 0, "limits": {"x": multiples_of(2, 16)}}
    drawn = engine_by(lambda options: options[0], given)
    module = conv_module((8, 11, 4), ((3, step, 1, 1, 1), (3, step, 1, 1, 1)), 4)
    report = partition(module, targets=[drawn.register()()], levels=("tensor",))
    (decision,) = [each for each in report.decisions if each.pattern == "random.conv"]
    assert decision.taken == (step == 2 or starts == "flag")
    if decision.taken:
        function = brought_down(drawn, module.clone())
        assert function is not None
        disordered(drawn, function, module, step)
    else:
        assert "Steps fit their fields, found (3, 3)" in decision.reason


@pytest.mark.parametrize(("pads", "around"), [(0, 0), (0, -3), ("around", 0), ("around", -3)])
def test_loads_set_the_number_that_windows_read_around_images(pads, around: int) -> None:
    """One call brings the image and what is around it, where the load has that number."""
    given = {"pads": pads, "loaded lines": 8, "image interleaved": True, "image rows": 1024}
    given |= {"weights rows": 1024, "sums rows": 1024}
    drawn = engine_by(lambda options: options[0], given)
    module = conv_module((6, 6, 4), ((3, 1, 1, 1, 1), (3, 1, 1, 1, 1)), 4, around=around)
    function = brought_down(drawn, module)
    assert function is not None
    calls = calls_in(drawn.machine, function.body.block)
    loads = [each for each in calls if each.result.memory.scope == "random.image"]
    assert (len(loads) == 1) == (pads in ("around", around))
    assert loads[0].numbers.get("around") == (around if pads == "around" else None)


@pytest.mark.parametrize("channels", [4, 8])
def test_lines_of_one_row_have_zeros_beside_pixels_of_any_channels(channels: int) -> None:
    """Rows hold 4 pixels of 4 channels: a line and its zeros are in one, or in one for each block
    of channels. A machine that only begins sums needs windows in whole."""
    given = {"pixels": 4, "lanes": 4, "pads": 0, "starts": "only", "loaded lines": 8}
    given |= {"image rows": 1024, "weights rows": 1024, "sums rows": 1024}
    drawn = engine_by(lambda options: options[0], given)
    module = conv_module((2, 2, channels), ((3, 1, 1, 1, 1), (3, 1, 1, 1, 1)), 4)
    assert brought_down(drawn, module) is not None


def test_operands_that_lie_apart_are_named() -> None:
    """Windows of an image are not one row after the other, and the instruction has no strides."""
    given = {"pool strided": (), "image interleaved": True, "image rows": 1024, "sums rows": 1024}
    drawn = engine_by(lambda options: options[0], given)
    window = (2, 2, 1, 0, 0), (2, 2, 1, 0, 0)
    module = pool_module((8, 8, 20), window, summed=True)
    report = partition(module, targets=[drawn.register()()], levels=("tensor",))
    reasons = " ".join(each.reason for each in report.decisions)
    assert "random.total: expected rows of a one after the other, found some apart" in reasons
    assert 'which strided=("a",) allows' in reasons


PADS = {"size": 8, "own weights": True, "near rows": 512, "weights rows": 512, "sums rows": 256}
AROUND = (3, 1, 1, 1, 1), (3, 1, 1, 2, 1)


def test_tiles_are_chosen_without_pads_that_a_rule_refuses() -> None:
    """A load that sets no pads brings lines one by one, where one that does brings boxes. Tiles for
    boxes take 1,206 cycles without pads."""
    given = {**PADS, "pads": "lines", "copy rows": 16, "near interleaved": True, "wide": 4}
    given |= {"units": ("core", "store"), "order": "counted", "lanes": 8}
    drawn = machine_by(lambda options: options[0], given)

    @drawn.machine.called("random.near").rule
    def sets_no_zeros(m: Match) -> tuple[bool, object]:
        """No zeros are set."""
        sizes = tuple(m["work"].extents.values())
        return sizes == m["x"].type.shape, sizes

    targets, module = [drawn.register()()], conv_module((6, 7, 8), AROUND, 4)
    package = byocir.compile(module, targets=targets, levels=("tensor",))
    (found,) = package.profile()
    assert found.cycles is not None
    assert found.cycles <= 680
    told = "no load sets the pads that are read; random.near: No zeros are set, found (4, 80)"
    assert package.report.notes == [f"@random_0: {told}"]


def test_loads_that_set_some_pads_are_not_said_to_set_none() -> None:
    """These set pads of rows, and none above and below of an image."""
    drawn = machine_by(lambda options: options[0], {**PADS, "pads": "rows", "copy rows": 16})
    module, targets = conv_module((6, 7, 8), AROUND, 4), [drawn.register()()]
    assert byocir.compile(module, targets=targets, levels=("tensor",)).report.notes == []


@pytest.mark.parametrize("pads", ["", "boxes"])
def test_pads_that_a_machine_cannot_set_stay_with_the_host(pads: str) -> None:
    """It copies two rows at a time, so neither one row of zeros nor one row of the image. If it has
    a load that sets pads, the reason has what keeps that from it, too."""
    given = {**PADS, "even copies": ("rows",), "copy rows": 16, "pads": pads}
    drawn = machine_by(lambda options: options[0], given)

    @drawn.machine.called("random.near").rule
    def sets_no_zeros(m: Match) -> tuple[bool, object]:
        """No zeros are set."""
        return not m.get("left", 0), m.get("left", 0)

    module = conv_module((6, 5, 4), ((3, 1, 2, 0, 1), (2, 1, 1, 2, 0)), 4)
    report = partition(module, targets=[drawn.register()()], levels=("tensor",))
    told = "random that copies 1x1x1 of i8 from main memory to random.near beside pads, found none"
    reasons = [each.reason for each in report.decisions]
    assert any(told in each for each in reasons)
    assert not any(each.taken for each in report.decisions)
    assert pads == "" or any("random.near: No zeros are set, found 2" in each for each in reasons)


def test_calls_of_two_rows_and_more_get_rows_that_follow_each_other() -> None:
    """The rows that one call takes are those of one line of the image, not of several."""
    given = {"size": 4, "own weights": True, "near rows": 64, "weights rows": 64}
    given |= {"sums rows": 256, "limit m": multiples_of(2, 4)}
    drawn = machine_by(lambda options: options[0], given)
    window = (2, 1, 1, 0, 0), (2, 2, 1, 0, 0)
    assert brought_down(drawn, conv_module((6, 8, 4), window, 4)) is not None


@pytest.mark.parametrize(
    ("given", "channels", "most"),
    [
        ({"pads": "rows", "copy rows": 16}, 4, 8),
        ({"pads": "boxes", "copy rows": 16, "near interleaved": True, "wide": 4}, 8, 2),
        ({"pads": "lines", "copy rows": 16, "near interleaved": True, "wide": 4, "lanes": 8}, 8, 2),
    ],
    ids=["rows", "boxes", "lines"],
)
def test_loads_set_zeros_around_what_they_read(given, channels: int, most: int) -> None:
    """A call brings rows, or boxes, of an image with the zeros around them."""
    drawn = machine_by(lambda options: options[0], {**PADS, **given})
    function = brought_down(drawn, conv_module((6, 7, channels), AROUND, 4))
    assert function is not None
    calls = calls_in(drawn.machine, function.body.block)
    loads = [each for each in calls if each.result.memory.scope == "random.near"]
    padded = [each for each in loads if {"top", "left"} & {*each.numbers} and _zeros(each)]
    assert padded
    assert len(loads) <= most


def _zeros(call: Call) -> int:
    """The elements that a load sets beside those that it reads."""
    source, into = (prod(b - a for a, b in place.box) for place in call.places.values())
    return into - source


@pytest.mark.parametrize("sizes", [(1, 1, 1), (16, 16, 16), (20, 7, 33)], ids=str)
def test_the_engine_of_the_examples_takes_all_sizes(sizes: tuple[int, int, int]) -> None:
    module = product_module(*sizes, relu=False)
    package = byocir.compile(module.clone(), targets=[ENGINE], levels=("tensor",))
    feeds = random_feeds(module)
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])
    assert any(name.endswith(".bin") for name in package.blobs["engine"])


def test_programs_of_large_products_are_short_and_keep_the_core_busy(monkeypatch) -> None:
    monkeypatch.setattr(described, "parse_module", None)  # what was printed is not read again
    package = byocir.compile(
        product_module(128, 128, 128, relu=False), targets=[ENGINE], levels=("tensor",)
    )
    monkeypatch.setattr(
        described, "run_times", None
    )  # and what the report timed is not timed again
    text = package.blobs["engine"]["program.mlir"].decode()
    (profile,) = package.profile()
    assert print_module(parse_module(text)) == text
    assert 6 * text.count("tir.intrinsic ") < profile.details["instructions"]
    assert profile.cycles <= 1.08 * max(profile.bounds.values())


@pytest.mark.parametrize("sizes", [(6, 1, 3), (1, 6, 3), (5, 7, 3)], ids=str)
def test_sums_begin_with_zeros_that_are_copied_whatever_their_shape(sizes) -> None:
    drawn = machine_by(lambda options: "zeros" if "zeros" in options else options[0])
    assert drawn.choices["starts"] == "zeros"
    assert brought_down(drawn, product_module(*sizes, relu=False)) is not None


SPREAD = {"own weights": True, "weights rows": 32, "sums rows": 256, "sums interleaved": True}
"""Rows of sums that are 9 wide do not follow each other, and products have 8 of them."""
WIDE = {"units": ("core",), "lanes": 4, "size": 8, "limit n": exactly(8)}
"""A store of rows of 4 behind a product that is 8 wide and nothing else."""
APART = {"inside rows of near": True, "near interleaved": True, "inside rows of sums": True}
"""Rows that are 5 wide do not follow each other, and a product takes all that it sums over."""
DEEP = {"size": 8, "own weights": True, "weights rows": 32, "weights banks": 2, "wide": 4}
"""Room for half of the weights that a product sums over, which is 8 deep and nothing else."""


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        (WIDE, (1, 8, 1)),
        ({"lanes": 4, "limit k": exactly(8), **DEEP}, (1, 12, 8)),
        ({"even copies": ("lanes",)}, (8, 12, 8)),
        ({"size": 8, "limit m": exactly(8), **SPREAD}, (8, 9, 1)),
        ({"starts": "only", "size": 8, "wide": 4, "two steps out": True}, (17, 13, 8)),
        ({"starts": "only", **APART}, (1, 5, 2)),
    ],
    ids=["wide", "deep", "even", "spread", "whole", "apart"],
)
def test_tiles_are_such_as_all_on_the_way_can_do(given, sizes) -> None:
    drawn = machine_by(lambda options: options[0], given)
    assert brought_down(drawn, product_module(*sizes, relu=False)) is not None


def exacting(rows: int) -> Machine:
    """A machine with memories of so many rows, whose product is 16 wide, and tells what it costs at
    16 and nowhere else."""
    machine = Machine("exacting")
    unit = machine.unit("unit")
    near = machine.memory("near", i8, row=(16,), rows=rows)
    sums = machine.memory("sums", i32, row=(16,), rows=rows)
    moved = {"rows": up_to(16), "lanes": up_to(16)}
    machine.copy("load", MAIN, near, unit=unit, cycles=lambda s: 1, **moved)
    machine.copy("store", sums, MAIN, unit=unit, cycles=lambda s: 1, **moved)

    @machine.instruction(unit, into=sums, cycles=lambda s: {16: 1}[s["n"]], n=exactly(16))
    def product() -> Pattern:
        return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add)

    return machine


@pytest.mark.parametrize(
    ("rows", "n", "told"),
    [
        (1, 16, "expected exacting.near to hold the smallest tile"),
        (64, 10, "exacting.product: expected n exactly 16, found 10"),
    ],
)
def test_what_a_machine_cannot_do_stays_with_the_host(rows: int, n: int, told: str) -> None:
    class Exacting(byocir.Target):
        name, machine, patterns = "exacting", exacting(rows), (gemm,)

    register("exacting", Exacting)
    module = product_module(16, n, 16, relu=False)
    report = partition(module, targets=[Exacting()], levels=("tensor",))
    assert [decision.taken for decision in report.decisions] == [False]
    assert told in report.decisions[0].reason


def test_tiles_of_exact_sizes_overlap_at_ragged_ends() -> None:
    """Twenty columns are 16, and the last 16 once more."""

    class Exacting(byocir.Target):
        name, machine, patterns = "random", exacting(64), (gemm,)

    register("random", Exacting)
    module = product_module(8, 20, 16, relu=False)
    feeds = random_feeds(module)
    package = byocir.compile(module.clone(), targets=[Exacting()], levels=("tensor",))
    assert "tile(stored, d1=16" in package.report.regions[0].composites[0].schedule
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])
