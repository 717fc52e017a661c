"""Computes by a block of its own what a body computes of fewer dimensions than its block has.

```
[i, j]  (x[i, j] - m[i]) / sqrt(v[i] + 1e-5)   →   [i]     sqrt(v[i] + 1e-5)
                                                    [i, j]  (x[i, j] - m[i]) / y[i]
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.new_ops import clone_region
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp
from byocir.dialects.types import is_float, tensor
from byocir.dialects.uses import erase_unused, replace_uses
from byocir.evaluate.scalar import arguments_of

Dims = tuple[int, ...]


def outer_part(op: BlockOp) -> tuple[SSAValue, Dims] | None:
    """Finds the first value in the body of a block that is the same along a dimension of the block,
    and with which the body computes what is not; gives it with the dimensions along which it
    differs. Integers that are known already are none: they become constants that instructions read.
    """
    varying = {i for i, extent in enumerate(op.extents) if extent > 1}
    values = [result for inner in op.body.block.ops for result in inner.results]
    dims = {value: _dims(op, value) for value in values}
    for value, own in dims.items():
        readers = (dims[r] for use in value.uses for r in use.operation.results)
        if own and any(varying & {*read} > varying & {*own} for read in readers):
            return value, own
    return None


def _dims(op: BlockOp, value: SSAValue) -> Dims:
    """Lists the iterators along which a value differs; none for a number or known integers."""
    read = arguments_of(op.body.block, [value])
    known = all(i < len(op.ins) and isinstance(op.ins[i].owner, ConstantOp) for i in read)
    if known and (not read or not is_float(value.type)):
        return ()
    if any(i >= len(op.ins) or i in op.whole or op.pad_values[i] is not None for i in read):
        return tuple(range(len(op.iterators)))
    found = {d for i in read for expr in op.in_maps[i].results for d in expr.used_dims()}
    return tuple(sorted(found))


def take_out(op: BlockOp, value: SSAValue, dims: Dims) -> tuple[EmptyOp, BlockOp, BlockOp]:
    """Makes the block that computes a value along these dimensions, with the array into which it
    does, and the block that reads this array in place of computing the value.
    """
    out = EmptyOp.of(tensor(value.type, [op.extents[d] for d in dims]), location=op.location)
    outer = _outer(op, value, dims, out.result)
    return out, outer, _rest(op, value, dims, outer.results[0])


def _outer(op: BlockOp, value: SSAValue, dims: Dims, out: SSAValue) -> BlockOp:
    body, computed = _copied(op, value)
    end = body.block.last_op
    assert end is not None
    end.operands = [computed]
    erase_unused(body.block)
    body.block.erase_arg(body.block.args[-1])
    body.block.insert_arg(value.type, len(op.ins))
    index = [AffineExpr.constant(0) for _ in op.iterators]
    for position, d in enumerate(dims):
        index[d] = AffineExpr.dimension(position)
    maps = [each.replace_dims_and_symbols(index, [], len(dims), 0) for each in op.in_maps]
    ins, maps, pads = _read(body, op.ins, maps, op.pad_values)
    iterators = [op.iterators.data[d] for d in dims]
    maps.append(AffineMap.identity(len(dims)))
    return op.like(iterators=iterators, ins=ins, outs=[out], maps=maps, body=body, pads=pads)


def _rest(op: BlockOp, value: SSAValue, dims: Dims, known: SSAValue) -> BlockOp:
    body, computed = _copied(op, value)
    replace_uses(computed, body.block.insert_arg(value.type, len(op.ins)))
    erase_unused(body.block)
    index = AffineMap(len(op.iterators), 0, tuple(AffineExpr.dimension(d) for d in dims))
    ins, maps, pads = _read(body, [*op.ins, known], [*op.in_maps, index], [*op.pad_values, None])
    return op.like(ins=ins, maps=[*maps, *op.out_maps], body=body, pads=pads)


def _copied(op: BlockOp, value: SSAValue) -> tuple[Region, SSAValue]:
    """Copies the body of a block; gives the value of the copy that stands for one of the body."""
    body, owner = clone_region(op.body), value.owner
    assert isinstance(owner, Operation)
    number = list(op.body.block.ops).index(owner)
    return body, list(body.block.ops)[number].results[0]


def _read(
    body: Region,
    ins: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    pads: Sequence[Attribute | None],
) -> tuple[list[SSAValue], list[AffineMap], list[Attribute | None]]:
    """Leaves out the inputs that a body does not read, of which it loses the arguments."""
    kept = [i for i in range(len(ins)) if body.block.args[i].first_use is not None]
    for i in reversed(range(len(ins))):
        if i not in kept:
            body.block.erase_arg(body.block.args[i])
    return [ins[i] for i in kept], [maps[i] for i in kept], [pads[i] for i in kept]
