"""Builds blocks for the tests of block patterns, with loops, operands and names in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, EmptyOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import bounds
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import emit_body, number_attr
from byocir.dialects.types import i8, i32, tensor
from byocir.patterns import Attempt, Composite, Pattern

Term = tuple[Mapping[str, int], int]
"""One index: coefficients by iterator name, and a constant."""


def at(*names: str) -> list[Term]:
    """An index of plain iterators; `0` is a dimension of size one."""
    return [({} if name == "0" else {name: 1}, 0) for name in names]


@dataclass
class Read:
    """An input: its index and what is read outside it; where windows slide,
    it ends `slack` before the last read."""

    index: list[Term]
    element: Attribute = i8
    pad: int | None = None
    slack: int = 0


@dataclass
class Spec:
    """A block. `parallel` and `reduction` are extents by name; loops run in `order`."""

    parallel: Mapping[str, int]
    reduction: Mapping[str, int]
    reads: Sequence[Read]
    out: list[Term]
    body: object
    element: Attribute = i32
    init: int | None = 0
    order: Sequence[str] = field(default_factory=list)
    swap: Sequence[int] = field(default_factory=list)
    """The order of the operands."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names for the iterators."""

    @property
    def loops(self) -> list[str]:
        return list(self.order) or [*self.parallel, *self.reduction]

    def extent(self, name: str) -> int:
        return {**self.parallel, **self.reduction}[name]

    def expressions(self, index: list[Term]) -> list[AffineExpr]:
        loops = self.loops
        result = []
        for terms, constant in index:
            expr = AffineExpr.constant(constant)
            for name, coefficient in terms.items():
                expr = expr + AffineExpr.dimension(loops.index(name)) * coefficient
            result.append(expr)
        return result

    def type_of(self, read: Read) -> Attribute:
        known = spans([self.extent(name) for name in self.loops])
        exprs = self.expressions(read.index)
        sizes = [bounds(expr, known).high + 1 for expr in exprs]
        alone = [len(terms) == 1 and not constant for terms, constant in read.index]
        slack = [min(read.slack, 0) if plain else read.slack for plain in alone]
        left = (size - less for size, less in zip(sizes, slack, strict=True))
        return tensor(read.element, [max(1, size) for size in left])

    def build(self, values: Sequence[SSAValue]) -> list[BlockOp]:
        """The ops, the block last; `values` are the inputs in the order of `reads`."""
        kinds = {True: IteratorKind.REDUCTION, False: IteratorKind.PARALLEL}
        iterators = [
            IteratorAttr.of(self.names.get(n, n), kinds[n in self.reduction], self.extent(n))
            for n in self.loops
        ]
        type_ = self.type_of(Read(self.out, self.element))
        start = EmptyOp.of(type_)
        if self.init is not None:
            start = FillOp.of(number_attr(self.init, self.element), type_)
        order = list(self.swap) or list(range(len(self.reads)))

        def body(*args):
            back = [args[order.index(i)] for i in range(len(order))]
            return self.body(args[-1], *back)

        reads = [self.reads[i] for i in order]
        region = emit_body([*(r.element for r in reads), self.element], body)
        indices = [*(r.index for r in reads), self.out]
        block = BlockOp(
            iterators,
            [values[i] for i in order],
            [start.results[0]],
            [AffineMap(len(iterators), 0, tuple(self.expressions(i))) for i in indices],
            region,
            pads=[None if r.pad is None else number_attr(r.pad, r.element) for r in reads],
        )
        return [start, block]

    def module(self) -> tuple[ModuleOp, BlockOp]:
        """A function that returns the block's result."""
        body = Block(arg_types=[self.type_of(read) for read in self.reads])
        made = self.build(list(body.args))
        body.add_ops(made)
        body.add_op(ReturnOp(*made[-1].results))
        type_ = FunctionType.from_lists(body.arg_types, [made[-1].results[0].type])
        module = ModuleOp([FuncOp("main", type_, Region(body))])
        module.verify()
        return module, made[-1]


def attempt(spec: Spec, *patterns: Pattern) -> Attempt:
    """What a composite of these patterns makes of the block."""
    return Composite("toy.block", patterns).attempt(spec.module()[1])


def product(acc, x, y):
    return acc + x.to(i32) * y.to(i32)


def matmul(m: int = 3, n: int = 4, k: int = 5, **changes) -> Spec:
    """[m, k] times [n, k], transposed."""
    reads = [Read(at("m", "k")), Read(at("n", "k"))]
    return Spec({"m": m, "n": n}, {"k": k}, reads, at("m", "n"), product, **changes)


@dataclass(frozen=True)
class Conv:
    """A convolution's numbers, rows then columns."""

    sizes: Mapping[str, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)

    def spec(self, **changes) -> Spec:
        rows = ({"h": self.strides[0], "r": self.dilations[0]}, -self.pads[0])
        columns = ({"w": self.strides[1], "s": self.dilations[1]}, -self.pads[1])
        padded = any(self.pads)
        image = Read(
            [*at("n", "c"), rows, columns], pad=0 if padded else None, slack=min(self.pads)
        )
        sizes = dict(self.sizes)
        return Spec(
            {name: sizes[name] for name in "nohw"},
            {name: sizes[name] for name in "crs"},
            [image, Read(at("o", "c", "r", "s"))],
            at("n", "o", "h", "w"),
            product,
            **changes,
        )
