"""Patterns of scalar bodies: what is the same computation and what only looks like it."""

import pytest
from xdsl.dialects import arith
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineMap

from byocir.dialects import tir
from byocir.dialects.emitting import emit
from byocir.dialects.tir import bodies
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import bf16, f16, f32, f64, i8, i16, i32, i64, tensor, ui8
from byocir.patterns import number
from byocir.patterns.scalars import match_body


def block_of(region: Region) -> tir.BlockOp:
    """A block on rank 0 with this body; operands are the same throughout."""
    types = [arg.type for arg in region.block.args]
    values = Block(arg_types=[tensor(t, ()) for t in types]).args
    maps = [AffineMap(0, 0, ())] * len(types)
    return tir.BlockOp([], values[:-1], values[-1:], maps, region)


def matches(types, written, pattern, order=None):
    """The bindings of a pattern in a body written as `written(*inputs, acc)`."""
    op = block_of(emit_body(types, written))
    order = order or tuple(range(len(types) - 1))
    return list(match_body(op, order, pattern))


def fits(types, written, pattern):
    return bool(matches(types, written, pattern))


def test_arguments_are_the_accumulator_and_the_inputs_in_order():
    types = [i32, i32, i32]
    assert fits(types, lambda x, y, acc: acc + (x - y), lambda acc, x, y: acc + (x - y))
    assert not fits(types, lambda x, y, acc: acc + (y - x), lambda acc, x, y: acc + (x - y))
    swapped = matches(
        types, lambda x, y, acc: acc + (y - x), lambda acc, x, y: acc + (x - y), order=(1, 0)
    )
    assert swapped


@pytest.mark.parametrize("name", ["__add__", "__mul__", "max", "min"])
@pytest.mark.parametrize("element", [i32, f32], ids=str)
def test_commutative_operators(name, element):
    types = [element, element]
    assert fits(
        types,
        lambda x, acc: getattr(acc, name)(x),
        lambda acc, x: getattr(x, name)(acc),
    )


@pytest.mark.parametrize(
    "body",
    [lambda x: 2 + x, lambda x: 2 - x, lambda x: 2 * x, lambda x: 2 / x],
    ids=["add", "sub", "mul", "div"],
)
def test_numbers_may_come_first(body):
    assert fits([f32, f32], lambda x, acc: body(x), lambda acc, x: body(x))
    assert not fits([f32, f32], lambda x, acc: body(acc), lambda acc, x: body(x))


@pytest.mark.parametrize("name", ["__sub__", "__truediv__", "__rshift__"])
def test_other_operators_do_not_commute(name):
    types = [i32, i32]
    written = lambda x, acc: getattr(acc, name)(x)  # noqa: E731
    assert fits(types, written, lambda acc, x: getattr(acc, name)(x))
    assert not fits(types, written, lambda acc, x: getattr(x, name)(acc))


def test_an_op_of_one_value_twice_is_no_model_of_those_of_two():
    square, product = lambda x, acc: x / x, lambda x, acc: acc / x
    assert fits([f32, f32], square, lambda acc, x: x / x)
    assert fits([f32, f32], product, lambda acc, x: acc / x)
    assert not fits([f32, f32], product, lambda acc, x: x / x)


def test_functions_of_one_float():
    assert fits([f32, f32], lambda x, acc: x.exp(), lambda acc, x: x.exp())
    assert not fits([f32, f32], lambda x, acc: x.exp(), lambda acc, x: x.roundeven())
    assert not fits([f32, f32], lambda x, acc: x.exp(), lambda acc, x: x)


def test_numbers():
    types = [i32, i32]
    assert fits(types, lambda x, acc: x.max(0), lambda acc, x: x.max(0))
    assert not fits(types, lambda x, acc: x.max(1), lambda acc, x: x.max(0))
    assert not fits(types, lambda x, acc: x.max(acc), lambda acc, x: x.max(0))
    (found,) = matches(types, lambda x, acc: x.max(3), lambda acc, x: x.max(number("low")))
    assert found == {"low": 3}
    (found,) = matches([f32, f32], lambda x, acc: x * 0.5, lambda acc, x: x * number("scale"))
    assert found == {"scale": 0.5}


def test_an_unknown_number_has_one_value():
    types = [i32, i32]
    both = lambda acc, x: x.max(number("n")).min(number("n"))  # noqa: E731
    assert fits(types, lambda x, acc: x.max(3).min(3), both)
    assert not fits(types, lambda x, acc: x.max(3).min(4), both)


def test_a_number_may_be_widened():
    def written(x, acc):
        return x.to(i64) * x.constant(5).to(i64)

    found = matches([i32, i64], written, lambda acc, x: x.to(i64) * number("n"))
    assert [each["n"] for each in found] == [5]
    assert fits([i32, i64], written, lambda acc, x: x.to(i64) * 5)
    assert fits([i32, i64], written, lambda acc, x: x.to(i64) * number("n").to(i64))


def test_the_bodies_that_lowerings_write_match_themselves():
    types = [i32, i32, i8]
    for even in (False, True):
        scale = bodies.scale_round_even if even else bodies.scale_round
        written = lambda x, m, acc, s=scale: bodies.saturate(s(x, m, 7, 4), -128, 127)  # noqa: E731

        def pattern(acc, x, m, s=scale):
            return bodies.saturate(s(x, m, number("half"), number("shift")), -128, 127)

        (found,) = {tuple(sorted(f.items())) for f in matches(types, written, pattern)}
        assert found == (("half", 7), ("shift", 4))


@pytest.mark.parametrize(
    ("source", "target"),
    [(i8, i32), (ui8, i32), (i32, i8), (i32, f32), (f32, i32), (f16, f32), (f32, bf16), (i32, ui8)],
    ids=str,
)
def test_a_conversion_matches_itself(source, target):
    types = [source, target]
    assert fits(types, lambda x, acc: x.to(target), lambda acc, x: x.to(target))


def test_no_conversion_where_the_type_is_right_already():
    assert fits([i32, i32], lambda x, acc: acc + x, lambda acc, x: acc + x.to(i32))
    assert not fits([i32, i32], lambda x, acc: acc + x, lambda acc, x: acc + x.to(i64))


@pytest.mark.parametrize(
    ("source", "between", "target"), [(i8, i16, i32), (i64, i32, i8), (f16, f32, f64)], ids=str
)
def test_steps_of_one_kind_are_one_conversion(source, between, target):
    types = [source, target]
    assert fits(types, lambda x, acc: x.to(between).to(target), lambda acc, x: x.to(target))


@pytest.mark.parametrize(
    ("source", "between", "target"), [(i32, i8, i32), (i32, i8, i64), (f32, i32, f32)], ids=str
)
def test_a_detour_that_loses_bits_is_another_computation(source, between, target):
    types = [source, target]
    assert not fits(types, lambda x, acc: x.to(between).to(target), lambda acc, x: x.to(target))


def test_zero_extension_of_a_signed_number_is_another_computation():
    """Taken for sign extension, an accelerator would compute with the wrong sign."""
    block = Block(arg_types=[i8, i32])
    wide = arith.ExtUIOp(block.args[0], i32)
    total = arith.AddiOp(block.args[1], wide.result)
    block.add_ops([wide, total, tir.YieldOp.create(operands=[total.result])])
    op = block_of(Region(block))
    assert not list(match_body(op, (0,), lambda acc, x: acc + x.to(i32)))
    assert fits([i8, i32], lambda x, acc: acc + x.to(i32), lambda acc, x: acc + x.to(i32))


def test_zero_extension_is_what_unsigned_numbers_take():
    pattern = lambda acc, x: acc + x.to(i32)  # noqa: E731
    assert fits([ui8, i32], lambda x, acc: acc + x.to(i32), pattern)
    assert not fits([ui8, i32], lambda x, acc: acc + x.to(i8).to(i32), pattern)


def test_a_body_that_is_a_number():
    assert fits([i32], lambda acc: constant(acc, 3), lambda acc: 3)
    assert not fits([i32], lambda acc: constant(acc, 4), lambda acc: 3)


def constant(like: Emitted, value: int) -> Emitted:
    return Emitted(emit(arith.ConstantOp.from_int_and_width(value, like.type)).result)
