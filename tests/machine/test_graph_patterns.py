"""Patterns of operators take what a described machine can do of their blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import byocir
from byocir.dialects.types import f32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import Composite, op, wildcard
from byocir.rewrites.machine import search_schedule
from byocir.rewrites.machine.search_schedule import refusal_of
from byocir.vendor.user_code import import_file

EXAMPLE = import_file(Path(__file__).parents[2] / "examples" / "float_npu.py", "B217")
OPERATORS = {"softmax": 1, "gelu": 1, "tan": 1, "add": 2, "div": 2, "layer_norm": 2, "matmul": 2}
OPERATORS["global_average_pool"] = 1


def taking(name: str, operands: int) -> Composite:
    inputs = (wildcard(letter, dtype=f32) for letter in "xy"[:operands])
    return Composite(f"ops.{name}", (op(f"graph.{name}", *inputs),))


class Operators(byocir.Target):
    """Takes operators by name; says nothing of the level at which its programs are made."""

    name, machine = "ops", EXAMPLE.npu
    patterns = tuple(taking(name, operands) for name, operands in OPERATORS.items())


class Bound(Operators):
    """Has constants inside its composites."""

    constants = "bind"


def run(
    nodes: str, target: byocir.Target, ports: str = "(float[4,40] x) => (float[4,40] y)"
) -> byocir.Package:
    """Compiles nodes from x to y, and compares what they compute."""
    header = f'<ir_version: 10, opset_import: ["" : 21]> net {ports}'
    numbers = "<float two = {2.0}, float[40] gain = {" + ", ".join(["1.5"] * 40) + "}>"
    module = byocir.import_onnx(onnx.parser.parse_model(f"{header} {numbers} {{ {nodes} }}"))
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["y"]
    package = byocir.compile(module, targets=[target])
    np.testing.assert_array_equal(package.run(feeds, check=True)["y"], expected)
    return package


@pytest.mark.parametrize("node", ["Softmax (x)", "Gelu (x)", "Add (x, x)", "Div (x, gain)"])
def test_operators_become_programs(node: str) -> None:
    """Also where the target does not say that it generates code of blocks."""
    package = run(f"y = {node}", Operators())
    assert [each.cycles > 0 for each in package.profile()] == [True]


@pytest.mark.parametrize("shape", [(4, 40), (2, 3, 4, 5)])
def test_norms_become_programs(shape: tuple[int, ...]) -> None:
    """Also of several dimensions, a tile of which has one sum."""
    image = f"float[{','.join(map(str, shape))}]"
    nodes = f"y = LayerNormalization <axis = {1 - len(shape)}> (x, w)"
    ports = f"({image} x, float[{','.join(map(str, shape[1:]))}] w) => ({image} y)"
    package = run(nodes, Bound(), ports)
    assert [each.cycles > 0 for each in package.profile()] == [True]


@pytest.mark.parametrize(
    ("node", "ports"),
    [
        ("Concat <axis = 1> (x, x)", "(float[4,40] x) => (float[4,80] y)"),
        ("Mod <fmod = 1> (x, x)", "(float[4,40] x) => (float[4,40] y)"),
        ("GatherND (x, at)", "(int32[2,3] x) => (int32[2] y)"),
    ],
)
def test_operators_that_are_no_blocks_of_whole_arrays_stay_on_the_host(node, ports) -> None:
    class Others(Operators):
        patterns = tuple(
            Composite(f"ops.{name}", (op(f"graph.{name}", wildcard("x"), wildcard("y")),))
            for name in ("concat", "mod", "gather_nd")
        )

    at = "at = Constant <value = int64[2,2] {0, 2, 1, 0}> ()"
    (decision,) = run(f"{at} y = {node}", Others(), ports).report.decisions
    assert not decision.taken
    assert "expected" in decision.reason


@pytest.mark.parametrize("shape", [(16, 3, 6), (40, 4, 4)])
def test_means_that_keep_their_dimensions_become_programs(shape: tuple[int, int, int]) -> None:
    """The sum is written at index 0 of dimensions of one element, and divided in the same tile."""
    ports = f"(float[1,{','.join(map(str, shape))}] x) => (float[1,{shape[0]},1,1] y)"
    package = run("y = GlobalAveragePool (x)", Operators(), ports)
    assert [each.cycles > 0 for each in package.profile()] == [True]


def test_what_no_instruction_does_stays_on_the_host_with_the_reason() -> None:
    package = run("a = Add (x, x) b = Tan (a) y = Softmax (b)", Operators())
    (refused,) = [each for each in package.report.decisions if not each.taken]
    assert refused.pattern == "ops.tan"
    assert refused.reason.splitlines()[1] == 'none does x.unary("tan") of f32'
    assert len(package.report.regions) == 2


def test_operators_that_read_no_constants_are_asked_about_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They could have no more constants with `constants = "bind"`."""
    asked = list[object]()

    def counted(*arguments: Any) -> str:
        asked.append(arguments)
        return refusal_of(*arguments)

    monkeypatch.setattr(search_schedule, "refusal_of", counted)
    (refused,) = run("y = Tan (x)", Operators()).report.decisions
    assert not refused.taken
    assert len(asked) == 1


def test_numbers_that_are_arguments_are_refused_with_what_helps() -> None:
    """A number is no row that a copy could bring, but instructions have it as an immediate."""
    (refused,) = run("y = Div (x, two)", Operators()).report.decisions
    assert '; constants = "bind" in the target' in refused.reason.splitlines()[1]
    (taken,) = run("y = Div (x, two)", Bound()).report.decisions
    assert taken.taken
