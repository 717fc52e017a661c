"""Blocks that are split into what instructions do compute the same; what cannot be split says which
operation no instruction does."""

from __future__ import annotations

import alu_engine
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scalar_text import Scalars
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.array import Array
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.context import load_context
from byocir.dialects.intervals import Interval
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.types import i8, i32
from byocir.dialects.uses import replace_uses
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns.scalars import constant_number
from byocir.patterns.target_classes import register
from byocir.rewrites.block_ends import ends_of
from byocir.rewrites.machine.restate_bodies import restated
from byocir.rewrites.pipeline import run_passes


def module_of(body: str, inputs: str, result: str = "i8", shape: str = "4x16") -> ModuleOp:
    """A composite of one block, which reads these inputs: `a: i8 [i, j]; b: i32 [j]`."""
    parts = [part.replace(":", " ").split(maxsplit=2) for part in inputs.split("; ")]
    rows, lanes = shape.split("x")
    sizes = {"[i, j]": shape, "[j]": lanes, "[]": ""}
    types = [f"tensor<{sizes[at]}{'x' if sizes[at] else ''}{element}>" for _, element, at in parts]
    outer = ", ".join(f"%o_{n}: {t}" for (n, _, _), t in zip(parts, types, strict=True))
    ports = ", ".join(f"%i_{n} = %o_{n} : {t}" for (n, _, _), t in zip(parts, types, strict=True))
    reads = ", ".join(f"%i_{n}{at} : {t}" for (n, _, at), t in zip(parts, types, strict=True))
    scalars = ", ".join(f"%{n}: {element}" for n, element, _ in parts)
    target = '#byoc.target<"alu", {}>'
    return parse_module(f"""
      func.func @main({outer}) -> tensor<{shape}x{result}> attributes {{byoc.target = {target}}} {{
        %r = byoc.composite "alu.any" at "tensor" ({ports}) -> tensor<{shape}x{result}> {{
          %e = tir.empty : tensor<{shape}x{result}>
          %y = tir.block [i: {rows}, j: {lanes}] ins({reads})
              outs(%e[i, j] : tensor<{shape}x{result}>) {{
          ^bb0({scalars}, %old: {result}):
            {body}
          }}
          byoc.yield %y : tensor<{shape}x{result}>
        }}
        func.return %r : tensor<{shape}x{result}>
      }}""")


def with_constants(module: ModuleOp, *arrays: np.ndarray) -> ModuleOp:
    """Makes the last inputs of a composite constants of i32."""
    (composite,) = [op for op in module.walk() if isinstance(op, CompositeOp)]
    block = composite.body.block
    assert block.first_op is not None
    for argument, array in zip(block.args[-len(arrays) :], arrays, strict=True):
        constant = ConstantOp.of(Array.of(array.astype(np.int32)))
        block.insert_op_before(constant, block.first_op)
        replace_uses(argument, constant.result)
    return module


def blocks_in(module: ModuleOp) -> int:
    return sum(isinstance(op, BlockOp) for op in module.walk())


def brought_down(module: ModuleOp) -> int:
    """Splits a block, lets the search find its schedule, and gives the blocks that it became."""
    register("alu", alu_engine.Engine)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    for name in ("split-bodies", "choose-schedules"):
        run_passes(module, load_context(), name)
        np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected, name)
    return blocks_in(module)


STEPS = ("addi", "muli", "maxsi", "minsi", "shrsi")
TO_EVEN, SLOPES = "round half to even, which reads a number three times", "another slope above 0"


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, str]:
    """A chain of operations on a sum or a byte in i64, clamped to a byte, and what it reads."""
    ops, inputs = Scalars(), "a: i8 [i, j]"
    value = ops.wide("%a", "i8")
    if draw(st.booleans()):
        inputs += "; b: i8 [i, j]"
        product = ops.put("muli", ops.wide("%b", "i8"), draw(st.integers(-200, 200)))
        value = ops.put("addi", value, product)
    for _ in range(draw(st.integers(1, 5))):
        step = draw(st.sampled_from([*STEPS, TO_EVEN, SLOPES]))
        if step == TO_EVEN:
            value = ops.shift_to_even(value, 3)
        elif step == SLOPES:
            value = ops.slopes(value, 3)
        else:
            most = 20 if step == "shrsi" else draw(st.sampled_from([3, 127, 3000, 60000]))
            number = draw(st.integers(0 if step in ("shrsi", "muli") else -most, most))
            value = ops.put(step, value, number)
    ends = draw(st.tuples(st.integers(-128, 127), st.integers(-128, 127)))
    return ops.text(ops.clamp(value, *sorted(ends))), inputs


@settings(max_examples=6 if settings.default.max_examples < 100 else 1000)
@given(bodies())
def test_chains_of_operations_compute_what_the_body_did(drawn: tuple[str, str]) -> None:
    try:
        count = brought_down(module_of(*drawn))
    except ByocirError as error:
        if error.code != "B271" or "fits i32" not in (error.help or ""):
            raise
        event("refused")
        return
    assert count > 1
    event("split")


def added() -> str:
    """The body `clamp(c + (a + b >> 1))` of a byte and two numbers of i32."""
    ops = Scalars("i32")
    half = ops.put("shrsi", ops.put("addi", ops.wide("%a", "i8"), "%b"), 1)
    return ops.text(ops.clamp(ops.put("addi", "%c", half), -128, 127))


def products_in(module: ModuleOp) -> int:
    return sum(isinstance(op, BlockOp) and len(op.reductions) == 1 for op in module.walk())


@settings(max_examples=6 if settings.default.max_examples < 100 else 500)
@given(st.data())
def test_numbers_that_products_add_are_the_same(data: st.DataObject) -> None:
    rows, lanes = data.draw(st.sampled_from([1, 3, 16, 40])), data.draw(st.sampled_from([8, 24]))
    most = data.draw(st.sampled_from([3, 127, 8000, 80_000, 90_000]))
    numbers = st.lists(st.integers(-most, most), min_size=lanes, max_size=lanes)
    arrays = [np.array(data.draw(numbers)) for _ in range(2)]
    inputs, shape = "a: i8 [i, j]; b: i32 [j]; c: i32 [j]", f"{rows}x{lanes}"
    module = with_constants(module_of(added(), inputs, shape=shape), *arrays)
    brought_down(module)
    event(f"{products_in(module)} products")


@pytest.mark.parametrize(
    ("number", "rows", "products"),
    [(127 * 127 * 5, 16, 2), (127 * 127 * 6, 16, 0), (127 * 127 * 5, 1, 0)],
)
def test_numbers_are_added_by_products_where_they_fit_and_that_takes_fewer_cycles(
    number: int, rows: int, products: int
) -> None:
    arrays = [np.array([number, -number] * 4), np.full(8, -number)]
    module = module_of(added(), "a: i8 [i, j]; b: i32 [j]; c: i32 [j]", shape=f"{rows}x8")
    brought_down(with_constants(module, *arrays))
    assert products_in(module) == products


@pytest.mark.parametrize(("factor", "steps"), [(-128, 4), (128, 6)])
def test_known_factors_are_bytes_for_instructions_that_multiply_bytes(
    factor: int, steps: int
) -> None:
    """Other factors multiply bytes that were widened, and then added."""
    ops = Scalars("i32")
    total = ops.put("addi", ops.wide("%a", "i8"), ops.put("muli", ops.wide("%b", "i8"), "%c"))
    body = ops.text(ops.put("shrsi", total, 20))
    module = module_of(body, "a: i8 [i, j]; b: i8 [i, j]; c: i32 [j]")
    assert brought_down(with_constants(module, np.array([factor] * 16))) == steps


def test_factors_of_channels_that_leave_i32_are_clamped_before_by_numbers_of_each() -> None:
    ops = Scalars()
    value = ops.put("muli", ops.wide("%a", "i8"), 100000)
    value = ops.put("shrsi", ops.put("muli", value, ops.wide("%b", "i32")), 20)
    body = ops.text(ops.clamp(value, -128, 127))
    factors = np.array([n * n * 10 + 1 for n in range(16)])
    module = with_constants(module_of(body, "a: i8 [i, j]; b: i32 [j]"), factors)
    assert brought_down(module) > 5


@settings(max_examples=8 if settings.default.max_examples < 100 else 300)
@given(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), st.integers(0, 9))
def test_numbers_of_terms_are_added_once_behind_their_sum(
    numbers: tuple[int, int], shift: int
) -> None:
    ops = Scalars()
    terms = (ops.put("muli", ops.wide(f"%{name}", "i8"), 27) for name in "ab")
    one, other = (ops.put("addi", term, n) for term, n in zip(terms, numbers, strict=True))
    total = ops.put("shrsi", ops.put("addi", ops.put("addi", one, other), 1), shift)
    body = ops.text(ops.clamp(total, -128, 127))
    module = module_of(body, "a: i8 [i, j]; b: i8 [i, j]")
    brought_down(module)
    added = [op for op in module.walk() if isinstance(op, arith.AddiOp)]
    assert sum(constant_number(op.rhs) is not None for op in added) <= 1


def test_shifts_by_more_bits_than_the_type_has_are_by_one_less() -> None:
    ops = Scalars()
    body = ops.text(ops.put("shrsi", ops.wide("%a", "i8"), 40))
    (block,) = [op for op in module_of(body, "a: i8 [i, j]").walk() if isinstance(op, BlockOp)]
    (made,) = restated(block, i32)
    assert not isinstance(made, str)
    (shift,) = [op for op in made[-1].walk() if isinstance(op, arith.ShRSIOp)]
    assert constant_number(shift.rhs) == 31


def test_clamps_to_numbers_beyond_a_type_do_not_fit_it() -> None:
    ops = Scalars()
    body = ops.text(ops.put("shrsi", ops.put("minsi", ops.wide("%a", "i8"), -129), 1))
    (block,) = [op for op in module_of(body, "a: i8 [i, j]").walk() if isinstance(op, BlockOp)]
    assert (
        restated(block, i8)
        == "expected arithmetic that fits i8, found arith.minsi with values from -129 to -129"
    )


def identities_in(module: ModuleOp) -> int:
    """Counts the blocks that only move numbers of i32."""
    blocks = [op for op in module.walk() if isinstance(op, BlockOp)]
    moved = [b for b in blocks if b.yielded[0] is b.body.block.args[0]]
    return sum(block.body.block.args[0].type == i32 for block in moved)


@pytest.mark.parametrize(("steps", "copies"), [(0, 0), (4, 1)])
def test_numbers_that_two_steps_overwrite_are_made_again_or_copied(steps: int, copies: int) -> None:
    """Bytes are loaded twice; what takes several steps is made once."""
    ops = Scalars("i32")
    value, factor = ops.wide("%a", "i8"), ops.number(3)
    for at in range(steps):
        value = ops.put("muli" if at % 2 else "addi", value, factor)
    body = ops.text(ops.put("shrsi", ops.slopes(value, 3), 4))
    module = module_of(body, "a: i8 [i, j]")
    brought_down(module)
    assert identities_in(module) == copies


def test_what_a_guard_leaves_out_has_no_known_ends() -> None:
    module = parse_module("""
      func.func @main(%x: tensor<4xi8>) -> tensor<4xi32> {
        %z = tir.fill 7 : i32 : tensor<4xi32>
        %y = tir.block [i: 4] ins(%x[i] : tensor<4xi8>) outs(%z[i] : tensor<4xi32>)
            where(i - 2 >= 0) {
        ^bb0(%a: i8, %old: i32):
          %0 = arith.constant 100 : i32
          tir.yield %0 : i32
        }
        func.return %y : tensor<4xi32>
      }""")
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends = ends_of(block.results[0])
    assert ends is not None
    assert ends.interval.contains(Interval(7, 100))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "%r = arith.xori %a, %a : i8\ntir.yield %r : i8",
            'none does x.binary("xor", y) of i8',
        ),
        (
            "%f = arith.sitofp %a : i8 to f32\n%r = arith.fptosi %f : f32 to i8\ntir.yield %r : i8",
            "none does x.to(f32) of i8",
        ),
        (
            "%w = arith.extsi %a : i8 to i64\n%n = arith.constant 40 : i64\n"
            "%v = arith.shli %w, %n : i64\n%r = arith.trunci %v : i64 to i8\ntir.yield %r : i8",
            "none does x.to(i64) of i8",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_operation(body: str, why: str) -> None:
    with pytest.raises(ByocirError) as caught:
        brought_down(module_of(body, "a: i8 [i, j]"))
    assert caught.value.code == "B271"
    assert why in (caught.value.help or "")
