"""Evaluates the scalar ops that block bodies are written in, over numpy arrays.

Each op is a function of arrays that broadcast against each other, so that a body is evaluated for
many points at once. Integers wrap around; arith's signless types are held as signed numpy dtypes
and viewed as unsigned where an op says so; booleans are `i1`. The sign of a zero that `maximumf` or
`minimumf` gives is that of either operand. `index` values are 64-bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erf
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.locations import names
from byocir.dialects.tir import ReadOp
from byocir.dialects.types import dtype_of
from byocir.errors import ByocirError

Function = Callable[..., Any]
"""A function of numpy arrays, or numpy scalars, to one of them."""


def scalar_dtype(type_: Attribute) -> np.dtype:
    """Gives the numpy dtype that values of a scalar type are held in."""
    return np.dtype(np.int64) if isinstance(type_, IndexType) else dtype_of(type_)


def number(value: Attribute) -> np.generic:
    """Reads an integer or float attribute as a numpy scalar of its type; integers wrap around."""
    if isinstance(value, FloatAttr):
        value = cast(FloatAttr, value)
        return scalar_dtype(value.type).type(value.value.data)
    assert isinstance(value, IntegerAttr)
    value = cast(IntegerAttr, value)
    dtype = scalar_dtype(value.type)
    if dtype == np.bool_:
        return np.bool_(value.value.data)
    bits = value.value.data & (2 ** (8 * dtype.itemsize) - 1)
    return np.frombuffer(bits.to_bytes(dtype.itemsize, sys.byteorder), dtype)[0]


def convert(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converts integers to another width: they are extended as their own sign says, or keep the low
    bits.
    """
    if dtype == np.bool_ and values.dtype != np.bool_:
        return (values & 1).astype(np.bool_)
    return values.astype(dtype, copy=False)


def unsigned(x: np.ndarray) -> np.ndarray:
    """Reads the same bits as unsigned integers; booleans are 0 and 1 either way."""
    return x if x.dtype.kind != "i" else x.view(f"u{x.dtype.itemsize}")


def _signed_bool(x: np.ndarray) -> np.ndarray:
    """Reads booleans as i1 is read where it is signed: true is -1."""
    return -x.astype(np.int8) if x.dtype == np.bool_ else x


def _on_bools(on_bools: Function, otherwise: Function) -> Function:
    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (on_bools if x.dtype == np.bool_ else otherwise)(x, y)

    return function


def _as_unsigned(function: Function) -> Function:
    def of_unsigned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return function(unsigned(x), unsigned(y)).astype(x.dtype)

    return of_unsigned


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divides, rounding towards zero."""
    quotient = np.floor_divide(x, y)
    return quotient + ((np.fmod(x, y) != 0) & ((x < 0) != (y < 0))).astype(quotient.dtype)


BINARY: dict[type[Operation], Function] = {
    arith.AddiOp: _on_bools(np.bitwise_xor, np.add),
    arith.SubiOp: _on_bools(np.bitwise_xor, np.subtract),
    arith.MuliOp: np.multiply,
    arith.DivSIOp: _divide,
    arith.DivUIOp: _as_unsigned(np.floor_divide),
    arith.FloorDivSIOp: np.floor_divide,
    arith.RemSIOp: np.fmod,
    arith.RemUIOp: _as_unsigned(np.fmod),
    arith.MaxSIOp: _on_bools(np.bitwise_and, np.maximum),
    arith.MinSIOp: _on_bools(np.bitwise_or, np.minimum),
    arith.MaxUIOp: _as_unsigned(np.maximum),
    arith.MinUIOp: _as_unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.ShRUIOp: _as_unsigned(np.right_shift),
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    math.PowFOp: np.power,
}
"""Ops of two operands of one type, with a result of that type."""


def error_function(x: np.ndarray) -> np.ndarray:
    """Computes the error function, which numpy lacks."""
    return np.asarray(np.frompyfunc(erf, 1, 1)(x)).astype(x.dtype)


UNARY: dict[type[Operation], Function] = {
    arith.NegfOp: np.negative,
    math.AbsFOp: np.absolute,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.CeilOp: np.ceil,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: error_function,
    math.ExpM1Op: np.expm1,
    math.ExpOp: np.exp,
    math.FloorOp: np.floor,
    math.Log1pOp: np.log1p,
    math.LogOp: np.log,
    math.RoundEvenOp: np.rint,
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
}
"""Ops of one operand, with a result of its type."""


def saturate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converts floats to an integer type, clipping them to what it holds, and cutting towards zero.
    NaN becomes the least number, as in ONNX Runtime's QuantizeLinear.
    """
    limits = np.iinfo(dtype)
    x = x.astype(np.promote_types(x.dtype, np.float32), copy=False)  # 16 bits hold few limits
    low, high = x.dtype.type(limits.min), x.dtype.type(limits.max)
    # The greatest number of a wide type is no float: what rounds to it does not fit.
    fits = np.fmin(np.fmax(x, low), high)
    with np.errstate(invalid="ignore"):
        return np.where(fits >= high, limits.max, fits.astype(dtype)).astype(dtype)


CONVERSIONS: dict[type[Operation], Callable[[np.ndarray, np.dtype], np.ndarray]] = {
    arith.ExtFOp: lambda x, to: x.astype(to),
    arith.TruncFOp: lambda x, to: x.astype(to),
    arith.ExtSIOp: lambda x, to: _signed_bool(x).astype(to),
    arith.ExtUIOp: lambda x, to: unsigned(x).astype(to),
    arith.TruncIOp: convert,
    arith.SIToFPOp: lambda x, to: _signed_bool(x).astype(to),
    arith.UIToFPOp: lambda x, to: unsigned(x).astype(to),
    arith.FPToSIOp: saturate,
    arith.FPToUIOp: lambda x, to: saturate(x, _unsigned_dtype(to)).view(to),
    arith.IndexCastOp: convert,
    arith.BitcastOp: lambda x, to: x.view(to),
    UnrealizedConversionCastOp: lambda x, to: x.view(to),
}
"""Ops of one operand that change its type to the one given."""


OTHERS = (arith.ConstantOp, arith.CmpiOp, arith.CmpfOp, arith.SelectOp)
"""Ops whose properties, or more operands, take part."""


def _unsigned_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind != "i" else np.dtype(f"u{dtype.itemsize}")


_COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare_integers(op: arith.CmpiOp) -> Function:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    compare, view = _COMPARE[predicate[-2:]], unsigned if predicate[0] == "u" else _signed_bool

    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return compare(view(x), view(y))

    return function


def _compare_floats(op: arith.CmpfOp) -> Function:
    """Compares floats: `o…` is false and `u…` true when an operand is NaN; `ord` and `uno` ask just
    that.
    """
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]

    def compare(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        unordered = np.isnan(x) | np.isnan(y)
        if predicate in ("ord", "uno"):
            return unordered if predicate == "uno" else ~unordered
        if predicate in ("false", "true"):
            return np.full_like(unordered, predicate == "true")
        holds = _COMPARE[predicate[1:]](x, y)
        return holds | unordered if predicate[0] == "u" else holds & ~unordered

    return compare


def function_of(op: Operation) -> Function:
    """Gives the function that computes a scalar op from its operands' values; raises ByocirError
    B301 for an op that has none here.
    """
    kind = type(op)
    if kind in BINARY:
        return BINARY[kind]
    if kind in UNARY:
        return UNARY[kind]
    if kind in CONVERSIONS and _converts_scalars(op):
        return _conversion(CONVERSIONS[kind], scalar_dtype(op.results[0].type))
    if isinstance(op, arith.ConstantOp):
        value = number(op.value)
        return lambda: value
    if isinstance(op, arith.CmpiOp):
        return _compare_integers(op)
    if isinstance(op, arith.CmpfOp):
        return _compare_floats(op)
    if isinstance(op, arith.SelectOp):
        return np.where
    if isinstance(op, ReadOp):
        return _look_up
    raise unknown(op)


def _look_up(array: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    """Looks up the elements at these indices; raises ByocirError B303 for one that is outside."""
    for index, size in zip(indices, array.shape, strict=True):
        low, high = np.min(index, initial=0), np.max(index, initial=-1)
        if low < 0 or high >= size:
            raise ByocirError(
                "B303",
                f"expected an index inside [0, {size}), found {low if low < 0 else high}",
            )
    return array[indices]


def _converts_scalars(op: Operation) -> bool:
    """Tells if a conversion is of one scalar; a cast must also keep its size."""
    if not isinstance(op, UnrealizedConversionCastOp):
        return True
    types = [value.type for value in (*op.operands, *op.results)]
    if len(types) != 2 or not all(isinstance(type_, IntegerType) for type_ in types):
        return False
    return scalar_dtype(types[0]).itemsize == scalar_dtype(types[1]).itemsize


def _conversion(
    function: Callable[[np.ndarray, np.dtype], np.ndarray], dtype: np.dtype
) -> Function:
    def convert_to(x: np.ndarray) -> np.ndarray:
        return function(x, dtype)

    return convert_to


def unknown(op: Operation, expected: str = "an op with an evaluation rule") -> ByocirError:
    """Makes the error for an op that cannot be evaluated."""
    return ByocirError(
        "B301",
        f"expected {expected}, found {op.name}",
        where=", ".join(names(op.location)),
    )


@dataclass(frozen=True)
class Body:
    """Holds a block's body as a program over slots: the arguments first, then one slot per op."""

    arity: int
    steps: tuple[tuple[Function, tuple[int, ...]], ...]
    yields: tuple[int, ...]

    @staticmethod
    def of(block: Block, values: Sequence[SSAValue]) -> Body:
        """Makes the program that computes `values` from the block's arguments; raises ByocirError
        B301 for an op that has no rule or uses a value from outside the block.
        """
        slots: dict[SSAValue, int] = {arg: i for i, arg in enumerate(block.args)}
        steps: list[tuple[Function, tuple[int, ...]]] = []
        for op in sources(block, values):
            if not all(value in slots for value in op.operands):
                raise unknown(op, "a body that uses only its own arguments")
            steps.append((function_of(op), tuple(slots[value] for value in op.operands)))
            slots[op.results[0]] = len(slots)
        return Body(len(block.args), tuple(steps), tuple(slots[value] for value in values))

    def run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Computes the values for these arguments, which broadcast. Trailing arguments that no
        value depends on may be left out.
        """
        slots: list[Any] = [*arguments, *[None] * (self.arity - len(arguments))]
        for function, operands in self.steps:
            slots.append(function(*[slots[i] for i in operands]))
        return [slots[i] for i in self.yields]


def sources(block: Block, values: Sequence[SSAValue]) -> list[Operation]:
    """Lists the ops of a block that these values depend on, in order."""
    needed = set(values)
    ops: list[Operation] = []
    for op in reversed(list(block.ops)):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands)
            ops.append(op)
    return ops[::-1]


def arguments_of(block: Block, values: Sequence[SSAValue]) -> set[int]:
    """Lists the block's arguments that these values depend on, by position."""
    used = set(values).union(*(op.operands for op in sources(block, values)))
    return {arg.index for arg in block.args if arg in used}
