"""Makes small nets of programs that were made from patterns, with other ops between and beside
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import GraphOp
from byocir.dialects.graph.base import PropertyValue
from byocir.dialects.locations import named
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.testing.by_example import graph_ops
from byocir.testing.choose import Choose, pick

UNARY: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("graph.abs", {}),
    ("graph.neg", {}),
    ("graph.relu", {}),
    ("graph.clip", {"min": 0}),
    ("graph.clip", {"min": 0, "max": 2}),
    ("graph.sigmoid", {}),
)
"""Ops that stand between programs, with attributes: what they give has the type of what they
take."""


def net_of(choose: Choose, programs: Sequence[ModuleOp]) -> ModuleOp:
    """Gives a program of several: the inputs of each are what others give, where types fit, or
    inputs of the net, and ops of the host stand in between. Some inner values are results, too,
    and of the results of an op some are read by nothing."""
    net = _Net(choose)
    for program in programs:
        net.add(program)
    return net.module()


def between(choose: Choose, program: ModuleOp) -> ModuleOp:
    """Makes a program with an op of one operand before and behind it, as a target may take ops as
    glue only beside others.
    """
    net = _Net(choose, is_between=True)
    net.add(program)
    for value in [each for each in net.values if not each.uses]:
        net.unary(value)
    return net.module()


class _Net:
    """Builds a function; `values` are those that later ops may use."""

    def __init__(self, choose: Choose, *, is_between: bool = False) -> None:
        self.choose = choose
        self.is_between = is_between
        """Tells if inputs go through an op each."""
        self.block = Block()
        self.values: list[SSAValue] = []

    def add(self, program: ModuleOp) -> None:
        """Adds the ops of a program, under other names."""
        body = main_of(program).body.block
        known: dict[SSAValue, SSAValue] = {each: self._given(each.type) for each in body.args}
        for op in body.ops:
            if isinstance(op, ReturnOp):
                break
            copy = op.clone(known)
            copy.location = named(f"n{self._count()}")
            self.block.add_op(copy)
            self.values += [v for v in copy.results if op.operands]
        for value in self.values[-1:]:
            if self.choose(0, 1):
                self._beside(value)

    def _count(self) -> int:
        return sum(1 for _ in self.block.ops)

    def _given(self, type_: Attribute) -> SSAValue:
        """Finds a value of this type: mostly one that exists, else an input of the net."""
        fitting = [value for value in self.values if value.type == type_]
        if fitting and self.choose(0, 3):
            return pick(self.choose, fitting)
        made = self.block.insert_arg(type_, len(self.block.args))
        if self.is_between:
            return self.unary(made)
        if self.choose(0, 2) == 0:
            return self._turned(made)
        return made

    def _turned(self, value: SSAValue) -> SSAValue:
        """Makes a value by ops of the host: the same one, in another layout in memory."""
        rank = len(shape_of(value.type))
        back = self._op("graph.transpose", [value], perm=list(range(rank))[::-1])
        turned = back and self._op("graph.transpose", [back], perm=list(range(rank))[::-1])
        return self.unary(turned or value)

    def unary(self, value: SSAValue) -> SSAValue:
        """Applies an op of the host to a value; gives the value itself where no op takes it."""
        name, bounds = pick(self.choose, UNARY)
        dtype = dtype_of(element_type_of(value.type))
        numbers = {key: ArrayAttr.of(np.array(bound, dtype)) for key, bound in bounds.items()}
        return self._op(name, [value], **numbers) or value

    def _beside(self, value: SSAValue) -> None:
        """Uses a value once more, outside of the pattern that it came from."""
        fitting = [each for each in self.values if each.type == value.type]
        made = self._op("graph.add", [value, pick(self.choose, fitting)])
        self.values.append(made or self.unary(value))

    def _op(
        self, name: str, operands: list[SSAValue], **properties: PropertyValue
    ) -> SSAValue | None:
        """Makes an op of the host; None where it does not take these operands."""
        kind: type[GraphOp] = graph_ops()[name]
        try:
            made = kind.make(*operands, location=named(f"n{self._count()}"), **properties)
            made.verify_()
        except (VerifyException, ValueError):
            return None
        self.block.add_op(made)
        return made.results[0]

    def module(self) -> ModuleOp:
        """Gives the net."""
        results = [v for op in self.block.ops if op.operands for v in self._results(op)]
        if self.choose(0, 1):
            results.reverse()
        return program_of(self.block, results)

    def _results(self, op: Operation) -> list[SSAValue]:
        """Gives what the net gives of an op: what nothing uses, now and then an inner value, and of
        several results now and then not all."""
        given: list[SSAValue] = [v for v in op.results if not v.uses or not self.choose(0, 4)]
        unused = [v for v in given if not v.uses]
        if unused and len(op.results) > 1 and self.choose(0, 1):
            left_out = pick(self.choose, unused)
            given = [v for v in given if v is not left_out]
        return given


def main_of(module: ModuleOp) -> FuncOp:
    """Finds the only function of a program."""
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def program_of(block: Block, results: Sequence[SSAValue]) -> ModuleOp:
    """Makes a program of these ops, without a return yet, that returns these results."""
    block.add_op(ReturnOp(*results))
    types = [arg.type for arg in block.args], [value.type for value in results]
    return ModuleOp([FuncOp("main", types, Region(block))])


def ops_of(module: ModuleOp) -> Iterator[Operation]:
    """Lists the ops of a program except its return."""
    for op in main_of(module).body.block.ops:
        if not isinstance(op, ReturnOp):
            yield op
