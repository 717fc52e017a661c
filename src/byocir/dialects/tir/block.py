"""`tir.block`, the central op of the tensor level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    LocationAttr,
    MemRefType,
    UnitAttr,
)
from xdsl.ir import (
    Attribute,
    Operation,
    Region,
    SSAValue,
)
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
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

from byocir.dialects.segments import with_quick_operands
from byocir.dialects.tir.affine import canonical_map, format_expr
from byocir.dialects.tir.block_rules import verify_block
from byocir.dialects.tir.block_text import (
    Access,
    format_iterators,
    parse_accesses,
    parse_guard,
    parse_iterators,
    print_access,
)
from byocir.dialects.tir.iterators import IteratorAttr
from byocir.dialects.types import Shape, shape_of


class AccessEffects(MemoryEffect):
    """A tensor-level op reads its memref operands and writes its memref destinations; on tensors
    it has no effect."""

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
    """A computation at every point of an iteration space.

    For each point, in row-major order of the iterators (any order where the body allows it), the
    body maps the elements that the index maps select from `ins`, and the current elements of
    `outs`, to the new elements of `outs`. A matmul in value form:

    ```mlir
    %y = tir.block [m: 4, n: 8 | k: 16]
        ins(%a[m, k] : tensor<4x16xi8>, %b[k, n] : tensor<16x8xi8>)
        outs(%zero[m, n] : tensor<4x8xi32>) {
    ^bb0(%x: i8, %w: i8, %acc: i32):
      …
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
        iterators: Sequence[IteratorAttr],
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        body: Region,
        *,
        pads: Sequence[Attribute | None] | None = None,
        bases: Sequence[SSAValue] = (),
        where: AffineMap | None = None,
        location: LocationAttr | None = None,
    ) -> None:
        """Results follow from `outs`: tensors give results, memrefs none. `pads` has one entry per
        input, None where reads are inside."""
        pads = [None] * len(ins) if pads is None else pads
        super().__init__(
            operands=[ins, outs, bases],
            properties={
                "iterators": ArrayAttr(iterators),
                "maps": ArrayAttr([AffineMapAttr(canonical_map(m)) for m in maps]),
                "pads": ArrayAttr([UnitAttr() if pad is None else pad for pad in pads]),
                "where": AffineMapAttr(canonical_map(where)) if where is not None else None,
            },
            result_types=[[v.type for v in outs if not isinstance(v.type, MemRefType)]],
            regions=[body],
        )
        self.location = location or UNKNOWN_LOC

    # Derived facts.

    @property
    def names(self) -> list[str]:
        return [iterator.iterator_name.data for iterator in self.iterators]

    @property
    def extents(self) -> Shape:
        return tuple(iterator.extent.data for iterator in self.iterators)

    @property
    def reductions(self) -> list[int]:
        """Positions of the reduction iterators."""
        return [i for i, iterator in enumerate(self.iterators) if iterator.is_reduction]

    @property
    def parallels(self) -> list[int]:
        """Positions of the parallel iterators."""
        return [i for i, iterator in enumerate(self.iterators) if not iterator.is_reduction]

    @property
    def in_maps(self) -> list[AffineMap]:
        return [attr.data for attr in self.maps.data[: len(self.ins)]]

    @property
    def out_maps(self) -> list[AffineMap]:
        return [attr.data for attr in self.maps.data[len(self.ins) :]]

    @property
    def pad_values(self) -> list[Attribute | None]:
        """The pad of each input, or None."""
        return [None if isinstance(pad, UnitAttr) else pad for pad in self.pads]

    @property
    def whole(self) -> set[int]:
        """The positions of the inputs that the body looks elements up in: their maps give no
        index."""
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
        """The values that the body yields, one per operand of `outs`."""
        last = self.body.block.last_op
        assert last is not None
        return last.operands

    # Verification.

    def verify_(self) -> None:
        verify_block(self)

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


def ops_around(op: Operation) -> Iterator[Operation]:
    """An op and all ops inside it, in order, but for those in the bodies of blocks: most ops of a
    module are there."""
    yield op
    if not isinstance(op, BlockOp):
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    yield from ops_around(inner) if inner.regions else (inner,)


def blocks_in(op: Operation) -> list[BlockOp]:
    """The blocks inside an op, in order."""
    return [inner for inner in ops_around(op) if isinstance(inner, BlockOp)]
