"""Mistakes in patterns are one message each, where they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pattern_programs import F, attempt, by_name, elementwise, module_of
from xdsl.dialects.builtin import TensorType

from byocir.compiler import partition
from byocir.dialects.context import load_context
from byocir.dialects.types import i8
from byocir.errors import ByocirError
from byocir.patterns import (
    Composite,
    block,
    composite,
    constant,
    either,
    op,
    optional,
    satisfies,
    supports,
    wildcard,
)
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of, find, parse_targets
from byocir.rewrites.pipeline import run_passes
from byocir.targets.base import Target
from byocir.targets.resolve_targets import attributes_of, load_target


def refused(make: Callable[[], Any], code: str) -> ByocirError:
    with pytest.raises(ByocirError) as error:
        make()
    assert error.value.code == code
    return error.value


@pytest.mark.parametrize(
    ("name", "help_"),
    [
        ("graph.convolution", "did you mean 'graph.conv'?"),
        ("graph.rleu", "did you mean 'graph.relu'?"),
        ("conv", "did you mean 'graph.conv'?"),
        ("graph.", "see byocir"),
        ("", "see byocir"),
    ],
)
def test_an_op_that_there_is_not(name: str, help_: str):
    for make in (lambda: op(name, wildcard()), lambda: supports(name)):
        error = refused(make, "B203")
        assert f"found '{name}'" in error.message
        assert error.help.startswith(help_)


def test_ops_of_other_dialects_are_the_users_own():
    assert op("mine.fused", wildcard(), wildcard(), speed=3).root_names() == {"mine.fused"}


def test_an_attribute_that_there_is_not():
    error = refused(lambda: op("graph.conv", wildcard(), constant(), groups=1), "B204")
    assert error.help == "did you mean 'group'?"
    assert op("graph.reshape", wildcard(), shape=(1, 2)).root_names() == {"graph.reshape"}


@pytest.mark.parametrize(
    ("name", "attribute", "value", "wanted"),
    [
        ("conv", "group", "one", "an integer"),
        ("conv", "group", 1.5, "an integer"),
        ("conv", "group", i8, "an integer"),
        ("conv", "strides", 2, "a list of numbers"),
        ("conv", "strides", ("2", 2), "a list of numbers"),
        ("leaky_relu", "alpha", "small", "a number"),
        ("gelu", "approximate", 1, "a text"),
    ],
)
def test_an_attribute_that_cannot_have_such_a_value(
    name: str, attribute: str, value: Any, wanted: str
):
    operands = [wildcard(), constant()] if name == "conv" else [wildcard()]
    error = refused(lambda: op(f"graph.{name}", *operands, **{attribute: value}), "B204")
    assert error.message == f"expected {attribute} of graph.{name} to be {wanted}, found {value!r}"


def test_values_that_attributes_can_have():
    assert op("graph.conv", wildcard(), constant(), group=1, strides=[2, 2], dilations=None)
    assert op("graph.leaky_relu", wildcard(), alpha=1)
    assert op("graph.cast", wildcard(), to=i8)


@pytest.mark.parametrize("dtype", ["f33", "i8", int, TensorType(i8, [1])])
def test_an_element_type_that_there_is_not(dtype: Any):
    for make in (wildcard, constant):
        error = refused(lambda make=make: make("x", dtype=dtype), "B204")
        assert error.message.startswith("expected an element type, found ")


@pytest.mark.parametrize(
    ("name", "count", "wanted"),
    [
        ("graph.relu", 2, "1 operands, found 2"),
        ("graph.relu", 0, "1 operands, found 0"),
        ("graph.conv", 1, "2 to 3 operands, found 1"),
        ("graph.conv", 4, "2 to 3 operands, found 4"),
    ],
)
def test_a_number_of_operands_that_there_is_not(name: str, count: int, wanted: str):
    error = refused(lambda: op(name, *(wildcard() for _ in range(count))), "B205")
    assert error.message == f"expected {name} with {wanted}"


def test_any_number_of_operands_where_the_op_takes_it():
    assert op("graph.concat", *(wildcard() for _ in range(9)))


def test_a_pattern_function_that_fails_is_told_with_its_line():
    def broken():
        return optional(op("graph.relu", wildcard()), lambda v: v.relu())

    error = refused(lambda: composite("npu.broken")(broken), "B207")
    assert error.message.startswith("pattern npu.broken failed with AttributeError")
    assert error.where == f"{__file__}:{broken.__code__.co_firstlineno + 1}"


def test_a_mistyped_op_in_a_pattern_function_is_told_with_pattern_and_line():
    def mistyped():
        x = wildcard()
        return op("graph.rleu", x)

    error = refused(lambda: composite("npu.mistyped")(mistyped), "B203")
    assert error.message == "pattern npu.mistyped: expected an op such as graph.conv, found " + (
        "'graph.rleu'"
    )
    assert error.where == f"{__file__}:{mistyped.__code__.co_firstlineno + 2}"


@pytest.mark.parametrize("made", [None, 3, (), (wildcard(), None)])
def test_a_function_that_gives_no_pattern(made: Any):
    error = refused(lambda: composite("npu.none")(lambda: made), "B207")
    assert "return a pattern or several" in error.message


@pytest.mark.parametrize("name", ["", ".", "npu.", ".conv", "npu..conv", None])
def test_a_composite_without_a_name(name: Any):
    error = refused(lambda: Composite(name, (op("graph.relu", wildcard()),)), "B200")
    assert error.message == f"expected a composite to have a name like 'npu.conv', found {name!r}"


@pytest.mark.parametrize("patterns", [(), (3,), (op("graph.relu", wildcard()), None)])
def test_a_composite_without_patterns(patterns: Any):
    refused(lambda: Composite("npu.it", patterns), "B200")


@pytest.mark.parametrize("made", [wildcard(), constant(), wildcard() | constant()])
def test_a_pattern_that_begins_nowhere(made: Any):
    error = refused(lambda: composite("npu.it")(lambda: made), "B200")
    assert "to begin at an op or a block, found inputs and constants alone" in error.message
    assert error.where.startswith(__file__)


def test_a_chain_deeper_than_calls_may_nest():
    def chain() -> Any:
        return reduce(lambda value, _: op("graph.relu", value), range(3000), wildcard())

    error = refused(lambda: composite("npu.chain")(chain), "B200")
    assert "composite npu.chain to nest less deep" in error.message


@pytest.mark.parametrize("operand", [None, "x", 3, F])
def test_an_operand_that_is_no_pattern(operand: Any):
    error = refused(lambda: op("graph.relu", operand), "B205")
    assert error.message == f"expected patterns as operands of graph.relu, found {operand!r}"


def test_an_alternative_that_is_no_pattern():
    either: Any = op("graph.relu", wildcard())
    with pytest.raises(TypeError, match="unsupported operand"):
        either | 3


def relu_of(pattern: Any = None) -> Composite:
    return Composite("npu.relu", (op("graph.relu", pattern or wildcard("x")),))


def tried(made: Composite) -> None:
    made.attempt(by_name(module_of(elementwise("a = relu x")))["a"])


def test_a_rule_that_fails_names_pattern_rule_line_and_what_is_bound():
    made = relu_of()

    @made.rule
    def small(m):
        """It is small."""
        return m["X"].type.rank < 2, None

    error = refused(lambda: tried(made), "B202")
    assert error.message == "pattern npu.relu: rule small failed with KeyError: 'X'"
    assert error.where == f"{__file__}:{small.__code__.co_firstlineno + 3}"
    assert "names bound here: x" in error.help


class Unreadable:
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("answer", [None, True, (True,), (1, 2, 3), (True, Unreadable())])
def test_a_rule_that_gives_no_answer(answer: Any):
    made = relu_of()

    @made.rule
    def odd(m):
        """It is odd."""
        return answer

    assert "(holds, seen)" in refused(lambda: tried(made), "B202").help


def test_a_fix_that_fails():
    made = relu_of()

    @made.rule(fix=lambda m: m["none"])
    def never(m):
        """It never holds."""
        return False, None

    assert "rule never failed with KeyError" in refused(lambda: tried(made), "B202").message


def test_a_test_of_an_attribute_that_fails():
    pattern = op("graph.softmax", wildcard(), axis=lambda axis: axis.even)
    body = f"%a = graph.softmax %x {{axis = 0 : i64}} : ({F}) -> {F}\nfunc.return %a : {F}"
    error = refused(lambda: attempt(pattern, body, "a"), "B202")
    told = "the test of axis of graph.softmax, which is 0, failed with AttributeError"
    assert told in error.message
    assert error.where.startswith(f"{__file__}:")


def test_a_body_that_fails_when_it_is_compared():
    calls: list[int] = []

    def body(acc: Any, x: Any) -> Any:
        calls.append(0)
        return x + 1 // (2 - len(calls))

    made = Composite("npu.inc", (block("*i", wildcard()["*i"], body),))
    module = module_of(elementwise("a = relu x"))
    run_passes(module, load_context(), "convert-graph-to-tir")
    (root,) = (each for each in module.walk() if each.name == "tir.block")
    error = refused(lambda: made.attempt(root), "B206")
    assert error.message.startswith("pattern npu.inc: the body failed with ZeroDivisionError")
    assert error.where == f"{__file__}:{body.__code__.co_firstlineno + 2}"


@pytest.mark.parametrize(
    "make",
    [
        lambda x: either(),
        lambda x: either(x, None),
        lambda x: optional(x, lambda y: None),
    ],
)
def test_alternatives_that_are_no_patterns(make: Callable[[Any], Any]):
    error = refused(lambda: make(wildcard()), "B207")
    assert error.message == "expected a pattern for each alternative, found NoneType"


def test_a_test_of_values_that_fails():
    powers = satisfies("powers of two", lambda a: np.log2(a).is_integer())
    array = "#graph.array<[2.0, 2.0, 2.0, 2.0] : tensor<4xf32>>"
    body = f"%c = graph.constant {array}\n" + elementwise("a = mul x c")
    error = refused(
        lambda: attempt(op("graph.mul", wildcard(), constant("c", where=powers)), body, "a"), "B202"
    )
    assert "the test 'powers of two' failed with AttributeError" in error.message
    assert error.where.startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x: block("m m", x["m m"], lambda acc, e: e), "expected distinct iterators"),
        (lambda x: block("m", x["k"], lambda acc, e: e), "expected one of the iterators m"),
        (lambda x: block("m", x["m"], lambda e: e), "the body failed with TypeError"),
        (lambda x: block("m", x["m"], lambda acc, e: e.exp2()), "failed with AttributeError"),
        (lambda x: block("m", x["m"], lambda acc, e: None), "expected a scalar, found NoneType"),
        (lambda x: block("m, n", x["m"], lambda acc, e: e), "expected iterators by name, such as"),
        (
            lambda x: block("m", x, lambda acc, e: e + 1),
            "an index for the input that the body calls",
        ),
        (
            lambda x: block("m", x["m"], x, lambda acc, e, t: t.read(t)),
            "the body calls t, found no",
        ),
        (lambda x: block("m", 3, lambda acc, e: e), "expected accesses and then a body"),
        (lambda x: block("m", x["m"]), "expected accesses and then a body, found Access"),
        (lambda x: block("m", x["m"], lambda acc, e: e.to("i32")), "an element type such as i32"),
        (lambda x: block("m", x["m"].padded("0"), lambda acc, e: e), "expected pad to be a number"),
        (lambda x: block("m", x["m"], lambda acc, e: e, init="x"), "expected init to be a number"),
        (lambda x: block("m", x["m"], lambda acc, e: e, init=x["m"]), 'a value such as sums("c")'),
    ],
)
def test_a_block_that_cannot_be_read(make: Callable[[Any], Any], said: str):
    assert said in refused(lambda: make(wildcard()), "B206").message


def target(**members: Any) -> Target:
    """A target of one relu, with other members."""

    @dataclass(frozen=True)
    class Npu(Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = (relu_of(),)

    for name, value in members.items():
        setattr(Npu, name, value)
    return Npu()


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        ({"patterns": (relu_of(), relu_of())}, "B208", "found npu.relu twice"),
        ({"patterns": (wildcard(),)}, "B216", "to be composites, found WildcardPattern"),
        ({"codegen_level": "tensors"}, "B216", "among graph, tensor, found 'tensors'"),
        ({"constants": "bound"}, "B216", "among match, bind, argument, transform, found 'bound'"),
        ({"name": "n p u"}, "B216", "to have a name like 'npu'"),
        ({"name": "host"}, "B216", "to have a name of its own, found 'host'"),
        ({"name": "folded"}, "B216", "to have a name of its own, found 'folded'"),
        ({"patterns": relu_of()}, "B216", "patterns of target 'npu' to be composites, found one"),
        ({"patterns": None}, "B216", "patterns of target 'npu' to be composites, found NoneType"),
        ({"instructions": None}, "B216", "instructions of target 'npu' to be composites, found N"),
        ({"machin": None}, "B216", "attributes of target 'npu' that targets have, found 'machin'"),
        ({"channel_last": True}, "B216", "that targets have, found 'channel_last'"),
    ],
)
def test_a_target_that_cannot_be(members: dict[str, Any], code: str, said: str):
    module = module_of(elementwise("a = relu x"))
    assert said in refused(lambda: partition(module, [target(**members)]), code).message


def test_attributes_of_their_own_may_have_any_other_name():
    module = module_of(elementwise("a = relu x"))
    partition(module, [target(lanes=3, _machin=3, channels=8, pattern=relu_of())])


def test_options_need_a_dataclass():
    """Without it they would be lost: the class has the constructor of what it derives from."""

    class Npu(Target):
        name = "npu"
        patterns = (relu_of(),)
        fixed: ClassVar[int] = 3
        lanes: int = 8

    module = module_of(elementwise("a = relu x"))
    error = refused(lambda: partition(module, [Npu()]), "B216")
    assert "class Npu to be a dataclass, as it has the option lanes" in error.message
    assert "@dataclass(frozen=True)" in error.help


@dataclass(frozen=True)
class Scaled(Target):
    """Has options that are floats."""

    name: ClassVar[str] = "scaled"
    scale: float = 1.0
    shifts: tuple[float, ...] = ()
    lanes: int | float = 1


def test_a_whole_number_is_a_float_where_an_option_is_one():
    register("scaled", Scaled)
    (given,) = parse_targets("scaled{scale=2 shifts=1,2.5 lanes=4}")
    assert find(given) == Scaled(2.0, (1.0, 2.5), 4)
    assert attr_of(Scaled(2, (1, 2.5), 4)) == given


def test_a_file_that_exits_does_not_end_byocir(tmp_path: Path):
    file = tmp_path / "npu.py"
    file.write_text("import sys\n\nsys.exit()\n")
    error = refused(lambda: load_target(file), "B217")
    assert "a file that imports, found SystemExit" in error.message
    assert error.where == f"{file}:3"


def test_mistakes_reach_the_user_of_a_target_as_one_message():
    made = relu_of()

    @made.rule
    def broken(m):
        """There is a y."""
        return m["y"], None

    module = module_of(f"%a = graph.relu %x : ({F}) -> {F}\nfunc.return %a : {F}")
    error = refused(lambda: partition(module, [target(patterns=(made,))]), "B202")
    assert "pattern npu.relu: rule broken" in error.message


def test_a_path_is_a_file_as_its_text_is() -> None:
    path = Path(__file__).parents[2] / "examples" / "toy_npu.py"
    (named,), (alone,) = attributes_of([str(path)]), attributes_of(path)
    assert alone == named
    assert alone.target_name.data == "npu"
