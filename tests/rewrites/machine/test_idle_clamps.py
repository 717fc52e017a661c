"""Bodies without clamps of terms that need not act compute what they did with them."""

from __future__ import annotations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scalar_text import Scalars

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.rewrites.machine.idle_clamps import drop_idle_clamps

XS = np.concatenate([np.arange(-300, 301, 7), [-(2**15), -129, -128, 127, 128, 2**15 - 1]])
YS = np.array([-128, -127, 0, 50, 127])
FEED = {
    "arg0": np.repeat(XS, len(YS)).astype(np.int16),
    "arg1": np.tile(YS, len(XS)).astype(np.int8),
}
COUNT = len(XS) * len(YS)


class Body(Scalars):
    """The ops of a body on `%x`, i16, and `%y`, i8, whose wide forms are `wide_x` and `wide_y`."""

    def __init__(self) -> None:
        super().__init__()
        self.wide_x, self.wide_y = self.wide("%x", "i16"), self.wide("%y", "i8")

    def narrowed(self, value: str, element: str = "i8") -> str:
        """A number in fewer bits and back."""
        return self.wide(self.narrow(value, element), element)

    def block(self, value: str) -> BlockOp:
        """A block on arrays that gives a value as a byte."""
        module = parse_module(f"""
          func.func @main(%a: tensor<{COUNT}xi16>, %b: tensor<{COUNT}xi8>) -> tensor<{COUNT}xi8> {{
            %e = tir.empty : tensor<{COUNT}xi8>
            %c = tir.block [i: {COUNT}] ins(%a[i] : tensor<{COUNT}xi16>, %b[i] : tensor<{COUNT}xi8>)
                outs(%e[i] : tensor<{COUNT}xi8>) {{
            ^bb0(%x: i16, %y: i8, %old: i8):
              {self.text(value)}
            }}
            func.return %c : tensor<{COUNT}xi8>
          }}""")
        (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
        return block


def clamps_in(block: BlockOp) -> int:
    return sum(op.name in ("arith.maxsi", "arith.minsi") for op in block.walk())


def dropped(block: BlockOp) -> int:
    """Leaves out what need not act, compares, and counts the clamps that went."""
    module, before = block.get_toplevel_object(), clamps_in(block)
    expected = evaluate(module, FEED)["res0"]
    assert drop_idle_clamps(block) == (clamps_in(block) < before)
    verify_module(module)
    np.testing.assert_array_equal(evaluate(module, FEED)["res0"], expected)
    return before - clamps_in(block)


@settings(max_examples=15 if settings.default.max_examples < 100 else 3000)
@given(st.data())
def test_sums_without_idle_clamps_are_the_same(data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    body, terms = Body(), list[str]()
    for value in (body.wide_x, body.wide_y):
        value = body.put("shrsi", body.put("muli", value, draw(1, 3)), draw(0, 3))
        value = body.clamp(value, *sorted((draw(-128, 127), draw(-128, 127))))
        value = body.narrowed(value) if data.draw(st.booleans()) else value
        value = body.put("addi", body.put("muli", value, draw(-1, 4)), draw(-200, 200))
        if data.draw(st.booleans()):
            value = body.clamp(value, *sorted((draw(-600, 600), draw(-600, 600))))
        terms.append(value)
    total = body.put("shrsi", body.put("muli", body.put("addi", *terms), draw(1, 3)), draw(0, 3))
    ends = list(zip(("maxsi", "minsi"), sorted((draw(-128, 127), draw(-128, 127))), strict=True))
    (first, one), (second, other) = ends if data.draw(st.booleans()) else ends[::-1]
    last = body.put(first, total, one)
    last = body.narrowed(last, "i16") if data.draw(st.booleans()) else last
    last = body.put(second, last, other)
    event(f"{dropped(body.block(last))} dropped")


def residual(low: int, *, factor: int = 3, shared: bool = False) -> BlockOp:
    """`clamp((clamp(x, -128, 127) * factor + y) >> 1, low, 127)`."""
    body = Body()
    x = body.narrowed(body.clamp(body.wide_x, -128, 127))
    total = body.put("addi", body.put("muli", x, factor), x if shared else body.wide_y)
    return body.block(body.clamp(body.put("shrsi", total, 1), low, 127))


def test_a_rectified_sum_needs_no_lower_bound_of_its_terms() -> None:
    """-128 * 3 + 127 is below 0, 127 * 3 - 128 not above 127 * 2 + 1."""
    assert dropped(residual(0)) == 1
    assert dropped(residual(-128)) == 1
    assert dropped(residual(-128, factor=2)) == 0


def test_clamps_that_others_read_stay() -> None:
    assert dropped(residual(0, shared=True)) == 0


def test_clamps_stay_where_the_sum_would_leave_a_type_between_its_own_clamps() -> None:
    """An i16 holds the sum between its two clamps only while its term is clamped from above."""
    body = Body()
    x = body.put("muli", body.clamp(body.put("muli", body.wide_x, 4), -128, 127), 3)
    above = body.narrowed(body.put("maxsi", body.put("addi", x, body.wide_y), -100), "i16")
    assert dropped(body.block(body.put("minsi", above, 100))) == 0


def test_clamps_of_numbers_are_terms_like_others() -> None:
    body = Body()
    terms = body.clamp(body.wide_x, -128, 127), body.clamp(body.number(5), -3, 3)
    total = body.put("addi", *terms)
    assert dropped(body.block(body.clamp(total, 0, 100))) == 2
