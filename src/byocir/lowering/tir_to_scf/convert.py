"""convert-tir-to-scf: writes buffer form as plain loops, which upstream `mlir-opt` takes.

Does: blocks, fills and copies become nests of `scf.for` around loads, a scalar body and stores;
pads and guards become `scf.if`; `tir.for` becomes `scf.for`, a parallel one `scf.parallel`; an
unrolled one is written out unless it is long, and one that is to be vectorised says so in an
attribute, `vectorise`. Buffers are
`memref.alloc`, freed at the end of the block they are in; constants are `memref.global`. What is
byocir's own goes: memory scopes, names of ports, targets, records of decisions, composites. An
instruction is what its body does.

Two kinds of elements do not survive as dense text in all tools: booleans, which MLIR packs, and
floats that are infinite or NaN, which xDSL reads back as other numbers. Their bits are kept as
integers in the globals, from which a function makes the array when it needs it.

Requires: functions on memrefs, such as `bufferize` makes. Error B341 for what has no such form.

Guarantees: the same results, bit for bit; each loop carries the location of its block; only ops of
arith, builtin, func, math, memref and scf are left. Reductions accumulate in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects import byoc, tir
from byocir.dialects.array import Array
from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.locations import names
from byocir.dialects.tir import buffer
from byocir.dialects.traits import is_terminator
from byocir.dialects.types import (
    bf16,
    element_of,
    element_type_of,
    f16,
    i1,
    is_float,
    is_memref,
    shape_of,
)
from byocir.dialects.uses import erase, replace_uses
from byocir.errors import ByocirError
from byocir.lowering.tir_to_scf.indices import Numbers
from byocir.lowering.tir_to_scf.nests import write_block, write_copy, write_fill, write_nest
from byocir.rewrites.bufferize import inline_composites

DIALECTS = ("arith", "builtin", "func", "math", "memref", "scf")
"""The dialects that the result may have."""
MOST_OPS = 2000
"""A loop whose iterations, written out, have more ops than this stays a loop."""
_OWN = "byoc."


@dataclass(frozen=True)
class ConvertTirToScfPass(ModulePass):
    """Turns blocks into loops."""

    name = "convert-tir-to-scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        constants = Constants(op)
        for top in list(op.body.block.ops):
            if isinstance(top, byoc.SourceOp | byoc.TrailOp):
                erase(top)
            elif isinstance(top, FuncOp):
                _convert_function(top, constants)
        _strip(op.attributes)
        constants.insert()
        _check(op)


def _check(module: ModuleOp) -> None:
    for op in module.walk():
        if op.name.partition(".")[0] not in DIALECTS:
            raise ByocirError(
                "B341",
                f"expected ops with a form as loops, found {op.name}",
                where=", ".join(names(op.location)),
                help="run convert-graph-to-tir and bufferize before",
            )


def _strip(attributes: dict[str, Attribute]) -> None:
    """Removes attributes that upstream tools do not know."""
    for name in [name for name in attributes if name.startswith(_OWN)]:
        del attributes[name]


def _convert_function(function: FuncOp, constants: Constants) -> None:
    types = function.function_type
    function.function_type = FunctionType.from_lists(
        [_plain(type_) for type_ in types.inputs], [_plain(type_) for type_ in types.outputs]
    )
    _strip(function.attributes)
    for name in ("arg_attrs", "res_attrs"):
        _strip_ports(function, name)
    if function.is_declaration:
        return
    inline_composites(function)
    _inline_intrinsics(function)
    entry = function.body.block
    for arg in entry.args:
        if arg.type != _plain(arg.type):
            Rewriter.replace_value_with_new_type(arg, _plain(arg.type))
    writer = _Writer(entry, constants)
    writer.convert(entry)
    writer.numbers.insert()


def _inline_intrinsics(function: FuncOp) -> None:
    for op in [op for op in function.walk() if isinstance(op, tir.IntrinsicOp)]:
        for inner in list(op.body.block.ops):
            inner.detach()
            Rewriter.insert_op(inner, InsertPoint.before(op))
        erase(op)


def _strip_ports(function: FuncOp, name: str) -> None:
    ports = function.properties.pop(name, None)
    if ports is None:
        return
    kept: list[DictionaryAttr] = []
    for port in cast("ArrayAttr[DictionaryAttr]", ports):
        kept.append(DictionaryAttr({k: v for k, v in port.data.items() if k[:5] != _OWN}))
    if any(port.data for port in kept):
        function.properties[name] = ArrayAttr(kept)


def _plain(type_: Attribute) -> Attribute:
    """Gives a buffer's type in main memory; other types stay."""
    return buffer(element_type_of(type_), shape_of(type_)) if is_memref(type_) else type_


class _Writer:
    """Converts the ops of one function in place."""

    def __init__(self, entry: Block, constants: Constants) -> None:
        self.constants = constants
        self.numbers = Numbers(entry)

    def convert(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, tir.ForOp):
                self.convert(op.body.block)
            if isinstance(op, tir.ForOp) and _is_written_out(op):
                self._write_out(op)
            elif op.name.startswith("tir."):
                self._convert(op, block)

    def _write_out(self, op: tir.ForOp) -> None:
        """Copies the converted body of a loop in front of the loop, once for each iteration, and
        erases the loop.
        """
        numbers = [self.numbers.index(i) for i in range(op.extent.value.data)]
        for number in numbers:
            values: dict[SSAValue, SSAValue] = {op.index: number}
            for inner in op.body.block.ops:
                made = inner.clone(values)
                for old, new in zip(inner.walk(), made.walk(), strict=True):
                    new.location = old.location
                Rewriter.insert_op(made, InsertPoint.before(op))
        erase(op)

    def _convert(self, op: Operation, block: Block) -> None:
        made = Block()
        with emitting_to(made):
            results = self._written(op)
        if results is None:
            return
        for inner in made.walk():
            if not names(inner.location):
                inner.location = op.location
        _replace(op, made, results)
        for value in results:
            if isinstance(value.owner, memref.AllocOp):
                _free_at_end(value, block)

    def _written(self, op: Operation) -> Sequence[SSAValue] | None:
        """Emits what an op becomes, and gives the values of its results; None for an op that
        stays.
        """
        if isinstance(op, tir.AllocOp):
            return [_alloc(op)]
        if isinstance(op, tir.ConstantOp):
            return [self.constants.read(op, self.numbers)]
        if isinstance(op, tir.ForOp) and not op.initial:
            self._for(op)
        elif isinstance(op, tir.BlockOp) and not op.in_value_form:
            write_block(op, self.numbers)
        elif isinstance(op, tir.FillOp) and op.destination is not None:
            write_fill(op, op.destination, self.numbers)
        elif isinstance(op, tir.CopyOp):
            write_copy(op, self.numbers)
        else:
            return None
        return []

    def _for(self, op: tir.ForOp) -> None:
        inner = op.body.block
        body = Block(arg_types=[IndexType()])
        replace_uses(op.index, body.args[0])
        body.args[0].name_hint = op.index.name_hint
        for moved in list(inner.ops):
            moved.detach()
            body.add_op(moved)
        zero, one = self.numbers.index(0), self.numbers.index(1)
        end = self.numbers.index(op.extent.value.data)
        if op.kind.data is tir.LoopKind.PARALLEL:
            with emitting_to(body):
                emit(scf.ReduceOp())
            emit(scf.ParallelOp([zero], [end], [one], [body]))
            return
        with emitting_to(body):
            emit(scf.YieldOp())
        made = emit(scf.ForOp(zero, end, one, [], body))
        if op.kind.data is tir.LoopKind.VECTORIZE:
            made.attributes["vectorise"] = UnitAttr()


def _is_written_out(op: tir.ForOp) -> bool:
    count = op.extent.value.data * sum(1 for _ in op.body.walk())
    return op.kind.data is tir.LoopKind.UNROLL and not op.initial and count <= MOST_OPS


def _alloc(op: tir.AllocOp) -> SSAValue:
    type_ = op.result.type
    made = emit(memref.AllocOp.get(element_type_of(type_), shape=shape_of(type_))).memref
    made.name_hint = op.result.name_hint
    return made


def _free_at_end(value: SSAValue, block: Block) -> None:
    free = memref.DeallocOp.get(value)
    assert isinstance(value.owner, Operation)
    free.location = value.owner.location
    last = block.last_op
    at_end = last is None or not is_terminator(last)
    point = InsertPoint.at_end(block) if at_end or last is None else InsertPoint.before(last)
    Rewriter.insert_op(free, point)


def _replace(op: Operation, made: Block, results: Iterable[SSAValue]) -> None:
    """Replaces one op by the ops of a block."""
    ops = list(made.ops)
    for inner in ops:
        inner.detach()
    Rewriter.insert_op(ops, InsertPoint.before(op))
    for old, new in zip(op.results, results, strict=True):
        replace_uses(old, new)
    erase(op)


class Constants:
    """Holds the globals of a module, one for each content."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._made: dict[str, memref.GlobalOp] = {}

    def insert(self) -> None:
        """Puts the globals before the functions."""
        if self._made:
            Rewriter.insert_op(
                list(self._made.values()), InsertPoint.at_start(self._module.body.block)
            )

    def read(self, op: tir.ConstantOp, numbers: Numbers) -> SSAValue:
        """Emits the memref of a constant."""
        array = op.value.data
        element = element_of(array.dtype)
        stored = _stored_type(array, element)
        held = self._global(array, stored)
        if stored == element:
            return held
        made = emit(memref.AllocOp.get(element, shape=array.shape)).memref

        def convert(indices: list[SSAValue]) -> None:
            bits = emit(memref.LoadOp.get(held, indices)).res
            value = arith.TruncIOp(bits, i1) if element == i1 else arith.BitcastOp(bits, element)
            emit(value)
            emit(memref.StoreOp.get(value.results[0], made, indices))

        write_nest(numbers, array.shape, [f"i{i}" for i in range(len(array.shape))], convert)
        return made

    def _global(self, array: Array, stored: IntegerType | AnyFloat) -> SSAValue:
        if array.digest not in self._made:
            shape = TensorType(stored, array.shape)
            dense = DenseIntOrFPElementsAttr(shape, BytesAttr(array.values().tobytes()))
            held = memref.GlobalOp.get(
                StringAttr(f"constant_{len(self._made)}"),
                buffer(stored, array.shape),
                dense,
                constant=UnitAttr(),
            )
            self._made[array.digest] = held
        made = self._made[array.digest]
        return emit(memref.GetGlobalOp(made.sym_name.data, made.type)).memref


def _stored_type(array: Array, element: IntegerType | AnyFloat) -> IntegerType | AnyFloat:
    """Gives the type of the global that holds an array."""
    if element == i1:
        return IntegerType(8)
    plain = not is_float(element) or (
        element not in (f16, bf16) and bool(np.isfinite(array.values()).all())
    )
    return element if plain else IntegerType(8 * array.dtype.itemsize)
