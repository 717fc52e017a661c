"""Defines the scalar bodies of blocks in VTA form: what one step of GEMM, ALU, load or store
computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.ir import Attribute, Region

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.bodies import multiply_accumulate, widen_add
from byocir.dialects.tir.scalar import Emitted, Scalar, emit_body
from byocir.dialects.types import i8, i32
from byocir.patterns.scalars import Numbers, ScalarPattern, match_body

S = TypeVar("S", bound=Scalar)
Open = int | ScalarPattern
"""A number, or a pattern of any number."""


@dataclass(frozen=True)
class Form:
    """Describes a body of blocks in VTA form: its function, `body(acc, *inputs)`, and the types of
    its inputs and its result. Blocks are made with it and recognised by it.
    """

    types: tuple[Attribute, ...]
    body: Callable[..., Any]

    def region(self) -> Region:
        """Makes the body of a block."""

        def body(*values: Emitted) -> Emitted:
            return self.body(values[-1], *values[:-1])

        return emit_body(self.types, body)

    def numbers(self, op: BlockOp) -> Numbers | None:
        """Gives the numbers of a block where the form leaves them open; None for a block that
        computes something else.
        """
        if tuple(arg.type for arg in op.body.block.args) != self.types:
            return None
        return next(match_body(op, tuple(range(len(op.ins))), self.body), None)

    def fits(self, op: BlockOp) -> bool:
        """Tells if a block computes this."""
        return self.numbers(op) is not None


def _contraction(acc: S, x: S, w: S) -> S:
    return multiply_accumulate(x, w, acc, to=i32)


def _window_sum(acc: S, x: S) -> S:
    return widen_add(x, acc)


def _window_maximum(acc: S, x: S) -> S:
    return acc.max(x.to(i32))


def _widened(_: S, x: S) -> S:
    return x.to(i32)


def _narrowed(_: S, x: S) -> S:
    return x.to(i8)


CONTRACTION = Form((i8, i8, i32), _contraction)
WINDOW_SUM = Form((i8, i32), _window_sum)
WINDOW_MAXIMUM = Form((i8, i32), _window_maximum)
WIDENING = Form((i8, i32), _widened)
NARROWING = Form((i32, i8), _narrowed)
"""The low 8 bits of i32."""


def fill(number: Open) -> Form:
    """Makes the form of a block that sets a number, which is what a fill becomes when it is
    tiled.
    """

    def body(_: Any) -> Open:
        return number

    return Form((i32,), body)


def product(number: Open) -> Form:
    """Makes the form `acc + x * number` on i8, in i32: GEMM does it by weights with the number on
    the diagonal.
    """

    def body(acc: Any, x: Any) -> Any:
        return acc + x.to(i32) * number

    return Form((i8, i32), body)


def alu(name: str) -> Form:
    """Makes the form of an ALU operation of the accumulator with an operand; `name` is as in
    `Scalar.binary`. The operand of shl is a distance below 0.
    """

    def body(acc: S, x: S) -> S:
        return acc.binary(name, 0 - x if name == "shl" else x)

    return Form((i32, i32), body)


def alu_immediate(name: str, number: Open) -> Form:
    """Makes the form of an ALU operation of the accumulator with a number."""

    def body(acc: Any) -> Any:
        return acc.binary(name, number)

    return Form((i32,), body)
