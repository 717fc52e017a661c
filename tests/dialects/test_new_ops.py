"""Ops and blocks that are made quickly are those that xDSL makes."""

from typing import Any

import pytest
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp, StringAttr, f32, i1
from xdsl.dialects.cf import BranchOp
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, attr_def

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph import ReluOp, SoftmaxOp
from byocir.dialects.locations import named
from byocir.dialects.new_ops import clone_op, clone_region, fill_block, new_block, new_op
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import tensor

TYPE = tensor(f32, (4,))


def made_by_xdsl(kind: type[Operation], **arguments) -> Operation:
    return Operation.create.__func__(kind, **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (ReluOp, {"result_types": [TYPE]}),
        (SoftmaxOp, {"result_types": [TYPE]}),  # whose axis has a default
        (arith.AddfOp, {"result_types": [f32]}),  # so have its flags
        (
            arith.AddfOp,
            {"result_types": [f32], "properties": {"fastmath": arith.FastMathFlagsAttr("fast")}},
        ),
        (test.TestOp, {"attributes": {"note": StringAttr("a")}, "location": named("node")}),
        (test.TestOp, {"result_types": [f32, i1]}),
    ],
)
def test_an_op_is_the_one_that_xdsl_makes(kind, arguments):
    block = Block(arg_types=[TYPE, TYPE])
    operands = [block.args[0], block.args[1], block.args[0]]
    expected = made_by_xdsl(kind, operands=operands, **arguments)
    made = new_op(kind, operands=operands, **arguments)
    assert made.is_structurally_equivalent(expected)
    assert list(made.properties) == list(expected.properties)
    assert made.location == expected.location
    fields = Operation.__dataclass_fields__
    assert {name: type(getattr(made, name)) for name in fields} == {
        name: type(getattr(expected, name)) for name in fields
    }
    uses = [[(use.operation, use.index) for use in arg.uses] for arg in block.args]
    assert uses == [
        [(made, 2), (made, 0), (expected, 2), (expected, 0)],
        [(made, 1), (expected, 1)],
    ]
    assert [(r.op, r.index, r.type) for r in made.results] == [
        (made, i, r.type) for i, r in enumerate(expected.results)
    ]


def test_ops_of_this_project_are_made_and_cloned_so(monkeypatch):
    monkeypatch.delattr(Operation, "__init__")
    op = ReluOp.create(operands=[new_block([TYPE]).args[0]], result_types=[TYPE])
    assert op.clone().is_structurally_equivalent(op)


def test_an_op_takes_regions_and_successors():
    region, target = Region(Block()), Block()
    assert new_op(CompositeOp, regions=[region]).regions == (region,)
    with pytest.raises(ValueError, match="already attached"):
        new_op(CompositeOp, regions=[region])
    branch = new_op(BranchOp, successors=[target])
    assert [*branch.successors] == [target]
    assert [use.operation for use in target.uses] == [branch]


def test_a_block_is_the_one_that_xdsl_makes():
    def ops() -> list[Operation]:
        return [new_op(test.TestOp) for _ in range(3)]

    expected = Block(ops(), arg_types=[TYPE, f32])
    made, added = new_block([TYPE, f32]), ops()
    fill_block(made, added)
    assert [(a.block, a.index, a.type, a.location) for a in made.args] == [
        (made, a.index, a.type, UNKNOWN_LOC) for a in expected.args
    ]
    assert [*made.ops] == added == [*reversed([*reversed(made.ops)])]
    assert made.is_structurally_equivalent(expected)
    assert all(op.parent is made for op in added)
    fill_block(empty := new_block([]), [])
    assert empty.is_empty


def test_a_class_that_is_made_in_its_own_way_is_refused():
    class MadeOp(IRDLOperation):
        name = "test.made"

        @classmethod
        def create(cls, **fields: Any) -> Any:
            return super().create(**fields)

    class NotedOp(IRDLOperation):
        name = "test.noted"
        note = attr_def(StringAttr, default_value=StringAttr("a"))

    for kind in (MadeOp, NotedOp):
        with pytest.raises(TypeError, match=f"found {kind.__name__}"):
            irdl_op_definition(kind)


PROGRAM = """
func.func @f(%x: memref<4xf32> loc("x")) {
  tir.intrinsic "npu.twice" (step = 2) cut [2] {
    tir.block [i: 4] outs(%x[i] : memref<4xf32>) {
    ^bb0(%old: f32):
      %sum = arith.addf %old, %old : f32 loc("node")
      %sum_1 = arith.addf %sum, %old : f32
      tir.yield %sum_1 : f32
    }
  }
  func.return
}
"""


def test_a_clone_is_the_one_that_xdsl_makes():
    module = parse_module(PROGRAM)
    (function,) = module.ops
    made, expected = (ModuleOp([each]) for each in (clone_op(function), function.clone()))
    assert print_module(made) == print_module(expected) == print_module(module)
    (block,) = (op for op in module.walk() if isinstance(op, BlockOp))
    values = {}
    made, expected = clone_op(block, values), block.clone()
    x, uses = block.outs[0], [made, expected]
    assert {use.operation for use in x.uses} == {block, *uses}
    assert values[block.body.block.args[0]] is made.body.block.args[0]
    assert values[block.yielded[0]] is made.yielded[0]
    for each in uses:
        each.erase()
    assert len(clone_region(Region([Block(), Block()])).blocks) == 2
