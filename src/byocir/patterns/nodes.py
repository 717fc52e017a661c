"""Defines the nodes of patterns: ops, wildcards, constants and alternatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, Self, cast

from xdsl.dialects.builtin import MemRefType, TensorType, i8, i16
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, Use

from byocir.dialects.array import constant_array
from byocir.dialects.types import element_type_of
from byocir.errors import FAILURES, ByocirError
from byocir.patterns.dataflow import Producer, producer
from byocir.patterns.match import Bound, Progress, State, python_value
from byocir.patterns.mistakes import check_dtype, check_op, check_uses
from byocir.patterns.value_tests import ValueTest, Where, refusal
from byocir.vendor.places import failed

COMMUTATIVE = frozenset(
    f"graph.{name}"
    for name in (
        "add",
        "mul",
        "max",
        "min",
        "equal",
        "and",
        "or",
        "xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    )
)
"""Ops whose operands are tried in both orders."""


class Pattern(ABC):
    """Describes the values that match. One pattern object always stands for one value of the
    program.
    """

    label: str | None = None

    def __matmul__(self, label: str) -> Self:
        """Names what this pattern matches: `op("graph.conv", x, w) @ "conv"`."""
        self.label = label
        return self

    def __or__(self, other: Pattern) -> Pattern:
        """Matches either this or the other; this one is tried first."""
        if not isinstance(cast(object, other), Pattern):
            return NotImplemented
        return AlternativesPattern((self, other))

    def __getitem__(self, index: str) -> Access:
        """Gives this value read at an index, inside `block(…)`: `x["n c (h*sh + r*dh - ph)"]`."""
        return Access(self, index)

    @abstractmethod
    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        """Yields each way in which `value`, produced by `source`, fits; tells `progress` of
        misses.
        """

    @abstractmethod
    def root_names(self) -> frozenset[str]:
        """Gives the names of the ops that can be the pattern's last op; empty when it may be no
        op.
        """

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        """Lists the op patterns of the longest alternative, each once."""
        return frozenset[Pattern]().union(*(child.parts for child in self.children()))

    def children(self) -> tuple[Pattern, ...]:
        """Gives the patterns of the operands."""
        return ()


@dataclass(frozen=True)
class Access:
    """Describes a pattern's value read at an index. `pad` is the number that is read outside the
    array, or a name for any number, None where all reads are inside. An array that is given `whole`
    has no index: the body looks elements up in it.
    """

    pattern: Pattern
    index: str
    pad: int | float | str | None = None
    whole: bool = False

    def __repr__(self) -> str:
        return f'{self.pattern.label or "…"}["{self.index}"]'

    def padded(self, pad: float | str) -> Access:
        """Gives the same access, which may also read outside the array and then reads this number,
        or any number, bound to this name.
        """
        return Access(self.pattern, self.index, pad)


def match_operand(
    pattern: Pattern, op: Operation, index: int, state: State, progress: Progress
) -> Iterator[State]:
    """Yields each way in which operand `index` of `op` fits."""
    use = Use(op, index)
    progress.by_outline = False
    return pattern.match(op.operands[index], producer(use), state, progress)


class ValuePattern(Pattern):
    """Matches a value by its element type and by tests."""

    def __init__(self, name: str | None, dtype: Attribute | None, where: Where) -> None:
        check_dtype(dtype)
        self.label = name
        self.dtype = dtype
        self.tests = (where,) if isinstance(where, ValueTest) else tuple(where)

    def bind(self, value: SSAValue, node: object, state: State, progress: Progress) -> State | None:
        """Binds a value; gives None, and tells `progress` the reason, where the value does not
        fit.
        """
        progress.by_outline = False
        reason = self.refusal(value, numbers=value not in state.passed)
        if reason:
            progress.miss(state, f"expected {self.shown} {reason}")
            return None
        bound = state.with_node(self, node)
        bound = bound and bound.with_name(self.label, Bound(value))
        if bound is None:
            progress.miss(state, f"expected the same value for {self.shown} as before")
        return bound

    def refusal(self, value: SSAValue, *, numbers: bool = True) -> str:
        """Says why a value does not fit, as "of …, found …"; empty when it does. Without `numbers`,
        tests of a constant's numbers are left out: it was a constant that was passed in from
        elsewhere, and they held then.
        """
        if self.dtype is not None and _element(value) != self.dtype:
            return f"of {self.dtype}, found {_element(value)}{self._hint(value)}"
        tests = self.tests if numbers else [test for test in self.tests if not test.numbers]
        refused = refusal(tests, value)
        return refused and f"of {refused}"

    def _hint(self, value: SSAValue) -> str:
        """Says how a pattern takes weights that a quantiser gave zero points; empty for others."""
        if self.dtype != i8 or _element(value) != i16 or constant_array(value) is None:
            return ""
        name = f'"{self.label}", ' if self.label else ""
        return f"; weights less their zero points are wider: … | constant({name}dtype=i16)"

    @property
    @abstractmethod
    def shown(self) -> str:
        """Gives the words by which messages call this pattern."""

    def root_names(self) -> frozenset[str]:
        return frozenset()


class WildcardPattern(ValuePattern):
    """Matches any value, which becomes an input of the composite."""

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        bound = self.bind(value, source.node(value), state, progress)
        if bound is not None:
            yield bound.with_source(source.op)

    @property
    def shown(self) -> str:
        return self.label or "an input"


class ConstantPattern(ValuePattern):
    """Matches a constant, which moves into the composite."""

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        if value in state.passed:
            bound = self.bind(value, value, state, progress)
            if bound is not None:
                yield bound
            return
        if constant_array(value) is None or source.op is None:
            progress.miss(state, f"expected {self.shown}, found {source}")
            return
        bound = self.bind(value, value, state, progress)
        if bound is not None:
            yield bound.with_constant(source.op)

    @property
    def shown(self) -> str:
        return f"constant {self.label}" if self.label else "a constant"


class OptionalOperand:
    """Stands for a trailing operand that may be missing."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern


class OpPattern(Pattern):
    """Matches an op with these operands and attributes."""

    def __init__(
        self,
        name: str,
        operands: tuple[Pattern | OptionalOperand, ...],
        attrs: dict[str, Any],
        exposed: bool,
    ) -> None:
        self.name = name
        self.required = sum(isinstance(operand, Pattern) for operand in operands)
        self.operands = tuple(o if isinstance(o, Pattern) else o.pattern for o in operands)
        self.attrs = attrs
        self.exposed = exposed

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        op = source.op
        if op is None or not _is(self.name, op, value, state):
            progress.miss(state, _other(self.name, value, source, state))
            return
        if state.nodes.get(id(self)) is op:  # visited again: its operands have matched already
            yield state
            return
        started = self._start(op, value, state, progress)
        if started is None:
            return
        for order in self._orders(op):
            yield from self._match_operands(op, order, 0, started, progress)

    def _start(
        self, op: Operation, value: SSAValue, state: State, progress: Progress
    ) -> State | None:
        progress.by_outline = False
        reason = self.refusal(op)
        if reason:
            # An alternative for a special case, which a function tells, tells less than others.
            special = any(map(callable, self.attrs.values()))
            progress.miss(state if special else state.with_op(op), reason)
            return None
        bound = state.with_node(self, op)
        bound = bound and bound.with_name(self.label, Bound(value, op))
        if bound is None:
            progress.miss(state, f"expected the same {self.name} as before")
            return None
        return bound.with_op(op, exposed=self.exposed)

    def refusal(self, op: Operation) -> str:
        """Says why an op of the right kind does not fit by its attributes or its number of
        operands; empty when it does.
        """
        for name, expected in self.attrs.items():
            found = python_value(op.properties[name]) if name in op.properties else None
            if not attribute_fits(expected, found, f"{name} of {self.name}"):
                return f"expected {self.name} with {name} {wanted(expected)}, found {found}"
        fewest, most, found = self.required, len(self.operands), len(op.operands)
        if fewest <= found <= most:
            return ""
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"expected {self.name} with {count} operands, found {found}"

    def _orders(self, op: Operation) -> Iterator[tuple[int, ...]]:
        plain = tuple(range(len(op.operands)))
        return permutations(plain) if self.name in COMMUTATIVE else iter((plain,))

    def _match_operands(
        self, op: Operation, order: tuple[int, ...], done: int, state: State, progress: Progress
    ) -> Iterator[State]:
        if done == len(order):
            yield state
            return
        operand = self.operands[done]
        for next_state in match_operand(operand, op, order[done], state, progress):
            yield from self._match_operands(op, order, done + 1, next_state, progress)

    def root_names(self) -> frozenset[str]:
        return frozenset({self.name})

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        return super().parts | {self}

    def children(self) -> tuple[Pattern, ...]:
        return self.operands


def attribute_fits(expected: Any, found: Any, what: str = "an attribute") -> bool:
    """Tells if an attribute is the value that a pattern asks for, or one that the pattern's
    function accepts. Raises ByocirError B202 where that function fails.
    """
    if not callable(expected):
        return found == expected
    try:
        return bool(expected(found))
    except FAILURES as error:
        raise failed("B202", f"the test of {what}, which is {found},", expected, error) from error


def wanted(expected: Any) -> str:
    """Words for messages what a pattern asks of an attribute."""
    return " ".join((expected.__doc__ or "").split()) if callable(expected) else str(expected)


class AnyOperandsPattern(Pattern):
    """Matches an op by its name alone, whatever its operands."""

    def __init__(self, name: str) -> None:
        self.name = name

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        op = source.op
        if op is None or not _is(self.name, op, value, state):
            progress.miss(state, _other(self.name, value, source, state))
            return
        bound = state.with_node(self, op)
        bound = bound and bound.with_name(self.label, Bound(value, op))
        if bound is None:
            progress.miss(state, f"expected the same {self.name} as before")
            return
        yield bound.with_op(op)

    def root_names(self) -> frozenset[str]:
        return frozenset({self.name})

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        return super().parts | {self}


class AlternativesPattern(Pattern):
    """Matches what one of several patterns matches, tried in order."""

    def __init__(self, alternatives: tuple[Pattern, ...]) -> None:
        for each in cast("tuple[object, ...]", alternatives) or (None,):
            if not isinstance(each, Pattern):
                told = f"expected a pattern for each alternative, found {type(each).__name__}"
                raise ByocirError("B207", told, help="a function that makes a pattern returns it")
        self.alternatives = alternatives

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        for alternative in self.alternatives:
            for found in alternative.match(value, source, state, progress):
                op = source.op if source.op in found.ops else None
                bound = found.with_node(self, source.node(value))
                bound = bound and bound.with_name(self.label, Bound(value, op))
                if bound is None:
                    shown = self.label or "an alternative"
                    progress.miss(state, f"expected the same value for {shown} as before")
                    return
                yield bound

    def root_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(a.root_names() for a in self.alternatives))

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        return max((alternative.parts for alternative in self.alternatives), key=len)

    def children(self) -> tuple[Pattern, ...]:
        return self.alternatives


def _element(value: SSAValue) -> Attribute:
    """Gives the element type of an array, or the type of anything else."""
    is_array = isinstance(value.type, TensorType | MemRefType)
    return element_type_of(value.type) if is_array else value.type


def _is(name: str, op: Operation, value: SSAValue, state: State) -> bool:
    """Tells if an op in the block of the match has this name, and `value` is its first result, by
    which patterns know it.
    """
    return op.name == name and _is_first(op, value) and op.parent is state.block


def _is_first(op: Operation, value: SSAValue) -> bool:
    return not op.results or value is op.results[0]


def _other(name: str, value: SSAValue, source: Producer, state: State) -> str:
    """Says why a value is not the first result of an op with this name in the block of the match,
    and what it is instead.
    """
    op = source.op
    if op is None or op.name != name:
        return f"expected {name}, found {source}"
    if op.parent is not state.block:
        return f"expected {name} beside the others, found one outside their block"
    index = value.index if isinstance(value, OpResult) else 0
    return f"expected the first result of {name}, found result {index}"


def _plain(value: Any) -> Any:
    """Makes tuples of lists, so that both compare alike."""
    return tuple(map(_plain, cast(list[Any], value))) if isinstance(value, list) else value


def wildcard(
    name: str | None = None, *, dtype: Attribute | None = None, where: Where = ()
) -> Pattern:
    """Makes a pattern of any value that has this element type, if one is given, and meets all tests
    (see `value_tests`); it becomes an input of the composite.
    """
    return WildcardPattern(name, dtype, where)


def constant(
    name: str | None = None, *, dtype: Attribute | None = None, where: Where = ()
) -> Pattern:
    """Makes a pattern of a constant that has this element type, if one is given, and meets all
    tests (see `value_tests`); it moves into the composite.
    """
    return ConstantPattern(name, dtype, where)


def op(
    name: str, *operands: Pattern | OptionalOperand, exposed: bool = False, **attrs: Any
) -> Pattern:
    """Makes a pattern of an op by its name, e.g. `op("graph.conv", x, w, group=1)`. Attributes are
    compared as Python values (numbers, strings, lists or tuples), or tried by a function of the
    value, whose docstring is what users read. The op's result must not be used outside the match
    unless it is the root or `exposed`, in which case the composite has it as a further result.
    Raises ByocirError B203 to B205 for an op, an attribute, a value or a number of operands that
    does not exist.
    """
    check_op(name)
    for each in cast("tuple[object, ...]", operands):
        if not isinstance(each, Pattern | OptionalOperand):
            raise ByocirError(
                "B205",
                f"expected patterns as operands of {name}, found {each!r}",
                help=f"attributes are named: op({name!r}, …, axis=1)",
            )
    plain = {key: _plain(value) for key, value in attrs.items()}
    made = OpPattern(name, operands, plain, exposed)
    check_uses(name, plain, made.required, len(operands))
    return made


def either(*patterns: Pattern) -> Pattern:
    """Makes a pattern of one of several, tried in order: `either(a, b, c)` is `a | b | c`."""
    return AlternativesPattern(patterns)


def optional(inner: Pattern, wrap: Callable[[Pattern], Pattern]) -> Pattern:
    """Makes a pattern of `wrap(inner)` or, where that does not fit, of `inner` alone: an optional
    tail.
    """
    return AlternativesPattern((wrap(inner), inner))


def optional_operand(pattern: Pattern) -> OptionalOperand:
    """Marks a trailing operand that may be missing, e.g. a bias."""
    return OptionalOperand(pattern)
