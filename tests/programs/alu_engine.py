"""A machine whose core does one operation at a time on vectors of i32, in place, as many do, and
adds products of bytes to them.
"""

from __future__ import annotations

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Counted, Machine, multiples_of, up_to
from byocir.patterns import Match, Pattern, block, number, wildcard
from byocir.patterns import ScalarPattern as Scalar

engine = Machine("alu")
dma, core = engine.unit("dma", queue=8), engine.unit("core", queue=4)
vectors = engine.memory("vectors", i32, row=(8,), rows=128)
bytes_ = engine.memory("bytes", i8, row=(8,), rows=64)
engine.order(Counted())
sizes = {"rows": up_to(16), "lanes": multiples_of(8, 64)}
engine.copy("load", MAIN, vectors, unit=dma, cycles=lambda s: 9 + s["rows"], **sizes)


@engine.instruction(dma, into=vectors, cycles=lambda s: 9 + s["rows"], **sizes)
def widen() -> Pattern:
    return block("rows lanes", wildcard("x", dtype=i8)["rows lanes"], lambda _, x: x.to(i32))


@engine.instruction(dma, cycles=lambda s: 9 + s["rows"], **sizes)
def narrow() -> Pattern:
    return block("rows lanes", vectors("x")["rows lanes"], lambda _, x: x.to(i8))


def alu(name: str) -> None:
    """Declares an operation with a small number, and one with vectors of its own or one for all."""

    def small() -> Pattern:
        return block("rows lanes", lambda x: x.binary(name, number("n")), init=vectors("x"))

    def vector() -> Pattern:
        def apply(x, y):
            return x.binary(name, y)

        own, one = vectors("y")["(rows*step) lanes"], vectors("y")["lanes"]
        each = block("rows lanes", own, apply, init=vectors("x"))
        return each | block("rows lanes", one, apply, init=vectors("x"))

    small.__name__, vector.__name__ = f"{name}_small", name
    made = engine.instruction(core, into=vectors, cycles=lambda s: 4 + s["rows"], **sizes)(small)

    @made.rule
    def numbers_have_eight_bits(m: Match) -> tuple[bool, int]:
        """The number has eight bits."""
        return -128 <= m["n"] <= 127, m["n"]

    strided = {"strided": ("y",), **sizes}
    engine.instruction(core, into=vectors, cycles=lambda s: 4 + 2 * s["rows"], **strided)(vector)


for operation in ("add", "mul", "max", "min", "shr"):
    alu(operation)


@engine.instruction(core, into=vectors, cycles=lambda s: 3 + s["rows"], **sizes)
def move() -> Pattern:
    return block("rows lanes", vectors("x")["rows lanes"], lambda _, x: x)


boxes = {"rows": up_to(16), "lanes": up_to(64)}
engine.copy("load_bytes", MAIN, bytes_, unit=dma, cycles=lambda s: 6 + s["rows"], **boxes)


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(i32) * w.to(i32)


@engine.instruction(core, into=vectors, cycles=lambda s: 2 + s["rows"], **sizes, k=up_to(6))
def products() -> Pattern:
    """Adds the products of one vector for all rows with each of some vectors."""
    one, each = bytes_("one")["k"], bytes_("each")["k lanes"]
    return block("rows lanes | k", one, each, multiply_add, init=vectors("x"))


@engine.instruction(core, into=vectors, cycles=lambda s: 3 + s["rows"], **sizes)
def scaled() -> Pattern:
    """Adds bytes, each times the factor of its lane."""
    each, factors = bytes_("each")["rows lanes"], bytes_("factors")["lanes"]
    return block("rows lanes", each, factors, multiply_add, init=vectors("x"))


class Engine(byocir.Target):
    name, machine = "alu", engine
