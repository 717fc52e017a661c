"""Reads scalar bodies as lanes: what an element-wise block computes, in VTA's operations.

Bodies on i8 and i32 are read op by op. The i64 arithmetic of a requantise is recognised as a whole,
with the functions that lowerings write it with (`byocir.dialects.tir.bodies`).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.graph.fixed_point import Rounding, rescale
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.locations import fuse
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.bodies import saturate, scale_floor, scale_round, scale_round_even
from byocir.dialects.types import i8, i32, i64
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.legalise_lanes import (
    Constant,
    Lane,
    Requantised,
    step,
)
from byocir.patterns.scalars import (
    Numbers,
    ScalarPattern,
    constant_number,
    number,
)

Value = Lane | Constant

_STEPS: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.MuliOp: "mul",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
    arith.ShRSIOp: "shr",
}


def lane_of(block: BlockOp, arguments: dict[SSAValue, Value], rank: int) -> Lane:
    """Reads the body of an element-wise block as a lane, from the values of its arguments.

    Constants have rank `rank`. Raises ByocirError B321 for a body that VTA cannot compute.
    """
    reader = _Reader(block, arguments, rank)
    for op in block.body.block.ops:
        reader.read(op)
    result = reader.values.get(block.yielded[0])
    if not isinstance(result, Lane):
        raise reader.unknown(block)
    return result


def _beyond_alu(op: Operation, block: BlockOp) -> Exception:
    return unsupported(
        "B321",
        "expected a body of additions, multiplications, minima, maxima and right shifts on i32, "
        f"or a fixed-point requantise, found {op.name} on {_types(op)}",
        block,
        help="let the target's patterns decline this op, so that another target takes it",
    )


def _types(op: Operation) -> str:
    return ", ".join(str(v.type) for v in [*op.operands, *op.results])


class _Reader:
    """Reads a body op by op; `values` holds what is known of its scalars so far."""

    def __init__(self, block: BlockOp, arguments: dict[SSAValue, Value], rank: int) -> None:
        self.block = block
        self.rank = rank
        self.values = dict(arguments)

    def read(self, op: Operation) -> None:
        """Notes the value of an op's result. The i64 ops of a requantise get none: the op that
        narrows their result tells all.
        """
        if isinstance(op, arith.ConstantOp):
            self._read_number(op)
        elif isinstance(op, arith.ExtSIOp):
            if (value := self.values.get(op.input)) is not None:
                self.values[op.result] = value
        elif isinstance(op, arith.TruncIOp):
            self._read_narrowing(op)
        elif type(op) in _STEPS and op.results[0].type in (i8, i32):
            self._read_step(op)

    def unknown(self, otherwise: Operation) -> Exception:
        """Makes the error that names the first op whose result is not known though its operands
        are.
        """
        for op in self.block.body.block.ops:
            known = all(operand in self.values for operand in op.operands)
            if known and any(result not in self.values for result in op.results):
                return _beyond_alu(op, self.block)
        return _beyond_alu(otherwise, self.block)

    def _read_number(self, op: arith.ConstantOp) -> None:
        found = constant_number(op.result)
        if isinstance(found, int):
            self.values[op.result] = Constant.uniform(found, self.rank)

    def _read_step(self, op: Operation) -> None:
        name = _STEPS[type(op)]
        lhs, rhs = (self.values.get(v) for v in op.operands)
        if isinstance(lhs, Constant) and name != "shr":
            lhs, rhs = rhs, lhs
        if not isinstance(lhs, Lane) or rhs is None:
            raise self.unknown(op)
        if name == "shr" and not (isinstance(rhs, Constant) and 0 <= (rhs.number or 0) <= 31):
            raise _beyond_alu(op, self.block)
        made = step(name, lhs, rhs, self.block.location)
        self._set(op, made, op.results[0].type)

    def _set(self, op: Operation, value: Lane, type_: Attribute) -> None:
        """Notes a value that must not wrap in its type, unless that is i32 as in VTA."""
        if not integer_range(type_).contains(value.range):
            raise _beyond_alu(op, self.block)
        self.values[op.results[0]] = value

    def _read_narrowing(self, op: arith.TruncIOp) -> None:
        value = self.values.get(op.input)
        if value is None:
            value = self._requantised(op)
        if not isinstance(value, Lane) or op.result.type not in (i8, i32):
            raise self.unknown(op)
        self._set(op, value, op.result.type)

    def _requantised(self, op: arith.TruncIOp) -> Lane | None:
        """Reads the requantise whose result this op narrows; None if there is none."""
        for numbers, x, multiplier, rounding in _requantise_forms(op.result):
            operand, factor = self.values.get(x), self.values.get(multiplier)
            if isinstance(operand, Constant):
                operand, factor = factor, operand
            if not (isinstance(operand, Lane) and isinstance(factor, Constant)):
                continue
            shift = int(numbers.get("shift", 0))
            zero = _zero_point(numbers, shift, rounding)
            if zero is None:
                continue
            saturation = Interval(int(numbers["low"]), int(numbers["high"]))
            return _requantise(
                operand, factor, (shift, rounding, zero), saturation, fuse(self.block)
            )
        return None


def _zero_point(numbers: Numbers, shift: int, rounding: Rounding) -> int | None:
    """Finds the number that is added after rounding; None where the rounding term is another.
    Rounded half up, a zero point may have joined the term.
    """
    added, term = int(numbers.get("zero", 0)), int(numbers.get("term", 0))
    if shift == 0:
        return None if rounding == "half_even" else added + term
    if rounding == "floor":
        return added
    half = (1 << (shift - 1)) - (1 if rounding == "half_even" else 0)
    joined = term - half
    if joined and (rounding == "half_even" or joined % (1 << shift)):
        return None
    return added + (joined >> shift)


def _requantise(
    operand: Lane,
    factor: Constant,
    rescaling: tuple[int, Rounding, int],
    saturation: Interval,
    location: LocationAttr,
) -> Requantised:
    shift, rounding, zero = rescaling
    reached = operand.range.corners(
        factor.range, lambda x, m: rescale(x, m, shift, rounding) + zero
    )
    found = reached.clamped(saturation)
    return Requantised(found, location, operand, factor, shift, rounding, zero)


class _Captured(ScalarPattern):
    """Matches any scalar, and keeps the last one that it was tried on."""

    def __init__(self) -> None:
        self.value: SSAValue | None = None

    def match(self, value: SSAValue, numbers: Numbers) -> Iterator[Numbers]:
        self.value = value
        yield numbers


def _requantise_forms(
    value: SSAValue,
) -> Iterator[tuple[Numbers, SSAValue, SSAValue, Rounding]]:
    """Yields the ways to read a narrowed scalar as a requantise: its numbers, operand,
    multiplier.
    """
    x, m = _Captured(), _Captured()
    term, shift, zero = number("term"), number("shift"), number("zero")
    plain: list[tuple[ScalarPattern, Rounding]] = [
        (scale_round(x, m, term, shift), "half_up"),
        (scale_round_even(x, m, term, shift), "half_even"),
        (scale_floor(x, m, shift), "floor"),
        (x.to(i64) * m.to(i64), "half_up"),
    ]
    offset: list[tuple[ScalarPattern, Rounding]] = [(pattern + zero, r) for pattern, r in plain]
    for pattern, rounding in [*plain, *offset]:
        saturated = saturate(pattern, number("low"), number("high"), to=value.type)
        for numbers in saturated.match(value, {}):
            if x.value is not None and m.value is not None:
                yield numbers, x.value, m.value, rounding
