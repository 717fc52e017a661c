"""Imports Einsum as sums, products and matrix products of dimensions that have letters.

Operands are taken from left to right. A letter that nothing behind needs is summed: in one operand
alone if the other does not have it, else by a matrix product. Of the ways to arrange that product
the one is taken that moves the fewest elements at run time, and then has the fewest reshapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import NamedTuple

from byocir.dialects import graph as g
from byocir.dialects.array import Array
from byocir.dialects.graph.base import broadcast
from byocir.dialects.types import (
    Shape,
    bf16,
    element_type_of,
    f16,
    f32,
    f64,
    i32,
    i64,
    shape_of,
    ui32,
    ui64,
)
from byocir.frontend.onnx.equation import Letters, read_equation
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported

SUMMED = (f32, f64, f16, bf16, i32, i64, ui32, ui64)
"""The element types that ONNX's MatMul and ReduceSum both keep."""

Sizes = Mapping[str, int]

Groups = Sequence[Letters]
"""The letters of each dimension: one, several as one dimension, or none for size 1."""


def read_einsum(node: NodeReader) -> Value:
    """Reads an Einsum on static shapes as graph ops; raises Unsupported."""
    count = len(node.sources)
    equation = node.text("equation", "")
    letters, output = read_equation(equation, [len(node.shape(index)) for index in range(count)])
    sources = [node.source(index) for index in range(count)]
    parts = [
        _diagonals(node, _Part(source, each))
        for source, each in zip(sources, letters, strict=True)
        if source is not None
    ]
    _expect_agreement(parts)
    first, *rest = parts
    for index, part in enumerate(rest, 1):
        later = set(output).union(*(other.letters for other in parts[index + 1 :]))
        first = _product(node, first, part, later, output if part is rest[-1] else None)
    first = _summed(node, first, [letter for letter in first.letters if letter not in output])
    return _moved(node, first.value, _moves(first, [(letter,) for letter in output]))


@dataclass(frozen=True)
class _Part:
    """Describes a value and the letters of its dimensions. With `apart`, which holds the letters'
    own sizes, its shape may differ: it may have several letters as one dimension, or further
    dimensions of size 1.
    """

    value: Value
    letters: Letters
    apart: Shape | None = None

    @property
    def shape(self) -> Shape:
        return self.value.shape if isinstance(self.value, Array) else shape_of(self.value.type)

    @property
    def sizes(self) -> dict[str, int]:
        """Gives the size of each letter."""
        shape = self.shape if self.apart is None else self.apart
        return dict(zip(self.letters, shape, strict=True))


def _expect_agreement(parts: Sequence[_Part]) -> None:
    """Raises Unsupported for a letter that has several sizes other than 1."""
    for letter in dict.fromkeys(chain.from_iterable(part.letters for part in parts)):
        found = {part.sizes[letter] for part in parts if letter in part.letters} - {1}
        if len(found) > 1:
            raise Unsupported(f"expected one size of '{letter}', found {sorted(found)}")


# -- dimensions in other places


class _Move(NamedTuple):
    """Describes a transpose or a reshape, by its permutation or its shape."""

    op: type[g.TransposeOp | g.ReshapeOp]
    numbers: Shape


def _moves(part: _Part, groups: Groups) -> list[_Move]:
    """Lists the moves that give a part these dimensions; a reshape if only sizes of 1 change
    places.
    """
    return _moves_of(part.shape, part.sizes, groups)


def _moves_of(shape: Shape, sizes: Sizes, groups: Groups) -> list[_Move]:
    letters, order = tuple(sizes), tuple(chain.from_iterable(groups))
    target = _shape(sizes, groups)
    moves: list[_Move] = []
    if [x for x in letters if sizes[x] != 1] != [x for x in order if sizes[x] != 1]:
        apart = tuple(sizes.values())
        if apart != shape:
            moves.append(_Move(g.ReshapeOp, apart))
        moves.append(_Move(g.TransposeOp, tuple(letters.index(x) for x in order)))
        shape = tuple(sizes[x] for x in order)
    return moves if shape == target else [*moves, _Move(g.ReshapeOp, target)]


def _shape(sizes: Sizes, groups: Groups) -> Shape:
    return tuple(prod(sizes[letter] for letter in group) for group in groups)


def _moved(node: NodeReader, value: Value, moves: Sequence[_Move]) -> Value:
    """Applies these moves to a value; those of a constant are computed now."""
    for op, numbers in moves:
        if isinstance(value, Array):
            values = value.values()
            transposes = op is g.TransposeOp
            value = Array.of(values.transpose(numbers) if transposes else values.reshape(numbers))
        elif op is g.TransposeOp:
            value = node.emit(op, value, perm=numbers)
        else:
            value = node.emit(op, value, shape=numbers)
    return value


# -- of one operand


def _diagonals(node: NodeReader, part: _Part) -> _Part:
    """Takes diagonals until each letter is there once: a[i, i, j] → b[i, j]. A diagonal is every
    (n + 1)th element of an n x n matrix as a row."""
    letters, value = list(part.letters), part.value
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            shape = _Part(value, tuple(letters)).shape
            if shape[first] != shape[second]:
                raise Unsupported(
                    f"expected one size of '{letter}', found {shape[first]} and {shape[second]}"
                )
            del letters[second]
            value = _diagonal(node, value, shape, first, second)
    return _Part(value, tuple(letters))


def _diagonal(node: NodeReader, value: Value, shape: Shape, first: int, second: int) -> Value:
    """Takes the diagonal of two dimensions of one size, which then is in the first's place."""
    order = [axis for axis in range(len(shape)) if axis != second]
    order.insert(first + 1, second)
    size, rest = shape[first], [shape[axis] for axis in order]
    rest[first : first + 2] = [size * size]
    moves = [] if second == first + 1 else [_Move(g.TransposeOp, tuple(order))]
    row = _moved(node, value, [*moves, _Move(g.ReshapeOp, tuple(rest))])
    row = node.constant(row) if isinstance(row, Array) else row
    sizes, steps = list(rest), [1] * len(rest)
    sizes[first], steps[first] = size, size + 1
    return node.emit(g.SliceOp, row, starts=[0] * len(rest), sizes=sizes, steps=steps)


def _summed(node: NodeReader, part: _Part, dropped: Sequence[str]) -> _Part:
    """Sums over these letters; those of size 1 are dropped without a sum."""
    if not dropped:
        return part
    kept = tuple(letter for letter in part.letters if letter not in dropped)
    if all(part.sizes[letter] == 1 for letter in dropped):
        shape = tuple(part.sizes[letter] for letter in kept)
        return _Part(_moved(node, part.value, [_Move(g.ReshapeOp, shape)]), kept)
    value = node.constant(part.value) if isinstance(part.value, Array) else part.value
    _expect_summed(value)
    axes = [axis for axis, letter in enumerate(part.letters) if letter in dropped]
    return _Part(node.emit(g.ReduceSumOp, value, axes=axes, keepdims=0), kept)


def _expect_summed(value: Value) -> None:
    element = element_type_of(value.type)
    if element not in SUMMED:
        wanted = ", ".join(map(str, SUMMED))
        raise Unsupported(f"expected sums of {wanted}, found {element}")


# -- of two operands


@dataclass(frozen=True)
class _Plan:
    """Describes a way to multiply two parts."""

    lhs: _Part
    rhs: _Part
    groups: tuple[Groups, Groups]
    """The dimensions of both operands."""
    result: Groups
    """Those of what the op gives."""
    op: type[g.MatmulOp | g.MulOp]

    @property
    def sizes(self) -> dict[str, int]:
        """Gives the size of each letter of the result."""
        both = self.lhs.sizes, self.rhs.sizes
        return {
            x: broadcast(*((sizes[x],) for sizes in both if x in sizes))[0]
            for x in chain.from_iterable(self.result)
        }

    def cost(self, output: Letters | None) -> tuple[int, int]:
        """Counts the elements that are transposed at run time, to give the letters in this order if
        there is one, and how many reshapes there are."""
        sides = zip((self.lhs, self.rhs), self.groups, strict=True)
        costs = [(p.sizes, _moves(p, gs)) for p, gs in sides if not isinstance(p.value, Array)]
        if output is not None:
            sizes = self.sizes
            moves = _moves_of(_shape(sizes, self.result), sizes, [(x,) for x in output])
            costs.append((sizes, moves))
        return (
            sum(prod(s.values()) for s, ms in costs for m in ms if m.op is g.TransposeOp),
            sum(m.op is g.ReshapeOp for _, ms in costs for m in ms),
        )

    def emit(self, node: NodeReader) -> _Part:
        """Emits the product."""
        sides = zip((self.lhs, self.rhs), self.groups, strict=True)
        moved = [_moved(node, part.value, _moves(part, groups)) for part, groups in sides]
        values = [node.constant(x) if isinstance(x, Array) else x for x in moved]
        sizes = self.sizes
        return _Part(node.emit(self.op, *values), tuple(sizes), tuple(sizes.values()))


def _product(
    node: NodeReader, lhs: _Part, rhs: _Part, needed: set[str], output: Letters | None
) -> _Part:
    """Multiplies two parts and sums the letters that nothing needs; the result is arranged for
    `output`, if that comes next.
    """
    left, right = (_alone(one, other, needed) for one, other in ((lhs, rhs), (rhs, lhs)))
    lhs, rhs = _summed(node, lhs, left), _summed(node, rhs, right)
    both = tuple(dict.fromkeys((*lhs.letters, *rhs.letters)))
    contracts = any(letter not in needed for letter in both)
    if contracts:
        _expect_summed(lhs.value)
    plans = _contractions(lhs, rhs, needed, output) if contracts else _products(lhs, rhs, output)
    return min(plans, key=lambda plan: plan.cost(output)).emit(node)


def _alone(part: _Part, other: _Part, needed: set[str]) -> list[str]:
    """Lists the letters that are summed in one part alone, as the other lacks them or has size 1
    there.
    """
    sizes, others = part.sizes, other.sizes
    return [x for x in part.letters if x not in needed and others.get(x) != sizes[x]]


def _products(lhs: _Part, rhs: _Part, output: Letters | None) -> Iterator[_Plan]:
    """Plans products element by element, in the order of the result or of one operand."""
    both = (*lhs.letters, *rhs.letters), (*rhs.letters, *lhs.letters)
    orders = [*([] if output is None else [output]), *(tuple(dict.fromkeys(x)) for x in both)]
    for order in orders:
        yield _Plan(
            lhs,
            rhs,
            (_outer(order, lhs), _outer(order, rhs)),
            [(letter,) for letter in order],
            g.MulOp,
        )


def _outer(order: Letters, part: _Part) -> list[Letters]:
    """Lists the dimensions that broadcast to those of `order`; none before the first that the part
    has.
    """
    groups: list[Letters] = [(x,) if x in part.letters else () for x in order]
    while groups and not groups[0]:
        del groups[0]
    return groups


def _contractions(
    lhs: _Part, rhs: _Part, needed: set[str], output: Letters | None
) -> Iterator[_Plan]:
    """Plans matrix products: with the operands in both orders; with rows or columns of all letters
    that only one operand has, or of just the last (the others broadcast); with the summed letters
    in the order of either operand.
    """
    given = tuple(x for x in dict.fromkeys((*lhs.letters, *rhs.letters)) if x in needed)
    kept = given if output is None else output
    for one, other in ((lhs, rhs), (rhs, lhs)):
        own = tuple(x for x in kept if x not in other.letters)
        others = tuple(x for x in kept if x not in one.letters)
        contracted = [tuple(x for x in part.letters if x not in needed) for part in (one, other)]
        choices = product(
            dict.fromkeys((own[-1:], own)), dict.fromkeys((others[-1:], others)), contracted
        )
        for rows, columns, inner in choices:
            outer = tuple(x for x in kept if x not in rows and x not in columns)
            yield _matmul(one, other, (outer, rows, inner, columns))


def _matmul(lhs: _Part, rhs: _Part, letters: tuple[Letters, Letters, Letters, Letters]) -> _Plan:
    """Emits the product for letters of batches, rows, sums and columns; an operand that has letters
    of sums only is a vector.
    """
    outer, rows, inner, columns = letters
    left, right = _outer(outer, lhs), _outer(outer, rhs)
    m = [rows] if left or rows else []
    n = [columns] if right or columns else []
    result = [*((x,) for x in outer), *m, *n]
    return _Plan(lhs, rhs, ([*left, *m, inner], [*right, inner, *n]), result, g.MatmulOp)
