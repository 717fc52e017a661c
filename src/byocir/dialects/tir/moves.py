"""Makes blocks that move elements as they are: copies in another order, layout or frame."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir.block import BlockOp
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.iterators import IteratorAttr, IteratorKind
from byocir.dialects.tir.ops import EmptyOp
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor


def axes(rank: int) -> list[AffineExpr]:
    """Gives the iterators, as indices, of a block that has one for each dimension of its result."""
    return [AffineExpr.dimension(i) for i in range(rank)]


def moving(
    source: SSAValue,
    target: SSAValue,
    index: Sequence[AffineExpr],
    location: LocationAttr,
    *,
    names: Sequence[str] = (),
    pad: Attribute | None = None,
) -> BlockOp:
    """Makes a block that sets each element of `target` to that of `source` at an index of its
    iterators (`names`, else d0, d1, …), or to `pad` where that is outside. With the index [d1, d0]:

    ```mlir
    tir.block [d0: 4, d1: 6] ins(%source[d1, d0] : …) outs(%target[d0, d1] : …) { … }
    ```
    """
    shape, element = shape_of(target.type), element_type_of(source.type)
    rank = len(shape)
    named = names or [f"d{i}" for i in range(rank)]
    return BlockOp(
        [IteratorAttr.of(n, IteratorKind.PARALLEL, e) for n, e in zip(named, shape, strict=True)],
        [source],
        [target],
        [AffineMap(rank, 0, tuple(index)), AffineMap.identity(rank)],
        emit_body([element, element], first, location),
        pads=[pad],
        location=location,
    )


def moved(
    source: SSAValue,
    shape: Shape,
    index: Sequence[AffineExpr],
    location: LocationAttr,
    *,
    names: Sequence[str] = (),
    pad: Attribute | None = None,
) -> list[Operation]:
    """Makes a tensor of a shape whose elements are those of another one at an index, as `moving`
    does. Gives the ops, the last of which has the tensor.
    """
    empty = EmptyOp.of(tensor(element_type_of(source.type), shape), location)
    return [empty, moving(source, empty.results[0], index, location, names=names, pad=pad)]
