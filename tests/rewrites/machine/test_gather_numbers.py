"""Sums whose numbers are gathered in one compute what they did, for all bytes, also where that one
is then added between two shifts.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scalar_text import Scalars
from xdsl.dialects import arith

from byocir.dialects.intervals import Interval
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i32
from byocir.dialects.uses import replace_op
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.patterns.scalars import constant_number
from byocir.rewrites.machine.gather_numbers import gather_numbers
from byocir.rewrites.machine.restate_bodies import restated

BYTES = np.arange(-128, 128).astype(np.int8)
FEED = {"arg0": np.repeat(BYTES, 256), "arg1": np.tile(BYTES, 256)}
HELD = Interval(-(2**15), 2**15 - 1)


class Body(Scalars):
    """The ops of a body on bytes %x and %y, as numbers in i64."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.y = self.wide("%x", "i8"), self.wide("%y", "i8")

    def term(self, value: str, factor: int, number: int) -> str:
        """A byte times a factor, plus a number, as i32."""
        found = self.put("addi", self.put("muli", value, factor), number)
        return self.narrow(self.clamp(found, -(2**31), 2**31 - 1), "i32")

    def block(self, value: str) -> BlockOp:
        byte = "tensor<65536xi8>"
        module = parse_module(f"""
          func.func @main(%a: {byte}, %b: {byte}) -> {byte} {{
            %e = tir.empty : {byte}
            %c = tir.block [i: 65536] ins(%a[i] : {byte}, %b[i] : {byte}) outs(%e[i] : {byte}) {{
            ^bb0(%x: i8, %y: i8, %old: i8):
              {self.text(value)}
            }}
            func.return %c : {byte}
          }}""")
        (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
        return block


def residual(
    terms: tuple[tuple[int, int], tuple[int, int]], factor: int, shift: int, added: int
) -> BlockOp:
    """A block for `clamp(((x * a + b) + (y * c + d)) * factor + added >> shift)`."""
    body = Body()
    one, other = (body.term(v, *t) for v, t in zip((body.x, body.y), terms, strict=True))
    total = body.line(f"arith.addi {one}, {other} : i32")
    scaled = body.put("addi", body.put("muli", body.wide(total, "i32"), factor), added)
    return body.block(body.clamp(body.put("shrsi", scaled, shift), -128, 127))


def steps_of(block: BlockOp) -> list[str]:
    """The operations of a body, with the number that one has."""
    found = list[str]()
    for op in block.body.block.ops:
        if isinstance(op, arith.AddiOp | arith.MuliOp | arith.ShRSIOp):
            number = constant_number(op.rhs)
            name = op.name.removeprefix("arith.")
            found.append(name if number is None else f"{name} {number}")
    return found


def checked(block: BlockOp) -> list[list[str]]:
    """The steps of each way to restate a block whose numbers are gathered, which gives the same."""
    module = block.get_toplevel_object()
    expected = evaluate(module, FEED)["res0"]
    ends = gather_numbers(block)
    verify_module(module)
    np.testing.assert_array_equal(evaluate(module, FEED)["res0"], expected)
    ways = restated(block, i32, ends, HELD)
    for way in [] if isinstance(ways, str) else ways:
        replace_op(block, way)
        block = way[-1]
        verify_module(module)
        np.testing.assert_array_equal(evaluate(module, FEED)["res0"], expected)
    return [] if isinstance(ways, str) else [steps_of(way[-1]) for way in ways]


FACTORS = st.integers(-127, 127) | st.sampled_from([1, 2**20, 5102067])
NUMBERS = st.integers(-300, 300) | st.integers(-(2**24), 2**24)


@settings(max_examples=10 if settings.default.max_examples < 100 else 1000)
@given(
    st.tuples(st.tuples(FACTORS, NUMBERS), st.tuples(FACTORS, NUMBERS)),
    st.integers(1, 20000),
    st.integers(1, 25),
    st.integers(-200, 200),
)
def test_sums_of_bytes_stay_what_they_were(terms, factor, shift, zero) -> None:
    added = (1 << shift - 1) + (zero << shift)
    event(f"{len(checked(residual(terms, factor, shift, added)))} ways")


@pytest.mark.parametrize(
    ("terms", "factor", "shift", "zero", "steps"),
    [
        # Numbers of terms are one number, and join what rounds, if the factor divides that.
        (((27, -9), (23, 8)), 1, 7, 0, ["muli 27", "muli 23", "addi", "addi 63", "shrsi 7"]),
        (((5, 3), (7, 1)), 4, 5, 0, ["muli 5", "muli 7", "addi", "addi 8", "muli 4", "shrsi 5"]),
        # A half that no instruction holds is added between two shifts, with a zero point.
        (
            ((5102067, 0), (764591, 0)),
            1,
            23,
            -3,
            ["muli 5102067", "muli 764591", "addi", "shrsi 22", "addi -5", "shrsi 1"],
        ),
        # So is another number without bits that make no difference for any of the bytes.
        (
            ((65536, 3), (131072, 5)),
            1,
            20,
            0,
            ["muli 65536", "muli 131072", "addi", "shrsi 19", "addi 1", "shrsi 1"],
        ),
    ],
)
def test_numbers_are_added_in_one_step(terms, factor, shift, zero, steps) -> None:
    added = (1 << shift - 1) + (zero << shift)
    assert steps in checked(residual(terms, factor, shift, added))
