"""Matches scalar bodies: the DAG of arith and math ops inside a block.

A body is written as a Python function of scalars, the same kind of function that lowerings emit
bodies with (`byocir.dialects.tir.bodies`). Numbers must be equal; `number("s")` binds a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import Parameter, signature
from itertools import count, islice
from numbers import Real
from typing import Any, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects import tir
from byocir.dialects.emitting import emitting_to
from byocir.dialects.tir.scalar import (
    BINARY_FLOAT,
    BINARY_INT,
    UNARY_FLOAT,
    Emitted,
    Number,
    Scalar,
)
from byocir.errors import FAILURES, ByocirError
from byocir.vendor.places import failed, place_of

COMMUTATIVE = frozenset({"add", "mul", "max", "min", "and", "or", "xor"})
CONVERSIONS = (
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.TruncIOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.ExtFOp,
    arith.TruncFOp,
    UnrealizedConversionCastOp,
)
REPEATABLE = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ExtFOp)
"""Conversions that do in several steps what they do in one."""

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

Numbers = Mapping[str, int | float]
NumberOf = Callable[[str], Number]


class ScalarPattern(Scalar):
    """Describes the scalars of a body that match."""

    def binary(self, name: str, other: Scalar | Number) -> ScalarPattern:
        return _Binary(name, self, _scalar(other))

    def constant(self, number: Number) -> ScalarPattern:
        return _Number(number)

    def unary(self, name: str) -> ScalarPattern:
        return _Unary(name, self)

    def to(self, type_: Attribute) -> ScalarPattern:
        if not isinstance(cast(object, type_), IntegerType | AnyFloat):
            raise TypeError(f"expected an element type such as i32, found {type_!r}")
        return _Converted(self, type_)

    def compare(self, name: str, other: Scalar | Number) -> ScalarPattern:
        """Compares with another scalar, giving an i1; `name` is one of eq, ne, lt, le, gt and ge,
        of signed integers or floats.
        """
        if name not in COMPARISONS:
            raise ValueError(f"expected one of {', '.join(COMPARISONS)}, found {name!r}")
        return _Compared(name, self, _scalar(other))

    def select(self, lhs: Scalar | Number, rhs: Scalar | Number) -> ScalarPattern:
        """Gives `lhs` where this i1 is true, else `rhs`."""
        return _Selected(self, _scalar(lhs), _scalar(rhs))

    def read(self, *indices: Scalar | Number) -> ScalarPattern:
        """Reads the element at these indices of an array that a body is given whole."""
        return _Read(self, tuple(_scalar(index) for index in indices))

    def wrapped(self, size: int) -> ScalarPattern:
        """Gives this index, counted from the end of a dimension if it is negative."""
        return self.compare("lt", 0).select(self + size, self)

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        """Yields each way in which `value` fits, with all numbers bound so far."""
        raise NotImplementedError

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        """Emits this scalar as ops at the current implicit builder: `arguments` are those of the
        body, inputs first; `number` gives those that a pattern leaves open.
        """
        raise NotImplementedError


def number(name: str) -> ScalarPattern:
    """Makes a pattern of any constant of a body; its value is `m[name]`."""
    return _Unknown(name)


def match_body(
    op: tir.BlockOp, order: tuple[int, ...], body: Callable[..., Scalar | Number]
) -> Iterator[Numbers]:
    """Yields each way in which a block's body computes `body(acc, *inputs)`, where input i of the
    pattern is operand order[i] of the block.
    """
    args = op.body.block.args
    given: dict[str, Any] = {str(i + 1): args[operand] for i, operand in enumerate(order)}
    given["0"] = args[len(op.ins)]
    for numbers in _with_holes(body, len(order)).match(op.yielded[0], given):
        yield _named(numbers)


class Part(NamedTuple):
    """Describes the end of a body, which computes a value from other values, whatever these come
    from.
    """

    numbers: Numbers
    """The constants that the body leaves open, by name."""
    old: SSAValue | None
    """The value that stands in the place of the result so far; None if the body does not use it."""
    inputs: tuple[SSAValue | None, ...]
    """Values that stand in the places of the inputs; None for one that the body does not use."""


def match_part(
    value: SSAValue, body: Callable[..., Scalar | Number], inputs: int
) -> Iterator[Part]:
    """Yields each way in which a value is `body(acc, *inputs)` of some values, whatever these come
    from.
    """
    for numbers in _with_holes(body, inputs).match(value, {}):
        bound: Mapping[str, Any] = numbers
        old, *found = (bound.get(str(i)) for i in range(inputs + 1))
        yield Part(_named(numbers), old, tuple(found))


def _named(numbers: Numbers) -> Numbers:
    """Leaves out the values of holes."""
    return {name: number for name, number in numbers.items() if not name.isdecimal()}


@lru_cache(maxsize=1024)
def _with_holes(body: Callable[..., Any], inputs: int) -> ScalarPattern:
    """Gives what a body computes of any values: hole "0" is the result so far, then come inputs."""
    return _computed(body, *(_Hole(str(i)) for i in range(inputs + 1)))


def binary_text(name: str, lhs: str, rhs: str) -> str:
    """Writes a binary operator as it is written in bodies."""
    symbol = {"add": "+", "sub": "-", "mul": "*", "div": "/", "shr": ">>"}.get(name)
    if symbol is not None:
        return f"({lhs} {symbol} {rhs})"
    called = f"{name}(" if hasattr(Scalar, name) else f'binary("{name}", '
    return f"{lhs}.{called}{rhs})"


def unary_text(name: str, operand: str) -> str:
    """Writes a function of one scalar as it is written in bodies."""
    return f"{operand}.{name}()" if hasattr(Scalar, name) else f'{operand}.unary("{name}")'


@lru_cache(maxsize=1024)
def body_text(body: Callable[..., Any], inputs: int) -> tuple[list[str], str]:
    """Gives the names of a body's parameters, and the text of what it computes of them: of the
    result so far and of so many inputs, which `*xs` names `xs0`, `xs1`.
    """
    names, value = _with_names(body, inputs)
    return names, str(value)


def body_key(body: Callable[..., Any], inputs: int) -> Hashable:
    """Gives what is equal for bodies that compute the same and have the same text."""
    names, value = _with_names(body, inputs)
    return value, *names, str(value)


def _with_names(body: Callable[..., Any], inputs: int) -> tuple[list[str], ScalarPattern]:
    """Gives the names of a body's parameters, and what it computes of arguments with these
    names.
    """
    names = list[str]()
    parameters = signature(body).parameters
    for name, parameter in parameters.items():
        is_rest = parameter.kind is Parameter.VAR_POSITIONAL
        free = (each for i in count() if (each := f"{name}{i}") not in parameters)
        names += islice(free, inputs + 1 - len(names)) if is_rest else [name]
    names = names[: inputs + 1]
    arguments = (_Argument(i, name) for i, name in enumerate(names))
    return names, _computed(body, *arguments)


def emit_pattern(
    body: Callable[..., Any], arguments: Sequence[Emitted], number: NumberOf
) -> Emitted:
    """Emits the ops that a body describes; `arguments` are the inputs and then the result so far.
    Raises TypeError for a body whose type nothing tells.
    """
    *inputs, acc = (_Argument(i) for i in range(len(arguments)))
    return _typed(_computed(body, acc, *inputs).emit(arguments, number))


def check_body(body: Callable[..., Any], whole: Sequence[bool]) -> None:
    """Calls a body once, so that a mistake in it shows: a wrong number of parameters, an error of
    its own, or an array without an index (a `whole` input) that it takes for an element. Raises
    ByocirError B206.
    """
    value = _computed(body, *(_Argument(i) for i in range(len(whole) + 1)))
    elements = {*_elements(value)}
    for i, is_whole in enumerate(whole, start=1):
        if is_whole and i in elements:
            name = body_text(body, len(whole))[0][i]
            told = f"expected an index for the input that the body calls {name}, found none"
            help = 'x["m k"] is an element; an array without an index is for x.read(…) alone'
            raise ByocirError("B206", told, where=place_of(body), help=help)


def unknowns_of(body: Callable[..., Any], inputs: int) -> frozenset[str]:
    """Gives the names of the numbers that a body leaves open."""
    _, value = _with_names(body, inputs)
    return frozenset(part.name for part in _parts_of(value) if isinstance(part, _Unknown))


def types_of(body: Callable[..., Any], inputs: int) -> list[Attribute]:
    """Lists the types to which a body converts numbers."""
    _, value = _with_names(body, inputs)
    return [part.type for part in _parts_of(value) if isinstance(part, _Converted)]


def _parts_of(value: object) -> Iterator[ScalarPattern]:
    """Yields all scalars that a scalar is computed of, and itself."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, ScalarPattern):
            yield part
            pending += vars(part).values()
        elif isinstance(part, tuple):
            pending += cast("tuple[object, ...]", part)


def _elements(value: object) -> Iterator[int]:
    """Lists the arguments that a scalar computes with: not those that it only looks up in."""
    if isinstance(value, _Argument):
        yield value.index
    elif isinstance(value, ScalarPattern):
        parts = {**vars(value), **({"array": None} if isinstance(value, _Read) else {})}
        for part in parts.values():
            yield from _elements(part)
    elif isinstance(value, tuple):
        for part in cast("tuple[object, ...]", value):
            yield from _elements(part)


def _computed(body: Callable[..., Any], *arguments: ScalarPattern) -> ScalarPattern:
    """Calls the function of a body and gives its result; raises ByocirError B206 where it fails."""
    try:
        return _scalar(body(*arguments))
    except FAILURES as error:
        raise failed("B206", "the body", body, error, _BODIES) from error


_BODIES = (
    "a body takes the result so far and then each input, lambda acc, x: acc + x; it computes with "
    '+ - * / >> and methods: x.to(i32), x.max(0), x.clamp(-128, 127), x.compare("gt", 0).select(…)'
)


def _scalar(value: Any) -> ScalarPattern:
    if isinstance(value, ScalarPattern):
        return value
    if not isinstance(cast(object, value), Real):
        raise TypeError(f"expected a scalar, found {type(value).__name__}")
    return _Number(cast(Number, value))


def constant_number(value: SSAValue) -> int | float | None:
    """Gives the number of an arith.constant, or None."""
    owner = value.owner
    if type(owner) is not arith.ConstantOp:
        return None
    attribute = owner.value
    return attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else None


def _widened_number(value: SSAValue) -> int | float | None:
    """Gives the number of a constant, or of one that was converted to a wider integer."""
    while type(owner := value.owner) is arith.ExtSIOp:
        value = owner.input
    return constant_number(value)


@dataclass(frozen=True)
class _Argument(ScalarPattern):
    """Stands for an argument of a body that is written out."""

    index: int
    name: str = ""

    def __str__(self) -> str:
        return self.name

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        return arguments[self.index]


@dataclass(frozen=True)
class _Hole(ScalarPattern):
    """Stands for any value, the same one wherever it occurs, which is bound beside the numbers."""

    name: str
    """No identifier, as names of numbers are."""

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        known: Any = numbers.get(self.name)
        if known is None:
            found: Any = value
            yield {**numbers, self.name: found}
        elif known is value:
            yield numbers


@dataclass(frozen=True)
class _Number(ScalarPattern):
    value: Number

    def __str__(self) -> str:
        return str(self.value)

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        if _widened_number(value) == self.value:
            yield numbers

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        return self.value


@dataclass(frozen=True)
class _Unknown(ScalarPattern):
    name: str

    def __str__(self) -> str:
        return self.name

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        found = _widened_number(value)
        if found is not None and numbers.get(self.name, found) == found:
            yield {**numbers, self.name: found}

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        return number(self.name)


_BINARY = {
    name: [table[name] for table in (BINARY_INT, BINARY_FLOAT) if name in table]
    for name in {*BINARY_INT, *BINARY_FLOAT}
}


@dataclass(frozen=True)
class _Binary(ScalarPattern):
    name: str
    lhs: ScalarPattern
    rhs: ScalarPattern

    def __str__(self) -> str:
        return binary_text(self.name, str(self.lhs), str(self.rhs))

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        op = value.owner
        if type(op) not in _BINARY.get(self.name, ()):
            return
        assert isinstance(op, Operation)
        orders = [(0, 1), (1, 0)] if self.name in COMMUTATIVE else [(0, 1)]
        for left, right in orders:
            for bound in self.lhs.match(op.operands[left], numbers):
                yield from self.rhs.match(op.operands[right], bound)

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        lhs, rhs = self.lhs.emit(arguments, number), self.rhs.emit(arguments, number)
        if not isinstance(lhs, Emitted):
            if not isinstance(rhs, Emitted):
                raise TypeError("expected a scalar with a type, found two numbers")
            lhs = rhs.constant(lhs)
        return lhs.binary(self.name, rhs)


@dataclass(frozen=True)
class _Unary(ScalarPattern):
    name: str
    operand: ScalarPattern

    def __str__(self) -> str:
        return unary_text(self.name, str(self.operand))

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        op = value.owner
        if isinstance(op, Operation) and isinstance(op, UNARY_FLOAT[self.name]):
            yield from self.operand.match(op.operands[0], numbers)

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        return _typed(self.operand.emit(arguments, number)).unary(self.name)


@dataclass(frozen=True)
class _Converted(ScalarPattern):
    """Matches a number that was converted to this type, as `to` writes it: in one step, in several
    of one kind, or in none if it has the type already.
    """

    operand: ScalarPattern
    type: Attribute

    def __str__(self) -> str:
        return f"{self.operand}.to({self.type})"

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        if value.type != self.type:
            return
        current, steps = value, list[type[Operation]]()
        while True:
            known = isinstance(current.type, IntegerType | AnyFloat)
            if known and _merged(steps) == _conversions(current.type, self.type):
                yield from self.operand.match(current, numbers)
            op = current.owner
            if type(op) not in CONVERSIONS:
                return
            assert isinstance(op, Operation)
            steps.insert(0, type(op))
            current = op.operands[0]

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        return _typed(self.operand.emit(arguments, number)).to(self.type)


@dataclass(frozen=True)
class _Compared(ScalarPattern):
    name: str
    lhs: ScalarPattern
    rhs: ScalarPattern

    def __str__(self) -> str:
        return f'{self.lhs}.compare("{self.name}", {self.rhs})'

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        op = value.owner
        if not isinstance(op, arith.CmpiOp | arith.CmpfOp) or self.name != comparison(op):
            return
        for bound in self.lhs.match(op.lhs, numbers):
            yield from self.rhs.match(op.rhs, bound)

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        lhs = _typed(self.lhs.emit(arguments, number))
        return lhs.compare(self.name, self.rhs.emit(arguments, number))


def comparison(op: arith.CmpiOp | arith.CmpfOp) -> str | None:
    """Names a comparison op as bodies write it; None for unsigned ones and for others of floats."""
    if isinstance(op, arith.CmpiOp):
        found = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        name = found.removeprefix("s")
    else:
        found = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
        name = "ne" if found == "une" else found.removeprefix("o")
    return name if name in COMPARISONS else None


@dataclass(frozen=True)
class _Selected(ScalarPattern):
    condition: ScalarPattern
    lhs: ScalarPattern
    rhs: ScalarPattern

    def __str__(self) -> str:
        return f"{self.condition}.select({self.lhs}, {self.rhs})"

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        op = value.owner
        if not isinstance(op, arith.SelectOp):
            return
        for known in self.condition.match(op.cond, numbers):
            for bound in self.lhs.match(op.lhs, known):
                yield from self.rhs.match(op.rhs, bound)

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        condition = _typed(self.condition.emit(arguments, number))
        lhs, rhs = (side.emit(arguments, number) for side in (self.lhs, self.rhs))
        if not isinstance(lhs, Emitted):
            lhs = _typed(rhs).constant(lhs)
        return condition.select(lhs, rhs)


@dataclass(frozen=True)
class _Read(ScalarPattern):
    """Matches an element that is looked up; indices are i64."""

    array: ScalarPattern
    indices: tuple[ScalarPattern, ...]

    def __str__(self) -> str:
        return f"{self.array}.read({', '.join(map(str, self.indices))})"

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        op = value.owner
        if not isinstance(op, tir.ReadOp) or len(op.indices) != len(self.indices):
            return
        found: Iterable[Numbers] = self.array.match(op.array, numbers)
        for index, operand in zip(self.indices, op.indices, strict=True):
            wide = _Converted(index, i64)
            found = [bound for known in found for bound in wide.match(operand, known)]
        yield from found

    def emit(self, arguments: Sequence[Emitted], number: NumberOf) -> Emitted | Number:
        array = _typed(self.array.emit(arguments, number))
        return array.read(*(_typed(index.emit(arguments, number)) for index in self.indices))


def _typed(value: Emitted | Number) -> Emitted:
    if not isinstance(value, Emitted):
        raise TypeError("expected a scalar with a type, found a number")
    return value


def _merged(steps: Sequence[type[Operation]]) -> tuple[type[Operation], ...]:
    """Makes one conversion of each run of the same repeatable kind: extsi, extsi → extsi."""
    merged: list[type[Operation]] = []
    for step in steps:
        if not (merged and merged[-1] is step and step in REPEATABLE):
            merged.append(step)
    return tuple(merged)


@cache
def _conversions(source: Attribute, target: Attribute) -> tuple[type[Operation], ...]:
    """Gives the kinds of ops that a body written with `to` has between these types."""
    block = Block(arg_types=[source])
    with emitting_to(block):
        Emitted(block.args[0]).to(target)
    return tuple(type(op) for op in block.ops)
