"""Patterns of graph ops: what each kind of node matches, binds and declines."""

import pytest
from pattern_programs import F, attempt, by_name, elementwise, module_of

from byocir.dialects.types import f32, i8
from byocir.patterns import Composite, constant, op, optional, optional_operand, wildcard

CONV = """
%w = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0] : tensor<2x2x1x1xf32>>
%b = graph.constant #graph.array<[1.0, 2.0] : tensor<2xf32>>
%c = graph.conv %x, %w{bias} {{strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>,
  dilations = array<i64: 1, 1>, group = 1 : i64}} : ({types}) -> tensor<1x2x2x4xf32>
func.return %c : tensor<1x2x2x4xf32>
"""
IMAGE = "tensor<1x2x4x4xf32>"


def conv(*, bias: bool = True):
    types = [IMAGE, "tensor<2x2x1x1xf32>", *["tensor<2xf32>"][: int(bias)]]
    body = CONV.format(bias=", %b" if bias else "", types=", ".join(types))
    return module_of(body, inputs=f"%x: {IMAGE}", result="tensor<1x2x2x4xf32>")


def attempt_conv(pattern, *, bias: bool = True):
    return Composite("toy.conv", (pattern,)).attempt(by_name(conv(bias=bias))["c"])


def test_op_binds_wildcards_constants_and_itself():
    pattern = op("graph.conv", wildcard("x"), constant("w"), constant("b"), group=1) @ "conv"
    found = attempt_conv(pattern)
    assert found.fits
    match = found.match
    assert set(match) == {"conv", "x", "w", "b"}
    assert match["x"].type.shape == (1, 2, 4, 4)
    assert match["x"].op is None
    assert match["w"].array.values().ravel().tolist() == [1, 2, 3, 4]
    assert match["conv"].attrs["strides"] == (2, 1)
    assert match["conv"].type.element == f32
    assert "nothing" not in match
    assert match.get("nothing", 5) == 5
    assert [matched.name for matched in match.ops] == ["graph.conv"]


@pytest.mark.parametrize("strides", [(2, 1), [2, 1]], ids=["tuple", "list"])
def test_attributes_compare_as_python_values(strides):
    pattern = op("graph.conv", wildcard(), constant(), constant(), strides=strides)
    assert attempt_conv(pattern).fits


def test_attribute_that_differs_or_is_missing_is_told_and_the_op_counts_as_reached():
    operands = wildcard(), constant(), constant()
    found = attempt_conv(op("graph.conv", *operands, group=2))
    assert (found.reason, len(found.matched), found.total) == (
        "expected graph.conv with group 2, found 1",
        1,
        1,
    )
    assert not found.fits
    clip = f"%a = graph.clip %x : ({F}) -> {F}\nfunc.return %a : {F}"
    found = attempt(op("graph.clip", wildcard(), min=0), clip, "a")
    assert found.reason == "expected graph.clip with min 0, found None"


def test_number_of_operands_is_told():
    pattern = op("graph.conv", wildcard("x"), constant("w"))
    assert attempt_conv(pattern, bias=False).fits
    assert attempt_conv(pattern).reason == "expected graph.conv with 2 operands, found 3"


def test_optional_operand_is_bound_where_it_is_there():
    pattern = op("graph.conv", wildcard("x"), constant("w"), optional_operand(constant("b")))
    assert "b" in attempt_conv(pattern).match
    found = attempt_conv(pattern, bias=False)
    assert found.fits
    assert "b" not in found.match


def test_dtype_of_wildcard_and_constant():
    operands = constant("w", dtype=f32), constant("b", dtype=f32)
    assert attempt_conv(op("graph.conv", wildcard("x", dtype=f32), *operands)).fits
    found = attempt_conv(op("graph.conv", wildcard("x", dtype=i8), *operands))
    assert found.reason == "expected x of i8, found f32"
    found = attempt_conv(op("graph.conv", wildcard(), constant("w", dtype=i8), constant()))
    assert found.reason == "expected constant w of i8, found f32"


def test_weights_less_their_zero_points_are_said_to_be_wide():
    body = (
        """%w = graph.constant #graph.array<[200, -128] : tensor<2xi16>>
    %v = graph.constant #graph.array<[1, 2] : tensor<2xi16>>
    %a = graph.add %w, %v : (tensor<2xi16>, tensor<2xi16>) -> tensor<2xi16>
    func.return %x : """
        + F
    )
    found = attempt(op("graph.add", wildcard("w", dtype=i8), wildcard()), body, "a")
    hint = 'weights less their zero points are wider: … | constant("w", dtype=i16)'
    assert found.reason == f"expected w of i8, found i16; {hint}"


def test_every_operand_is_looked_at_not_only_the_first():
    """An element type that is not supported at the last operand only."""
    pattern = op("graph.conv", wildcard("x"), constant("w"), constant("b", dtype=i8))
    assert attempt_conv(pattern).reason == "expected constant b of i8, found f32"


def test_constant_declines_what_is_computed_or_an_input():
    pattern = op("graph.add", wildcard("x"), constant("c"))
    body = elementwise("a = relu x", "b = add a a")
    assert attempt(pattern, body, "b").reason == "expected constant c, found graph.relu"
    body = elementwise("b = add x y")
    reason = "expected constant c, found an input of the function"
    assert attempt(pattern, body, "b").reason == reason


def test_a_constant_may_be_matched_by_a_wildcard():
    """It is then an input of the composite, not part of it."""
    found = attempt_conv(op("graph.conv", wildcard("x"), wildcard("w"), constant("b")))
    assert found.fits
    assert len(found.match.state.constants) == 1


def test_op_at_an_input_of_the_function_does_not_match():
    found = attempt(op("graph.relu", op("graph.relu", wildcard())), elementwise("a = relu x"), "a")
    assert found.reason == "expected graph.relu, found an input of the function"
    assert (len(found.matched), found.total) == (1, 2)


def test_another_op_is_told():
    pattern = op("graph.relu", op("graph.mul", wildcard(), wildcard()))
    found = attempt(pattern, elementwise("a = add x y", "b = relu a"), "b")
    assert found.reason == "expected graph.mul, found graph.add"


def test_commutative_operands_match_in_either_order_first_as_written():
    pattern = op("graph.add", op("graph.relu", wildcard("x")) @ "r", wildcard("y"))
    for line in ("b = add a y", "b = add y a"):
        found = attempt(pattern, elementwise("a = relu x", line), "b")
        assert found.fits
        assert found.match["y"].value.name_hint == "y"
    found = attempt(pattern, elementwise("a = relu x", "c = relu y", "b = add a c"), "b")
    assert found.match["r"].value.name_hint == "a"


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_ops_that_commute(name: str):
    pattern = op(f"graph.{name}", op("graph.relu", wildcard("x")), wildcard("y"))
    assert attempt(pattern, elementwise("a = relu x", f"b = {name} y a"), "b").fits


def test_other_operands_do_not_commute():
    pattern = op("graph.sub", op("graph.relu", wildcard("x")), wildcard("y"))
    assert attempt(pattern, elementwise("a = relu x", "b = sub a y"), "b").fits
    assert not attempt(pattern, elementwise("a = relu x", "b = sub y a"), "b").fits


def test_the_same_pattern_object_is_the_same_node():
    x = wildcard("x")
    squared = op("graph.mul", x, x)
    assert attempt(squared, elementwise("a = mul x x"), "a").fits
    found = attempt(squared, elementwise("a = mul x y"), "a")
    assert found.reason == "expected the same value for x as before"


def test_an_equal_op_is_not_the_same_node():
    inner = op("graph.relu", wildcard("x"))
    both = op("graph.add", inner, inner)
    found = attempt(both, elementwise("a = relu x", "b = add a a"), "b")
    assert found.fits
    assert (len(found.matched), found.total) == (2, 2)
    found = attempt(both, elementwise("a = relu x", "c = relu x", "b = add a c"), "b")
    assert found.reason == "expected the same graph.relu as before"


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_alternative_used_twice_is_the_same_node(wrapped):
    relu, square = op("graph.relu", wildcard("x")), op("graph.mul", wildcard("a"), wildcard("b"))
    either = relu | square
    if wrapped:
        either = optional(either, lambda v: op("graph.clip", v))
    both = op("graph.add", either, either)
    assert attempt(both, elementwise("a = relu x", "b = add a a"), "b").fits
    found = attempt(both, elementwise("a = relu x", "c = mul x y", "b = add a c"), "b")
    assert not found.fits
    assert found.match is None


def test_two_patterns_of_one_name_are_one_value():
    pattern = op("graph.sub", wildcard("x"), wildcard("x"))
    assert attempt(pattern, elementwise("a = sub x x"), "a").fits
    assert not attempt(pattern, elementwise("a = sub x y"), "a").fits


def test_alternatives_are_tried_in_order():
    pattern = (op("graph.relu", wildcard("v")) @ "first") | (
        op("graph.relu", wildcard()) @ "second"
    )
    assert set(attempt(pattern, elementwise("a = relu x"), "a").match) == {"first", "v"}


def test_a_failed_alternative_leaves_no_binding_behind():
    """The first alternative matches half-way and binds names; none of them may stay."""
    first = op("graph.add", wildcard("leaked") @ "leaked", op("graph.clip", wildcard("q"))) @ "sum"
    second = op("graph.add", wildcard("l"), wildcard("r"))
    pattern = op("graph.relu", first | second)
    found = attempt(pattern, elementwise("a = add x y", "b = relu a"), "b")
    assert found.fits
    assert set(found.match) == {"l", "r"}


def test_optional_tail_takes_the_longest():
    pattern = optional(op("graph.add", wildcard("x"), wildcard("y")), lambda v: op("graph.relu", v))
    body = elementwise("a = add x y", "b = relu a")
    assert len(attempt(pattern, body, "b").matched) == 2
    assert len(attempt(pattern, elementwise("a = add x y"), "a").matched) == 1
    twice = optional(pattern, lambda v: op("graph.relu", v))
    body = elementwise("a = add x y", "b = relu a", "c = relu b")
    found = attempt(twice, body, "c")
    assert (len(found.matched), found.total) == (3, 3)


def test_label_on_an_alternative():
    either = (op("graph.relu", wildcard()) | wildcard("plain")) @ "value"
    pattern = op("graph.clip", either)
    body = elementwise("a = relu x", "b = clip a")
    match = attempt(pattern, body, "b").match
    assert match["value"].op.name == "graph.relu"
    match = attempt(pattern, elementwise("b = clip x"), "b").match
    assert match["value"].op is None
    assert match["plain"].value is match["value"].value


def test_size_counts_shared_patterns_once():
    inner = op("graph.relu", wildcard())
    once = Composite("toy.once", (op("graph.add", inner, inner),))
    assert once.size == 2
    longest = Composite("toy.longest", (optional(once.patterns[0], lambda v: op("graph.clip", v)),))
    assert longest.size == 3
    assert longest.root_names == {"graph.add", "graph.clip"}


def test_a_deep_diamond_of_patterns_is_walked_once():
    """Without memory of what matched, 30 levels would take 2^30 steps."""
    pattern = wildcard("x")
    lines = ["v0 = relu x"]
    pattern = op("graph.relu", pattern)
    for i in range(30):
        pattern = op("graph.sub", pattern, pattern)
        lines.append(f"v{i + 1} = sub v{i} v{i}")
    assert len(attempt(pattern, elementwise(*lines), "v30").matched) == 31


def test_wildcard_is_an_input_so_it_cannot_be_inside():
    pattern = op("graph.add", op("graph.relu", wildcard("x")), wildcard("y"))
    found = attempt(pattern, elementwise("a = relu x", "b = add a a"), "b")
    assert found.reason == "graph.relu (a) is both inside the match and an input of it"


def test_an_op_without_results_is_no_root():
    body = elementwise("a = relu x")
    module = module_of(body)
    (returning,) = [o for o in module.walk() if o.name == "func.return"]
    found = Composite("toy.return", (op("func.return", wildcard()),)).attempt(returning)
    assert found.reason == "expected an op with a result, found func.return"
    assert not found.fits


def test_scalars_and_zero_size_are_types_like_others():
    """Rules see them and may decline them: rank 0, and a dimension of 0."""
    body = "%a = graph.relu %x : (tensor<f32>) -> tensor<f32>\nfunc.return %a : tensor<f32>"
    module = module_of(body, inputs="%x: tensor<f32>", result="tensor<f32>")
    found = Composite("toy.relu", (op("graph.relu", wildcard("x")),)).attempt(by_name(module)["a"])
    assert (found.match["x"].type.shape, found.match["x"].type.rank) == ((), 0)


def test_a_wildcard_beside_ops_is_no_root():
    """Where the op does not fit, the wildcard would take the root's value and no op."""
    either = op("graph.relu", op("graph.exp", wildcard())) | wildcard()
    assert not attempt(either, elementwise("a = relu x"), "a").fits
    assert attempt(either, elementwise("a = exp x", "b = relu a"), "b").fits
