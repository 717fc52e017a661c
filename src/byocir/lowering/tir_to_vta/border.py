"""vta-border: stores around arrays the numbers that are read around them.

Does: VTA's loads put zeros around what they read. Where a block reads another number outside an
array, such as the zero point of its grid, the array gets a border of it in main memory, as wide as
its readers reach, and is read there. What VTA computes goes inside the border, which is filled
before the first instruction and never written again; around a call the host packs arrays with
their borders and unpacks what is inside.

A maximum over windows leaves out what is outside with a guard. Where a border of the least number
does the same and costs no reader anything, it takes the guard's place.

Requires: `vta-bufferize`. Error B339 where an array would need two borders, which `vta-separate`
sees to.

Guarantees: the same results; no block reads another number than 0 outside of an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import CallOp, CompositeOp, composites_in
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    EmptyOp,
    FillOp,
    buffer,
)
from byocir.dialects.tir.affine import beyond
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.moves import moved
from byocir.dialects.types import Shape, element_type_of, i8, shape_of, tensor
from byocir.dialects.uses import set_operand
from byocir.lowering.tir_to_vta.composites import (
    number_around,
    outside_of,
    pass_in,
    unsupported,
    vta_functions,
)
from byocir.rewrites.schedule.blocks import Parts


@dataclass(frozen=True)
class VtaBorderPass(ModulePass):
    """Puts borders around VTA's arrays that are read with a number other than 0 around them."""

    name = "vta-border"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made: dict[str, list[_Border | None]] = {}
        for function in vta_functions(op):
            found = _Borders(function).put()
            if any(found):
                made[function.sym_name.data] = found
        if made:
            for call in [inner for inner in op.walk() if isinstance(inner, CallOp)]:
                borders = made.get(call.callee.root_reference.data)
                if borders is not None:
                    _restate_call(call, borders)


@dataclass(frozen=True)
class _Border:
    """Describes a number around an array, with its width before and behind each dimension."""

    number: IntegerAttr
    before: tuple[int, ...]
    behind: tuple[int, ...]

    def joined(self, other: _Border | None) -> _Border:
        """Gives the border that is as wide as the wider of two, which have the same number, on each
        side.
        """
        if other is None:
            return self
        pairs = (
            zip(self.before, other.before, strict=True),
            zip(self.behind, other.behind, strict=True),
        )
        before, behind = (tuple(map(max, pair)) for pair in pairs)
        return _Border(self.number, before, behind)

    def around(self, shape: Shape) -> Shape:
        """Gives the shape with the border added."""
        sides = zip(shape, self.before, self.behind, strict=True)
        return tuple(size + before + behind for size, before, behind in sides)

    def inside(self, map_: AffineMap) -> list[AffineExpr]:
        """Gives the index, in the array with the border, of the same element: [h] → [h +
        before].
        """
        return [expr + n for expr, n in zip(map_.results, self.before, strict=True)]


@dataclass(frozen=True)
class _Read:
    """Describes a read by a block of a composite: the block, its operand number, and the array
    outside of the composite.
    """

    block: BlockOp
    operand: int
    array: SSAValue

    @property
    def pad(self) -> IntegerAttr | None:
        return number_around(self.block, self.operand)

    def border(self, number: IntegerAttr) -> _Border:
        """Gives the border that has room for all that is read outside."""
        op = self.block
        exprs = op.in_maps[self.operand].results
        reach = beyond(exprs, shape_of(self.array.type), spans(op.extents))
        return _Border(number, tuple(n for n, _ in reach), tuple(n for _, n in reach))


class _Borders:
    """Holds the borders of one function's arrays."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.reads = list(_reads(function))
        self.borders: dict[SSAValue, _Border] = {}
        for read in self.reads:
            if read.pad is not None and read.block.where is None:
                self._need(read, read.pad)
        for read in self.reads:
            if read.pad is not None and read.block.where is not None:
                self._offer(read, read.pad)

    def _need(self, read: _Read, number: IntegerAttr) -> None:
        border = read.border(number)
        if not any((*border.before, *border.behind)):
            return
        known = self.borders.get(read.array)
        if known is not None and known.number != number:
            raise unsupported(
                "B339",
                f"expected one number around an array, found {known.number.value.data} and "
                f"{number.value.data}",
                read.block,
                help="let the target's patterns decline one of the readers",
            )
        self.borders[read.array] = border.joined(known)

    def _offer(self, read: _Read, number: IntegerAttr) -> None:
        """Gives an array that a guarded block reads a border, if it has none or one of the same
        number, so that the block needs no guard.
        """
        known = self.borders.get(read.array)
        parts = Parts.of(read.block)
        if known is None or known.number == number:
            self.borders[read.array] = read.border(number).joined(known)
            replace(parts, guards=()).put(read.block)
        else:
            pads = [None if i == read.operand else pad for i, pad in enumerate(parts.pads)]
            replace(parts, pads=tuple(pads)).put(read.block)

    def put(self) -> list[_Border | None]:
        """Restates the function for arrays with borders; gives the borders of its arguments.
        Borders of zeros are left to VTA's loads.
        """
        kept = {v: border for v, border in self.borders.items() if border.number.value.data}
        body = self.function.body.block
        borders = [kept.get(argument) for argument in body.args]
        for composite in composites_in(self.function):
            self._restate(composite, kept)
        written = _written(self.function)
        for value, border in kept.items():
            made = Rewriter.replace_value_with_new_type(value, _bordered(value, border))
            if value in written:
                self._fill(made, border)
        self.function.update_function_type()
        return borders

    def _fill(self, value: SSAValue, border: _Border) -> None:
        """Fills an array that VTA writes with the border's number, at the begin of the function."""
        body, owner = self.function.body.block, value.owner
        fill = FillOp.of(IntegerAttr(border.number.value.data, i8), value)
        if isinstance(owner, AllocOp):
            fill.location = owner.location
            body.insert_op_after(fill, owner)
            return
        fill.location = self.function.location
        first = body.first_op
        assert first is not None
        body.insert_op_before(fill, first)

    def _restate(self, composite: CompositeOp, kept: Mapping[SSAValue, _Border]) -> None:
        """Restates the blocks of a composite for arrays with borders."""
        inside: dict[SSAValue, _Border] = {}
        pairs = zip(list(composite.body.block.args), composite.inputs, strict=True)
        for argument, value in pairs:
            if value in kept:
                type_ = _bordered(argument, kept[value])
                inside[Rewriter.replace_value_with_new_type(argument, type_)] = kept[value]
        for op in composite.body.block.ops:
            if isinstance(op, BlockOp):
                _restate_block(op, inside)


def _reads(function: FuncOp) -> Iterator[_Read]:
    """Yields the reads of a function's arrays in its composites."""
    for composite in composites_in(function):
        outside = outside_of(composite)
        for op in composite.body.block.ops:
            for i, value in enumerate(op.ins if isinstance(op, BlockOp) else ()):
                if value in outside and isinstance(op, BlockOp):
                    yield _Read(op, i, outside[value])


def _written(function: FuncOp) -> set[SSAValue]:
    """Lists the arrays that the composites of a function write."""
    written: set[SSAValue] = set()
    for composite in composites_in(function):
        outside = outside_of(composite)
        for op in composite.body.block.ops:
            outs = op.outs if isinstance(op, BlockOp) else ()
            written |= {outside[value] for value in outs if value in outside}
    return written


def _bordered(value: SSAValue, border: _Border) -> MemRefType:
    return buffer(element_type_of(value.type), border.around(shape_of(value.type)))


def _restate_block(op: BlockOp, borders: Mapping[SSAValue, _Border]) -> None:
    """Restates a block for arrays with borders, so that it reads nothing outside of them."""
    parts = Parts.of(op)
    for position, value in enumerate([*op.ins, *op.outs]):
        border = borders.get(value)
        if border is None:
            continue
        parts = parts.with_map(position, border.inside(parts.maps[position]))
        if position < len(op.ins):
            pads = [None if i == position else pad for i, pad in enumerate(parts.pads)]
            parts = replace(parts, pads=tuple(pads))
    parts.put(op)


# Calls.


def _restate_call(call: CallOp, borders: Sequence[_Border | None]) -> None:
    """Packs the inputs of a call with their borders, and unpacks its results from inside theirs."""
    block = call.parent
    assert block is not None
    for i, border in enumerate(borders[: len(call.inputs)]):
        if border is not None:
            pass_in(call, i, _surrounded(call, call.inputs[i], border))
    for result, border in zip(list(call.outputs), borders[len(call.inputs) :], strict=True):
        if border is None:
            continue
        users = [(use.operation, use.index) for use in result.uses]
        shape = border.around(shape_of(result.type))
        plain = result.type
        made = Rewriter.replace_value_with_new_type(result, tensor(element_type_of(plain), shape))
        for user, index in users:
            if isinstance(user, BlockOp) and index < len(user.ins):
                parts = Parts.of(user)
                parts.with_map(index, border.inside(parts.maps[index])).put(user)
            else:
                set_operand(user, index, _cut_out(call, made, plain, border, block))


def _surrounded(call: CallOp, value: SSAValue, border: _Border) -> list[Operation]:
    """Makes a value with its border; the block that packed it puts the border there, too."""
    packing, shape = value.owner, border.around(shape_of(value.type))
    dims = [AffineExpr.dimension(i) - n for i, n in enumerate(border.before)]
    source, index = value, dims
    if isinstance(packing, BlockOp) and _packs(packing):
        source = packing.ins[0]
        index = [e.replace_dims_and_symbols(dims, []) for e in packing.in_maps[0].results]
    return moved(source, shape, index, call.location, pad=border.number)


def _packs(op: BlockOp) -> bool:
    """Tells if a block moves each element of one array to a place of its own, with zeros in the
    rest.
    """
    moves = op.moves and not op.bases
    whole = op.out_maps[0] == AffineMap.identity(len(op.extents)) and op.where is None
    return moves and whole and isinstance(op.outs[0].owner, EmptyOp) and not op.whole


def _cut_out(
    call: CallOp, value: SSAValue, type_: Attribute, border: _Border, block: Block
) -> SSAValue:
    """Emits a copy of the array inside of a border: [n, c, h + 2, w + 2] → [n, c, h, w]."""
    index = [AffineExpr.dimension(i) + n for i, n in enumerate(border.before)]
    ops = moved(value, shape_of(type_), index, call.location)
    block.insert_ops_after(ops, call)
    return ops[-1].results[0]
