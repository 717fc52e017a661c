"""Targets that say how their composites run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing_engine import described, layer, multiply_add, net
from quantised_nets import Net
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.compiler import partition
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import ForOp, IntrinsicOp
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import block, composite, op, wildcard
from byocir.patterns.target_classes import register
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.report_text import region_lines
from byocir.vendor.user_code import import_file

TILE = Path(__file__).parents[3] / "examples" / "tile_npu.py"
SCRIPT = (
    "m, n, k = tile(gemm, m=8, n=8, k=6); stage(gemm, 2, tile.sums, at=n); "
    "stage(gemm, 0, tile.factors, at=k); stage(gemm, 1, tile.factors, at=k); "
    "tensorise(gemm, tile.mma)"
)


@pytest.fixture(scope="module")
def toy():
    spec = importlib.util.spec_from_file_location("tile_npu", TILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def product(m: int, n: int, k: int, *, turned: bool = False, swapped: bool = False) -> ModuleOp:
    """A product of two inputs of @main, with iterators called otherwise than in any pattern."""
    matrix = f"tensor<{n}x{k}xf32>" if turned else f"tensor<{k}x{n}xf32>"
    factors = [
        f"%a[i0, r] : tensor<{m}x{k}xf32>",
        f"%b[{'i1, r' if turned else 'r, i1'}] : {matrix}",
    ]
    return parse_module(f"""
    func.func @main(%a: tensor<{m}x{k}xf32>, %b: {matrix}) -> tensor<{m}x{n}xf32> {{
      %zero = tir.fill 0.0 : f32 : tensor<{m}x{n}xf32>
      %y = tir.block [i1: {n}, i0: {m} | r: {k}] ins({", ".join(factors[:: -1 if swapped else 1])})
          outs(%zero[i0, i1] : tensor<{m}x{n}xf32>) {{
      ^bb0(%p: f32, %q: f32, %acc: f32):
        %0 = arith.mulf %p, %q : f32
        %1 = arith.addf %acc, %0 : f32
        tir.yield %1 : f32
      }} loc("dense")
      func.return %y : tensor<{m}x{n}xf32>
    }}""")


def with_script(toy, script, **members):
    """A target like the example, with another schedule and no code of its own."""
    own = {"schedule": lambda self, composite: script, **members}
    made = type("Other", (toy.Tile,), {"machine": "", **own})
    register("tile", made)
    return made()


def scheduled(module: ModuleOp, target) -> CompositeOp:
    """The composite of a module, once its schedule is applied."""
    partition(module, [target])
    run_passes(module, load_context(), "apply-schedules")
    (found,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    return found


# -- what is computed


@settings(max_examples=settings().max_examples // 10)
@given(*([st.integers(1, 20)] * 3), st.booleans(), st.booleans(), st.booleans())
def test_the_example_computes_what_the_evaluator_computes(toy, m, n, k, turned, swapped, coded):
    module = product(m, n, k, turned=turned, swapped=swapped)
    feeds = random_feeds(module, 1)
    target = toy.Tile() if coded else with_script(toy, "", schedule=toy.Tile.schedule)
    check = CheckEach()
    check.begin(module, feeds)
    package = byocir.compile(module, targets=[target], after_pass=check)
    (region,) = package.report.regions
    assert "tile.mma" in region.composites[0].schedule
    assert package.has_code(region.symbol) is coded
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])


def test_the_example_is_short():
    assert len(TILE.read_text().splitlines()) < 200


def test_what_is_scheduled_runs_as_c_where_it_has_no_code(toy):
    module = product(16, 24, 12)
    feeds = random_feeds(module, 1)
    target = with_script(toy, SCRIPT)
    package = byocir.compile(module, targets=[target], host="c")
    assert package.report.host_runs_on == "c"
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])


@pytest.mark.parametrize("constants", ["match", "bind", "argument"])
def test_a_step_of_a_recurrent_operator_is_scheduled_in_its_loop(toy, constants: str):
    numbers = [[0.125 * i for i in range(count)] for count in (16, 8)]
    model = parse_module(f"""
    func.func @main(%x: tensor<3x2x4xf32>) -> tensor<1x2x4xf32> {{
      %w = graph.constant #graph.array<{numbers[0]} : tensor<1x4x4xf32>>
      %b = graph.constant #graph.array<{numbers[1]} : tensor<1x8xf32>>
      %n = graph.constant #graph.array<[3, 3] : tensor<2xi32>>
      %h0 = graph.constant #graph.array<{numbers[1]} : tensor<1x2x4xf32>>
      %s, %h = graph.rnn %x, %w, %w, %b, %n, %h0 {{direction = "forward"}} : (tensor<3x2x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<3x1x2x4xf32>, tensor<1x2x4xf32>) loc("rnn")
      func.return %h : tensor<1x2x4xf32>
    }}""")  # noqa: E501
    target = with_script(toy, "", schedule=toy.Tile.schedule, constants=constants)
    package = byocir.compile(model, targets=[target])
    (region,) = package.report.regions
    assert region.turns == 3
    assert "tile(gemm, m=2, n=4, k=4)" in region.composites[0].schedule
    feeds = random_feeds(model, 0)
    expected = byocir.compile(model, targets=[]).run(feeds)["res0"]
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected)


def test_blocks_of_operators_are_scheduled_where_code_is_made_of_blocks(toy):
    """What an operator became is counted; a chain is computed tile by tile."""

    @composite("tile.dense")
    def dense():
        return op(
            "graph.relu", op("graph.add", op("graph.matmul", *map(wildcard, "xw")), wildcard("b"))
        )

    script = (
        "gemm, add, relu = blocks(); m, n = tile(relu, {0}=4, {1}=4); compute_at(add, n); "
        "compute_at(gemm, n); stage(relu, 0, tile.sums, at=n)"
    )
    module = parse_module("""
    func.func @main(%x: tensor<8x6xf32>, %w: tensor<6x12xf32>, %b: tensor<12xf32>) -> tensor<8x12xf32> {
      %0 = graph.matmul %x, %w : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32> loc("dense")
      %1 = graph.add %0, %b : (tensor<8x12xf32>, tensor<12xf32>) -> tensor<8x12xf32> loc("bias")
      %2 = graph.relu %1 : (tensor<8x12xf32>) -> tensor<8x12xf32> loc("relu")
      func.return %2 : tensor<8x12xf32>
    }""")  # noqa: E501
    names: list[str] = []

    def schedule(self, composite: CompositeOp) -> str:
        names[:] = [b for b in [*composite.body.block.ops][-2].names]
        return script.format(*names)

    target = with_script(toy, "", schedule=schedule, patterns=(dense,), codegen_level="tensor")
    feeds = random_feeds(module, 2)
    package = byocir.compile(module, targets=[target])
    assert len([op for op in package.module.walk() if isinstance(op, ForOp)]) == 2
    expected = byocir.compile(module, targets=[]).run(feeds)
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected["res0"])


def test_operators_of_a_target_that_sees_operators_have_no_schedule(toy):
    @composite("tile.relu")
    def relu():
        return op("graph.relu", wildcard("x"))

    def schedule(self, composite: CompositeOp) -> str:
        raise AssertionError("asked")

    module = parse_module("""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }""")
    target = with_script(toy, "", schedule=schedule, patterns=(relu,), codegen_level="graph")
    report = byocir.compile(module, targets=[target]).report
    assert [c.schedule for r in report.regions for c in r.composites] == [""]


@pytest.mark.parametrize("by_hand", [{0}, {1}, {0, 1}, set[int]()])
def test_a_target_leaves_schedules_to_the_search(toy, by_hand: set[int]) -> None:
    """Two products, of 12 and of 20 columns: a script is followed, None is a question."""
    module = parse_module("""
    func.func @main(%x: tensor<16x24xf32>, %v: tensor<24x12xf32>, %w: tensor<24x20xf32>)
        -> (tensor<16x12xf32>, tensor<16x20xf32>) {
      %0 = graph.matmul %x, %v : (tensor<16x24xf32>, tensor<24x12xf32>) -> tensor<16x12xf32>
      %1 = graph.matmul %x, %w : (tensor<16x24xf32>, tensor<24x20xf32>) -> tensor<16x20xf32>
      func.return %0, %1 : tensor<16x12xf32>, tensor<16x20xf32>
    }""")
    script = "m, n, k = tile(gemm, m=2, n=4, k=3); stage(gemm, 2, tile.sums, at=n); " + (
        "stage(gemm, 0, tile.factors, at=k); stage(gemm, 1, tile.factors, at=k)"
    )
    columns = {(12, 20)[number] for number in by_hand}

    class Mixed(toy.Tile):
        def schedule(self, composite: CompositeOp) -> str | None:
            match = toy.gemm.matched_in(composite)
            return script if match is not None and match["gemm"].extents["n"] in columns else None

    # sums of small integers are the same in any order
    feeds = {name: np.rint(4 * array) for name, array in random_feeds(module, 5).items()}
    package = byocir.compile(module.clone(), targets=[Mixed()], levels=("tensor",))
    scripts = [each.schedule for r in package.report.regions for each in r.composites]
    assert [each == script for each in scripts] == [number in by_hand for number in range(2)]
    assert all(scripts)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(package.run(feeds)[name], expected)


@pytest.mark.parametrize("none", [None, ""])
def test_what_is_left_to_the_search_is_asked_about_once(none: str | None) -> None:
    """What it fuses and splits does not fit the pattern any more that a hook reads sizes by."""
    example = import_file(TILE.with_name("gemmini.py"), "B217")
    patterns = {each.name: each for each in example.Gemmini.patterns}

    class Asked(example.Gemmini):
        def schedule(self, composite: CompositeOp) -> str | None:
            match = patterns[composite.pattern.data].matched_in(composite)
            assert match is not None
            return none

    net = Net((1, 16, 4, 4), per_channel=False)
    module = byocir.import_onnx(net.of(net.conv(net.value, (16, 16), 3), (1, 16, 4, 4)))
    targets = [Asked(), example.Gemmini()]
    reports = [partition(module.clone(), [each], levels=("tensor",)) for each in targets]
    asked, own = [[c.schedule for r in each.regions for c in r.composites] for each in reports]
    assert asked == own != []


def test_what_the_search_cannot_do_is_refused_beside_scripts() -> None:
    """Nothing brings sums to main memory: a target that leaves their schedule to the search does
    not take them alone."""

    @composite("narrowing.sums")
    def sums():
        x, weights = wildcard("x")["n (h + r) (w + s) c"].padded(0), wildcard("weights")["r s c o"]
        return block("n h w o | r s c", x, weights, multiply_add)

    for pattern, takes in ((layer, True), (sums, False)):
        members = {"name": "narrowing", "machine": described(pads=False), "patterns": (pattern,)}
        own = {"schedule": lambda self, composite: None}
        bases, module = (byocir.Target,), net(4, 8, [(0, 1)])
        targets = [type("Unscheduled", bases, {**members, **own}), type("Searched", bases, members)]
        reports = [partition(module.clone(), [t()], levels=("tensor",)) for t in targets]
        assert [bool(each.regions) for each in reports] == [takes, takes]
        assert reports[0].decisions == reports[1].decisions
        assert takes or "narrowing refuses it" in reports[0].decisions[0].reason


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "sums, narrow = blocks(); stage(sums, 0, narrowing.nera)",
            r"the name of a memory, found 'narrowing.nera'[^?]*'narrowing.near'\?",
        ),
        ("sums, narrow = blocks()", "sets elements of main memory to a number"),
    ],
)
def test_memories_of_a_script_are_told(script: str, said: str) -> None:
    members = {"name": "narrowing", "machine": described(pads=False), "patterns": (layer,)}
    members["schedule"] = lambda self, composite: script
    target = type("Scripted", (byocir.Target,), members)()
    with pytest.raises(ByocirError) as caught:
        byocir.compile(net(4, 8, [(0, 1)]), targets=[target], levels=("tensor",))
    assert re.search(said, str(caught.value))


# -- names


def test_blocks_and_iterators_are_called_as_in_the_pattern(toy):
    @composite("tile.batched")
    def batched():
        a, b = wildcard("a"), wildcard("b")
        return block("*t n | k", a["*t k"], b["n k"], lambda acc, x, w: acc + x * w) @ "it"

    module = parse_module("""
    func.func @main(%a: tensor<4x6x8xf32>, %b: tensor<2x8xf32>) -> tensor<4x6x2xf32> {
      %zero = tir.fill 0.0 : f32 : tensor<4x6x2xf32>
      %y = tir.block [i: 4, o: 2, j: 6 | r: 8] ins(%b[o, r] : tensor<2x8xf32>, %a[i, j, r] : tensor<4x6x8xf32>)
          outs(%zero[i, j, o] : tensor<4x6x2xf32>) {
      ^bb0(%p: f32, %q: f32, %acc: f32):
        %0 = arith.mulf %p, %q : f32
        %1 = arith.addf %acc, %0 : f32
        tir.yield %1 : f32
      }
      func.return %y : tensor<4x6x2xf32>
    }""")  # noqa: E501
    feeds = random_feeds(module, 3)
    expected = evaluate(module, feeds)["res0"]
    script = "a, b = tile(it, t1=3, k=4); stage(it, 0, near, at=b)"
    made = scheduled(module, with_script(toy, script, patterns=(batched,)))
    text = print_module(module, debuginfo=False)
    assert "[t0: 4, n: 2, t1: 3, " in text
    assert 'tir.alloc : memref<4x3x4xf32, "near">' in text
    assert made.schedule is not None
    assert made.schedule.data == script
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)


# -- what is told


def test_schedules_are_in_the_module_the_report_and_what_is_explained(toy, tmp_path: Path):
    module = product(16, 24, 12)
    report = partition(module, [toy.Tile()])
    (region,) = report.regions
    assert region.composites[0].schedule == SCRIPT
    assert region_lines(report)[0][1] == f"schedule {SCRIPT}"
    again = parse_module(print_module(module))
    assert print_module(again) == print_module(module)
    package = byocir.compile(again, targets=None)
    assert package.report.regions == report.regions
    package.save(tmp_path / "dense.bpkg")
    assert byocir.load(tmp_path / "dense.bpkg", targets=[str(TILE)]).report == package.report


def test_a_schedule_that_was_edited_in_a_module_is_kept(toy):
    module = product(16, 24, 12)
    target = with_script(toy, SCRIPT)
    partition(module, [target])
    edited = print_module(module).replace("m=8, n=8, k=6", "m=4, n=8, k=3")
    module = parse_module(edited)
    package = byocir.compile(module, targets=None)
    (intrinsic,) = (op for op in package.module.walk() if isinstance(op, IntrinsicOp))
    assert "[n: 8, m: 4 | k: 3]" in print_module(package.module)
    assert intrinsic.callee.data == "tile.mma"
    feeds = random_feeds(product(16, 24, 12), 4)
    expected = evaluate(product(16, 24, 12), feeds)
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected["res0"])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "m, = tile(gemm, m=3)",
            r"found m, = tile\(gemm, m=3\) refused \(B252\): .*divides m \(16\), found 3",
        ),
        (
            "m, n = tile(gemm, m=16, n=8); stage(gemm, 2, near, at=n); tensorise(gemm, tile.mma)",
            r"found tensorise\(gemm, tile.mma\) refused \(B259\)",
        ),
        ("tile(gem, m=4)", r"found tile\(gem, m=4\) refused \(B250\).*named 'gem'"),
        ("tensorise(gemm, tile.mm)", r"refused \(B250\).*found 'tile.mm'"),
        ("k, = tile(gemm, k=6); parallel(k)", r"found parallel\(k\) refused \(B255\)"),
        ("for i in 3:", r"found 'for i in 3:' refused \(B260\)"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_told(toy, script: str, said: str):
    target = with_script(toy, script)
    with pytest.raises(ByocirError, match=said) as caught:
        byocir.compile(product(16, 24, 12), targets=[target])
    told = caught.value
    assert (told.code, told.where) == ("B261", "dense")
    assert told.message.startswith("expected a schedule of tile.gemm that target 'tile' can follow")


def test_a_hook_that_fails_or_gives_no_text_is_the_targets_mistake(toy):
    broken = with_script(toy, "", schedule=lambda self, composite: composite.none)
    with pytest.raises(ByocirError, match="target 'tile' failed in schedule") as caught:
        byocir.compile(product(4, 4, 4), targets=[broken])
    assert caught.value.code == "B219"
    with pytest.raises(ByocirError, match="expected schedule of target 'tile' to give text"):
        byocir.compile(product(4, 4, 4), targets=[with_script(toy, 3)])
    twice = with_script(toy, SCRIPT, instructions=(toy.mma.pattern, toy.mma.pattern))
    with pytest.raises(ByocirError, match=r"B208.*tile.mma"):
        byocir.compile(product(16, 24, 12), targets=[twice])
