"""Programs made from patterns: matching ones are taken, near misses declined for that reason."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.ir import Block, Operation

from byocir.dialects.byoc import CompositeOp, DecisionAttr, TrailOp
from byocir.dialects.context import load_context
from byocir.dialects.graph import ConstantOp, Graph, YieldOp
from byocir.dialects.locations import names
from byocir.dialects.types import f32, i8, i32, tensor
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import (
    Composite,
    block,
    composite,
    constant,
    number,
    op,
    optional,
    parallel,
    path,
    rank,
    repeat,
    result,
    supports,
    wildcard,
    within,
)
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import run_passes
from byocir.targets.base import Target
from byocir.targets.dnnl.target import Dnnl
from byocir.targets.json import Json
from byocir.targets.ort import Ort
from byocir.targets.vta_patterns import PATTERNS
from byocir.testing import (
    Example,
    find_match,
    find_near_miss,
    matches,
    matching,
    near_miss,
    unflipped,
)
from byocir.testing.by_example import choices, example_of, graph_ops
from byocir.testing.matches import first_miss, misses_of

TOY = Path(__file__).parents[2] / "examples" / "toy_npu.py"


def toy() -> Iterable[Composite]:
    spec = importlib.util.spec_from_file_location("toy_npu", TOY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Npu.patterns


SHIPPED = list(PATTERNS)
ONE_BY_ONE = [c.of_target(t.name) for t in (Ort(), Json()) for c in t.composites()]
NOT_BROKEN = (
    "no program was found that breaks these rules alone: say where to look, "
    '@pattern.rule(vary="x.shape[0]", holds=(8,), fails=(9,))'
)
ALL = [*SHIPPED, *(c.of_target("dnnl") for c in Dnnl.patterns), *toy()]


def handed_over(example: Example) -> tuple[list[CompositeOp], list[DecisionAttr]]:
    """What match-composites makes of an example, for a target of this composite alone."""

    @dataclass(frozen=True)
    class Only(Target):
        name: ClassVar[str] = "only"
        patterns: ClassVar[tuple[Composite, ...]] = (example.composite,)

    register("only", Only)
    module = example.module.clone()
    set_targets(module, [attr_of(Only())])
    run_passes(module, load_context(), f"match-composites{{level={example.composite.level}}}")
    taken = [o for o in module.walk() if isinstance(o, CompositeOp)]
    return taken, [d for o in module.walk() if isinstance(o, TrailOp) for d in o.decisions]


@given(st.sampled_from(ALL).flatmap(matching))
def test_matching_programs_are_valid_and_taken(example: Example):
    verify_module(example.module)
    taken, _ = handed_over(example)
    assert names(example.root.location)[0] in {n for op in taken for n in names(op.location)}


@given(st.sampled_from(ALL).flatmap(near_miss))
@settings(max_examples=settings.default.max_examples // 6)
def test_near_misses_are_declined_for_that_very_reason(example: Example):
    verify_module(example.module)
    (name,) = names(example.root.location)
    taken, decisions = handed_over(example)
    assert name not in {n for op in taken for n in names(op.location)}
    made = example.composite
    if example.root.name not in made.root_names or not made.attempt(example.root).matched:
        assert made.attempt(example.root).reason == example.flipped  # nothing fits: no record
        return
    decision = next(d for d in decisions if d.nodes.data and d.nodes.data[0].data == name)
    assert not decision.taken
    failing = [rule.sentence.data for rule in decision.rules if rule.outcome.data == "fails"]
    assert decision.reason.data == example.flipped or failing == [example.flipped]


@pytest.mark.parametrize("made", ALL, ids=lambda made: made.name)
def test_every_rule_of_a_shipped_target_can_be_broken_alone(made: Composite):
    assert unflipped(made) == [], NOT_BROKEN


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_every_rule_of_targets_that_take_any_op_can_be_broken_alone(every: int):
    """But for ops that hold booleans or integers only, of which numpy has all. They have one rule,
    which is the same for all ops."""
    integers = {"and", "or", "xor", "not", "bit_shift", "requantize", "sum_pool"}
    integers |= {f"bitwise_{name}" for name in ("and", "not", "or", "xor")}
    breakable = [c for c in ONE_BY_ONE if c.name.removeprefix("ort.") not in integers]
    for made in breakable[::every]:
        assert unflipped(made) == [], NOT_BROKEN


@given(st.sampled_from(SHIPPED), st.integers(0, 1000))
@settings(max_examples=settings.default.max_examples // 4)
def test_programs_run_and_are_the_same_for_the_same_seed(made: Composite, seed: int):
    example, again = find_match(made, seed), find_match(made, seed)
    assert example is not None
    assert str(example.module) == str(again and again.module)
    assert evaluate(example.module, random_feeds(example.module))


def test_windows_behind_windows_are_drawn_to_fit(monkeypatch):
    """Few draws suffice where a block reads what another one wrote."""
    monkeypatch.setattr(matches, "DRAWS", 40)
    (made,) = (made for made in SHIPPED if made.name == "contraction_pool")
    assert all(find_match(made, seed) is not None for seed in range(3))


# Hints, and what cannot be found.


def relu_of(width: int) -> Composite:
    made = Composite("npu.relu", (op("graph.relu", wildcard("x")) @ "relu",))

    def wide(m: Any) -> tuple[bool, Any]:
        """The last dimension is just so."""
        shape = m["x"].type.shape
        return bool(shape) and shape[-1] == width, shape

    made.rule(vary="x.shape[0]", holds=(width,), fails=(width + 1,))(wide)
    return made


def test_a_rule_may_say_where_to_look():
    assert find_match(relu_of(77), 0) is not None
    bare = Composite("npu.relu", relu_of(77).patterns)
    bare.rule(relu_of(77).rules[0].check)
    assert find_match(bare, 0) is None
    with pytest.raises(ByocirError, match=r"npu.relu takes, found none in \d+ draws") as error:
        settings(max_examples=1, phases=[Phase.generate])(
            given(matching(bare))(lambda example: None)
        )()
    assert error.value.code == "B365"


def alone(kind: type[Operation]) -> Composite:
    """Any op of a kind, with as many operands as its description shows."""
    shown = example_of(kind.name)
    operands = [wildcard() for _ in (shown.operands if shown is not None else ("x",))]
    return Composite("npu.alone", (op(kind.name, *operands),))


ALONE = [kind for kind in Graph.operations if kind not in (ConstantOp, YieldOp)]


@pytest.mark.parametrize("kind", ALONE, ids=lambda kind: kind.name)
def test_every_op_alone_has_programs_that_are_taken(kind: type[Operation]):
    for seed in range(3):
        example = find_match(alone(kind), seed)
        assert example is not None
        verify_module(example.module)
        taken, _ = handed_over(example)
        assert [names(made.location) for made in taken] == [names(example.root.location)]


@pytest.mark.parametrize("name", graph_ops())
def test_the_example_of_every_op_holds(name: str):
    shown = example_of(name)
    if shown is None:
        assert name == "graph.constant"
        return
    made = graph_ops()[name].make(
        *Block(arg_types=shown.operands).args, location=None, **shown.properties
    )
    made.verify()


def test_examples_of_ops_are_read_from_their_descriptions():
    shown = example_of("graph.cast")
    assert shown is not None
    assert shown.operands == (tensor(f32, (8, 4)),)
    assert shown.properties == {"to": i32}
    assert example_of("graph.constant") is None
    assert choices("graph.scatter_nd", "reduction") == ("none", "add", "mul", "min", "max")


def test_a_rule_that_nothing_breaks_is_listed():
    made = relu_of(4)

    @made.rule
    def always(m: Any):
        """There is an x."""
        return "x" in m, None

    assert unflipped(made) == ["There is an x"]
    assert find_near_miss(made, made.rules[1], 0) is None


def test_rules_without_hints_are_looked_for_among_the_same_programs(monkeypatch):
    drawn, draw = list[Any](), matches.draw_graph
    monkeypatch.setattr(matches, "DRAWS", 5)
    monkeypatch.setattr(
        matches, "draw_graph", lambda *given: (drawn.append(given[4]), draw(*given))[1]
    )
    made = Composite("npu.relu", (op("graph.relu", wildcard("x")),))
    for sentence in ("There is an x", "It is bound"):

        def always(m: Any):
            return "x" in m, None

        always.__doc__ = sentence
        made.rule(always)
    assert unflipped(made) == ["There is an x", "It is bound"]
    assert drawn.count(matches.ANY) == matches.SEEDS * 5


@pytest.mark.parametrize("as_", [list, tuple])
def test_a_rule_may_vary_an_attribute_of_many_numbers(as_: type):
    x = wildcard("x")
    made = Composite("npu.pool", (op("graph.max_pool", x) @ "pool",))

    @made.rule(vary="pool.kernel_shape", holds=(as_([2, 2]),), fails=(as_([5, 3]),))
    def is_small(m: Any) -> tuple[bool, Any]:
        """A window has at most 9 elements."""
        kernel = m["pool"].attrs["kernel_shape"]
        return math.prod(kernel) <= 9, kernel

    assert unflipped(made) == []


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ("y.shape[0]", "a name that the pattern binds, found 'y'"),
        ("x", "as w.shape\\[1\\] or conv.group, found 'x'"),
        ("x.shape[a]", "found 'x.shape"),
    ],
)
def test_a_hint_that_cannot_be_read(vary: str, said: str):
    made = Composite("npu.relu", (op("graph.relu", wildcard("x")),))
    with pytest.raises(ByocirError, match=said) as error:
        made.rule(vary=vary)
    assert error.value.code == "B209"


# Every construct of the pattern language.


def constructs() -> dict[str, Any]:
    x = wildcard("x")
    product = op("graph.matmul", x, constant("w"))
    return {
        "alternatives": op("graph.relu", x) | op("graph.sigmoid", x),
        "optional": optional(product, lambda v: op("graph.add", v, constant("b"))),
        "twice": op("graph.mul", x, op("graph.sigmoid", x)),
        "repeat": repeat(x, lambda v: op("graph.relu", v), least=1, most=3),
        "path": op("graph.softmax", path(product, "graph.relu", "graph.sigmoid"), axis=1),
        "result": op("graph.relu", result(op("graph.max_pool", x))),
        "parallel": parallel(op("graph.matmul", x, constant()), op("graph.matmul", x, constant())),
        "exposed": op("graph.relu", op("graph.sigmoid", x, exposed=True)),
        "clip": op("graph.clip", x, min=0),
        "conv": op("graph.conv", x, constant(), constant(), group=2, strides=(2, 2)),
        "flatten": op("graph.flatten", op("graph.global_average_pool", x), axis=1),
        "quantize": op("graph.quantize", x, constant(), constant()),
        "dequantize": op("graph.dequantize", x, constant(), constant()),
        "transpose": op("graph.transpose", x, perm=(1, 0)),
        "concat": op("graph.concat", x, wildcard("y"), axis=0),
    }


@pytest.mark.parametrize("name", constructs())
def test_programs_for_every_construct(name: str):
    check_programs(composite(f"npu.{name}")(lambda: constructs()[name]))


def check_programs(made: Composite) -> None:
    """Matching programs are taken, near misses are not, for their reason alone."""

    @given(matching(made), near_miss(made))
    @settings(max_examples=10)
    def check(example: Example, missed: Example):
        verify_module(example.module)
        verify_module(missed.module)
        assert made.attempt(example.root).fits
        assert missed.named_by(made.attempt(missed.root))

    check()


def blocks() -> dict[str, Any]:
    x, y = wildcard("x", dtype=f32), wildcard("y", dtype=f32)
    row = "(h*sh + r*dh - ph)"
    total = block("*i", x["*i"], y["~i"], lambda acc, a, b: a + b)
    return {
        "bias": block("*i", total["*i"], lambda acc, v: v.max(0.0)),
        "product": block("*m n | k", x["*m k"], constant()["n k"], lambda acc, a, b: acc + a * b),
        "window": block("c h | r", x[f"c {row}"].padded(0.0), lambda acc, v: acc + v),
        "started": block("m | k", x["m k"], lambda acc, v: acc.max(v), init=wildcard("start")),
        "stretched": block("h w", x["(h*a + b) floordiv d (w) floordiv 2"], lambda acc, v: v),
        "transposed": block("m n", x["n m"], lambda acc, v: v, out="m n"),
        "scaled": block("*i", x["*i"], lambda acc, v: (v * number("a")).exp()),
        "cast": block("*i", wildcard("q", dtype=i8)["*i"], lambda acc, v: v.to(i32)),
    }


@pytest.mark.parametrize("name", blocks())
def test_programs_for_every_kind_of_block(name: str):
    check_programs(composite(f"npu.{name}")(lambda: blocks()[name]))


def patterns_by_reason() -> dict[str, Any]:
    """A pattern for each kind of test, by the reason that tells it."""
    return {**op_patterns_by_reason(), **block_patterns_by_reason()}


def op_patterns_by_reason() -> dict[str, Any]:
    x, y = wildcard("x"), wildcard("y")
    product = op("graph.matmul", x, constant("w"))
    split = op("graph.split", x)
    return {
        "expected graph.relu, found graph.": op("graph.relu", x),
        "expected graph.conv with group 2, found": op("graph.conv", x, y, group=2),
        "expected graph.conv with strides (2, 2), found": op("graph.conv", x, y, strides=[2, 2]),
        "expected graph.lstm with direction reverse, found": op(
            "graph.lstm", *[wildcard() for _ in range(8)], direction="reverse"
        ),
        "expected graph.conv with 2 operands, found 3": op("graph.conv", x, y),
        "expected x of i8, found": op("graph.relu", wildcard("x", dtype=i8)),
        "expected x of 4 dimensions, found": op("graph.relu", wildcard("x", where=rank(4))),
        "expected constant w of numbers within [0, 3], found": op(
            "graph.add", x, constant("w", where=within(0, 3))
        ),
        "expected constant w, found an input of the function": product,
        "expected the same value for x as before": op("graph.mul", x, op("graph.sigmoid", x)),
        "expected the same graph.sigmoid as before": (
            lambda s: op("graph.add", op("graph.relu", s), op("graph.tanh", s))
        )(op("graph.sigmoid", x)),
        "expected result 1, found result": op("graph.relu", result(split, 1)),
        "expected the first result of graph.split, found result 1": op("graph.relu", split),
        "expected graph.matmul, found graph.": op("graph.relu", path(product, "graph.sigmoid")),
        "expected graph.matmul beside it on the same input, found none": parallel(
            op("graph.matmul", x, constant()), op("graph.matmul", x, constant())
        ),
        "expected graph.sigmoid, found an input of the function": op(
            "graph.relu", op("graph.sigmoid", x)
        ),
        "a path leaves the match at graph.sigmoid": op(
            "graph.add", op("graph.sigmoid", x, exposed=True), y
        ),
        "graph.sigmoid (n0) is also used by func.return outside the match": op(
            "graph.relu", op("graph.sigmoid", x)
        ),
    }


def block_patterns_by_reason() -> dict[str, Any]:
    x, y, row = wildcard("x"), wildcard("y"), "(h*sh + r*dh - ph)"
    window = block(
        "c h | r", wildcard("x", dtype=f32)[f"c {row}"].padded(0.0), lambda acc, v: acc + v
    )
    return {
        "expected body": window,
        "expected indices": block("m n | k", x["m k"], y["n k"], lambda acc, a, b: acc + a * b),
        "expected the result to start from 0, found 1": window,
        f"expected pad 0.0 at [c {row}], found 1.0": window,
        "expected a block, found an input of the function": block(
            "*i", window["*i"], lambda acc, v: v.max(0.0)
        ),
    }


@pytest.mark.parametrize("reason", patterns_by_reason())
def test_near_misses_change_every_kind_of_test(reason: str):
    made = Composite("npu.one", (patterns_by_reason()[reason],))
    firsts = (first_miss(made, miss) for miss in misses_of(made))
    assert any(example.flipped.startswith(reason) for example in firsts if example is not None)


def test_programs_for_a_checker():
    @supports("graph.conv")
    def conv(m: Any) -> tuple[bool, Any]:
        """The convolution is not grouped."""
        return m["op"].attrs["group"] == 1, m["op"].attrs["group"]

    made = conv.of_target("npu")
    assert find_match(made, 0) is not None
    assert unflipped(made) == []


def reasons(made: Composite) -> set[str]:
    found = [first_miss(made, miss) for miss in misses_of(made)]
    return {example.flipped for example in found if example is not None}


def test_blocks_of_more_inputs_and_guarded_ones_are_near_misses():
    doubled = Composite("npu.double", (block("*i", wildcard()["*i"], lambda acc, v: v * 2),))
    told = reasons(doubled)
    assert any(each.startswith("expected a block of 1 inputs, found 2 in ") for each in told)
    assert "expected a whole block, found a part (where or bases)" in told


def test_programs_look_elements_up():
    x, table = wildcard("x", dtype=i8), wildcard("table")
    body = block("*i", x["*i"], table, lambda acc, v, t: t.read(v.to(i32) + 128))
    lookup = Composite("npu.lookup", (body,))
    example = find_match(lookup, 0)
    assert example is not None
    assert evaluate(example.module, random_feeds(example.module))
    assert any(reason.startswith("expected body t.read") for reason in reasons(lookup))


def test_a_path_from_two_values_is_a_near_miss():
    ways = Composite("npu.path", (path(op("graph.abs", wildcard()), "graph.relu", "graph.add"),))
    told = "expected all paths to come from one value, found 2 values that lead there"
    assert told in reasons(ways)


def test_without_hypothesis():
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from byocir.patterns import composite, op, wildcard\n"
        "from byocir.testing import find_match\n"
        "relu = composite('any.relu')(lambda: op('graph.relu', wildcard('x')))\n"
        "sys.exit(find_match(relu, 1) is None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
