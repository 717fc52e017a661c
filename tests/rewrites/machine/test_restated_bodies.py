"""Bodies that are restated in i32 compute what they did in i64, in each way to clamp, also where
they round half to even.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from byocir.rewrites.machine.clamp_chains import ANY
from byocir.rewrites.machine.restate_bodies import restated

TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32}
NUMBERS = {
    "addi": st.integers(-(2**20), 2**20),
    "subi": st.integers(-1000, 1000),
    "muli": st.sampled_from([-7, -1, 0, 1, 3, 1000, 2**20, 2**31 - 1]),
    "shrsi": st.sampled_from([0, 1, 8, 9, 20, 31, 40]),
    "maxsi": st.integers(-40000, 10000),
    "minsi": st.integers(-40000, 60000),
}
"""The numbers that steps of a body have for all channels."""
OF_CHANNELS = {
    "addi": st.integers(-(2**22), 2**22),
    "muli": st.integers(1, 4000) | st.integers(1, 2**31 - 1) | st.integers(-3, 9),
    "shrsi": st.integers(0, 31),
}
"""The numbers that steps of a body have for each channel."""
EVEN = "round to even"
SHIFTS = st.sampled_from([1, 2, 8, 9, 15, 20, 29])
"""The bits by which bodies shift that round half to even."""


def program(body: str, element: str, shape: str = "4", constants: Sequence[list[int]] = ()) -> str:
    """A program of one block with this body, on an array of a shape, "4x16" or "4" or "", and on
    constants of i32, which are %b0, %b1, … in the body and one number a channel.
    """
    *rows, lanes = shape.split("x")
    index = ["i", "j"] if rows else ["j"] if lanes else []
    sizes, own = f"{shape}x" if shape else "", f"{lanes}x" if lanes else ""
    points = zip(index, shape.split("x"), strict=False)
    kept = f"tensor<{own}i32>"
    made = [f"%f{at} = tir.constant <{n} : {kept}> : {kept}" for at, n in enumerate(constants)]
    reads = [f", %f{at}[{''.join(index[-1:])}] : {kept}" for at in range(len(constants))]
    scalars = "".join(f"%b{at}: i32, " for at in range(len(constants)))
    newline = "\n"
    return f"""
      func.func @main(%x: tensor<{sizes}{element}>) -> tensor<{sizes}i8> {{
        {newline.join(made)}
        %e = tir.empty : tensor<{sizes}i8>
        %y = tir.block [{", ".join(f"{i}: {n}" for i, n in points)}]
            ins(%x[{", ".join(index)}] : tensor<{sizes}{element}>{"".join(reads)})
            outs(%e[{", ".join(index)}] : tensor<{sizes}i8>) {{
        ^bb0(%a: {element}, {scalars}%old: i8):
          {body}
        }}
        func.return %y : tensor<{sizes}i8>
      }}"""


class Body:
    """The text of a block of a few steps in i64, clamped to bytes, on an array of up to two
    dimensions, the last of which counts channels.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.channels = data.draw(st.sampled_from([None, 1, 4]))
        self.rows = data.draw(st.sampled_from([None, 3])) if self.channels else None
        self.element = data.draw(st.sampled_from(["i32", *TYPES]))
        self.ops, self.constants = Scalars(), list[list[int]]()
        self.value = self.ops.wide("%a", self.element)

    def step(self) -> None:
        kind = self.data.draw(st.sampled_from([*NUMBERS, "muli", "muli", "shrsi", EVEN]))
        if kind == EVEN:
            self.value = self.ops.shift_to_even(self.value, self.data.draw(SHIFTS))
            return
        if kind in OF_CHANNELS and self.data.draw(st.booleans()):
            other = self.array([self.data.draw(OF_CHANNELS[kind]) for _ in range(self.count)])
        else:
            other = self.ops.number(self.data.draw(NUMBERS[kind]))
        turned = kind in ("addi", "muli") and self.data.draw(st.booleans())
        self.value = self.ops.put(kind, *((other, self.value) if turned else (self.value, other)))

    def put(self, kind: str, other: str | int) -> None:
        self.value = self.ops.put(kind, self.value, other)

    def array(self, numbers: list[int]) -> str:
        self.constants.append(numbers)
        return self.ops.wide(f"%b{len(self.constants) - 1}", "i32")

    @property
    def count(self) -> int:
        return self.channels or 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for size in (self.rows, self.channels) if size)

    @property
    def text(self) -> str:
        shape, constants = "x".join(map(str, self.shape)), self.constants
        return program(self.ops.text(self.value), self.element, shape, constants)


def restates(text: str, shape: tuple[int, ...], element: str) -> int:
    """Counts the ways to restate a block, each of which computes what the block does."""
    module = parse_module(text)
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends, rng = np.iinfo(TYPES[element]), np.random.default_rng(len(text))
    feeds = [np.full(shape, end, TYPES[element]) for end in (ends.min, ends.max, 0)]
    drawn = [rng.integers(-most, most + 1, shape) for most in (9, 300, 10**5, 2**31 - 1)]
    drawn.append(rng.integers(-9, 10, shape) << rng.integers(0, 29, shape))  # half-way, often
    feeds += [np.asarray(np.clip(each, ends.min, ends.max), TYPES[element]) for each in drawn]
    expected = [evaluate(module, {"arg0": feed})["res0"] for feed in feeds]
    before = len(list(block.ins[0].uses))
    held = [ANY, Interval.of_bits(16, signed=True)][len(text) % 2]
    ways = restated(block, i32, held=held)
    if isinstance(ways, str):
        assert "fit" in ways
        return 0
    assert len(list(block.ins[0].uses)) == before + len(ways), "nothing else is left"
    assert len({str(way[-1]) for way in ways}) == len(ways)
    for way in ways:
        replace_op(block, way)
        (block,) = [op for op in way if isinstance(op, BlockOp)]
        verify_module(module)
        for feed, wanted in zip(feeds, expected, strict=True):
            np.testing.assert_array_equal(evaluate(module, {"arg0": feed})["res0"], wanted)
    return len(ways)


@settings(max_examples=20 if settings.default.max_examples < 100 else 2000)
@given(st.data())
def test_each_way_to_clamp_computes_what_the_body_does(data: st.DataObject) -> None:
    body = Body(data)
    for _ in range(data.draw(st.integers(1, 4))):
        body.step()
    low = data.draw(st.sampled_from([-128, -5, 0]))
    body.value = body.ops.clamp(body.value, low, data.draw(st.sampled_from([low, 60, 127])))
    event(f"{restates(body.text, body.shape, body.element)} ways")


def requantised(numbers: list[int], factors: list[int]) -> str:
    """A block on 4 rows of bytes: times 100,000, plus a number and times a factor of the channel,
    shifted and clamped to what a relu leaves of bytes.
    """
    ops = Scalars()
    value = ops.put("muli", ops.wide("%a", "i8"), 100000)
    value = ops.put("addi", value, ops.wide("%b0", "i32"))
    value = ops.put("shrsi", ops.put("muli", value, ops.wide("%b1", "i32")), 20)
    body = ops.text(ops.clamp(value, 0, 127))
    return program(body, "i8", f"4x{len(numbers)}", [numbers, factors])


@settings(max_examples=10 if settings.default.max_examples < 100 else 1000)
@given(st.data())
def test_each_way_to_clamp_requantises(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(-100000, 100000), min_size=16, max_size=16))
    factors = data.draw(st.lists(st.integers(1, 4000), min_size=16, max_size=16))
    event(f"{restates(requantised(numbers, factors), (4, 16), 'i8')} ways")


@settings(max_examples=10 if settings.default.max_examples < 100 else 1000)
@given(st.data())
def test_numbers_around_products_are_added_at_once(data: st.DataObject) -> None:
    """They are added before a product where its factors divide them, else also behind it."""
    body = Body(data)
    one = data.draw(st.booleans())
    factors = [data.draw(st.integers(1, 9)) for _ in range(body.count)]
    added = [data.draw(st.integers(-(2**16), 2**16)) for _ in range(body.count)]
    body.put("addi", body.array(added))
    body.put("muli", 1) if one else body.array(factors)
    body.put("addi", data.draw(st.integers(-(2**16), 2**16)))
    body.put("shrsi", data.draw(st.integers(1, 20)))
    body.put("maxsi", -128)
    body.put("minsi", 127)
    ways = restates(body.text, body.shape, body.element)
    event(f"{ways} ways")
    assert ways or body.element == "i32"


def test_there_are_ways_with_fewer_steps_and_with_fewer_arrays() -> None:
    assert restates(requantised([5, -70000], [900, 1000]), (4, 2), "i8") == 2


def test_numbers_without_dimensions_are_clamped_before() -> None:
    ops = Scalars()
    product = ops.put("muli", ops.wide("%a", "i8"), ops.wide("%b0", "i32"))
    body = ops.text(ops.clamp(ops.put("shrsi", product, 1), -128, 127))
    assert restates(program(body, "i8", "", [[1667835929]]), (), "i8") == 1


def test_a_number_that_can_be_one_only_is_no_step() -> None:
    """Bytes shifted by 9 bits are 0 or -1, and their maximum with 10 is 10."""
    ops = Scalars()
    ten = ops.put("maxsi", ops.put("shrsi", ops.wide("%a", "i8"), 9), 10)
    body = ops.text(ops.clamp(ops.put("muli", ten, 2147483647), 0, 127))
    assert restates(program(body, "i8"), (4,), "i8") == 0


@pytest.mark.parametrize(
    ("factor", "element", "ties"),
    [
        (257, "i32", False),  # 128.5 is beyond the clamp, and 0.5 is no multiple
        (251, "i32", True),  # 256 * 251 is 125.5 * 512
        (4, "i8", True),
        (1, "i8", False),  # bytes do not reach 256
    ],
)
def test_ties_take_steps_only_where_numbers_may_be_half_way(
    factor: int, element: str, ties: bool
) -> None:
    ops = Scalars()
    value = ops.shift_to_even(ops.put("muli", ops.wide("%a", element), factor), 9)
    text = program(ops.text(ops.clamp(value, 0, 127)), element)
    assert restates(text, (4,), element) > 0
    (block,) = [op for op in parse_module(text).walk() if isinstance(op, BlockOp)]
    for way in restated(block, i32):
        assert not isinstance(way, str)
        products = [op for op in way[-1].walk() if isinstance(op, arith.MuliOp)]
        assert any(constant_number(op.rhs) == 1 << 22 for op in products) == ties


def test_a_number_that_wraps_on_the_way_is_not_rounded_as_one_that_does_not() -> None:
    """The greatest i32 and half of 512 are a number below zero, which is clamped to zero."""
    ops = Scalars("i32")
    body = ops.text(ops.clamp(ops.shift_to_even("%a", 9), 0, 127))
    assert restates(program(body, "i32"), (4,), "i32") == 1
