"""vta-bufferize: VTA's functions on memory.

Does: arguments and results of VTA's functions become memrefs, inputs first, then the outputs, which
the function fills. What passes between composites is a `tir.alloc` in main memory. Composites take
memrefs, inputs first, then what they write, and have no results. Within a composite each chain of
steps works in place on one i32 buffer; a tensor that is updated but needed again is copied (fill 0,
then add). The narrowing block at the end of a chain writes the result.

Requires: `vta-pack`. Error B325 for other bodies, and where a result is no composite's or comes up
twice.

Guarantees: the same results, provided that the memrefs of a call do not overlap; no tensors are
left in the functions. Calls stay on tensors. Every buffer is written before it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, EmptyOp, FillOp, buffer
from byocir.dialects.types import element_type_of, i32, shape_of
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import unsupported, vta_functions
from byocir.rewrites.liveness import Liveness


@dataclass(frozen=True)
class VtaBufferizePass(ModulePass):
    """Puts the values of VTA's functions into memory."""

    name = "vta-bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            _bufferize_function(function)


def _memref(value: SSAValue) -> MemRefType:
    """The type of the buffer in main memory that holds a tensor."""
    return buffer(element_type_of(value.type), shape_of(value.type))


def _bufferize_function(function: FuncOp) -> None:
    old = function.body.block
    last = old.last_op
    assert isinstance(last, ReturnOp)
    types = [_memref(value) for value in [*old.args, *last.operands]]
    new = Block(arg_types=types)
    values: dict[SSAValue, SSAValue] = {}
    for before, after in zip(old.args, new.args, strict=False):
        after.name_hint, after.location = before.name_hint, before.location
        values[before] = after
    for result, after in zip(last.operands, new.args[len(old.args) :], strict=True):
        if result in values or not isinstance(result.owner, CompositeOp):
            raise unsupported("B325", "expected results of composites, each once", last)
        after.name_hint = result.name_hint
        values[result] = after
    for op in old.ops:
        if isinstance(op, CompositeOp):
            _bufferize_composite(op, values, new)
        elif not isinstance(op, ReturnOp):
            raise unsupported("B325", f"expected composites, found {op.name}", op)
    done = ReturnOp()
    done.location = last.location
    new.add_op(done)
    function.body.detach_block(old)
    function.body.add_block(new)
    old.erase(safe_erase=False)
    function.function_type = FunctionType.from_lists(types, [])
    function.properties.pop("res_attrs", None)
    function.properties.pop("arg_attrs", None)


def _bufferize_composite(
    composite: CompositeOp, values: dict[SSAValue, SSAValue], into: Block
) -> None:
    for result in composite.outputs:
        if result not in values:
            type_ = _memref(result)
            alloc = AllocOp.create(result_types=[type_], location=composite.location)
            alloc.result.name_hint = result.name_hint
            into.add_op(alloc)
            values[result] = alloc.result
    operands = [values[value] for value in [*composite.inputs, *composite.outputs]]
    body = _Body(composite).made()
    made = CompositeOp.of(
        composite.pattern.data,
        composite.level.data,
        operands,
        [],
        Region(body),
        composite.location,
    )
    made.attributes.update(composite.attributes)
    into.add_op(made)


class _Body:
    """The body of a composite in buffer form, while it is made."""

    def __init__(self, composite: CompositeOp) -> None:
        self.old = composite.body.block
        last = self.old.last_op
        assert isinstance(last, YieldOp)
        self.last = last
        self.liveness = Liveness(self.old)
        self.new = Block(arg_types=[_memref(v) for v in [*self.old.args, *last.values]])
        self.values: dict[SSAValue, SSAValue] = {}
        """The buffer of each tensor so far."""
        self.results: dict[SSAValue, SSAValue] = {}
        """The arguments for what the composite yields."""
        for before, after in zip(self.old.args, self.new.args, strict=False):
            after.name_hint, after.location = before.name_hint, before.location
            self.values[before] = after
        outputs = self.new.args[len(self.old.args) :]
        for value, argument in zip(last.values, outputs, strict=True):
            if value in self.results:
                raise unsupported("B325", "expected each result once", last)
            self.results[value] = argument

    def made(self) -> Block:
        """The new body."""
        for op in self.old.ops:
            self._bufferize(op)
        missing = [v for v in self.last.values if self.values.get(v) is not self.results[v]]
        if missing:
            raise unsupported("B325", "expected results of narrowing blocks", self.last)
        self._add(YieldOp.create(operands=[]), self.last)
        return self.new

    def _add(self, op: Operation, origin: Operation) -> None:
        op.location = origin.location
        self.new.add_op(op)

    def _bufferize(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            constant = ConstantOp.of(op.value.data, _memref(op.result))
            self._add(constant, op)
            self.values[op.result] = constant.result
        elif isinstance(op, BlockOp):
            self._bufferize_block(op)
        elif not isinstance(op, EmptyOp | FillOp | YieldOp):
            raise unsupported("B325", f"expected a packed body, found {op.name}", op)

    def _buffer(self, value: SSAValue, origin: Operation) -> SSAValue:
        """A fresh buffer for a tensor."""
        alloc = AllocOp.create(result_types=[_memref(value)])
        self._add(alloc, origin)
        return alloc.result

    def _bufferize_block(self, op: BlockOp) -> None:
        outs = [self._destination(op, i) for i in range(len(op.outs))]
        ins = [self.values[value] for value in op.ins]
        made = BlockOp(
            list(op.iterators),
            ins,
            outs,
            [*op.in_maps, *op.out_maps],
            op.body.clone(),
            pads=op.pad_values,
            where=op.where.data if op.where is not None else None,
        )
        self._add(made, op)
        self.values.update(zip(op.results, outs, strict=True))

    def _destination(self, op: BlockOp, index: int) -> SSAValue:
        """The buffer that a block writes: its own result's, or the one it updates in place. What
        is needed again is copied first; a number is filled in for each block that starts from it.
        """
        start, result = op.outs[index], op.results[index]
        if isinstance(start.owner, EmptyOp):
            return self.results.get(result) or self._buffer(start, op)
        if isinstance(start.owner, FillOp):
            return self._filled(start, start.owner.value, start.owner)
        # What else of it the block reads, it reads where it writes: VTA's ALU works in place.
        if not self.liveness.needed_after(start, op):
            return self.values[start]
        copy = self._filled(start, IntegerAttr(0, i32), op)
        iterators = [op.iterators.data[i] for i in op.parallels]
        # Parallel iterators come first in VTA form, so the result's index needs no others.
        maps = [AffineMap(len(iterators), 0, op.out_maps[index].results)] * 2
        self._add(BlockOp(iterators, [self.values[start]], [copy], maps, forms.alu("add")), op)
        return copy

    def _filled(self, value: SSAValue, number: Attribute, origin: Operation) -> SSAValue:
        made = self._buffer(value, origin)
        self._add(FillOp.of(number, made), origin)
        return made
