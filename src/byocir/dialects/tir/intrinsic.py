"""Defines `tir.intrinsic`: an instruction of a target, and what it computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.tir.block import BlockOp
from byocir.dialects.types import Shape


@irdl_op_definition
class IntrinsicOp(IRDLOperation):
    """Runs an instruction of a target, by name, and holds its meaning, a body of blocks in buffer
    form, e.g.

    ```mlir
    tir.intrinsic "npu.add" (stride = 2) {
      tir.block [i: 16] ins(%x[i * 2] : memref<32xi32, "npu.in">)
          outs(%acc[i] : memref<16xi32, "npu.acc">) {
      ^bb0(%a: i32, %old: i32):
        %sum = arith.addi %old, %a : i32
        tir.yield %sum : i32
      }
    }
    ```

    Running it is running its body. The numbers are what the pattern that found it left open: the
    fields that its target encodes. Where units of a machine run at once, an instruction says how it
    is kept in order, in words for each kind of order: `waits(dma = 1)` until at most one
    instruction of unit dma is outstanding, `pops(load)` a token that unit load pushed to its own,
    `pushes(store)` one to unit store.

    One op may stand for several calls in a row: `cut [16, 16, 8]` says how many points of each
    iterator of its last block one call does at most. They come in the order of the iterators, the
    last one fastest, or in another, `order [1, 2, 0]`; sums begin in the calls that have their
    first points. Calls of an op that is `beside` are issued by turns with those of the next op that
    is not: neither needs the other.
    """

    name = "tir.intrinsic"

    callee = prop_def(StringAttr)
    numbers = prop_def(DictionaryAttr)
    cut = opt_prop_def(DenseArrayBase.constr(i64))
    order = opt_prop_def(DenseArrayBase.constr(i64))
    beside = opt_prop_def(UnitAttr)
    waits = opt_prop_def(DictionaryAttr)
    pops = opt_prop_def(ArrayAttr[StringAttr])
    pushes = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        callee: str,
        body: Sequence[Operation] = (),
        numbers: Mapping[str, int] | None = None,
        location: LocationAttr | None = None,
        cut: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
    ) -> IntrinsicOp:
        """Makes the instruction `callee`, which does what these ops do."""
        given = [None if each is None else tuple(each) for each in (cut, order)]
        properties = _properties(callee, tuple((numbers or {}).items()), *given)
        regions = [Region(Block(body))]
        return IntrinsicOp.create(properties=properties, regions=regions, location=location)

    @property
    def fields(self) -> dict[str, int]:
        """Gives the instruction's numbers by name."""
        return _numbers(self.numbers)

    @property
    def counts(self) -> dict[str, int]:
        """Gives the most instructions of each unit that may be outstanding when this one begins."""
        return _numbers(self.waits)

    def cut_of(self, block: BlockOp) -> Shape:
        """Gives, for each iterator of its block, how many points one call does at most."""
        return block.extents if self.cut is None else tuple(self.cut.get_values())

    def boxes_of(self, block: BlockOp) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the box of points that each call does, one call after the other: for each iterator
        of the block from where to where.
        """
        pairs = zip(block.extents, self.cut_of(block), strict=True)
        sides = [[(at, min(at + n, end)) for at in range(0, end, n)] for end, n in pairs]
        if self.order is None:
            yield from product(*sides)
            return
        order = self.order.get_values()
        back = [order.index(i) for i in range(len(sides))]
        for box in product(*(sides[i] for i in order)):
            yield tuple([box[i] for i in back])

    def set_order(
        self, waits: Mapping[str, int], pops: Sequence[str] = (), pushes: Sequence[str] = ()
    ) -> None:
        """Sets what keeps the instruction in order with those of other units: the instructions that
        it waits for, and the tokens that it pops and pushes.
        """
        self.waits = _dictionary(tuple(waits.items())) if waits else None
        self.pops = _names(tuple(pops)) if pops else None
        self.pushes = _names(tuple(pushes)) if pushes else None

    def verify_(self) -> None:
        expect(self.callee.data != "", "expected the name of an instruction, found none")
        expect(not self.body.block.is_empty, "expected a body of blocks, found none")
        if self.cut is not None:
            _verify_cut(tuple(self.cut.get_values()), self.body.block.last_op)
        if self.order is not None:
            count = len(self.cut.get_values()) if self.cut is not None else 0
            told = f"expected an order of the {count} iterators that are cut, found "
            order = list(self.order.get_values())
            expect(sorted(order) == [*range(count)], f"{told}{', '.join(map(str, order))}")
        for name, number in self.numbers.data.items():
            expect(isinstance(number, IntegerAttr), f"expected a number for {name}, found {number}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.callee.data)
        if self.numbers.data:
            printer.print_string(f" {_text(self.fields)}")
        if self.cut is not None:
            printer.print_string(f" cut [{', '.join(map(str, self.cut.get_values()))}]")
        if self.order is not None:
            printer.print_string(f" order [{', '.join(map(str, self.order.get_values()))}]")
        if self.beside is not None:
            printer.print_string(" beside")
        if self.waits is not None:
            printer.print_string(f" waits{_text(self.counts)}")
        for word, units in (("pops", self.pops), ("pushes", self.pushes)):
            if units is not None:
                printer.print_string(f" {word}({', '.join(unit.data for unit in units)})")
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> IntrinsicOp:
        def number() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            return name, parser.parse_integer(allow_boolean=False)

        callee = parser.parse_str_literal()
        numbers = dict(
            parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, number) or ()
        )
        op = IntrinsicOp.of(callee, numbers=numbers)
        for word in ("cut", "order"):
            if parser.parse_optional_keyword(word) is not None:
                counts = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_integer
                )
                op.properties[word] = DenseArrayBase.from_list(i64, counts)
        if parser.parse_optional_keyword("beside") is not None:
            op.beside = UnitAttr()
        if parser.parse_optional_keyword("waits") is not None:
            most = parser.parse_comma_separated_list(parser.Delimiter.PAREN, number)
            op.waits = _dictionary(tuple(most))
        for word in ("pops", "pushes"):
            if parser.parse_optional_keyword(word) is not None:
                units = parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, parser.parse_identifier
                )
                op.properties[word] = ArrayAttr(map(StringAttr, units))
        region = parser.parse_region()
        return IntrinsicOp.create(properties=op.properties, regions=[region])


def _verify_cut(cut: Shape, last: Operation | None) -> None:
    expect(
        isinstance(last, BlockOp),
        f"expected a block to cut last, found {last.name if last else 'nothing'}",
    )
    assert isinstance(last, BlockOp)
    fits = len(cut) == len(last.extents) and all(
        0 < n <= size for n, size in zip(cut, last.extents, strict=True)
    )
    sizes = "x".join(map(str, last.extents))
    expect(fits, f"expected a cut of {sizes}, found {'x'.join(map(str, cut))}")


def _numbers(dictionary: DictionaryAttr | None) -> dict[str, int]:
    if dictionary is None:
        return {}
    found = dictionary.data.items()
    return {name: n.value.data for name, n in found if isinstance(n, IntegerAttr)}


# Programs have thousands of instructions, and few that say different things: they share attributes.


@lru_cache(maxsize=1024)
def _properties(
    callee: str, numbers: tuple[tuple[str, int], ...], cut: Shape | None, order: Shape | None
) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {"callee": StringAttr(callee), "numbers": _dictionary(numbers)}
    if cut is not None:
        found["cut"] = DenseArrayBase.from_list(i64, cut)
    if order is not None:
        found["order"] = DenseArrayBase.from_list(i64, order)
    return found


@lru_cache(maxsize=1024)
def _dictionary(numbers: tuple[tuple[str, int], ...]) -> DictionaryAttr:
    return DictionaryAttr({name: IntegerAttr(n, i64) for name, n in numbers})


@lru_cache(maxsize=1024)
def _names(units: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(map(StringAttr, units))


def _text(numbers: Mapping[str, int]) -> str:
    return f"({', '.join(f'{name} = {number}' for name, number in numbers.items())})"
