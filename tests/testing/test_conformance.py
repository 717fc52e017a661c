"""`conform` finds what is wrong with targets, and nothing where nothing is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from seeded_bugs import BUGS, Bug
from xdsl.dialects.func import FuncOp

import byocir
from byocir.cli.main import main
from byocir.dialects.context import load_context
from byocir.dialects.graph import SplitOp
from byocir.dialects.text import parse_module
from byocir.evaluate.module import random_feeds
from byocir.patterns import Composite, RegionPolicy, composite, op, rank, wildcard
from byocir.patterns.match import python_value
from byocir.targets.base import Target
from byocir.targets.json import JsonTarget
from byocir.testing import conform
from byocir.testing.conformance.cases import Case, Unmeant
from byocir.testing.conformance.options import settings_of
from byocir.testing.conformance.session import Session
from byocir.testing.conformance.trial import Trial, difference
from byocir.testing.draft import WIDE
from byocir.vendor.user_code import import_file

NAMES = ("toy_npu", "tile_npu", "counted_engine", "gemmini")
ROOT = Path(__file__).parents[2]
EXAMPLES = Path(__file__).parents[2] / "examples"
TOY = EXAMPLES / "toy_npu.py"


def pattern_of(path: Path, name: str) -> Composite:
    return getattr(import_file(path, "B217"), name)


TOYS = [ROOT / "tests" / "programs" / f"{name}.py" for name in ("byte_npu", "c_npu")]
SHIPPED = [
    *("dnnl", "json", "ort", "vta"),
    *(str(path) for path in (*(EXAMPLES / f"{n}.py" for n in NAMES), *TOYS)),
]


@pytest.mark.parametrize("target", [EXAMPLES / "tile_npu.py", *TOYS], ids=lambda path: path.stem)
def test_the_toys_conform(target, conforms):
    """That of the examples is tried by the page about it."""
    score = conforms(str(target), rounds=1)
    assert score.never == []


def test_a_problem_is_made_small_and_shown_again(tmp_path, capsys):
    target = next(bug for bug in BUGS if bug.name == "relu missing").write(tmp_path)
    folder, limits = tmp_path / "found", ["--region-seconds", "99.5", "--region-bytes", "1G"]
    assert main(["conform", target, "--rounds", "1", "-o", str(folder), *limits]) == 3
    told = capsys.readouterr().out
    assert told.startswith("error[B380]: expected res0 as the evaluator computes it, ")
    assert "\n  at    npu.conv, in a " in told
    assert "npu: patterns 3/3, rules 2/2, " in told
    (program,) = folder.glob("*.mlir")
    ops = re.findall(r" = graph\.(\w+)", program.read_text())
    assert [op for op in ops if op != "constant"] == ["conv", "relu"]
    (again,) = re.findall("again byocir (.*)", told)
    assert again == f"conform {target}:Npu --case {program} {' '.join(limits)}"
    assert main(again.split()) == 3
    assert "error[B380]" in capsys.readouterr().out
    assert main(["conform", str(TOY), "--case", str(program)]) == 0
    assert capsys.readouterr().out == "ok\n"


LEAST = """
import byocir, numpy as np
from byocir.patterns import composite, op, wildcard

@composite("npu.relu")
def relu():
    return op("graph.relu", wildcard("x"))

class Npu(byocir.Target):
    name, patterns = "npu", (relu,)

    def emit(self, module, symbols):
        return {"code": b""}

    def load(self, blobs):
        return lambda symbol, inputs: [np.full_like(inputs[0], -np.inf)]
"""


def test_a_case_with_infinities_is_tried_again_without_a_warning(tmp_path, capsys):
    kind, program, target = "tensor<2x2xf32>", tmp_path / "case.mlir", tmp_path / "npu.py"
    body = f"%1 = graph.relu %0 : ({kind}) -> {kind}\n func.return %1 : {kind}"
    program.write_text(f"func.func @main(%0: {kind}) -> {kind} {{\n {body}\n}}")
    given = np.array([[np.inf, -np.inf], [1e38, np.nan]], np.float32)
    np.savez(tmp_path / "case.npz", arg0=given)
    target.write_text(LEAST)
    assert main(["conform", str(target), "--case", str(program)]) == 3
    assert capsys.readouterr().out.startswith("error[B380]: expected res0 as the evaluator compu")


def test_the_same_seed_gives_the_same_score(capsys):
    score = conform(str(TOY), rounds=1, seed=3).to_dict()
    assert score["wrong"] == 0
    assert main(["conform", str(TOY), "--rounds", "1", "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == score


@pytest.fixture
def one_hash_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts no process with other hashes, which takes as long as all else of a short session."""
    monkeypatch.setattr(Session, "_try_other_hashes", lambda *given: None)


@pytest.mark.usefixtures("one_hash_seed")
def test_progress_is_told_in_lines_where_no_terminal_shows_it(capsys, monkeypatch):
    monkeypatch.setattr("byocir.cli.conform.BETWEEN", 0)
    assert main(["conform", str(TOY), "--rounds", "1", "--pattern", "npu.conv"]) == 0
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d+ s, 0 cases, 0 wrong: npu.conv", first)
    options = ["--seconds", "0.1", "--pattern", "npu.conv", "--first"]
    assert main(["conform", str(TOY), *options]) == 0
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d+ of 0 s, 0 cases, 0 wrong: npu.conv", first)


def test_a_target_without_patterns(tmp_path, capsys):
    file = tmp_path / "bare.py"
    file.write_text("import byocir\n\nclass Bare(byocir.Target):\n    name = 'bare'\n")
    assert main(["conform", str(file), "--seconds", "60"]) == 1
    assert "B388" in (found := capsys.readouterr().err)
    assert "expected a target with patterns, found none in bare" in found


def test_a_pattern_that_there_is_not(capsys):
    assert main(["conform", str(TOY), "--pattern", "npu.con"]) == 1
    assert "error[B388]: expected a pattern of target 'npu', found 'npu.con'" in (
        capsys.readouterr().err
    )


def test_an_interrupt_prints_the_score_so_far(monkeypatch, capsys):
    run = Trial.run

    def interrupted(trial):
        if interrupted.left == 0:
            raise KeyboardInterrupt
        interrupted.left -= 1
        return run(trial)

    interrupted.left = 2
    monkeypatch.setattr(Trial, "run", interrupted)
    assert main(["conform", str(TOY)]) == 130
    out, err = capsys.readouterr()
    told, *lines = out.splitlines()
    why = "of 1 program made for it none was handed over as such"
    assert told == f"never reached: npu.max_pool ({why})"
    assert lines == [
        "never reached, for lack of time: npu.conv: Input channels are a multiple of 8",
        "never reached, for lack of time: npu.conv: The kernel has two dimensions of at most 3",
        "npu: patterns 2/3, rules 0/2, 2 cases, 0 wrong, 3 never reached",
    ]
    assert err == "interrupted\n"


@composite("plain.neg")
def negation():
    return op("graph.neg", wildcard("x"))


@negation.rule
def is_there(m):
    """It is there."""
    return True, None


@composite("plain.twice")
def twice():
    return op("graph.neg", wildcard("x"))


@composite("plain.both")
def both():
    x = wildcard("x", where=(rank(1), rank(2)))
    return op("graph.abs", x)


@composite("plain.view", glue=True)
def view():
    return op("graph.reshape", wildcard("x"))


@dataclass(frozen=True)
class Plain(JsonTarget):
    """What of it is never reached, and why: a rule that always holds, a pattern behind another, one
    of which there are no programs. Glue is reached beside others."""

    name = "plain"
    patterns = (negation, twice, both, view)


def test_what_is_never_reached_is_told_with_what_hinders():
    score = conform(Plain(), rounds=1)
    assert score.hindrances == {
        "plain.twice": "of 1 program made for it none was handed over as such",
        "plain.both": "no program that it takes was found in 1 search",
        "plain.neg: It is there": "no program that it alone refuses was found in 2 searches",
    }
    assert not score.wrong


@dataclass(frozen=True)
class Picky(JsonTarget):
    """Refuses what its pattern takes."""

    name = "plain"
    patterns = (negation,)

    def refusal(self, ops):
        return f"{len(ops)} op is too many"


def test_the_reason_is_told_for_which_a_target_takes_no_program_of_a_pattern():
    hindrance = conform(Picky(), rounds=2).hindrances["plain.neg"]
    assert hindrance.endswith("as such; for example: plain refuses it: 1 op is too many")


def test_the_reason_is_told_for_which_programs_of_a_pattern_are_not_tried(monkeypatch):
    monkeypatch.setattr("byocir.testing.conformance.session.MOST_ELEMENTS", 0)
    hindrance = conform(Picky(), rounds=1).hindrances["plain.neg"]
    assert "; for example: expected at most 0 elements in an array to try a program, " in hindrance


@composite("sized.neg")
def sized():
    return op("graph.neg", wildcard("x", where=rank(4)))


def odd(axis):
    def rule(m):
        return m["x"].type.shape[axis] % 2 == 1, m["x"].type.shape

    rule.__doc__ = f"Size {axis} is odd."
    return rule


for each in range(4):
    sized.rule(odd(each))


def test_each_rule_has_its_near_miss_in_the_first_round():
    @dataclass(frozen=True)
    class Sized(JsonTarget):
        name = "sized"
        patterns = (sized,)

    score = conform(Sized(), rounds=1)
    assert (score.never, len(score.rules), score.wrong) == ([], 4, 0)


LRN = """func.func @main(%0: {0}) -> {0} {{
  %1 = graph.lrn %0 {{alpha = 1.0 : f32, beta = {1} : f32, bias = 1.0 : f32, size = {2} : i64}}
    : ({0}) -> {0}
  func.return %1 : {0}
}}"""


@pytest.mark.parametrize(
    ("shape", "beta", "size", "regions"),
    [
        ("1x4x2x2", 0.5, 3, 1),
        ("1x4x2", 0.5, 3, 0),
        ("1x4x2x2", 0.5, 2, 0),
        ("1x4x2x2", 0.5, 1, 0),
        ("1x4x2x2", 0.0, 3, 0),
    ],
)
def test_onnx_runtime_gets_no_lrn_that_it_refuses_or_computes_less_well(shape, beta, size, regions):
    module = parse_module(LRN.format(f"tensor<{shape}xf32>", beta, size), load_context())
    package = byocir.compile(module, targets=["ort"])
    assert len(package.report.regions) == regions
    package.run(random_feeds(module))


HASHED = """
from dataclasses import dataclass
import byocir
from byocir.patterns import composite, op, wildcard

@composite("hashed.neg")
def neg():
    return op("graph.neg", wildcard("x"))

@dataclass(frozen=True)
class Hashed(byocir.Target):
    name, patterns = "hashed", (neg,)

    def emit(self, module, symbols):
        return {"code": " ".join({f"register{i}" for i in range(12)}).encode()}

    def load(self, blobs):
        return lambda symbol, inputs: [-inputs[0]]
"""


def test_code_does_not_depend_on_the_order_of_sets(tmp_path, capsys):
    target, folder = tmp_path / "hashed.py", tmp_path / "found"
    target.write_text(HASHED)
    score = conform(str(target), seconds=0.01, folder=folder)
    (failure,) = score.failures
    assert (failure.problem.code, failure.pattern) == ("B382", "hashed.neg")
    assert "under another PYTHONHASHSEED, found another code" in failure.problem.text
    assert main(["conform", str(target), "--case", str(failure.file)]) == 3
    assert capsys.readouterr().out == f"{failure.problem}\n"


SMALL = """func.func @main(%0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>) {
  %1 = graph.sigmoid %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = graph.constant #graph.array<[0.5, 0.5] : tensor<2xf32>>
  %3 = graph.sub %1, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = graph.less %2, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  func.return %3, %4 : tensor<2xf32>, tensor<2xi1>
}"""


@pytest.mark.parametrize(("tolerance", "room"), [(0.0, 0), (1e-6, 1e-6)])
def test_a_tolerance_holds_for_what_becomes_of_it(tolerance, room):
    """A small difference of large numbers may be off by what these are."""

    @dataclass(frozen=True)
    class Library(Target):
        name = "library"

    Library.tolerance = tolerance
    module = parse_module(SMALL, load_context())
    case = Case(module, {"arg0": np.array([1e-4, 1e-3], np.float32)})
    meaning = case.meaning(Library())
    expected, near = meaning.outputs["res0"], meaning.room["res0"]
    assert (near >= room).all()
    assert (near <= 10 * room).all()
    off = expected + np.float32(3e-7)
    assert (difference(off, expected, near) == "") == bool(tolerance)
    assert difference(expected + np.float32(1e-4), expected, near)
    less = meaning.outputs["res1"]
    assert difference(~less, less, meaning.room["res1"])


POW = """func.func @main(%0: tensor<1xi64>, %1: tensor<1xi64>) -> tensor<1xi64> {
  %2 = graph.pow %0, %1 : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  func.return %2 : tensor<1xi64>
}"""
CAST = """func.func @main(%0: tensor<1xf64>) -> tensor<1xi64> {
  %1 = graph.cast %0 {to = i64} : (tensor<1xf64>) -> tensor<1xi64>
  func.return %1 : tensor<1xi64>
}"""


@pytest.mark.parametrize(
    ("text", "given", "is_meant"),
    [
        (POW, (3, 4), True),
        (POW, (-2, 53), True),
        (POW, (3, 34), False),  # floats of 64 bits round it
        (POW, (2, 63), False),
        (POW, (2, -1), False),
        (POW, (0, -1), False),
        (CAST, (-(2.0**63),), True),
        (CAST, (2.0**63,), False),
    ],
)
def test_what_integers_do_not_hold_means_nothing(text, given, is_meant):
    @dataclass(frozen=True)
    class Library(Target):
        name = "library"

    module = parse_module(text, load_context())
    dtypes = {name: array.dtype for name, array in random_feeds(module).items()}
    feeds = {n: np.array([v], d) for (n, d), v in zip(dtypes.items(), given, strict=True)}
    assert (Case(module, feeds).meaning(Library()) is not None) == is_meant


GRU = """func.func @main(%0: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
  %1 = graph.constant #graph.array<[0.0, 0.0, 1.0] : tensor<1x3x1xf32>>
  %2 = graph.constant #graph.array<[0.0, 0.0, 0.0] : tensor<1x3x1xf32>>
  %3 = graph.constant #graph.array<[-100.0, 3.0, 0.0, 0.0, 0.0, 200.0] : tensor<1x6xf32>>
  %4 = graph.constant #graph.array<[1] : tensor<1xi32>>
  %5 = graph.constant #graph.array<[0.0] : tensor<1x1x1xf32>>
  %6, %7 = graph.gru %0, %1, %2, %3, %4, %5 {direction = "forward", linear_before_reset = 1 : i64}
    : (tensor<1x1x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>, tensor<1xi32>,
    tensor<1x1x1xf32>) -> (tensor<1x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %7 : tensor<1x1x1xf32>
}"""


def test_large_terms_inside_of_a_recurrent_operator_grant_what_becomes_of_them():
    """A gate that is off by its last digit, times 200, is added to what cancels it."""

    @dataclass(frozen=True)
    class Library(Target):
        name = "library"
        tolerance = 1e-6

    x = np.full((1, 1, 1), -200 / (1 + np.exp(-3.0)), np.float32)
    meaning = Case(parse_module(GRU, load_context()), {"arg0": x}).meaning(Library())
    assert abs(meaning.outputs["res0"].item()) < 1e-4
    assert meaning.room["res0"].item() > 1e-4


LARGER = """func.func @main(%0: tensor<8xf32>, %1: tensor<8xf32>) -> tensor<8xi1> {
  %2 = graph.sigmoid %0 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = graph.sigmoid %1 : (tensor<8xf32>) -> tensor<8xf32>
  %4 = graph.greater %2, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  func.return %4 : tensor<8xi1>
}"""


def test_either_of_two_nearly_equal_floats_may_be_the_larger():
    @dataclass(frozen=True)
    class Library(Target):
        name = "library"
        tolerance = 1e-6

    feeds = dict.fromkeys(("arg0", "arg1"), np.linspace(-1, 1, 8, dtype=np.float32))
    meaning = Case(parse_module(LARGER, load_context()), feeds).meaning(Library())
    assert (meaning.room["res0"] >= 1).all()


NORM = """func.func @main(%0: tensor<1x1x1x1xf32>, %1: tensor<1xf32>) -> tensor<1x1x1x1xf32> {
  %2 = graph.instance_norm %0, %1, %1 {epsilon = 1.0e-05 : f32}
    : (tensor<1x1x1x1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x1xf32>
  func.return %2 : tensor<1x1x1x1xf32>
}"""


def test_norms_over_one_element_grant_what_becomes_of_its_difference_from_the_mean():
    """It is zero, divided by the root of epsilon."""

    @dataclass(frozen=True)
    class Library(Target):
        name = "library"
        tolerance = 1e-6

    feeds = {"arg0": np.full((1, 1, 1, 1), 1.5, np.float32), "arg1": np.ones(1, np.float32)}
    meaning = Case(parse_module(NORM, load_context()), feeds).meaning(Library())
    assert 1e-4 < meaning.room["res0"].item() < 1e-2


def test_sums_over_windows_of_channels_may_lose_what_larger_ones_before_hide():
    @dataclass(frozen=True)
    class Library(Target):
        name = "library"
        tolerance = 1e-6

    feeds = {"arg0": np.array([300, 300, 2, 2], np.float32).reshape(1, 4, 1, 1)}
    text = LRN.format("tensor<1x4x1x1xf32>", 0.75, 3)
    meaning = Case(parse_module(text, load_context()), feeds).meaning(Library())
    *_, last = meaning.room["res0"].ravel()
    assert 1e-3 < last < 1


EDGE = """func.func @main(%0: tensor<2xf32>) -> tensor<2xi64> {
  %1 = graph.exp %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = graph.cast %1 {to = i64} : (tensor<2xf32>) -> tensor<2xi64>
  %3 = graph.constant #graph.array<[5, 6] : tensor<2xi64>>
  %4 = graph.gather %3, %2 {axis = 0 : i64} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  func.return %4 : tensor<2xi64>
}"""


def test_a_program_whose_meaning_hangs_on_a_last_digit_grants_nothing():
    """Floats that are a little larger lead outside of the array: no result is right."""

    @dataclass(frozen=True)
    class Library(Target):
        name = "library"

    module = parse_module(EDGE, load_context())
    below = np.full(2, np.nextafter(np.log(np.float32(2)), np.float32(0)), np.float32)
    meaning = Case(module, {"arg0": below}).meaning(Library())
    assert meaning.outputs["res0"].tolist() == [6, 6]
    with pytest.raises(Unmeant):
        _ = meaning.room


@dataclass(frozen=True)
class Optional(Target):
    """A target of options, of which it refuses some."""

    name = "optional"
    patterns = (pattern_of(TOY, "dense"),)
    fast: bool = False
    mode: Literal["near", "far"] = "near"
    lanes: int = 8
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.lanes > 8:
            raise ValueError("expected at most 8 lanes")


def test_each_option_is_tried():
    told = [str(each.spec()) for each in settings_of(Optional())]
    assert told == [
        "optional",
        "optional{fast=true}",
        'optional{mode="far"}',
        "optional{lanes=4}",
    ]


@pytest.mark.usefixtures("one_hash_seed")
def test_a_session_ends_between_two_calls(monkeypatch):
    """A case of a slow simulator has many calls: those that follow when time is over are left out,
    and nothing is blamed. The first case is run in whole, so that there is one."""
    told = []

    class Slow(import_file(TOY, "B217").Npu):
        def emit(self, module, symbols):
            told.append("emit")
            return super().emit(module, symbols)

        def load(self, blobs):
            run = super().load(blobs)
            return lambda *given: told.append("run") or run(*given)

    def clock() -> float:
        return 0.0 if told.count("emit") < 3 else 100.0

    monkeypatch.setattr("time.monotonic", clock)
    score = conform(Slow(), seconds=60)
    assert score.cases
    assert not score.wrong
    behind = [i for i, each in enumerate(told) if each == "emit"][2]
    assert "run" in told[:behind]
    assert "run" not in told[behind:]


def test_no_pattern_takes_the_time_of_others(monkeypatch):
    """Of two patterns the first has cases that take a third of its part each: it has four, and the
    quick one goes on until its part is over."""
    now, told = [0.0], []

    def match(self, setting, composite, number):
        told.append(composite.name)
        now[0] += 10.0 if composite.name == "lean.dense" else 1.0

    for name in ("_near_miss", "_net", "_try_other_hashes"):
        monkeypatch.setattr(Session, name, lambda *given: None)
    monkeypatch.setattr(Session, "_match", match)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    Session(Lean()).run(90)
    assert now[0] == pytest.approx(60, abs=10)
    assert told.count("lean.dense") == 4
    assert told.count("lean.max_pool") > 15


@dataclass(frozen=True)
class Lean(import_file(TOY, "B217").Npu):
    """A toy that an option takes a pattern from."""

    name = "lean"
    patterns = tuple(
        pattern_of(TOY, name).renamed(f"lean.{name}") for name in ("dense", "max_pool")
    )
    products: bool = True

    def composites(self):
        return self.patterns[0 if self.products else 1 :]


@pytest.mark.parametrize("products", [True, False])
def test_a_pattern_that_an_option_takes_away_is_tried_where_it_is_there(products):
    score = conform(Lean(products), rounds=2, patterns=["lean.dense"])
    assert (score.patterns, score.never, score.wrong) == (["lean.dense"], [], 0), score.text()
    both = conform(Lean(products), rounds=2)
    assert ("lean.dense" in both.patterns) == products
    assert not both.wrong, both.text()


@composite("splitting.split")
def split():
    """The parts of an array."""
    return op("graph.split", wildcard("x"))


@dataclass(frozen=True)
class Splitting(Target):
    """A target that gives all parts of what it splits, or those that are read."""

    name, patterns = "splitting", (split,)
    region_policy = RegionPolicy("none")
    all_parts: bool = False

    def emit(self, module, symbols):
        found = {}
        for function in module.ops:
            if isinstance(function, FuncOp) and function.sym_name.data in symbols:
                (taken,) = (op for op in function.walk() if isinstance(op, SplitOp))
                read = {value.index for value in taken.parent_block().last_op.operands}
                ends, axis = np.cumsum(python_value(taken.split)), python_value(taken.axis)
                found[function.sym_name.data] = [ends[:-1].tolist(), axis, sorted(read)]
        return {"splits": json.dumps(found).encode()}

    def load(self, blobs):
        def run(symbol, inputs):
            ends, axis, read = json.loads(blobs["splits"])[symbol]
            parts = np.split(inputs[0], ends, axis)
            return parts if self.all_parts else [parts[i] for i in read]

        return run


@pytest.mark.parametrize("all_parts", [True, False])
def test_of_several_results_some_are_read_by_nothing(all_parts):
    score = conform(Splitting(all_parts), rounds=3)
    assert score.taken["splitting.split"] > 3
    assert bool(score.wrong) == all_parts, score.text()
    for failure in score.failures:
        assert "B311" in str(failure.problem)


QUICK = ("last tile lost", "relu missing", "input written", "emit differs", "saturation missing")


def check(bug: Bug, folder: Path) -> None:
    """A target with a bug is found out, by that problem alone, within a minute."""
    score = conform(bug.write(folder), seconds=60, first=True)
    (failure,) = score.failures
    assert failure.problem.code in bug.code.split(" or "), score.text()


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if bug.name in QUICK], ids=lambda bug: bug.name
)
def test_bugs_are_found(bug, tmp_path):
    check(bug, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if bug.name not in QUICK], ids=lambda bug: bug.name
)
def test_all_bugs_are_found(bug, tmp_path):
    check(bug, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("target", SHIPPED, ids=lambda target: Path(target).stem)
def test_shipped_targets_conform(target, seed):
    score = conform(target, seconds=60, seed=seed)
    assert not score.wrong, score.text()


def test_a_saved_case_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "json", "--case", "nosuch.mlir"]) == 1
    error = capsys.readouterr().err
    assert "expected a program (.mlir), found none" in error
    assert "nosuch.mlir" in error


def test_programs_for_machines_that_want_multiples_of_channels_have_them() -> None:
    """Sizes are such a multiple, or small, in every other draw."""
    target = str(EXAMPLES / "vta_machine.py")
    score = conform(target, patterns=["vta16.matmul"], rounds=3, seed=1)
    assert score.taken["vta16.matmul"] > 0
    assert score.wrong == 0
    assert WIDE.with_multiples(1) is WIDE
