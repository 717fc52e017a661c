"""Finds the dimension of each array that VTA's lanes count, and the arrays that are weights.

VTA's memories hold vectors of channels and, for weights, squares of output and input channels. An
array's role is fixed by the composites that use it: a contraction counts the outputs of its weights
in its result and what it sums over in its input, windows keep channels second. Elementwise work
takes whatever its neighbours have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph import ConvOp, MatmulOp, PoolOp
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.tir.affine import iterator_of, iterators_in
from byocir.dialects.types import shape_of


@dataclass(frozen=True)
class Data:
    """Describes an array whose lanes count dimension `channels`."""

    channels: int


@dataclass(frozen=True)
class Weights:
    """Describes an array of weights by its dimensions of output and input channels."""

    outputs: int
    inputs: int


Role = Data | Weights


@dataclass(frozen=True)
class Roles:
    """Lists the roles of a composite's inputs, in order, and of its results; None where a neighbour
    may choose; its choice then holds for all of them.
    """

    inputs: tuple[Role | None, ...]
    result: Data | None


def weights_of(block: BlockOp) -> int:
    """Finds the operand of a contraction that is the weights: the constant, else the second
    input.
    """
    return 0 if isinstance(block.ins[0].owner, ConstantOp) else 1


def roles_of(composite: CompositeOp) -> Roles | None:
    """Finds the roles in a composite; None for one that VTA cannot take."""
    blocks = [op for op in composite.body.block.ops if isinstance(op, BlockOp)]
    reducing = next((op for op in blocks if op.reductions), None)
    arguments = composite.body.block.args
    if reducing is not None and len(reducing.ins) == 2:
        found = contraction_roles(reducing)
        if found is None:
            return None
        x, w, result = found
        known: dict[SSAValue, Role] = {reducing.ins[1 - weights_of(reducing)]: x}
        known[reducing.ins[weights_of(reducing)]] = w
        return Roles(tuple(known.get(argument, result) for argument in arguments), result)
    product = next((op for op in composite.body.block.ops if isinstance(op, MatmulOp)), None)
    if product is not None:
        return _roles_of_product(composite, product)
    shapes = {shape_of(value.type) for value in [*arguments, *composite.outputs]}
    slides = any(isinstance(op, ConvOp | PoolOp) for op in composite.body.block.ops)
    if reducing is None and not slides and len(shapes) == 1:
        return Roles((None,) * len(arguments), None)
    return Roles((Data(1),) * len(arguments), Data(1))


def _roles_of_product(composite: CompositeOp, product: MatmulOp) -> Roles:
    """Finds the roles in a composite with a product at the graph level: the last dimension counts
    features and outputs, as in the blocks that the product becomes.
    """
    last = len(shape_of(product.result.type)) - 1
    columns = len(shape_of(product.rhs.type)) - 1
    factors: dict[SSAValue, Role] = {product.rhs: Weights(columns, max(columns - 1, 0))}
    arguments = composite.body.block.args
    return Roles(tuple(factors.get(value, Data(last)) for value in arguments), Data(last))


def contraction_roles(block: BlockOp) -> tuple[Data, Weights, Data] | None:
    """Finds the roles of the input, the weights and the result of a contraction; None where several
    dimensions would count outputs, or input and result are not laid out alike.
    """
    found = _Contraction(block)
    channels = found.channels()
    inputs = None if channels is None else found.summed(channels)
    if channels is None or inputs is None or not found.is_alike(inputs, channels):
        return None
    weights = found.weights(channels, inputs)
    return None if weights is None else (Data(inputs), weights, Data(channels))


class _Contraction:
    """Reads the indices of a contraction: of its input, its weights and its result."""

    def __init__(self, block: BlockOp) -> None:
        w = weights_of(block)
        self.block = block
        self.is_constant = isinstance(block.ins[w].owner, ConstantOp)
        self.x, self.w = block.in_maps[1 - w].results, block.in_maps[w].results
        self.out = block.out_maps[0].results
        self.of_x, self.of_w = iterators_in(self.x), iterators_in(self.w)

    def channels(self) -> int | None:
        """Finds the dimension of the result that counts the outputs of the weights; None if there
        is no single one.
        """
        if len(self.out) < 2:
            return None
        own = [i for i in self.block.parallels if i in self.of_w and i not in self.of_x]
        live = [i for i in own if self.block.extents[i] > 1]
        if len(live) > 1:
            return None
        if live or own:
            (out,) = live or own[:1]
            return next(axis for axis, expr in enumerate(self.out) if out in expr.used_dims())
        if self.is_constant and len(self.out) > 2 and self.out[1].used_dims() <= self.of_w:
            return 1  # a depthwise convolution, or one of one output
        lost = [axis for axis, expr in enumerate(self.out) if not expr.used_dims()]
        return lost[-1] if lost else None

    def summed(self, channels: int) -> int | None:
        """Finds the dimension of the input that the contraction sums over along with the
        weights.
        """
        sums = {i for i in self.block.reductions if i in self.of_w}
        if channels < len(self.x):
            used = self.x[channels].used_dims()
            if not used or used & (sums | self.out[channels].used_dims()):
                return channels
        plain = [axis for axis, expr in enumerate(self.x) if iterator_of(expr) in sums]
        return plain[0] if plain else None

    def is_alike(self, inputs: int, channels: int) -> bool:
        """Tells if input and result are alike but for channels: the first of the other dimensions
        is the same in both, or has size 1.
        """
        if len(self.x) != len(self.out):
            return False
        first = (self.x[1 if inputs == 0 else 0], self.out[1 if channels == 0 else 0])
        dims = {iterator_of(expr) for expr in first if expr.used_dims()}
        units = all(i is not None and self.block.extents[i] == 1 for i in dims)
        return units or (len(dims) == 1 and None not in dims and all(e.used_dims() for e in first))

    def weights(self, channels: int, inputs: int) -> Weights | None:
        """Finds the dimensions of the weights; computed weights must have both."""
        free = [axis for axis, expr in enumerate(self.w) if not expr.used_dims()]
        outputs = _axis_of(self.w, self.out[channels], free)
        summed = _axis_of(self.w, self.x[inputs], free)
        if self.is_constant:
            return Weights(outputs or 0, summed or 0)
        batch = {i for i in self.of_w if i in self.block.parallels and i in self.of_x}
        written = iterators_in([expr for axis, expr in enumerate(self.out) if axis != channels])
        if outputs is None or summed is None or not batch <= written:
            return None
        return Weights(outputs, summed)


def _axis_of(index: Sequence[AffineExpr], expr: AffineExpr, free: list[int]) -> int | None:
    """Finds the dimension that has this index, else takes one of size 1 that nothing indexes."""
    if expr in index and expr.used_dims():
        return index.index(expr)
    return free.pop() if free else None


def order_of(channels: int, rank: int) -> list[int]:
    """Gives the order in which VTA's passes have the dimensions of an array: [N, C, …]."""
    first, *others = (axis for axis in range(rank) if axis != channels)
    return [first, channels, *others]
