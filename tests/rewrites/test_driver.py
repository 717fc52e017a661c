"""The greedy driver: locations, dead ops, the end of endless rewrites."""

import numpy as np
import pytest
from rewrite_nets import Net, located, op_names
from xdsl.ir import Operation

from byocir.dialects.graph import AddOp, ClipOp, ReluOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.rewrites.driver import Pattern, rewrite_module

X = np.zeros(4, np.float32)


class ReluOfSumToClip(Pattern):
    roots = (ReluOp,)

    def rewrite(self, op, new):
        assert isinstance(op, ReluOp)
        if not isinstance(op.input.owner, AddOp):
            return None
        return [new.add(ClipOp.make(op.input.owner.lhs)).result]


class DropClip(Pattern):
    roots = (ClipOp,)

    def rewrite(self, op, new):
        return [op.operands[0]]


class SwapOperands(Pattern):
    roots = (AddOp,)

    def rewrite(self, op, new):
        return [new.add(AddOp.make(*reversed(op.operands))).result]


class AddsButDeclines(Pattern):
    roots = (ReluOp,)

    def rewrite(self, op, new):
        new.add(ReluOp.make(op.operands[0]))


def only(module, op_class) -> Operation:
    (found,) = [op for op in module.walk() if isinstance(op, op_class)]
    return found


def relu_of_sum():
    net = Net(X)
    (x,) = net.arguments
    left = net.add(ReluOp.make(x))
    right = net.add(ReluOp.make(x))
    return net.returning(net.add(ReluOp.make(net.add(AddOp.make(left, right)))))


def test_a_new_op_stands_for_all_ops_it_makes_superfluous():
    module = relu_of_sum()
    assert rewrite_module(module, [ReluOfSumToClip()])
    module.verify()
    assert op_names(module) == ["relu", "clip"]
    assert names(only(module, ClipOp).location) == ("op1", "op2", "op3")


def test_a_location_left_over_goes_to_what_computes_the_result():
    net = Net(X)
    relu = net.add(ReluOp.make(net.arguments[0]))
    module = net.returning(net.add(ClipOp.make(relu)))
    rewrite_module(module, [DropClip()])
    assert op_names(module) == ["relu"]
    assert names(only(module, ReluOp).location) == ("op0", "op1")


def test_patterns_meet_the_ops_that_patterns_make():
    module = relu_of_sum()
    rewrite_module(module, [DropClip(), ReluOfSumToClip()])
    assert op_names(module) == ["relu"]
    assert located(module) == {"op0", "op1", "op2", "op3"}


def test_nothing_stays_of_a_pattern_that_declines():
    module = relu_of_sum()
    before = str(module)
    assert not rewrite_module(module, [AddsButDeclines()])
    assert str(module) == before


def test_an_endless_pattern_is_named():
    with pytest.raises(ByocirError, match="SwapOperands still applying after") as raised:
        rewrite_module(relu_of_sum(), [DropClip(), SwapOperands()])
    assert raised.value.code == "B290"


def test_name_hints_are_kept():
    net = Net(X)
    result = net.add(ReluOp.make(net.add(AddOp.make(net.arguments[0], net.arguments[0]))))
    result.name_hint = "activated"
    module = net.returning(result)
    rewrite_module(module, [ReluOfSumToClip()])
    assert only(module, ClipOp).results[0].name_hint == "activated"
