"""The scalar bodies of blocks in VTA form: what one step of GEMM, ALU, load or store computes."""

from __future__ import annotations

from xdsl.ir import Region

from byocir.dialects.tir.bodies import multiply_accumulate, widen_add
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import i8, i32


def contraction() -> Region:
    """`acc + x * w` on i8, in i32."""

    def body(x: Emitted, w: Emitted, acc: Emitted) -> Emitted:
        return multiply_accumulate(x, w, acc, to=i32)

    return emit_body([i8, i8, i32], body)


def product(number: int) -> Region:
    """`acc + x * number` on i8, in i32: a contraction with the number on a diagonal."""

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc + x.to(i32) * number

    return emit_body([i8, i32], body)


def window_sum() -> Region:
    """`acc + x` on i8, in i32."""
    return emit_body([i8, i32], widen_add)


def window_maximum() -> Region:
    """`max(acc, x)` on i8, in i32."""

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc.max(x.to(i32))

    return emit_body([i8, i32], body)


def widening() -> Region:
    """i8 to i32."""

    def body(x: Emitted, _: Emitted) -> Emitted:
        return x.to(i32)

    return emit_body([i8, i32], body)


def narrowing() -> Region:
    """Gives the low 8 bits of i32."""

    def body(x: Emitted, _: Emitted) -> Emitted:
        return x.to(i8)

    return emit_body([i32, i8], body)


def alu(name: str) -> Region:
    """Gives an operation of the accumulator with an operand; `name` is as in `Scalar.binary`. The
    operand of shl is a distance below 0."""

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc.binary(name, x.constant(0) - x if name == "shl" else x)

    return emit_body([i32, i32], body)


def alu_immediate(name: str, number: int) -> Region:
    """Gives an operation of the accumulator with a number."""

    def body(acc: Emitted) -> Emitted:
        return acc.binary(name, number)

    return emit_body([i32], body)
