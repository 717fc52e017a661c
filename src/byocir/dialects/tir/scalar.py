"""Defines scalar expressions, in which block bodies are written, once for emission and for
matching.

A body such as `acc + x.to(i32) * w.to(i32)` is a Python function of `Scalar`s. Given `Emitted`
scalars it builds arith and math ops; given the pattern language's scalars (`byocir.patterns`) the
same function builds the pattern that matches those ops. So what a lowering writes and what a
target looks for cannot drift apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Self, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.new_ops import new_block
from byocir.dialects.template import Template
from byocir.dialects.tir.ops import ReadOp, YieldOp
from byocir.dialects.types import (
    i64,
    is_float,
    is_integer,
    is_unsigned,
    width_of,
)

Number = int | float


class Scalar(ABC):
    """Stands for a scalar expression. Operators take another scalar of the same type, or a Python
    number, which becomes a constant of that type. Integers are signed and wrap; `>>` is arithmetic.
    """

    @abstractmethod
    def binary(self, name: str, other: Self | Number) -> Self:
        """Applies an operator: `name` is one of add, sub, mul, div, max and min; on integers also
        rem (whose sign is the dividend's), and, or, xor, shl and shr, and of unsigned numbers divu,
        remu, maxu, minu and shru; on floats also pow.
        """

    @abstractmethod
    def unary(self, name: str) -> Self:
        """Applies a function of one float, of a `name` in UNARY_FLOAT."""

    @abstractmethod
    def to(self, type_: Attribute) -> Self:
        """Converts to `type_`: sign or zero extension, truncation of high bits, int to float, or
        float to int (of a value that fits).
        """

    @abstractmethod
    def constant(self, number: Number) -> Self:
        """Gives the number as a constant of this scalar's type."""

    def __add__(self, other: Self | Number) -> Self:
        return self.binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Self | Number) -> Self:
        return self.binary("sub", other)

    def __rsub__(self, number: Number) -> Self:
        return self.constant(number) - self

    def __mul__(self, other: Self | Number) -> Self:
        return self.binary("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Self | Number) -> Self:
        return self.binary("div", other)

    def __rtruediv__(self, number: Number) -> Self:
        return self.constant(number) / self

    def __rshift__(self, other: Self | Number) -> Self:
        return self.binary("shr", other)

    def max(self, other: Self | Number) -> Self:
        return self.binary("max", other)

    def min(self, other: Self | Number) -> Self:
        return self.binary("min", other)

    def clamp(self, low: Self | Number, high: Self | Number) -> Self:
        """Takes the `max` with `low`, then the `min` with `high`."""
        return self.max(low).min(high)

    def abs(self) -> Self:
        return self.unary("abs")

    def erf(self) -> Self:
        return self.unary("erf")

    def exp(self) -> Self:
        return self.unary("exp")

    def log(self) -> Self:
        return self.unary("log")

    def neg(self) -> Self:
        return self.unary("neg")

    def roundeven(self) -> Self:
        return self.unary("roundeven")

    def sqrt(self) -> Self:
        return self.unary("sqrt")

    def tanh(self) -> Self:
        return self.unary("tanh")


BINARY_INT: dict[str, type[IRDLOperation]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "div": arith.DivSIOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "rem": arith.RemSIOp,
    "divu": arith.DivUIOp,
    "remu": arith.RemUIOp,
    "maxu": arith.MaxUIOp,
    "minu": arith.MinUIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
    "shl": arith.ShLIOp,
    "shr": arith.ShRSIOp,
    "shru": arith.ShRUIOp,
}
"""The op of each binary operator on integers."""

BINARY_FLOAT: dict[str, type[IRDLOperation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "pow": math.PowFOp,
}
"""The op of each binary operator on floats."""

UNARY_FLOAT: dict[str, type[IRDLOperation]] = {
    "abs": math.AbsFOp,
    "acos": math.AcosOp,
    "acosh": math.AcoshOp,
    "asin": math.AsinOp,
    "asinh": math.AsinhOp,
    "atan": math.AtanOp,
    "atanh": math.AtanhOp,
    "ceil": math.CeilOp,
    "cos": math.CosOp,
    "cosh": math.CoshOp,
    "erf": math.ErfOp,
    "exp": math.ExpOp,
    "expm1": math.ExpM1Op,
    "floor": math.FloorOp,
    "log": math.LogOp,
    "log1p": math.Log1pOp,
    "neg": arith.NegfOp,
    "roundeven": math.RoundEvenOp,
    "sin": math.SinOp,
    "sinh": math.SinhOp,
    "sqrt": math.SqrtOp,
    "tan": math.TanOp,
    "tanh": math.TanhOp,
}
"""The op of each function of one float."""


def conversion(source: Attribute, target: Attribute) -> type[IRDLOperation] | None:
    """Gives the op that converts between two integer or float types, where integers are held as
    signless ones; None when the bits stay the same. Unsigned integers and booleans extend with
    zero.
    """
    if is_integer(source) and is_integer(target):
        if width_of(source) == width_of(target):
            return None
        if width_of(target) < width_of(source):
            return arith.TruncIOp
        return arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp
    if source == target:
        return None
    if is_integer(source):
        return arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp
    if is_integer(target):
        return arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp
    assert isinstance(source, AnyFloat)
    assert isinstance(target, AnyFloat)
    return arith.ExtFOp if target.bitwidth > source.bitwidth else arith.TruncFOp


@lru_cache(maxsize=256)
def signless(type_: Attribute) -> Attribute:
    """Gives the type that arith's ops use for values of this type."""
    return IntegerType(width_of(type_)) if is_integer(type_) else type_


def number_attr(value: Number, type_: Attribute) -> Attribute:
    """Gives the number as an attribute of an integer, index or float type."""
    if isinstance(type_, AnyFloat):
        return FloatAttr(float(value), type_)
    return _integer_attr(int(value), type_)


@lru_cache(maxsize=4096)
def _integer_attr(value: int, type_: Attribute) -> Attribute:
    if isinstance(type_, IndexType):
        return IntegerAttr.from_index_int_value(value)
    return IntegerAttr(value, cast(IntegerType, type_))


def number_op(value: Number, type_: Attribute) -> arith.ConstantOp:
    """Makes the op that gives a number of an integer, index or float type."""
    attribute = number_attr(value, type_)
    assert isinstance(attribute, IntegerAttr | FloatAttr)
    return arith.ConstantOp(attribute)


class Emitted(Scalar):
    """Wraps a scalar that is an SSA value: its operators emit ops at the place of `emit`."""

    def __init__(self, value: SSAValue) -> None:
        self.value = value

    @property
    def type(self) -> Attribute:
        return self.value.type

    def binary(self, name: str, other: Scalar | Number) -> Self:
        table = BINARY_FLOAT if is_float(self.type) else BINARY_INT
        return self._emit(table[name], self.value, self._operand(other))

    def compare(self, name: str, other: Scalar | Number) -> Self:
        """Compares with another scalar, giving an i1; `name` is one of eq, ne, lt, le, gt and ge.
        Integers compare as their type says; with a NaN only ne holds.
        """
        if is_float(self.type):
            predicate = "une" if name == "ne" else f"o{name}"
            return self._emit(arith.CmpfOp, self.value, self._operand(other), predicate)
        prefix = "u" if is_unsigned(self.type) else "s"
        predicate = name if name in ("eq", "ne") else f"{prefix}{name}"
        bits = self.signless()
        rhs = other.signless().value if isinstance(other, Emitted) else bits._operand(other)
        return self._emit(arith.CmpiOp, bits.value, rhs, predicate)

    def select(self, lhs: Self, rhs: Scalar | Number) -> Self:
        """Gives `lhs` where this i1 is true, else `rhs`."""
        return self._emit(arith.SelectOp, self.value, lhs.value, lhs._operand(rhs))

    def read(self, *indices: Emitted) -> Self:
        """Reads the element of this array at these indices."""
        return self._of(ReadOp.of(self.value, [index.to(i64).value for index in indices]))

    def wrapped(self, size: int) -> Self:
        """Gives this index, counted from the end of a dimension if it is negative."""
        return self.compare("lt", 0).select(self + size, self)

    def signless(self) -> Self:
        """Gives the same bits in the type that arith's ops take."""
        return self.cast(signless(self.type))

    def constant(self, number: Number) -> Self:
        type_ = signless(self.type)
        properties = {"value": number_attr(number, type_)}
        made = arith.ConstantOp.create(properties=properties, result_types=[type_])
        return self._of(made).cast(self.type)

    def _operand(self, other: Scalar | Number) -> SSAValue:
        if isinstance(other, int | float):
            other = self.constant(other)
        assert isinstance(other, Emitted)
        return other.value

    def unary(self, name: str) -> Self:
        return self._emit(UNARY_FLOAT[name], self.value)

    def to(self, type_: Attribute) -> Self:
        result, target = self.signless(), signless(type_)
        op = conversion(self.type, type_)
        if op is not None:
            result = result._emit(op, result.value, target)
        return result.cast(type_)

    def cast(self, type_: Attribute) -> Self:
        """Gives the same bits, signed, signless or unsigned: arith knows signless integers only."""
        if type_ == self.type:
            return self
        return self._of(UnrealizedConversionCastOp.get([self.value], [type_]))

    def _emit(self, op: Callable[..., Operation], *arguments: SSAValue | Attribute | str) -> Self:
        """Emits the op that `op` makes of operands and other arguments. Where one alike was made
        before, emits a copy of that: calling a constructor takes several times as long.
        """
        operands = [value for value in arguments if isinstance(value, SSAValue)]
        others = (each.type if isinstance(each, SSAValue) else each for each in arguments)
        key = (op, *others, *map(operands.index, operands))  # x * x is not alike x * y
        if key in _MADE:
            ((made,), _) = _MADE[key].make(operands, UNKNOWN_LOC)
            return self._of(made)
        made = op(*arguments)
        template = Template.of(operands, [made], made.results)
        assert template is not None
        _MADE[key] = template
        return self._of(made)

    def _of(self, op: Operation) -> Self:
        return type(self)(emit(op).results[0])


_MADE: dict[Hashable, Template] = {}
"""The ops of `_emit`, by constructor, the types of operands, what else they are made of, and which
operands are equal."""


def emit_body(
    types: Sequence[Attribute],
    body: Callable[..., Emitted],
    location: LocationAttr = UNKNOWN_LOC,
) -> Region:
    """Emits the body of a block whose elements have these types (ins, then the single out); all its
    ops have the location.
    """
    block = new_block(types)
    with emitting_to(block):
        emit(YieldOp.create(operands=[body(*map(Emitted, block.args)).value]))
    for op in block.ops:
        op.location = location
    return Region(block)
