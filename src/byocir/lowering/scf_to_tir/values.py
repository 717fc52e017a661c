"""Turns functions on memory into functions on tensors: each write to a buffer makes a new value.

An argument that is only read stays an argument; one that is written in whole before it is read
becomes a result; one that is updated becomes both. A block that only works on what a buffer held at
the same place, and replaces all of it, takes that as an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects import tir
from byocir.dialects.byoc import NAME
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.dialects.uses import replace_block, replace_uses
from byocir.patterns.dataflow import read, writes_whole, written

MOST_ELEMENTS = 1 << 26
"""Up to here it is worked out whether several blocks together write all of a buffer."""

NOT_IN_MEMORY = (tir.AllocOp, tir.BlockOp, tir.ConstantOp, tir.CopyOp, tir.FillOp, ReturnOp)


def reason_for_memory(function: FuncOp, module: ModuleOp) -> str:
    """Says why a function must stay on memory; empty if its buffers can be values."""
    for op in function.body.block.ops:
        if not isinstance(op, NOT_IN_MEMORY):
            return f"expected blocks on memory and nothing else, found {op.name}"
        if isinstance(op, tir.BlockOp) and (op.in_value_form or op.bases):
            return "expected blocks on memory without bases, found others"
        if isinstance(op, tir.CopyOp) and not _is_whole_copy(op):
            return "expected copies of whole buffers, found one of a part"
        if isinstance(op, ReturnOp) and op.operands:
            return "expected a function without results, found some"
    if not all(isinstance(arg.type, MemRefType) for arg in function.body.block.args):
        return "expected arguments in memory, found others"
    name = function.sym_name.data
    for op in module.walk():
        for attribute in op.properties.values():
            if isinstance(attribute, SymbolRefAttr) and attribute.root_reference.data == name:
                return "expected a function that nothing calls, found a call on memory"
    return ""


def _is_whole_copy(op: tir.CopyOp) -> bool:
    same = shape_of(op.source.type) == shape_of(op.destination.type) == op.box
    elements = element_type_of(op.source.type) == element_type_of(op.destination.type)
    return same and elements and not (op.source_bases or op.destination_bases)


def to_values(function: FuncOp) -> None:
    """Converts a function on memory, which can be one on tensors, to tensors."""
    _Values(function).convert()


class _Values:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.old = function.body.block
        self.new = Block()
        self.current: dict[SSAValue, SSAValue] = {}
        """Maps buffers to the values that they hold, as far as anything was written."""

    def convert(self) -> None:
        """Replaces the function's body and type."""
        written = [arg for arg in self.old.args if self._is_written(arg)]
        taken = [arg for arg in self.old.args if arg not in written or self._is_read_first(arg)]
        for arg in taken:
            made = self.new.insert_arg(_tensor(arg.type), len(self.new.args))
            made.name_hint, made.location = arg.name_hint, arg.location
            self.current[arg] = made
        for op in list(self.old.ops):
            self._convert(op, written)
        self._name(taken, written)
        arguments = _ports(self.function, [arg.index for arg in taken])
        results = _ports(self.function, [arg.index for arg in written])
        replace_block(self.old, self.new)
        self.function.function_type = FunctionType.from_lists(
            [arg.type for arg in self.new.args], [_tensor(arg.type) for arg in written]
        )
        for name, ports in (("arg_attrs", arguments), ("res_attrs", results)):
            self.function.properties.pop(name, None)
            if ports is not None:
                self.function.properties[name] = ports

    def _name(self, taken: Sequence[SSAValue], written: Sequence[SSAValue]) -> None:
        """Names the ports after their positions, where they have no names and positions change:
        where outputs do not follow the inputs, or are inputs, too.
        """
        if self.function.arg_attrs is None and [*taken, *written] != list(self.old.args):
            names = [f"arg{i}" for i in range(len(self.old.args))]
            ports = [DictionaryAttr({NAME: StringAttr(name)}) for name in names]
            self.function.properties["arg_attrs"] = ArrayAttr(ports)

    def _touching(self, buffer: SSAValue) -> list[Operation]:
        return [op for op in self.old.ops if buffer in op.operands]

    def _is_written(self, buffer: SSAValue) -> bool:
        return any(buffer in written(op) for op in self._touching(buffer))

    def _is_read_first(self, buffer: SSAValue) -> bool:
        """Tells if something may read what a buffer held before the function wrote to it."""
        shape = shape_of(buffer.type)
        if prod(shape) > MOST_ELEMENTS:
            op = self._touching(buffer)[0]
            return buffer in read(op) or not _replaces(op)
        written = np.zeros(shape, np.bool_)
        for op in self._touching(buffer):
            if buffer in read(op):
                break
            box = _box(op, buffer)
            if box is not None:
                written[box] = True
        return not written.all()

    def _convert(self, op: Operation, written: Sequence[SSAValue]) -> None:
        if isinstance(op, tir.BlockOp):
            self._block(op)
        elif isinstance(op, tir.FillOp):
            assert op.destination is not None
            type_ = _tensor(op.destination.type)
            self._set(op.destination, tir.FillOp.of(op.value, type_, op.location))
        elif isinstance(op, tir.ConstantOp):
            self._set(op.result, tir.ConstantOp.of(op.value.data, location=op.location))
        elif isinstance(op, tir.CopyOp):
            self.current[op.destination] = self._held(op.source)
        elif isinstance(op, ReturnOp):
            done = ReturnOp(*(self._held(buffer) for buffer in written))
            done.location = op.location
            self.new.add_op(done)

    def _set(self, buffer: SSAValue, op: Operation) -> None:
        self.new.add_op(op)
        op.results[0].name_hint = buffer.name_hint
        self.current[buffer] = op.results[0]

    def _held(self, buffer: SSAValue) -> SSAValue:
        if buffer not in self.current:
            empty = tir.EmptyOp.of(_tensor(buffer.type))
            self.new.add_op(empty)
            self.current[buffer] = empty.result
        return self.current[buffer]

    def _block(self, op: tir.BlockOp) -> None:
        body, ins, maps = op.body.clone(), list(op.ins), list(op.in_maps)
        pads, outs = op.pad_values, list(op.outs)
        starts: list[SSAValue] = []
        for position, buffer in enumerate(outs):
            arg = body.block.args[len(ins) + position]
            is_input = arg.first_use is not None and writes_whole(op, position)
            if is_input and not op.reductions:
                read = body.block.insert_arg(arg.type, len(ins))
                arg = body.block.args[len(ins) + 1 + position]
                replace_uses(arg, read)
                ins.append(buffer)
                maps.append(op.out_maps[position])
                pads = [*pads, None]
            starts.append(self._start(buffer, arg, covered=writes_whole(op, position)))
        made = tir.BlockOp(
            list(op.iterators),
            [self._held(buffer) for buffer in ins],
            starts,
            [*maps, *op.out_maps],
            body,
            pads=pads,
            where=op.where.data if op.where is not None else None,
            location=op.location,
        )
        self.new.add_op(made)
        for buffer, result in zip(outs, made.results, strict=True):
            result.name_hint = buffer.name_hint
            self.current[buffer] = result

    def _start(self, buffer: SSAValue, arg: SSAValue, *, covered: bool) -> SSAValue:
        """Gives the initial value of a result: an empty tensor where all of it is replaced."""
        if arg.first_use is not None or not covered:
            return self._held(buffer)
        empty = tir.EmptyOp.of(_tensor(buffer.type))
        self.new.add_op(empty)
        return empty.result


def _tensor(type_: Attribute) -> TensorType:
    return tensor(element_type_of(type_), shape_of(type_))


def _replaces(op: Operation) -> bool:
    """Tells if an op writes every element of what it writes."""
    return not isinstance(op, tir.BlockOp) or all(writes_whole(op, i) for i in range(len(op.outs)))


def _box(op: Operation, buffer: SSAValue) -> tuple[slice, ...] | None:
    """Gives the elements of a buffer that an op surely writes; None where they are no box."""
    if not isinstance(op, tir.BlockOp):
        return tuple(slice(size) for size in shape_of(buffer.type))
    if op.where is not None:
        return None
    box: list[slice] = []
    used: list[int] = []
    for expr in op.out_maps[list(op.outs).index(buffer)].results:
        form = linear(expr)
        if form is None or len(form.terms) > 1 or any(c < 0 for _, c in form.terms):
            return None
        last, step = form.constant, 1
        for dim, step in form.terms:
            used.append(dim)
            last += step * (op.extents[dim] - 1)
        box.append(slice(form.constant, last + 1, step))
    return tuple(box) if len(set(used)) == len(used) else None


def _ports(function: FuncOp, positions: Sequence[int]) -> ArrayAttr[DictionaryAttr] | None:
    """Gives the attributes of some arguments."""
    if function.arg_attrs is None:
        return None
    return ArrayAttr([function.arg_attrs.data[i] for i in positions])
