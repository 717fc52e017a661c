"""Definitions before uses."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.dominance import InvalidOp, verify_dominance
from byocir.dialects.graph import ReluOp
from byocir.dialects.types import f32, tensor

TYPE = tensor(f32, (4,))


def function(*ops, block: Block) -> ModuleOp:
    block.add_ops(ops)
    return ModuleOp([FuncOp("f", ([TYPE], [TYPE]), Region(block))])


def composite(argument, body: Block) -> CompositeOp:
    return CompositeOp.of("p", "graph", [argument], [TYPE], Region(body))


def test_earlier_ops_and_block_arguments_reach_a_use():
    block = Block(arg_types=[TYPE])
    first = ReluOp.make(block.args[0])
    second = ReluOp.make(first.results[0])
    verify_dominance(function(first, second, ReturnOp(second.results[0]), block=block))


def test_a_value_does_not_enter_an_isolated_op():
    block, body = Block(arg_types=[TYPE]), Block(arg_types=[TYPE])
    relu = ReluOp.make(block.args[0])
    body.add_ops([relu, YieldOp.create(operands=list(relu.results))])
    op = composite(block.args[0], body)
    with pytest.raises(InvalidOp, match=r"outside byoc\.composite, which is isolated") as caught:
        verify_dominance(function(op, ReturnOp(op.results[0]), block=block))
    assert caught.value.op is relu


def test_a_value_does_not_leave_the_op_it_is_defined_in():
    block, body = Block(arg_types=[TYPE]), Block(arg_types=[TYPE])
    relu = ReluOp.make(body.args[0])
    body.add_ops([relu, YieldOp.create(operands=list(relu.results))])
    op = composite(block.args[0], body)
    with pytest.raises(InvalidOp, match="a value that is defined inside another op"):
        verify_dominance(function(op, ReturnOp(relu.results[0]), block=block))


def test_an_op_that_was_taken_out_of_the_module_is_found():
    block = Block(arg_types=[TYPE])
    loose = ReluOp.make(block.args[0])
    with pytest.raises(InvalidOp, match=r"operand 0 of func\.return .* not in the module"):
        verify_dominance(function(ReturnOp(loose.results[0]), block=block))
