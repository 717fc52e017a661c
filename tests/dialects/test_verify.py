"""Verifying again what changed is verifying everything again."""

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.dominance import InvalidOp
from byocir.dialects.graph import ReluOp
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, IntrinsicOp
from byocir.dialects.tir import YieldOp as TirYieldOp
from byocir.dialects.types import f32, i8, tensor
from byocir.dialects.verify import Verifier, verify_module

TEXT = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.softmax %0 {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = byoc.region #byoc.target<"npu", {}> (%a = %1 : tensor<4xf32>) -> tensor<4xf32> {
    %3 = byoc.composite "npu.relu" at "graph" (%b = %a : tensor<4xf32>) -> tensor<4xf32> {
      %4 = graph.relu %b : (tensor<4xf32>) -> tensor<4xf32>
      byoc.yield %4 : tensor<4xf32>
    }
    byoc.yield %3 : tensor<4xf32>
  }
  %5 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<4xf32>
    "then_branch" {
      %6 = graph.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %6 : tensor<4xf32>
    } "else_branch" { graph.yield %0 : tensor<4xf32> }
  %7 = tir.empty : tensor<4xf32>
  %8 = tir.block [i: 4] ins(%5[i] : tensor<4xf32>) outs(%7[i] : tensor<4xf32>) {
  ^bb0(%s: f32, %t: f32):
    %u = arith.addf %s, %s : f32
    tir.yield %u : f32
  }
  %9 = byoc.call @npu_0(%8) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %9, %2 : tensor<4xf32>, tensor<4xf32>
}
func.func private @npu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @npu_1(%x: memref<4xf32>, %y: memref<4xf32>) {
  tir.intrinsic "npu.move" {
    tir.block [i: 4] ins(%x[i] : memref<4xf32>) outs(%y[i] : memref<4xf32>) {
    ^bb0(%s: f32, %t: f32):
      tir.yield %s : f32
    }
  }
  func.return
}
"""


def pick(draw, items):
    return items[draw(st.integers(0, len(items) - 1))]


def ops_of(module):
    return [op for op in module.walk() if op is not module]


def change_operand(draw, module):
    """Uses some value of the program, of whatever type and place, as an operand."""
    users = [op for op in ops_of(module) if op.operands]
    values = [r for op in ops_of(module) for r in op.results]
    values += [a for op in ops_of(module) for r in op.regions for b in r.blocks for a in b.args]
    user = pick(draw, users)
    user.operands[draw(st.integers(0, len(user.operands) - 1))] = pick(draw, values)


def change_type(draw, module):
    """Gives a value another type."""
    values = [r for op in ops_of(module) for r in op.results]
    values += [a for op in ops_of(module) for r in op.regions for b in r.blocks for a in b.args]
    type_ = pick(draw, [tensor(f32, (4,)), tensor(f32, (5,)), tensor(i8, (4,)), f32])
    Rewriter.replace_value_with_new_type(pick(draw, values), type_)


def change_property(draw, module):
    """Changes, adds or takes away a property or an attribute."""
    op = pick(draw, ops_of(module))
    where = pick(draw, [op.properties, op.attributes])
    if where and draw(st.booleans()):
        where.pop(pick(draw, sorted(where)))
    else:
        known = ["axis", "level", "pattern", "note", "callee", "opset"]
        value = pick(draw, [IntegerAttr(-9, i64), StringAttr("graph"), StringAttr("")])
        where[draw(st.sampled_from(known))] = value


def move(draw, module):
    """Puts an op before another one, maybe in another block, maybe behind a terminator."""
    inner = [op for op in ops_of(module) if not isinstance(op, FuncOp)]
    op, place = pick(draw, inner), pick(draw, inner)
    if op.is_ancestor(place):
        return
    op.detach()
    if draw(st.booleans()):
        place.parent.insert_op_before(op, place)
    else:
        place.parent.insert_op_after(op, place)


def insert(draw, module):
    """Adds an op on some value, where it may or may not be known."""
    place = pick(draw, [op for op in ops_of(module) if op.results])
    values = [r for op in ops_of(module) for r in op.results if r.type == tensor(f32, (4,))]
    if values:
        place.parent.insert_op_after(ReluOp.make(pick(draw, values)), place)


def change_function(draw, module):
    """Promises results of other types."""
    function = pick(draw, [op for op in ops_of(module) if isinstance(op, FuncOp)])
    outputs = draw(st.lists(st.just(tensor(f32, (4,))), max_size=2))
    function.function_type = FunctionType.from_lists(list(function.function_type.inputs), outputs)


def exchange_regions(draw, module):
    """Gives two ops each other's region, or one op both."""
    holders = [op for op in ops_of(module) if op.regions and not isinstance(op, FuncOp)]
    one, other = pick(draw, holders), pick(draw, holders)
    if one is other or one.is_ancestor(other) or other.is_ancestor(one):
        return
    first, second = one.detach_region(0), other.detach_region(0)
    (one if draw(st.booleans()) else other).add_region(second)
    other.add_region(first)


def change_argument(draw, module):
    """Adds an argument to a block, or takes one away that nobody uses."""
    block = pick(draw, [b for op in ops_of(module) for r in op.regions for b in r.blocks])
    unused = [arg for arg in block.args if arg.first_use is None]
    if unused and draw(st.booleans()):
        block.erase_arg(pick(draw, unused))
    else:
        index = draw(st.integers(0, len(block.args)))
        block.insert_arg(pick(draw, [f32, tensor(f32, (4,))]), index)


def copy(draw, module):
    """Puts a copy of an op, with what is inside, behind another one."""
    inner = [op for op in ops_of(module) if not isinstance(op, FuncOp)]
    made, place = pick(draw, inner).clone(), pick(draw, inner)
    place.parent.insert_op_after(made, place)


def erase(draw, module):
    """Takes an op out, whoever uses it."""
    op = pick(draw, [op for op in ops_of(module) if not isinstance(op, FuncOp)])
    op.detach()
    op.erase(safe_erase=False)


CHANGES = [
    *(change_operand, change_type, change_property, change_function, change_argument),
    *(move, insert, copy, erase, exchange_regions),
]


def refuses(verify, module) -> bool:
    """Isolation is checked by two rules, so messages may differ; verdicts must not."""
    try:
        verify(module)
    except Exception:  # an InvalidOp, or a change so odd that a rule itself gives up
        return True
    return False


def verify_everything(module) -> None:
    """By xDSL's own walk, and as if for the first time."""
    module.verify()
    verify_module(module)


def test_verifying_what_did_not_change_looks_at_no_op(monkeypatch):
    module, verifier, seen = parse_module(TEXT), Verifier(), []
    monkeypatch.setattr(ReluOp, "verify_", lambda op: seen.append(op))
    verifier.verify(module)
    assert seen
    seen.clear()
    verifier.verify(module)
    assert not seen
    change_nothing = module.body.block.first_op.body.block.first_op
    change_nothing.properties["note"] = StringAttr("")
    verifier.verify(module)
    assert seen == [change_nothing]


ALIKE = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = byoc.composite "npu.relu" at "graph" (%i = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = graph.relu %i : (tensor<4xf32>) -> tensor<4xf32>
    byoc.yield %r : tensor<4xf32>
  }
  %b = byoc.composite "npu.relu" at "graph" (%i = %a : tensor<4xf32>) -> tensor<4xf32> {
    %r = graph.relu %i : (tensor<4xf32>) -> tensor<4xf32>
    byoc.yield %r : tensor<4xf32>
  }
  func.return %b : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (lambda value, outside: YieldOp.create(), "expected yielded values"),
        (lambda value, outside: YieldOp.create(operands=[outside]), "isolated from above"),
    ],
)
def test_composites_like_a_right_one_must_end_right(last, told):
    module = parse_module(ALIKE)
    first, second = (op for op in module.walk() if isinstance(op, CompositeOp))
    second.properties |= first.properties  # the same objects
    end = second.body.block.last_op
    (value,) = end.operands
    end.detach()
    second.body.block.add_op(last(value, first.outputs[0]))
    with pytest.raises(InvalidOp, match=told):
        verify_module(module)


TWINS = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tir.empty : tensor<4xf32>
  %a = tir.block [i: 4] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = math.exp %0 : f32
    tir.yield %2 : f32
  }
  %b = tir.block [i: 4] ins(%a[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = math.exp %0 : f32
    tir.yield %2 : f32
  }
  func.return %b : tensor<4xf32>
}
"""


def yield_more(first, second):
    second.detach()
    twice = TirYieldOp.create(operands=[*second.operands, *second.operands])
    first.parent.parent_block().last_op.prev_op.body.block.add_op(twice)


def use_the_others(first, second):
    second.prev_op.operands[0] = first.operands[0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (yield_more, r"expected yielded values \(f32\), found \(f32, f32\)"),
        (use_the_others, "expected a body of its own values, found another used by math.exp"),
    ],
)
def test_blocks_like_a_right_one_must_be_right_inside(change, told):
    module = parse_module(TWINS)
    first, second = (op for op in module.walk() if isinstance(op, BlockOp))
    second.properties |= first.properties  # the same objects
    change(first.body.block.last_op, second.body.block.last_op)
    with pytest.raises(InvalidOp, match=told):
        verify_module(module)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (AffineMap(1, 0, (AffineExpr.dimension(0) + 1,)), r"inside \[0, 4\), found \[1, 4\]"),
        (AffineMap(2, 0, (AffineExpr.dimension(1),)), "expected a map from 1 iterators"),
        (AffineMap(1, 0, (AffineExpr.dimension(0),) * 2), "to 1 indices, found"),
    ],
)
def test_blocks_like_a_right_one_must_read_inside_arrays(changed, told):
    module = parse_module(TWINS)
    first, second = (op for op in module.walk() if isinstance(op, BlockOp))
    maps = [AffineMapAttr(changed), *first.maps.data[1:]]
    second.properties |= {**first.properties, "maps": ArrayAttr(maps)}
    with pytest.raises(InvalidOp, match=told):
        verify_module(module)


TWICE = """
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  tir.intrinsic "npu.move" cut [4] {
    tir.block [i: 4] ins(%x[i] : memref<4xf32>) outs(%y[i] : memref<4xf32>) {
    ^bb0(%s: f32, %t: f32):
      tir.yield %s : f32
    }
  }
  tir.intrinsic "npu.move" cut [4] {
    tir.block [i: 4] ins(%x[i] : memref<4xf32>) outs(%y[i] : memref<4xf32>) {
    ^bb0(%s: f32, %t: f32):
      tir.yield %s : f32
    }
  }
  func.return
}
"""


def end_smaller(block):
    block.properties["iterators"] = ArrayAttr([block.iterators.data[0].resized(3)])


def end_in_nothing(block):
    block.detach()
    block.erase()


def end_reading_outside(block):
    maps = [AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0) + 1,))), *block.maps.data[1:]]
    block.properties["maps"] = ArrayAttr(maps)


def end_in_a_terminator(block):
    block.parent.add_op(TirYieldOp.create())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (end_smaller, "expected a cut of 3, found 4"),
        (end_in_nothing, "expected a body of blocks, found none"),
        (end_reading_outside, r"inside \[0, 4\), found \[1, 4\]"),
        (end_in_a_terminator, "expects parent op 'tir.block'|expected a block to cut last"),
    ],
)
def test_instructions_like_a_right_one_must_end_right(change, told):
    module = parse_module(TWICE)
    blocks = [op for op in module.walk() if isinstance(op, BlockOp)]
    first, second = (op for op in module.walk() if isinstance(op, IntrinsicOp))
    second.properties |= first.properties  # the same objects
    blocks[1].properties |= blocks[0].properties
    verify_module(module)
    change(blocks[1])
    with pytest.raises(InvalidOp, match=told):
        verify_module(module)


@given(st.data())
def test_verifying_what_changed_refuses_what_verifying_everything_refuses(data):
    module, verifier = parse_module(TEXT), Verifier()
    assert not refuses(verifier.verify, module)
    for _ in range(4):
        pick(data.draw, CHANGES)(data.draw, module)
        refused = refuses(verify_everything, module)
        assert refuses(verifier.verify, module) == refused
        if refused:
            return


@pytest.mark.parametrize("change", CHANGES)
def test_each_kind_of_change_can_break_a_program(change):
    def breaks(data):
        module = parse_module(TEXT)
        change(data.draw, module)
        return refuses(verify_everything, module)

    find(st.data(), breaks, settings=settings(max_examples=30, phases=[Phase.generate]))
