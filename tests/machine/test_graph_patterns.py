"""Patterns of operators take what a described machine can do of their blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import byocir
from byocir.dialects.types import f32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import Composite, op, wildcard
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


def test_norms_become_programs() -> None:
    package = run("y = LayerNormalization <axis = -1> (x, gain)", Bound())
    assert [each.cycles > 0 for each in package.profile()] == [True]


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
    assert "none does math.tan of f32" in refused.reason
    assert len(package.report.regions) == 2


def test_numbers_that_are_arguments_are_refused_with_what_helps() -> None:
    """A number is no row that a copy could bring, but instructions have it as an immediate."""
    (refused,) = run("y = Div (x, two)", Operators()).report.decisions
    assert refused.reason.splitlines()[1].startswith('constants = "bind"')
    (taken,) = run("y = Div (x, two)", Bound()).report.decisions
    assert taken.taken
