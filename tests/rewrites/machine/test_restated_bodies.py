"""Bodies that are restated in i32 compute what they did in i64, in each way to clamp, also where
they round half to even.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i32
from byocir.dialects.uses import replace_op
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.patterns.scalars import constant_number
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


class Body:
    """The text of a block of a few steps in i64, clamped to bytes, on an array of up to two
    dimensions, the last of which counts channels.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.channels = data.draw(st.sampled_from([None, 1, 4]))
        self.rows = data.draw(st.sampled_from([None, 3])) if self.channels else None
        self.element = data.draw(st.sampled_from(["i32", *TYPES]))
        self.lines = [f"%v = arith.extsi %a : {self.element} to i64"]
        self.constants: list[str] = []
        self.value = "%v"
        for _ in range(data.draw(st.integers(1, 4))):
            self.step()
        low = data.draw(st.sampled_from([-128, -5, 0]))
        self.put("maxsi", self.number(low))
        self.put("minsi", self.number(data.draw(st.sampled_from([low, 60, 127]))))

    def step(self) -> None:
        kind = self.data.draw(st.sampled_from([*NUMBERS, "muli", "muli", "shrsi", EVEN]))
        if kind == EVEN:
            self.round_to_even(self.data.draw(SHIFTS))
            return
        if kind in OF_CHANNELS and self.data.draw(st.booleans()):
            other = self.array([self.data.draw(OF_CHANNELS[kind]) for _ in range(self.count)])
        else:
            other = self.number(self.data.draw(NUMBERS[kind]))
        self.put(kind, other, turned=kind in ("addi", "muli") and self.data.draw(st.booleans()))

    def round_to_even(self, shift: int) -> None:
        bits, rounded = self.number(shift), self.value
        self.put("shrsi", bits)
        quotient = self.value
        self.put("shrsi", self.number(1))
        self.put("muli", self.number(2))
        self.put("subi", quotient, turned=True)
        odd, self.value = self.value, rounded
        self.put("addi", self.number((1 << shift - 1) - 1))
        self.put("addi", odd)
        self.put("shrsi", bits)

    def put(self, kind: str, other: str, *, turned: bool = False) -> None:
        operands = (other, self.value) if turned else (self.value, other)
        self.value = f"%v{len(self.lines)}"
        self.lines.append(f"{self.value} = arith.{kind} {', '.join(operands)} : i64")

    def number(self, number: int) -> str:
        name = f"%n{len(self.lines)}"
        self.lines.append(f"{name} = arith.constant {number} : i64")
        return name

    def array(self, numbers: list[int]) -> str:
        at = len(self.constants)
        self.constants.append(str(numbers))
        self.lines.append(f"%w{at} = arith.extsi %b{at} : i32 to i64")
        return f"%w{at}"

    @property
    def count(self) -> int:
        return self.channels or 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for size in (self.rows, self.channels) if size)

    @property
    def text(self) -> str:
        index = ", ".join(["i"] * (self.rows is not None) + ["j"] * (self.channels is not None))
        sizes = "".join(f"{size}x" for size in self.shape)
        iterators = ", ".join(map("{}: {}".format, index.split(", "), self.shape))
        own = (f"{self.channels}x" if self.channels else "", "j" if self.channels else "")
        kept = [f"tensor<{own[0]}i32>"] * len(self.constants)
        made = [
            f"%f{at} = tir.constant <{numbers} : {type_}> : {type_}"
            for at, (numbers, type_) in enumerate(zip(self.constants, kept, strict=True))
        ]
        reads = [f"%x[{index}] : tensor<{sizes}{self.element}>"]
        reads += [f"%f{at}[{own[1]}] : {type_}" for at, type_ in enumerate(kept)]
        scalars = [f"%a: {self.element}", *(f"%b{at}: i32" for at in range(len(kept))), "%old: i8"]
        lines = [*self.lines, f"%r = arith.trunci {self.value} : i64 to i8", "tir.yield %r : i8"]
        return "\n".join(
            [
                f"func.func @main(%x: tensor<{sizes}{self.element}>) -> tensor<{sizes}i8> {{",
                *made,
                f"%e = tir.empty : tensor<{sizes}i8>",
                f"%y = tir.block [{iterators}] ins({', '.join(reads)})",
                f"    outs(%e[{index}] : tensor<{sizes}i8>) {{",
                f"^bb0({', '.join(scalars)}):",
                *lines,
                "}",
                f"func.return %y : tensor<{sizes}i8>",
                "}",
            ]
        )


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
    ways = restated(block, i32)
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


@settings(max_examples=60 if settings.default.max_examples < 100 else 2000)
@given(st.data())
def test_each_way_to_clamp_computes_what_the_body_does(data: st.DataObject) -> None:
    body = Body(data)
    event(f"{restates(body.text, body.shape, body.element)} ways")


def requantised(numbers: list[int], factors: list[int]) -> str:
    """A block on 4 rows of bytes: times 100,000, plus a number and times a factor of the channel,
    shifted and clamped to what a relu leaves of bytes.
    """
    constant = f"tensor<{len(numbers)}xi32>"
    sizes = f"4x{len(numbers)}x"
    return f"""
      func.func @main(%x: tensor<{sizes}i8>) -> tensor<{sizes}i8> {{
        %p = tir.constant <{numbers} : {constant}> : {constant}
        %q = tir.constant <{factors} : {constant}> : {constant}
        %e = tir.empty : tensor<{sizes}i8>
        %y = tir.block [i: 4, j: {len(numbers)}] ins(%x[i, j] : tensor<{sizes}i8>,
            %p[j] : {constant}, %q[j] : {constant}) outs(%e[i, j] : tensor<{sizes}i8>) {{
        ^bb0(%a: i8, %b: i32, %c: i32, %old: i8):
          %w = arith.extsi %a : i8 to i64
          %n = arith.constant 100000 : i64
          %m = arith.muli %w, %n : i64
          %f = arith.extsi %b : i32 to i64
          %z = arith.addi %m, %f : i64
          %u = arith.extsi %c : i32 to i64
          %k = arith.muli %z, %u : i64
          %s = arith.constant 20 : i64
          %v = arith.shrsi %k, %s : i64
          %lo = arith.constant 0 : i64
          %g = arith.maxsi %v, %lo : i64
          %hi = arith.constant 127 : i64
          %d = arith.minsi %g, %hi : i64
          %r = arith.trunci %d : i64 to i8
          tir.yield %r : i8
        }}
        func.return %y : tensor<{sizes}i8>
      }}"""


@settings(max_examples=25)
@given(st.data())
def test_each_way_to_clamp_requantises(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(-100000, 100000), min_size=16, max_size=16))
    factors = data.draw(st.lists(st.integers(1, 4000), min_size=16, max_size=16))
    event(f"{restates(requantised(numbers, factors), (4, 16), 'i8')} ways")


@settings(max_examples=25)
@given(st.data())
def test_numbers_around_products_are_added_at_once(data: st.DataObject) -> None:
    """They are added before a product where its factors divide them, else also behind it."""
    body = Body(data)
    body.lines, body.constants, body.value = body.lines[:1], [], "%v"
    one = data.draw(st.booleans())
    factors = [data.draw(st.integers(1, 9)) for _ in range(body.count)]
    added = [data.draw(st.integers(-(2**16), 2**16)) for _ in range(body.count)]
    body.put("addi", body.array(added))
    body.put("muli", body.number(1) if one else body.array(factors))
    body.put("addi", body.number(data.draw(st.integers(-(2**16), 2**16))))
    body.put("shrsi", body.number(data.draw(st.integers(1, 20))))
    body.put("maxsi", body.number(-128))
    body.put("minsi", body.number(127))
    ways = restates(body.text, body.shape, body.element)
    event(f"{ways} ways")
    assert ways or body.element == "i32"


def test_there_are_ways_with_fewer_steps_and_with_fewer_arrays() -> None:
    assert restates(requantised([5, -70000], [900, 1000]), (4, 2), "i8") == 2


def test_numbers_without_dimensions_are_clamped_before() -> None:
    text = """
      func.func @main(%x: tensor<i8>) -> tensor<i8> {
        %f = tir.constant <[1667835929] : tensor<i32>> : tensor<i32>
        %e = tir.empty : tensor<i8>
        %y = tir.block [] ins(%x[] : tensor<i8>, %f[] : tensor<i32>) outs(%e[] : tensor<i8>) {
        ^bb0(%a: i8, %b: i32, %old: i8):
          %w = arith.extsi %a : i8 to i64
          %u = arith.extsi %b : i32 to i64
          %m = arith.muli %w, %u : i64
          %s = arith.constant 1 : i64
          %v = arith.shrsi %m, %s : i64
          %lo = arith.constant -128 : i64
          %c = arith.maxsi %v, %lo : i64
          %hi = arith.constant 127 : i64
          %d = arith.minsi %c, %hi : i64
          %r = arith.trunci %d : i64 to i8
          tir.yield %r : i8
        }
        func.return %y : tensor<i8>
      }"""
    assert restates(text, (), "i8") == 1


def test_a_number_that_can_be_one_only_is_no_step() -> None:
    """Bytes shifted by 9 bits are 0 or -1, and their maximum with 10 is 10."""
    text = """
      func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
        %e = tir.empty : tensor<4xi8>
        %y = tir.block [j: 4] ins(%x[j] : tensor<4xi8>) outs(%e[j] : tensor<4xi8>) {
        ^bb0(%a: i8, %old: i8):
          %w = arith.extsi %a : i8 to i64
          %z = arith.constant 9 : i64
          %s = arith.shrsi %w, %z : i64
          %o = arith.constant 10 : i64
          %p = arith.maxsi %s, %o : i64
          %n = arith.constant 2147483647 : i64
          %m = arith.muli %p, %n : i64
          %lo = arith.constant 0 : i64
          %g = arith.maxsi %m, %lo : i64
          %hi = arith.constant 127 : i64
          %d = arith.minsi %g, %hi : i64
          %r = arith.trunci %d : i64 to i8
          tir.yield %r : i8
        }
        func.return %y : tensor<4xi8>
      }"""
    assert restates(text, (4,), "i8") == 0


def half_even(given: str, wide: str, before: str, value: str) -> str:
    """Writes a program that shifts a value by nine places, which ops `before` compute of %a in a
    wide type, rounding half to even, and clamps it to bytes.
    """
    return f"""
      func.func @main(%x: tensor<4x{given}>) -> tensor<4xi8> {{
        %e = tir.empty : tensor<4xi8>
        %y = tir.block [j: 4] ins(%x[j] : tensor<4x{given}>) outs(%e[j] : tensor<4xi8>) {{
        ^bb0(%a: {given}, %old: i8):{before}
          %s = arith.constant 9 : {wide}
          %q = arith.shrsi {value}, %s : {wide}
          %one = arith.constant 1 : {wide}
          %h = arith.shrsi %q, %one : {wide}
          %two = arith.constant 2 : {wide}
          %d = arith.muli %h, %two : {wide}
          %o = arith.subi %q, %d : {wide}
          %b = arith.constant 255 : {wide}
          %u = arith.addi {value}, %b : {wide}
          %t = arith.addi %u, %o : {wide}
          %v = arith.shrsi %t, %s : {wide}
          %lo = arith.constant 0 : {wide}
          %c = arith.maxsi %v, %lo : {wide}
          %hi = arith.constant 127 : {wide}
          %g = arith.minsi %c, %hi : {wide}
          %r = arith.trunci %g : {wide} to i8
          tir.yield %r : i8
        }}
        func.return %y : tensor<4xi8>
      }}"""


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
    text = half_even(
        element,
        "i64",
        f"""
          %w = arith.extsi %a : {element} to i64
          %f = arith.constant {factor} : i64
          %p = arith.muli %w, %f : i64""",
        "%p",
    )
    assert restates(text, (4,), element) > 0
    (block,) = [op for op in parse_module(text).walk() if isinstance(op, BlockOp)]
    for way in restated(block, i32):
        assert not isinstance(way, str)
        products = [op for op in way[-1].walk() if isinstance(op, arith.MuliOp)]
        assert any(constant_number(op.rhs) == -1 for op in products) == ties


def test_a_number_that_wraps_on_the_way_is_not_rounded_as_one_that_does_not() -> None:
    """The greatest i32 and half of 512 are a number below zero, which is clamped to zero."""
    text = half_even("i32", "i32", "", "%a")
    assert restates(text, (4,), "i32") == 1
