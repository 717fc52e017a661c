"""Defines `tir.block`, the central op of the tensor level."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    LocationAttr,
    MemRefType,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import (
    Attribute,
    Block,
    Operation,
    Region,
    SSAValue,
)
from xdsl.ir.affine import AffineMap
from xdsl.ir.core import SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    VarOperandDef,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
)
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.new_ops import begin_op, clone_region
from byocir.dialects.tir.affine import bounds, canonical_map, format_expr
from byocir.dialects.tir.block_text import (
    Access,
    format_iterators,
    parse_accesses,
    parse_guard,
    parse_iterators,
    print_access,
)
from byocir.dialects.tir.iterators import IteratorAttr
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.ops import YieldOp
from byocir.dialects.types import Shape, element_type_of, listed, shape_of

Op = TypeVar("Op", bound=IRDLOperation)


def with_quick_operands(kind: type[Op]) -> type[Op]:
    """Decorates an op class, outside of `irdl_op_definition`, so that accessors of its operands
    give the same more quickly. All operands must be lists, told apart by the property
    `operandSegmentSizes`.
    """
    for index, (name, definition) in enumerate(kind.get_irdl_definition().operands):
        assert type(definition) is VarOperandDef
        setattr(kind, name, _Segment(index))
    return kind


class _Segment:
    """Reads the operands of one list of an op."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, op: Operation, kind: object = None) -> list[SSAValue]:
        sizes: Any = op.properties[AttrSizedOperandSegments.attribute_name]
        part = _slices(sizes.data.data)[self._index]
        # as `op._operands[part]` does, which asks first if that is a number
        found: Any = SSAValues(tuple.__getitem__(op._operands, part))  # pyrefly: ignore[protected-access]
        return found

    def __set__(self, op: Operation, value: object) -> None:
        raise NotImplementedError("cannot write to named operands: make a new op")


@lru_cache(maxsize=1024)
def _slices(packed: bytes) -> list[slice]:
    """Gives the part of each list, from the bytes of an i32 array of lengths: 2, 3 → 0 to 2, 2 to
    5."""
    parts, end = list[slice](), 0
    for (size,) in struct.iter_unpack("<i", packed):
        parts.append(slice(end, end + size))
        end += size
    return parts


_INSIDE = UnitAttr()
"""The pad of an input of which all reads are inside."""


@lru_cache(maxsize=1024)
def _segment_sizes(*sizes: int) -> DenseArrayBase:
    """Gives the lengths of an op's lists of operands as the property that tells them apart."""
    return DenseArrayBase.from_list(i32, sizes)


def _pads(pads: Sequence[Attribute | None]) -> ArrayAttr[Attribute]:
    if all(pad is None for pad in pads):
        return _no_pads(len(pads))
    return ArrayAttr([_INSIDE if pad is None else pad for pad in pads])


@lru_cache(maxsize=64)
def _no_pads(inputs: int) -> ArrayAttr[Attribute]:
    """Gives the pads of a block that has none, which blocks share."""
    return ArrayAttr([_INSIDE] * inputs)


def maps_attribute(maps: Iterable[AffineMap]) -> ArrayAttr[AffineMapAttr]:
    """Gives index maps in canonical form, as the property of a block."""
    return ArrayAttr([AffineMapAttr(canonical_map(each)) for each in maps])


class AccessEffects(MemoryEffect):
    """Tells what a tensor-level op does to memory: it reads its memref operands and writes its
    memref destinations; on tensors it has no effect."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, BlockOp)
        effects: set[EffectInstance] = set()
        for value in [*op.ins, *op.outs]:
            if isinstance(value.type, MemRefType):
                effects.add(EffectInstance(MemoryEffectKind.READ, value))
        for value in op.outs:
            if isinstance(value.type, MemRefType):
                effects.add(EffectInstance(MemoryEffectKind.WRITE, value))
        return effects


@with_quick_operands
@irdl_op_definition
class BlockOp(IRDLOperation):
    """Computes something at every point of an iteration space.

    For each point, in row-major order of the iterators (any order where the body allows it), the
    body maps the elements that the index maps select from `ins`, and the current elements of
    `outs`, to the new elements of `outs`, e.g.

    ```mlir
    %y = tir.block [m: 4, n: 8 | k: 16]
        ins(%a[m, k] : tensor<4x16xi8>, %b[k, n] : tensor<16x8xi8>)
        outs(%zero[m, n] : tensor<4x8xi32>) {
    ^bb0(%x: i8, %w: i8, %acc: i32):
      %wide_x = arith.extsi %x : i8 to i32
      %wide_w = arith.extsi %w : i8 to i32
      %product = arith.muli %wide_x, %wide_w : i32
      %sum = arith.addi %acc, %product : i32
      tir.yield %sum : i32
    }
    ```

    Iterators after `|` are reductions. In value form `outs` are the initial values and the results
    the final ones; in buffer form the operands are memrefs, `outs` are updated in place and there
    are no results. With `at(%i, %j, …)` iterator i runs over [base_i, base_i + extent_i) instead
    of [0, extent_i): tiling changes extents and bases and leaves the maps alone. `pad` is the value
    read outside an input; `where` leaves out the points at which one of its expressions is
    negative. Without them the verifier proves that every access is inside. An input without an
    index is given to the body whole, which looks elements up with `tir.read`.
    """

    name = "tir.block"

    ins = var_operand_def()
    outs = var_operand_def()
    bases = var_operand_def(IndexType)
    iterators = prop_def(ArrayAttr[IteratorAttr])
    maps = prop_def(ArrayAttr[AffineMapAttr])
    """One per operand of `ins`, then of `outs`."""
    pads = prop_def(ArrayAttr)
    """One per operand of `ins`: a number attribute of its element type, or unit for none."""
    where = opt_prop_def(AffineMapAttr)
    body = region_def("single_block")
    results_ = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(AccessEffects())

    def __init__(
        self,
        iterators: Iterable[IteratorAttr],
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap] | ArrayAttr[AffineMapAttr],
        body: Region,
        *,
        pads: Sequence[Attribute | None] | None = None,
        bases: Sequence[SSAValue] = (),
        where: AffineMap | None = None,
        location: LocationAttr | None = None,
    ) -> None:
        """Makes a block. Its results follow from `outs`: tensors give results, memrefs none. `pads`
        has one entry per input, None where all reads are inside. Maps that come as an attribute are
        canonical, as those of another block.
        """
        properties: dict[str, Attribute] = {
            "iterators": iterators if isinstance(iterators, ArrayAttr) else ArrayAttr(iterators),
            "maps": maps if isinstance(maps, ArrayAttr) else maps_attribute(maps),
            "pads": _no_pads(len(ins)) if pads is None else _pads(pads),
        }
        if where is not None:
            properties["where"] = AffineMapAttr(canonical_map(where))
        sizes = _segment_sizes(len(ins), len(outs), len(bases))
        properties[AttrSizedOperandSegments.attribute_name] = sizes
        types = [value.type for value in outs if not isinstance(value.type, MemRefType)]
        begin_op(self, [*ins, *outs, *bases], types, properties, location, [body])

    def like(
        self,
        *,
        iterators: Iterable[IteratorAttr] | None = None,
        ins: Sequence[SSAValue] | None = None,
        outs: Sequence[SSAValue] | None = None,
        maps: Sequence[AffineMap] | None = None,
        body: Region | None = None,
        pads: Sequence[Attribute | None] | None = None,
        bases: Sequence[SSAValue] | None = None,
    ) -> BlockOp:
        """Makes a block that is as this one in all that is not given."""
        return BlockOp(
            self.iterators if iterators is None else iterators,
            self.ins if ins is None else ins,
            self.outs if outs is None else outs,
            self.maps if maps is None else maps,
            clone_region(self.body) if body is None else body,
            pads=self.pad_values if pads is None else pads,
            bases=self.bases if bases is None else bases,
            where=None if self.where is None else self.where.data,
            location=self.location,
        )

    # Derived facts.

    @property
    def names(self) -> list[str]:
        return [iterator.iterator_name.data for iterator in self.iterators]

    @property
    def extents(self) -> Shape:
        return tuple(iterator.extent.data for iterator in self.iterators)

    @property
    def reductions(self) -> list[int]:
        """Lists the positions of the reduction iterators."""
        return [i for i, iterator in enumerate(self.iterators) if iterator.is_reduction]

    @property
    def parallels(self) -> list[int]:
        """Lists the positions of the parallel iterators."""
        return [i for i, iterator in enumerate(self.iterators) if not iterator.is_reduction]

    @property
    def in_maps(self) -> list[AffineMap]:
        return [attr.data for attr in self.maps.data[: len(self.ins)]]

    @property
    def out_maps(self) -> list[AffineMap]:
        return [attr.data for attr in self.maps.data[len(self.ins) :]]

    @property
    def pad_values(self) -> list[Attribute | None]:
        """Gives the number that each input is read as outside of its array, or None."""
        return [None if isinstance(pad, UnitAttr) else pad for pad in self.pads]

    @property
    def is_padded(self) -> bool:
        """Tells whether some input may be read outside of its array. The numbers do not tell:
        attributes of 0 are false.
        """
        return any(pad is not None for pad in self.pad_values)

    @property
    def whole(self) -> set[int]:
        """Lists the positions of the inputs in which the body looks elements up: their maps give no
        index.
        """
        return {
            i
            for i, (value, map_) in enumerate(zip(self.ins, self.in_maps, strict=True))
            if not map_.results and shape_of(value.type)
        }

    @property
    def in_value_form(self) -> bool:
        return bool(self.results)

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """Gives the values that the body yields, one per operand of `outs`."""
        last = self.body.block.last_op
        assert last is not None
        return last.operands

    @property
    def moves(self) -> bool:
        """Tells if the body gives elements of one array as they are. Where they come from and go,
        and what pads and guards do, its maps say.
        """
        return len(self.ins) == 1 and self.yielded[0] is self.body.block.args[0]

    # Verification.

    def verify_(self) -> None:
        _verify_form(self)
        arrays = _arrays(self)
        _verify_maps(self, arrays)
        _verify_pads(arrays)
        _verify_body(self.body.block, arrays)
        _verify_accesses(self, arrays)

    def verify_indices(self) -> None:
        """Raises VerifyException where its index maps are wrong; nothing else is looked at but how
        many maps and indices there are."""
        arrays = _arrays(self)
        _verify_maps(self, arrays)
        _verify_accesses(self, arrays)

    # Text.

    def print(self, printer: Printer) -> None:
        names = self.names
        printer.print_string(" [")
        printer.print_string(format_iterators(list(self.iterators)))
        printer.print_string("]")
        if self.bases:
            printer.print_string(" at(")
            printer.print_list(self.bases, printer.print_ssa_value)
            printer.print_string(")")
        accesses = list(zip([*self.ins, *self.outs], self.maps, strict=True))
        pads = self.pad_values
        if self.ins:
            printer.print_string(" ins(")
            for i, (value, attr) in enumerate(accesses[: len(self.ins)]):
                print_access(printer, value, attr.data, names, pads[i], first=i == 0)
            printer.print_string(")")
        printer.print_string(" outs(")
        for i, (value, attr) in enumerate(accesses[len(self.ins) :]):
            print_access(printer, value, attr.data, names, None, first=i == 0)
        printer.print_string(")")
        if self.where is not None:
            texts = (f"{format_expr(expr, names)} >= 0" for expr in self.where.data.results)
            printer.print_string(f" where({', '.join(texts)})")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> BlockOp:
        iterators = parse_iterators(parser)
        names = [iterator.iterator_name.data for iterator in iterators]
        bases: list[SSAValue] = []
        if parser.parse_optional_keyword("at") is not None:
            unresolved = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_unresolved_operand
            )
            bases = [parser.resolve_operand(value, IndexType()) for value in unresolved]
        ins: list[Access] = []
        if parser.parse_optional_keyword("ins") is not None:
            ins = parse_accesses(parser, names)
        parser.parse_keyword("outs")
        outs = parse_accesses(parser, names)
        where = None
        if parser.parse_optional_keyword("where") is not None:
            guards = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_guard(parser, names)
            )
            where = AffineMap(len(names), 0, tuple(guards))
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        op = BlockOp(
            iterators,
            [value for value, _, _ in ins],
            [value for value, _, _ in outs],
            [map_ for _, map_, _ in [*ins, *outs]],
            body,
            pads=[pad for _, _, pad in ins],
            bases=bases,
            where=where,
        )
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


# Verification.


class _Arrays(NamedTuple):
    """Holds facts about the operands that many rules look at: of `ins`, then of `outs`."""

    inputs: int
    """The number of them that are of `ins`."""
    types: Sequence[Attribute]
    shapes: Sequence[Shape]
    elements: Sequence[Attribute]
    maps: Sequence[AffineMap]
    pads: Sequence[Attribute | None]
    """One per input."""
    whole: set[int]
    """The inputs that the body looks elements up in."""


def _arrays(op: BlockOp) -> _Arrays:
    """Gathers the facts of the arrays of a block that has a map for each."""
    types = [value.type for value in (*op.ins, *op.outs)]
    inputs = len(op.ins)
    maps = [attr.data for attr in op.maps.data]
    shapes = [shape_of(type_) for type_ in types]
    whole = {i for i in range(inputs) if not maps[i].results and shapes[i]}
    elements = [element_type_of(type_) for type_ in types]
    return _Arrays(inputs, types, shapes, elements, maps, op.pad_values, whole)


def _verify_form(op: BlockOp) -> None:
    """Raises VerifyException, one sentence, where parts of a block do not go together."""
    types = [value.type for value in (*op.ins, *op.outs)]
    inputs = len(op.ins)
    kinds = {type(type_) for type_ in types}
    expect(inputs < len(types), "expected at least one operand in outs")
    expect(
        kinds in ({TensorType}, {MemRefType}),
        lambda: (
            "expected operands that are all tensors or all memrefs, found "
            + ", ".join(sorted(kind.__name__ for kind in kinds))
        ),
    )
    expected = list(types[inputs:]) if kinds == {TensorType} else []
    found = [r.type for r in op.results]
    expect(
        found == expected,
        lambda: (
            f"expected results of the types of outs ({listed(expected)}), found ({listed(found)})"
        ),
    )
    bases, iterators = len(op.bases), len(op.iterators)
    expect(
        bases in (0, iterators),
        lambda: f"expected no base or one per iterator ({iterators}), found {bases}",
    )
    names, extents = op.names, op.extents
    expect(
        len(set(names)) == len(names), lambda: f"expected distinct iterator names, found {names}"
    )
    expect(all(e > 0 for e in extents), lambda: f"expected extents > 0, found {extents}")
    arrays, maps, pads = len(types), len(op.maps), len(op.pads)
    expect(maps == arrays, lambda: f"expected one index map per operand ({arrays}), found {maps}")
    expect(pads == inputs, lambda: f"expected one pad entry per input ({inputs}), found {pads}")


def _verify_maps(op: BlockOp, arrays: _Arrays) -> None:
    whole, iterators = arrays.whole, len(op.iterators)
    expect(
        not whole or op.where is None,
        "expected no where in a block that looks elements up, found one",
    )
    for i, (shape, map_) in enumerate(zip(arrays.shapes, arrays.maps, strict=True)):
        rank = len(shape)
        expect(
            map_.num_dims == iterators and (len(map_.results) == rank or i in whole),
            lambda map_=map_, rank=rank: (
                f"expected a map from {iterators} iterators to {rank} indices, found {map_}"
            ),
        )
    reductions = set(op.reductions)
    if not reductions:
        return
    written = [expr for map_ in arrays.maps[arrays.inputs :] for expr in map_.results]
    expect(
        all(reductions.isdisjoint(expr.used_dims()) for expr in written),
        "expected outs to be indexed by parallel iterators only",
    )


def _verify_pads(arrays: _Arrays) -> None:
    for i, pad in enumerate(arrays.pads):
        if pad is None:
            continue
        expect(
            i not in arrays.whole, lambda pad=pad: f"expected no pad of a whole input, found {pad}"
        )
        expected = arrays.elements[i]
        if getattr(pad, "type", None) != expected:
            raise VerifyException(f"expected a pad of type {expected}, found {pad}")


def _verify_body(body: Block, arrays: _Arrays) -> None:
    expected = [
        arrays.types[i] if i in arrays.whole else element
        for i, element in enumerate(arrays.elements)
    ]
    found = [arg.type for arg in body.args]
    expect(
        found == expected,
        lambda: f"expected body arguments ({listed(expected)}), found ({listed(found)})",
    )
    last = body.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("expected the body to end in tir.yield")
    yielded, promised = [v.type for v in last.operands], list(arrays.elements[arrays.inputs :])
    expect(
        yielded == promised,
        lambda: f"expected yielded values ({listed(promised)}), found ({listed(yielded)})",
    )
    if strange := strange_use(body):
        raise VerifyException(
            f"expected a body of its own values, found another used by {strange.name}"
        )


def strange_use(body: Block) -> Operation | None:
    """Finds the first op of a block's body that uses a value from outside of the body."""
    for op in body.ops:
        for value in op.operands:
            if value.owner is not body and value.owner.parent is not body:
                return op
    return None


def _verify_accesses(op: BlockOp, arrays: _Arrays) -> None:
    """Checks of a block without guards and bases that every access is inside its array, unless a
    pad covers it."""
    if op.bases or op.where is not None:
        return
    known = spans(op.extents)
    for i, (map_, shape) in enumerate(zip(arrays.maps, arrays.shapes, strict=True)):
        if i in arrays.whole or (i < arrays.inputs and arrays.pads[i] is not None):
            continue
        for size, expr in zip(shape, map_.results, strict=True):
            low, high = bounds(expr, known)
            if low < 0 or high >= size:
                raise VerifyException(
                    f"expected index {format_expr(expr, op.names)} inside [0, {size}), found "
                    f"[{low}, {high}]; give the input a pad or the block a where"
                )


# Finding blocks.


def ops_around(op: Operation) -> Iterator[Operation]:
    """Lists an op and all ops inside it, in order, without those in the bodies of blocks, which are
    most ops of a module.
    """
    yield op
    if not isinstance(op, BlockOp):
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    yield from ops_around(inner) if inner.regions else (inner,)


def blocks_in(op: Operation) -> list[BlockOp]:
    """Lists the blocks inside an op, in order."""
    return [inner for inner in ops_around(op) if isinstance(inner, BlockOp)]
