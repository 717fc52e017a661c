"""The rules that a `tir.block` must meet beyond those of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.checks import expect
from byocir.dialects.tir.affine import bounds, format_expr
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.yields import YieldOp
from byocir.dialects.types import Shape, element_type_of, shape_of

if TYPE_CHECKING:
    from byocir.dialects.tir.block import BlockOp


class _Arrays(NamedTuple):
    """Facts that many rules look at, of `ins` and then of `outs`."""

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


def verify_block(op: BlockOp) -> None:
    """Raises VerifyException, one sentence, for the first rule that a block breaks."""
    types = [value.type for value in (*op.ins, *op.outs)]
    inputs = len(op.ins)
    _verify_form(op, types, inputs)
    maps = [attr.data for attr in op.maps.data]
    _verify_counts(inputs, len(types), len(maps), len(op.pads))
    shapes = [shape_of(type_) for type_ in types]
    whole = {i for i in range(inputs) if not maps[i].results and shapes[i]}
    elements = [element_type_of(type_) for type_ in types]
    arrays = _Arrays(inputs, types, shapes, elements, maps, op.pad_values, whole)
    _verify_maps(op, arrays)
    _verify_pads(arrays)
    _verify_body(op.body.block, arrays)
    if not op.bases and op.where is None:
        _verify_accesses(op, arrays)


def _verify_form(op: BlockOp, types: Sequence[Attribute], inputs: int) -> None:
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
            f"expected results of the types of outs ({_join(expected)}), found ({_join(found)})"
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


def _verify_counts(inputs: int, arrays: int, maps: int, pads: int) -> None:
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
        lambda: f"expected body arguments ({_join(expected)}), found ({_join(found)})",
    )
    last = body.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("expected the body to end in tir.yield")
    yielded, promised = [v.type for v in last.operands], list(arrays.elements[arrays.inputs :])
    expect(
        yielded == promised,
        lambda: f"expected yielded values ({_join(promised)}), found ({_join(yielded)})",
    )
    for op in body.ops:
        if not all(_parent(value) is body for value in op.operands):
            raise VerifyException(
                f"expected a body of its own values, found another used by {op.name}"
            )


def _verify_accesses(op: BlockOp, arrays: _Arrays) -> None:
    """Every access is inside its array unless a pad covers it; there is no guard."""
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


def _join(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


def _parent(value: SSAValue) -> Block | None:
    """The block whose op or argument a value is."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent
