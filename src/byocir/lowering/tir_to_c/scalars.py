"""Writes scalar bodies as C: one statement for each op, with the evaluator's meaning and nothing
undefined.

Integers wrap around, so sums and products are computed unsigned; shifts by too much, division by
zero and floats that fit no integer have a result, given by small functions that the source defines
if it uses them. The sign of a zero that a maximum gives is that of either operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, IntegerAttr, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import ReadOp
from byocir.dialects.types import f32, f64, i1, is_float, is_integer, shape_of, strides_of, width_of
from byocir.evaluate.scalar import sources
from byocir.lowering.tir_to_c.clamp_after_cast import clamp_after_cast
from byocir.lowering.tir_to_c.comparisons import (
    compare_floats,
    compare_integers,
    decided,
    extreme_float,
)
from byocir.lowering.tir_to_c.float_ranges import FloatRange, range_of
from byocir.lowering.tir_to_c.functions import FUNCTIONS
from byocir.lowering.tir_to_c.literals import (
    HALVES,
    NoC,
    c_type,
    float_literal,
    literal,
    loaded,
    unsigned_type,
)
from byocir.lowering.tir_to_c.reciprocal import QUOTIENT, as_product
from byocir.lowering.tir_to_c.routine_sources import HALF
from byocir.lowering.tir_to_c.tree import Declare, Node
from byocir.toolchain.calling import OUTSIDE

# -- ops

_PLAIN = {
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
    arith.AndIOp: "&",
    arith.OrIOp: "|",
    arith.XOrIOp: "^",
}
_ON_BOOLS: dict[type[Operation], str] = {
    arith.AddiOp: "^",
    arith.SubiOp: "^",
    arith.MuliOp: "&",
    arith.MaxSIOp: "&",
    arith.MinSIOp: "|",
    **{op: _PLAIN[op] for op in (arith.AndIOp, arith.OrIOp, arith.XOrIOp)},
}
_UNSIGNED: dict[type[Operation], tuple[str, str | None]] = {
    arith.DivUIOp: ("/", "y == 0"),
    arith.MaxUIOp: (">", None),
    arith.MinUIOp: ("<", None),
    arith.RemUIOp: ("%", "y == 0"),
    arith.ShRUIOp: (">>", "y >= {}"),
}
"""The operator, and where it gives 0."""
_FLOATS: dict[type[Operation], str] = {
    arith.AddfOp: "+",
    arith.SubfOp: "-",
    arith.MulfOp: "*",
    arith.DivfOp: "/",
}
_LIBRARY: dict[type[Operation], str] = {
    math.AbsFOp: "fabs",
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.AtanOp: "atan",
    math.AtanhOp: "atanh",
    math.CeilOp: "ceil",
    math.CosOp: "cos",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.ExpM1Op: "expm1",
    math.ExpOp: "exp",
    math.FloorOp: "floor",
    math.Log1pOp: "log1p",
    math.LogOp: "log",
    math.PowFOp: "pow",
    math.RoundEvenOp: "rint",
    math.SinOp: "sin",
    math.SinhOp: "sinh",
    math.SqrtOp: "sqrt",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
}


class Scalars:
    """Writes bodies, and collects the functions that they call."""

    def __init__(self) -> None:
        self.helpers: dict[str, str] = {}
        """Definitions by name."""
        self.ranges: dict[SSAValue, Interval] = {}
        """The least and the greatest number of integers that are known."""
        self.floats: dict[SSAValue, FloatRange] = {}
        """The same of floats."""
        self.can_fail = False
        """Tells if a statement may return from the function, with OUTSIDE."""

    def rounded(self, type_: Attribute, value: str) -> str:
        """Writes a float of C rounded to a float type, which may have 16 bits."""
        if type_ not in HALVES:
            return value
        self.helpers |= HALF
        return f"round_{HALVES[type_]}({value})"

    def statements(
        self,
        block: Block,
        arguments: Mapping[SSAValue, str],
        values: Sequence[SSAValue],
        letter: str = "v",
    ) -> tuple[list[Node], list[str]]:
        """Writes statements that compute `values` from a block's arguments, given as C expressions;
        gives them and the expressions of the values. Variables are named by the letter and a
        number. Raises NoC for an op without a form in C.
        """
        names, lines = dict(arguments), list[Node]()
        ops = list(sources(block, values))
        clamps = {op: clamp for op in ops if (clamp := clamp_after_cast(op, self.floats))}
        late = {inner for clamp in clamps.values() for inner in clamp.ops}
        for op in ops:
            if op in late:
                continue
            if op in clamps:
                names[op.results[0]] = name = f"{letter}{len(names)}"
                lines += clamps[op].statements(name, names)
                continue
            operands = [names[value] for value in op.operands]
            if isinstance(op, ReadOp):
                lines += self._checks(op, operands[1:])
                text = self._element(op, operands)
            else:
                text = self._expression(op, operands)
            result = op.results[0]
            if isinstance(op, arith.ConstantOp):
                names[result] = text
                continue
            names[result] = f"{letter}{len(names)}"
            lines.append(Declare(c_type(result.type), names[result], text))
        return lines, [names[value] for value in values]

    def _expression(self, op: Operation, operands: list[str]) -> str:
        kind, type_ = type(op), op.results[0].type
        if isinstance(op, arith.ConstantOp):
            return literal(op.value)
        if isinstance(op, arith.SelectOp):
            return "{} ? {} : {}".format(*operands)
        if isinstance(op, arith.CmpiOp):
            return compare_integers(op, operands)
        if isinstance(op, arith.CmpfOp):
            return compare_floats(op, operands)
        if kind in _FLOATS:
            return self._of_floats(op, operands)
        if kind in _LIBRARY:
            return self._library(_LIBRARY[kind], type_, operands)
        if kind in (arith.MaximumfOp, arith.MinimumfOp):
            return extreme_float(op, operands)
        if kind is arith.NegfOp:
            return f"-{operands[0]}"
        if kind in CONVERSIONS:
            return self._converted(op, operands[0])
        return self._integer(op, operands)

    def _of_floats(self, op: Operation, operands: Sequence[str]) -> str:
        parts = as_product(op, self.floats) if isinstance(op, arith.DivfOp) else None
        if parts is None:
            sign = f" {_FLOATS[type(op)]} "
            return self.rounded(op.results[0].type, sign.join(operands))
        self.helpers["quotient"] = QUOTIENT
        numbers = [float_literal(part, f32) for part in parts]
        return f"quotient({', '.join([*operands, *numbers])})"

    def _converted(self, op: Operation, value: str) -> str:
        if isinstance(op, arith.FPToSIOp | arith.FPToUIOp):
            inside = self._inside(op, value)
            if inside is not None:
                return inside
        return CONVERSIONS[type(op)](self, op.operands[0].type, op.results[0].type, value)

    def _checks(self, op: ReadOp, indices: list[str]) -> list[str]:
        """Writes the conditions that indices are inside, where that is not known."""
        lines: list[str] = []
        for value, text, size in zip(op.indices, indices, shape_of(op.array.type), strict=True):
            low, high = self.ranges.get(value, (-1, size))
            if low < 0 or high >= size:
                self.can_fail = True
                lines.append(f"if ({text} < 0 || {text} >= {size}) return {OUTSIDE};")
        return lines

    def _element(self, op: ReadOp, operands: list[str]) -> str:
        array, *indices = operands
        strides = strides_of(shape_of(op.array.type))
        steps = [
            text if stride == 1 else f"{stride} * {text}"
            for text, stride in zip(indices, strides, strict=True)
        ]
        return loaded(op.result.type, f"{array}[{' + '.join(steps) or '0'}]")

    def _library(self, name: str, type_: Attribute, operands: list[str]) -> str:
        if type_ == f32 and name in FUNCTIONS:
            self.helpers |= FUNCTIONS[name]
            return f"{name}_f32({operands[0]})"
        suffix = "" if type_ == f64 else "f"
        return self.rounded(type_, f"{name}{suffix}({', '.join(operands)})")

    def _integer(self, op: Operation, operands: list[str]) -> str:
        kind, type_ = type(op), op.results[0].type
        if type_ == i1:
            if kind not in _ON_BOOLS:
                raise NoC(op.name)
            return f"(uint8_t)({operands[0]} {_ON_BOOLS[kind]} {operands[1]})"
        own, wide = c_type(type_), unsigned_type(type_)
        if kind in _PLAIN:
            cast_ = f"({wide})" if own in ("int32_t", "int64_t") else ""
            return f"({own})({cast_}{operands[0]} {_PLAIN[kind]} {cast_}{operands[1]})"
        if kind in (arith.MaxSIOp, arith.MinSIOp):
            sign = ">" if kind is arith.MaxSIOp else "<"
            known = decided(op, sign, signed=True)
            if known is not None:  # compilers warn of conditions that are always true
                return operands[0 if known else 1]
            return f"{operands[0]} {sign} {operands[1]} ? {operands[0]} : {operands[1]}"
        if kind in (arith.ShLIOp, arith.ShRSIOp):
            return self._shift(op, operands)
        if kind in _UNSIGNED:
            return self._unsigned(kind, type_, operands)
        if kind in (arith.DivSIOp, arith.RemSIOp):
            return self._divide(kind is arith.RemSIOp, type_, operands)
        raise NoC(op.name)

    def _shift(self, op: Operation, operands: list[str]) -> str:
        type_ = op.results[0].type
        own, wide = c_type(type_), unsigned_type(type_)
        width = 64 if isinstance(type_, IndexType) else width_of(type_)
        left = isinstance(op, arith.ShLIOp)
        body = f"({own})(({wide})x << n)" if left else f"({own})(x >> n)"
        distance = op.operands[1].owner
        if isinstance(distance, arith.ConstantOp):
            number = distance.value
            assert isinstance(number, IntegerAttr)
            if 0 <= number.value.data < width:
                source = f"({wide}){operands[0]}" if left else operands[0]
                return f"({own})({source} {'<<' if left else '>>'} {number.value.data})"
        far = "0" if left else "x < 0 ? -1 : 0"
        name = f"{'shl' if left else 'shr'}_{own}"
        self.helpers[name] = (
            f"static inline {own} {name}({own} x, {own} n)\n"
            f"{{\n    return n < 0 || n >= {width} ? ({own})({far}) : {body};\n}}\n"
        )
        return f"{name}({', '.join(operands)})"

    def _unsigned(self, kind: type[Operation], type_: Attribute, operands: list[str]) -> str:
        """Writes an operator of unsigned numbers on the bits of signed ones. Dividing by zero gives
        0, as does shifting by too many bits.
        """
        own, wide, (sign, otherwise) = c_type(type_), unsigned_type(type_), _UNSIGNED[kind]
        name = f"{kind.name.replace('arith.', '')}_{wide}"
        if otherwise is None:
            body = f"x {sign} y ? x : y"
        else:
            body = f"{otherwise.format(width_of(type_))} ? 0 : ({wide})(x {sign} y)"
        self.helpers[name] = (
            f"static inline {wide} {name}({wide} x, {wide} y)\n{{\n    return {body};\n}}\n"
        )
        return f"({own}){name}(({wide}){operands[0]}, ({wide}){operands[1]})"

    def _divide(self, remainder: bool, type_: Attribute, operands: list[str]) -> str:
        """Writes a division towards zero; x / 0 is 0, and the least number by -1 is itself."""
        own, wide = c_type(type_), unsigned_type(type_)
        name = f"{'rem' if remainder else 'div'}_{own}"
        negated = "0" if remainder else f"({own})(0 - ({wide})x)"
        self.helpers[name] = (
            f"static inline {own} {name}({own} x, {own} y)\n"
            f"{{\n    if (y == 0) return 0;\n    if (y == -1) return {negated};\n"
            f"    return ({own})(x {'%' if remainder else '/'} y);\n}}\n"
        )
        return f"{name}({', '.join(operands)})"

    def _inside(self, op: arith.FPToSIOp | arith.FPToUIOp, value: str) -> str | None:
        """Writes the integer of a float that is known to fit; if it may be NaN, that gives the
        least integer. None where it may not fit.
        """
        source, target = op.input.type, op.result.type
        signed, width = isinstance(op, arith.FPToSIOp), width_of(target)
        known = range_of(op.input, self.floats)
        if target == i1 or not known.converts(Interval.of_bits(width, signed=signed)):
            return None
        own, kind = c_type(target), c_type(source)
        converted = own if signed else unsigned_type(target)
        if known.nan:
            name = f"{kind}_inside_{converted}"
            least = f"INT{width}_MIN" if signed else "0"
            self.helpers[name] = (
                f"static inline {converted} {name}({kind} x)\n"
                f"{{\n    const {converted} n = ({converted})(x == x ? x : 0);\n"
                f"    return x == x ? n : {least};\n}}\n"
            )
            return f"({own}){name}({value})"
        return f"({own}){value}" if signed else f"({own})({converted}){value}"

    def to_signed(self, source: Attribute, target: Attribute, value: str) -> str:
        """Writes a conversion towards zero; what does not fit becomes the nearest number that does,
        NaN the least.
        """
        if target == i1:
            raise NoC("fptosi")
        source = f64 if source == f64 else f32  # floats of 16 bits are held as f32
        own, kind, width = c_type(target), c_type(source), width_of(target)
        low, high = -(2.0 ** (width - 1)), 2.0 ** (width - 1)
        # Fractions below the least number are cut off, where the float can have them.
        finer = width < (24 if source == f32 else 53)
        below = f"x > {float_literal(low - 1, source)}" if finer else _at_least(low, source)
        name = f"{kind}_to_{own}"
        self.helpers[name] = (
            f"static inline {own} {name}({kind} x)\n"
            f"{{\n    return {below} && x < {float_literal(high, source)} ? ({own})x\n"
            f"        : x > 0 ? INT{width}_MAX : INT{width}_MIN;\n}}\n"
        )
        return f"{name}({value})"

    def to_unsigned(self, source: Attribute, target: Attribute, value: str) -> str:
        """Writes a conversion as `to_signed`, to an unsigned number whose bits are then held as
        signed ones.
        """
        if target == i1:
            raise NoC("fptoui")
        source = f64 if source == f64 else f32
        own, kind, wide = c_type(target), c_type(source), unsigned_type(target)
        width = width_of(target)
        name = f"{kind}_to_{wide}"
        self.helpers[name] = (
            f"static inline {wide} {name}({kind} x)\n"
            f"{{\n    return x > {float_literal(-1, source)} && "
            f"x < {float_literal(2.0**width, source)} ? ({wide})x : x > 0 ? UINT{width}_MAX : 0;\n"
            "}\n"
        )
        return f"({own}){name}({value})"


def _at_least(low: float, source: Attribute) -> str:
    return f"x >= {float_literal(low, source)}"


Conversion = Callable[[Scalars, Attribute, Attribute, str], str]


def _extended(scalars: Scalars, source: Attribute, target: Attribute, value: str) -> str:
    number = f"({c_type(target)}){'-' if source == i1 else ''}{value}"
    return scalars.rounded(target, number)


def _zero_extended(scalars: Scalars, source: Attribute, target: Attribute, value: str) -> str:
    return scalars.rounded(target, f"({c_type(target)})({unsigned_type(source)}){value}")


def _truncated(scalars: Scalars, source: Attribute, target: Attribute, value: str) -> str:
    return f"({c_type(target)}){f'({value} & 1)' if target == i1 else value}"


def _same_bits(scalars: Scalars, source: Attribute, target: Attribute, value: str) -> str:
    if not (is_integer(source) and is_integer(target)):
        raise NoC("cast")
    return f"({c_type(target)}){value}"


def _float(scalars: Scalars, source: Attribute, target: Attribute, value: str) -> str:
    if not (is_float(source) and is_float(target)):
        raise NoC("float")
    if target in HALVES and source == f64:  # casts from f64 so that it is rounded only once
        scalars.helpers |= HALF
        return f"{HALVES[target]}_to_float(double_to_{HALVES[target]}({value}))"
    return scalars.rounded(target, f"({c_type(target)}){value}")


CONVERSIONS: dict[type[Operation], Conversion] = {
    arith.ExtFOp: _float,
    arith.ExtSIOp: _extended,
    arith.ExtUIOp: _zero_extended,
    arith.FPToSIOp: Scalars.to_signed,
    arith.FPToUIOp: Scalars.to_unsigned,
    arith.SIToFPOp: _extended,
    arith.TruncFOp: _float,
    arith.TruncIOp: _truncated,
    arith.UIToFPOp: _zero_extended,
    UnrealizedConversionCastOp: _same_bits,
}
