"""bufferize: puts functions on tensors onto memory.

Does: arguments and results become memrefs, inputs first, then the outputs, which the function
fills. Each tensor that passes between ops gets a `tir.alloc`. A block updates its initial value in
place where nothing else reads it, and a copy of it elsewhere; a loop does so with what it carries.
Composites and regions are inlined; calls take the memrefs of their inputs and outputs, and so do
declarations; what `tir.extern` calls is declared.

Requires: blocks, loops, constants, fills and calls in value form. Error B340 for other ops on
tensors.

Guarantees: the same results, provided that the memrefs of a call do not overlap; no tensors are
left. Inputs are never written. The module's record of what was handed over is gone: what ran
elsewhere is a call as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects import byoc, tir
from byocir.dialects.locations import names
from byocir.dialects.open_values import how_to_close, listed, origins
from byocir.dialects.tir import buffer
from byocir.dialects.types import DYNAMIC, element_type_of, shape_of
from byocir.dialects.uses import erase, replace_block, replace_uses
from byocir.errors import ByocirError
from byocir.rewrites.liveness import Liveness, hand_on, starts_block

LOWER_FIRST = "convert-graph-to-tir makes blocks of what has a form at the tensor level"


@dataclass(frozen=True)
class BufferizePass(ModulePass):
    """Puts the values of functions into memory."""

    name = "bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        routines = Routines(op)
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and _on_tensors(function):
                if not function.is_declaration:
                    inline_composites(function)
                bufferize(function, routines)


class Updates:
    """Tells which blocks update, in place, the arrays that they start from, and makes copies of
    these for the others; `vta-bufferize` has a subclass of its own.
    """

    def are_in_place(self, op: Operation, start: SSAValue, liveness: Liveness) -> bool:
        """Tells if an op may write its result over a value that it starts from."""
        return liveness.may_overwrite(op, start)

    def copied(self, source: SSAValue, target: SSAValue, op: Operation) -> Sequence[Operation]:
        """Makes the ops that copy a buffer for an op, which then updates the copy."""
        shape = shape_of(source.type)
        return [] if 0 in shape else [tir.CopyOp.of(source, target, shape, location=op.location)]


def bufferize(function: FuncOp, routines: Routines, updates: Updates | None = None) -> None:
    """Puts the values of one function into memory. Composites in it stay, on memrefs: inputs, then
    what they write. Raises ByocirError B340.
    """
    types = function.function_type
    _check(function)
    ports = [_memref(type_) for type_ in (*types.inputs, *types.outputs)]
    if not function.is_declaration:
        old = function.body.block
        new = _Body(old, ports, routines, updates or Updates()).converted()
        replace_block(old, new)
    attributes = _port_attributes(function)
    function.function_type = FunctionType.from_lists(ports, [])
    function.properties.pop("res_attrs", None)
    if attributes is not None:
        function.properties["arg_attrs"] = attributes


def _on_tensors(function: FuncOp) -> bool:
    types = function.function_type
    ports = [*types.inputs, *types.outputs]
    values = (value for op in function.walk() for value in op.results)
    return any(isinstance(t, TensorType) for t in (*ports, *(v.type for v in values)))


def _memref(type_: Attribute) -> Attribute:
    """Gives the type of the buffer that holds a tensor; other types stay."""
    return buffer(element_type_of(type_), shape_of(type_)) if _is_tensor(type_) else type_


def _is_tensor(type_: Attribute) -> bool:
    return isinstance(type_, TensorType)


def _is_static(type_: Attribute) -> bool:
    return _is_tensor(type_) and DYNAMIC not in shape_of(type_)


def _check(function: FuncOp) -> None:
    """Raises ByocirError B340 unless all values are tensors of static shape, or are in memory; it
    says where others come from.
    """
    inputs, outputs = function.function_type.inputs, function.function_type.outputs
    ports = [*(type_ for type_ in inputs if not isinstance(type_, MemRefType)), *outputs]
    wrong = [str(type_) for type_ in ports if not _is_static(type_)]
    args = () if function.is_declaration else function.body.block.args
    for op in function.walk():
        if isinstance(op, tir.ForOp) and op.conditional is not None:
            told = "one that ends where a condition says so"
            raise _unsupported("loops of a known number of iterations", told, op, "")
    values = [*args, *(result for op in function.walk() for result in op.results)]
    found = origins(v for v in values if _is_tensor(v.type) and not _is_static(v.type))
    if found or wrong:
        told = listed(found) or ", ".join(wrong)
        raise _unsupported("tensors of static shape", told, function, how_to_close(found))


def _unsupported(expected: str, found: str, op: Operation, help_: str) -> ByocirError:
    return ByocirError(
        "B340",
        f"expected {expected} to put into memory, found {found}",
        where=", ".join(names(op.location)),
        help=help_,
    )


def _port_attributes(function: FuncOp) -> ArrayAttr[DictionaryAttr] | None:
    """Gives the attributes of all ports, arguments then results."""
    types, none = function.function_type, DictionaryAttr({})
    if function.arg_attrs is None and function.res_attrs is None:
        return None
    inputs = function.arg_attrs or [none] * len(types.inputs)
    outputs = function.res_attrs or [none] * len(types.outputs)
    return ArrayAttr([*inputs, *outputs])


def inline_composites(function: FuncOp) -> None:
    """Puts the ops of composites and regions back into the function."""
    for op in list(function.walk()):
        if isinstance(op, byoc.CompositeOp | byoc.RegionOp):
            byoc.inline(op)


class Routines:
    """Declares what `tir.extern` calls, on memory, once for each routine, numbers and types. The
    declarations have the op's attributes: `byocir.evaluate.structure` knows what they compute.
    """

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._made: dict[tuple[Attribute, ...], str] = {}

    def declared(self, op: tir.ExternOp) -> str:
        """Gives the name of the function to call, which is declared if it is new."""
        ports = [_memref(value.type) for value in (*op.inputs, *op.outputs)]
        key = (op.routine, op.numbers, *ports)
        if key not in self._made:
            name = self._made[key] = f"{op.routine.data}_{len(self._made)}"
            made = FuncOp.external(name, ports, [])
            made.attributes.update({"routine": op.routine, "numbers": op.numbers})
            made.attributes["inputs"] = IntegerAttr(len(op.inputs), i64)
            self._module.body.block.add_op(made)
        return self._made[key]


def _starts(use: Use) -> bool:
    """Tells if an op starts from the value, of which it needs a copy anyway."""
    return starts_block(use) or isinstance(use.operation, tir.ForOp)


class _Body:
    """Holds the block of a function or composite on tensors while its ops move, one by one, to a
    block on memory.
    """

    def __init__(
        self, old: Block, ports: Sequence[Attribute], routines: Routines, updates: Updates
    ) -> None:
        self.routines, self.updates = routines, updates
        self.old = old
        self.new = Block(arg_types=ports)
        self.buffers: dict[SSAValue, SSAValue] = {}
        """The memory of each tensor."""
        self.liveness = Liveness(self.old)
        self.into = self.new
        """The block that is being filled."""

    def converted(self) -> Block:
        """Gives the new block; the old one is left without what could move."""
        for before, after in zip(self.old.args, self.new.args, strict=False):
            after.name_hint, after.location = before.name_hint, before.location
            self.buffers[before] = after
            if isinstance(before.type, MemRefType):
                replace_uses(before, after)
        for op in list(self.old.ops):
            self._convert(op)
        return self.new

    def _convert(self, op: Operation) -> None:
        if isinstance(op, tir.ConstantOp):
            made = tir.ConstantOp.of(op.value.data, _memref(op.result.type), op.location)
            self._add(made)
            self.buffers[op.result] = made.result
        elif isinstance(op, tir.EmptyOp | tir.FillOp) and op.results:
            if not all(_starts(use) for use in op.results[0].uses):
                self.buffers[op.results[0]] = self._started(op, op.results[0], op)
        elif isinstance(op, CallOp | byoc.CallOp):
            self._call(op, op.callee.string_value())
        elif isinstance(op, tir.ExternOp):
            self._call(op, self.routines.declared(op))
        elif isinstance(op, ReturnOp | byoc.YieldOp):
            self._return(op)
        elif isinstance(op, byoc.CompositeOp):
            self._composite(op)
        else:
            self._in_place(op)

    def _in_place(self, op: Operation) -> None:
        """Converts an op that writes what it is given, or one without tensors."""
        if isinstance(op, tir.BlockOp) and op.in_value_form:
            self._block(op)
        elif isinstance(op, tir.ForOp) and op.initial:
            self._for(op)
        else:
            self._keep(op)

    def _add(self, op: Operation) -> None:
        self.into.add_op(op)

    def _alloc(self, value: SSAValue, origin: Operation) -> SSAValue:
        element, shape = element_type_of(value.type), shape_of(value.type)
        made = tir.AllocOp.of(element, shape, location=origin.location)
        made.result.name_hint = value.name_hint
        self._add(made)
        return made.result

    def _started(
        self, op: tir.EmptyOp | tir.FillOp, value: SSAValue, origin: Operation
    ) -> SSAValue:
        """Makes a buffer for a value, filled with the number of a fill."""
        made = self._alloc(value, origin)
        if isinstance(op, tir.FillOp):
            self._add(tir.FillOp.of(op.value, made, op.location))
        return made

    def _block(self, op: tir.BlockOp) -> None:
        ins = [self.buffers[value] for value in op.ins]
        pairs = zip(op.outs, op.results, strict=True)
        outs = [self._updated(start, result, op) for start, result in pairs]
        made = op.like(ins=ins, outs=outs)
        for i in op.whole:
            Rewriter.replace_value_with_new_type(made.body.block.args[i], ins[i].type)
        made.attributes.update(op.attributes)
        self._add(made)
        self.buffers.update(zip(op.results, outs, strict=True))

    def _for(self, op: tir.ForOp) -> None:
        pairs = zip(op.initial, op.results, strict=True)
        carried = [self._updated(start, result, op) for start, result in pairs]
        made = tir.ForOp.of(op.extent.value.data, op.kind.data, op.location)
        made.attributes.update(op.attributes)
        self._add(made)
        replace_uses(op.index, made.index)
        made.index.name_hint = op.index.name_hint
        self.buffers.update(zip(op.carried, carried, strict=True))
        yielded = list(op.yielded)
        outside, self.into = self.into, made.body.block
        for inner in list(op.body.block.ops):
            if not isinstance(inner, tir.YieldOp):
                self._convert(inner)
        hand_on(
            [self.buffers[value] for value in yielded],
            carried,
            save=lambda source: self._copied(source, self._alloc(source, op), op),
            move=lambda source, target: self._copied(source, target, op),
        )
        self.into = outside
        self.buffers.update(zip(op.results, carried, strict=True))

    def _updated(self, start: SSAValue, result: SSAValue, op: tir.BlockOp | tir.ForOp) -> SSAValue:
        """Gives the buffer that an op writes for a result, with the initial value in it."""
        if isinstance(start.owner, tir.EmptyOp | tir.FillOp):
            return self._started(start.owner, result, op)
        source = self.buffers[start]
        is_ours = isinstance(source.owner, tir.AllocOp)
        if is_ours and self.updates.are_in_place(op, start, self.liveness):
            return source
        return self._copied(source, self._alloc(result, op), op)

    def _copied(self, source: SSAValue, target: SSAValue, origin: Operation) -> SSAValue:
        for op in self.updates.copied(source, target, origin):
            self._add(op)
        return target

    def _call(self, op: Operation, callee: str) -> None:
        ins = [self.buffers[value] for value in op.operands]
        outs = [self._alloc(value, op) for value in op.results]
        made = CallOp(callee, [*ins, *outs], [])
        made.location = op.location
        self._add(made)
        self.buffers.update(zip(op.results, outs, strict=True))

    def _composite(self, op: byoc.CompositeOp) -> None:
        ins = [self.buffers[value] for value in op.inputs]
        outs = [self._alloc(value, op) for value in op.outputs]
        ports = [value.type for value in (*ins, *outs)]
        inside = _Body(op.body.block, ports, self.routines, self.updates)
        body = Region(inside.converted())
        made = op.on(ins + outs, [], body)
        self._add(made)
        self.buffers.update(zip(op.outputs, outs, strict=True))

    def _return(self, op: ReturnOp | byoc.YieldOp) -> None:
        """Makes ops write results where the caller wants them, or copies them there."""
        ports = self.new.args[len(self.old.args) :]
        moved: dict[SSAValue, SSAValue] = {}
        for value, port in zip(op.operands, ports, strict=True):
            port.name_hint = value.name_hint if isinstance(value, OpResult) else None
            source = self.buffers[value]
            source = moved.get(source, source)
            if isinstance(source.owner, tir.AllocOp):
                replace_uses(source, port)
                erase(source.owner)
                moved[source] = port
            else:
                self._copied(source, port, op)
        done = ReturnOp() if isinstance(op, ReturnOp) else byoc.YieldOp.create()
        done.location = op.location
        self._add(done)

    def _keep(self, op: Operation) -> None:
        """Moves an op that has no tensors."""
        for inner in op.walk():
            values = (*inner.operands, *inner.results)
            if any(isinstance(value.type, TensorType) for value in values):
                raise _unsupported("blocks", inner.name, inner, LOWER_FIRST)
        op.detach()
        self._add(op)
