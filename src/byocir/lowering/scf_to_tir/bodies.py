"""Collects the bodies of statements: the elements that are read, and the scalar ops from them to
the value that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, arith, memref, scf
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    MemRefType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import tir
from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.tir.affine import canonical
from byocir.dialects.tir.scalar import Emitted, number_attr
from byocir.dialects.types import element_type_of, has_element, is_integer, shape_of, width_of
from byocir.dialects.uses import replace_uses
from byocir.evaluate.scalar import number
from byocir.lowering.scf_to_tir.indices import IndexExprs, conditions
from byocir.lowering.scf_to_tir.statements import (
    ElementAccess,
    Nesting,
    NotRaised,
    SourceLoop,
    Statement,
)
from byocir.lowering.tir_to_scf.nests import number_of

_SCALARS = ("arith", "math")


@dataclass(frozen=True)
class Load:
    """Describes an element that was read, at which time, and in which loops."""

    access: ElementAccess
    time: int
    loops: tuple[SourceLoop, ...]


@dataclass(frozen=True)
class Store:
    """Describes a buffer that was written, at which time and in which loops, and the loads whose
    values were needed for that.
    """

    buffers: tuple[SSAValue, ...]
    time: int
    loops: tuple[SourceLoop, ...]
    needed: tuple[Load, ...] = ()


class Bodies:
    """Holds values and buffers as far as they are known, and makes statements of them."""

    def __init__(self, indices: IndexExprs) -> None:
        self._indices = indices
        self._loads: dict[SSAValue, Load] = {}
        self._kept: dict[SSAValue, ElementAccess] = {}
        self._expanded: dict[SSAValue, tuple[SSAValue, list[AffineExpr]]] = {}
        self._stores: list[Store] = []
        self._time = 0

    # What is known.

    def buffer(self, value: SSAValue) -> SSAValue:
        """Gives the buffer behind a memref."""
        return self._expanded[value][0] if value in self._expanded else value

    def expand(self, value: SSAValue, buffer: SSAValue, prefix: list[AffineExpr]) -> None:
        """Notes that a memref stands for the part of a buffer with these first indices."""
        self._expanded[value] = (buffer, prefix)

    def keep(self, value: SSAValue, access: ElementAccess) -> None:
        """Notes where in memory a value is."""
        self._kept[value] = access

    def kept(self, value: SSAValue) -> ElementAccess | None:
        """Finds the memory that holds a value which a loop carries; None for other values."""
        return self._kept.get(value)

    def index(
        self, op: memref.LoadOp | memref.StoreOp | affine.LoadOp | affine.StoreOp
    ) -> list[AffineExpr]:
        """Gives the index of an access in its buffer; raises NotRaised."""
        prefix = self._expanded[op.memref][1] if op.memref in self._expanded else []
        if isinstance(op, affine.LoadOp | affine.StoreOp):
            return [*prefix, *self._indices.mapped(op.map, list(op.indices))]
        return [*prefix, *(self._indices.expr(index) for index in op.indices)]

    def load(self, op: memref.LoadOp | affine.LoadOp, loops: Sequence[SourceLoop]) -> None:
        """Notes a load."""
        self._note(op.result if isinstance(op, affine.LoadOp) else op.res, self._read(op), loops)

    def _read(
        self, op: memref.LoadOp | affine.LoadOp, pad: Attribute | None = None
    ) -> ElementAccess:
        return ElementAccess.of(self.buffer(op.memref), self.index(op), pad)

    def _note(self, value: SSAValue, access: ElementAccess, loops: Sequence[SourceLoop]) -> None:
        self._time += 1
        self._loads[value] = Load(access, self._time, tuple(loops))

    def padded(self, op: scf.IfOp, loops: Sequence[SourceLoop]) -> None:
        """Notes a load of an element where all that keeps it inside holds, and of a number
        elsewhere.
        """
        inside = [
            o for o in op.true_region.block.ops if isinstance(o, memref.LoadOp | affine.LoadOp)
        ]
        outside = op.false_region.block.last_op
        assert outside is not None
        pad = number_behind(outside.operands[0])
        last = op.true_region.block.last_op
        alone = len(op.results) == len(inside) == 1
        if pad is None or not alone or last is None or last.operands[0].owner is not inside[0]:
            raise NotRaised("expected a choice between an element and a number, found another")
        access = self._read(inside[0], pad)
        self._check_guards(access, conditions(self._indices, op.cond))
        self._note(op.results[0], access, loops)

    def _check_guards(self, access: ElementAccess, guards: Sequence[AffineExpr]) -> None:
        """Raises NotRaised unless guards hold exactly where an access is inside its buffer."""
        needed: list[AffineExpr] = []
        for expr, size in zip(access.index, shape_of(access.buffer.type), strict=True):
            needed += [expr, canonical(expr * -1 + (size - 1))]
        open_ = [expr for expr in needed if self._indices.bounds(expr)[0] < 0]
        given = [expr for expr in guards if self._indices.bounds(expr)[0] < 0]
        if set(open_) != set(given):
            raise NotRaised("expected a condition that says when an index is inside its buffer")

    def reads(self, value: SSAValue) -> set[SSAValue]:
        """Lists the carried values of loops from which a value is computed."""
        if value in self._kept:
            return {value}
        if value in self._loads or not isinstance(value.owner, Operation):
            return set()
        return {found for operand in value.owner.operands for found in self.reads(operand)}

    # Statements.

    def statement(
        self,
        values: Sequence[SSAValue],
        targets: Sequence[ElementAccess],
        place: Nesting,
        op: Operation,
    ) -> list[Statement]:
        """Makes the statement that stores values in places; none where they are there already."""
        order = self._ordered(values)
        sources = {value: found for value in order if (found := self._source(value)) is not None}
        ins = [a for a in dict.fromkeys(sources.values()) if a not in targets]
        accesses = [*ins, *targets]
        block = Block(arg_types=[_element(access, op) for access in accesses])
        mapped: dict[SSAValue, SSAValue] = {
            value: block.args[accesses.index(access)] for value, access in sources.items()
        }
        for value in order:
            if value not in mapped:
                self._clone(value, mapped, block)
        found = [mapped[value] for value in values]
        if found == list(block.args[len(ins) :]):
            return []
        block.add_op(tir.YieldOp.create(operands=found))
        needed = [self._loads[value] for value in sources if value in self._loads]
        self._wrote([target.buffer for target in targets], place.loops, needed)
        made = Statement(
            list(place.loops), list(place.guards), ins, list(targets), Region(block), op.location
        )
        return [made]

    def _ordered(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Lists these values and all from which they are computed, operands first."""
        found: dict[SSAValue, None] = {}

        def visit(value: SSAValue) -> None:
            if value not in found and self._source(value) is None:
                owner = value.owner
                for operand in owner.operands if isinstance(owner, Operation) else ():
                    visit(operand)
            found.setdefault(value)

        for value in values:
            visit(value)
        return list(found)

    def _source(self, value: SSAValue) -> ElementAccess | None:
        load = self._loads.get(value)
        return load.access if load is not None else self._kept.get(value)

    def _clone(self, value: SSAValue, mapped: dict[SSAValue, SSAValue], block: Block) -> None:
        op = value.owner
        if not has_element(value.type):
            raise NotRaised("expected values of numbers, found one of an index")
        if not isinstance(op, Operation):
            raise NotRaised("expected values of memory, found an argument")
        is_cast = op.name == "builtin.unrealized_conversion_cast"
        if not (op.name.partition(".")[0] in _SCALARS or is_cast):
            raise NotRaised(f"expected values that arithmetic computes, found {op.name}")
        block.add_op(op.clone(mapped))

    def of_op(
        self,
        op: tir.BlockOp | tir.FillOp | tir.CopyOp,
        loops: Sequence[SourceLoop],
        guards: Sequence[AffineExpr],
    ) -> list[Statement]:
        """Makes the statement of an op on memory that stands in loops."""
        if isinstance(op, tir.BlockOp):
            made = self._of_block(op)
        elif isinstance(op, tir.FillOp):
            made = self._of_fill(op)
        else:
            made = self._of_copy(op)
        made.loops, made.guards = [*loops, *made.loops], [*guards, *made.guards]
        self._wrote([target.buffer for target in made.outs], made.loops, [])
        return [made]

    def _access(
        self, value: SSAValue, index: Sequence[AffineExpr], pad: Attribute | None = None
    ) -> ElementAccess:
        prefix = self._expanded[value][1] if value in self._expanded else []
        if pad is not None and prefix:
            raise NotRaised("expected a pad around a buffer of all iterations, found one's own")
        return ElementAccess.of(self.buffer(value), [*prefix, *index], pad)

    def _of_block(self, op: tir.BlockOp) -> Statement:
        if op.in_value_form or any(_on_memory(inner) for inner in op.body.block.ops):
            raise NotRaised("expected blocks on memory without computed indices")
        loops, at = self._own_loops(op.extents, op.names, op.bases)
        maps = [tuple(e.replace_dims_and_symbols(at, []) for e in m.data.results) for m in op.maps]
        accesses = [
            self._access(value, index, pad)
            for value, index, pad in zip(
                [*op.ins, *op.outs], maps, [*op.pad_values, *[None] * len(op.outs)], strict=True
            )
        ]
        where = op.where.data.results if op.where is not None else ()
        guards = [canonical(expr.replace_dims_and_symbols(at, [])) for expr in where]
        count, body = len(op.ins), op.body.clone()
        for access, arg in zip(accesses[:count], body.block.args[:count], strict=True):
            if access in accesses[count:]:
                same = body.block.args[accesses.index(access, count)]
                replace_uses(arg, same)
        return Statement(loops, guards, accesses[:count], accesses[count:], body, op.location)

    def _own_loops(
        self, extents: Sequence[int], names: Sequence[str], bases: Sequence[SSAValue]
    ) -> tuple[list[SourceLoop], list[AffineExpr]]:
        loops = [self._indices.new_loop(n, name) for n, name in zip(extents, names, strict=True)]
        dims = [AffineExpr.dimension(loop.number) for loop in loops]
        starts = [self._indices.expr(base) for base in bases] or [AffineExpr.constant(0)] * len(
            dims
        )
        return loops, [start + dim for start, dim in zip(starts, dims, strict=True)]

    def _of_fill(self, op: tir.FillOp) -> Statement:
        target = op.destination
        if target is None:
            raise NotRaised("expected a fill of memory, found one of a tensor")
        shape, element = shape_of(target.type), element_type_of(target.type)
        loops, at = self._own_loops(shape, [f"i{i}" for i in range(len(shape))], [])
        block = Block(arg_types=[element])
        with emitting_to(block):
            emit(tir.YieldOp.create(operands=[number_of(op.value, element)]))
        return Statement(loops, [], [], [self._access(target, at)], Region(block), op.location)

    def _of_copy(self, op: tir.CopyOp) -> Statement:
        loops, zero = self._own_loops(op.box, [f"i{i}" for i in range(len(op.box))], [])
        sides: list[list[AffineExpr]] = []
        for bases in (op.source_bases, op.destination_bases):
            starts = [self._indices.expr(base) for base in bases] or [AffineExpr.constant(0)]
            starts = starts if len(starts) == len(zero) else [AffineExpr.constant(0)] * len(zero)
            sides.append([start + dim for start, dim in zip(starts, zero, strict=True)])
        source = self._access(op.source, sides[0], op.pad)
        target = self._access(op.destination, sides[1])
        element = element_type_of(op.destination.type)
        block = Block(arg_types=[element_type_of(op.source.type), element])
        with emitting_to(block):
            moved = Emitted(block.args[0]).to(element)
            emit(tir.YieldOp.create(operands=[moved.value]))
        return Statement(loops, [], [source], [target], Region(block), op.location)

    # Order.

    def touch(self, op: Operation) -> None:
        """Notes an op that stays as it is: it may write all memory that it names."""
        buffers = [
            self.buffer(value)
            for inner in op.walk()
            for value in inner.operands
            if isinstance(value.type, MemRefType)
        ]
        self._wrote(buffers, [], [])

    def _wrote(
        self, buffers: Sequence[SSAValue], loops: Sequence[SourceLoop], needed: Sequence[Load]
    ) -> None:
        self._time += 1
        self._stores.append(Store(tuple(buffers), self._time, tuple(loops), tuple(needed)))

    def check_loads(self, since: int) -> None:
        """Raises NotRaised unless loaded elements are unchanged where later stores need them."""
        for store in self._stores:
            for load in store.needed if store.time > since else ():
                for other in self._stores:
                    if _comes_between(other, load, store):
                        name = load.access.buffer.name_hint or "a buffer"
                        raise NotRaised(
                            f"expected elements of {name} that stay until they are used, found "
                            "a store before"
                        )

    def time(self) -> int:
        """Gives the present time: the number of what was noted so far."""
        return self._time

    def forget(self, since: int) -> None:
        """Drops the stores of ops that stay as they are."""
        self._stores = [store for store in self._stores if store.time <= since]


def number_behind(value: SSAValue) -> Attribute | None:
    """Gives the number of a value that is a constant, in its type; None for one that is
    computed.
    """
    op = value.owner
    if isinstance(op, UnrealizedConversionCastOp) and len(op.inputs) == 1:
        behind = number_behind(op.inputs[0])
        if behind is None or not is_integer(value.type):
            return None
        return number_attr(number(behind).item() % 2 ** width_of(value.type), value.type)
    if not isinstance(op, arith.ConstantOp):
        return None
    return op.value if isinstance(op.value, IntegerAttr | FloatAttr) else None


def _comes_between(other: Store, load: Load, store: Store) -> bool:
    """Tells if a store may overwrite a loaded element before another uses the loaded value."""
    if load.access.buffer not in other.buffers or other.time < load.time:
        return False
    inner = set(store.loops) - set(load.loops)
    return other.time < store.time or any(loop in inner for loop in other.loops)


def _on_memory(op: Operation) -> bool:
    return any(isinstance(value.type, MemRefType) for value in op.operands)


def _element(access: ElementAccess, op: Operation) -> Attribute:
    element = element_type_of(access.buffer.type)
    if not has_element(element):
        raise NotRaised(f"expected numbers in memory, found {element}")
    return element
