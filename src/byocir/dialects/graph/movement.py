"""Defines ops that copy elements to other places: expand, tile, slice, split, pad, blocks and
depth, …
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_result_def,
)

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    INTS,
    ByBatch,
    Exact,
    GraphOp,
    KeepsShape,
    broadcast,
    dims,
    expect_axis,
    expect_flag,
    int_tuple,
)
from byocir.dialects.graph.lookup import Table, at_axis, counter, looked_up
from byocir.dialects.graph.open_sizes import Dim, Dims, OpenSize
from byocir.dialects.graph.shape import ShapeOp
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, element_type_of, i64, shape_of, tensor


@irdl_op_definition
class ExpandOp(ShapeOp):
    """Broadcasts to `shape`, the result's, e.g. `graph.expand %x {shape = array<i64: 8, 4>} :
    (tensor<4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.expand"

    new_shape = prop_def(INTS, prop_name="shape")

    def shape(self, x: Shape) -> Sequence[int]:
        shape = int_tuple(self.new_shape)
        expect(min(shape, default=0) >= 0, f"expected sizes >= 0, found {dims(shape)}")
        expect(
            len(shape) >= len(x) and broadcast(x, shape) == shape,
            f"expected a shape that {dims(x)} broadcasts to, found {dims(shape)}",
        )
        return shape

    def define(self, emit: Emitter) -> SSAValue:
        return self.copied(
            emit, broadcast_index(shape_of(self.input.type), shape_of(self.result.type))
        )


@irdl_op_definition
class TileOp(ShapeOp):
    """Repeats the input `repeats` times along each dimension, e.g. `graph.tile %x {repeats =
    array<i64: 1, 2>} : (tensor<8x4xf32>) -> tensor<8x8xf32>`.
    """

    name = "graph.tile"

    repeats = prop_def(INTS)

    def shape(self, x: Shape) -> Sequence[int]:
        repeats = int_tuple(self.repeats)
        expect(len(repeats) == len(x), f"expected {len(x)} repeats, found {len(repeats)}")
        expect(min(repeats, default=0) >= 0, f"expected repeats >= 0, found {list(repeats)}")
        return [size * count for size, count in zip(x, repeats, strict=True)]

    def define(self, emit: Emitter) -> SSAValue:
        at = Space.over(shape_of(self.result.type)).parallel
        rows = zip(at, shape_of(self.input.type), int_tuple(self.repeats), strict=True)
        return self.copied(emit, [modulo(i, size) if count > 1 else i for i, size, count in rows])

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        pairs = list(zip(dims[0], int_tuple(self.repeats), strict=True))
        if any(isinstance(dim, OpenSize) and count != 1 for dim, count in pairs):
            return None
        return [tuple(dim * count if isinstance(dim, int) else dim for dim, count in pairs)]


@irdl_op_definition
class SliceOp(ShapeOp):
    """Takes `sizes[i]` elements of each dimension i, the first at `starts[i]` and `steps[i]` apart,
    which may be below 0, e.g. `graph.slice %x {starts = array<i64: 0, 3>, sizes = array<i64: 8, 2>,
    steps = array<i64: 1, -2>} : (tensor<8x4xf32>) -> tensor<8x2xf32>`.
    """

    name = "graph.slice"

    starts = prop_def(INTS)
    sizes = prop_def(INTS)
    steps = prop_def(INTS)

    def shape(self, x: Shape) -> Sequence[int]:
        starts, sizes, steps = map(int_tuple, (self.starts, self.sizes, self.steps))
        for name, values in (("starts", starts), ("sizes", sizes), ("steps", steps)):
            expect(len(values) == len(x), f"expected {len(x)} {name}, found {len(values)}")
        expect(min(sizes, default=0) >= 0, f"expected sizes >= 0, found {list(sizes)}")
        expect(0 not in steps, f"expected steps other than 0, found {list(steps)}")
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            last = start + max(size - 1, 0) * step
            expect(
                size == 0 or (0 <= start < x[axis] and 0 <= last < x[axis]),
                f"expected elements 0 to {x[axis] - 1} of axis {axis}, found {start} to {last}",
            )
        return sizes

    def define(self, emit: Emitter) -> SSAValue:
        at = Space.over(shape_of(self.result.type)).parallel
        rows = zip(at, int_tuple(self.steps), int_tuple(self.starts), strict=True)
        return self.copied(emit, [i * step + start for i, step, start in rows])

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        found: list[Dim] = []
        cuts = zip(*map(int_tuple, (self.starts, self.sizes, self.steps)), strict=True)
        for dim, cut in zip(dims[0], cuts, strict=True):
            if isinstance(dim, OpenSize) and cut != (0, dim.bound, 1):
                return None
            found.append(dim if isinstance(dim, OpenSize) else cut[1])
        return [tuple(found)]


def sliced(start: int, end: int, step: int, size: int) -> range:
    """Gives the indices that ONNX's Slice takes of a dimension with a step other than 0. They are
    those of a slice in Python, but when stepping back a start before the first element means the
    first one, too. The standard clamps the greatest integer as an end like any other, where ONNX
    Runtime takes it for the end in either direction.
    """
    if step > 0 or not size:
        return range(*slice(start, end, step).indices(size))
    first = min(max(start + size if start < 0 else start, 0), size - 1)
    return range(first, min(max(end + size if end < 0 else end, -1), size - 1), step)


@irdl_op_definition
class SplitOp(Exact, GraphOp):
    """Cuts the input along `axis` into pieces of the sizes `split`, e.g. `graph.split %x {axis = 1
    : i64, split = array<i64: 1, 3>} : (tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x3xf32>)`.
    """

    name = "graph.split"

    input = operand_def(TensorType)
    axis = prop_def(INT)
    split = prop_def(INTS)
    pieces = var_result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, axis, split = shape_of(self.input.type), self.axis.value.data, int_tuple(self.split)
        expect_axis(axis, len(x))
        expect(min(split, default=0) >= 0, f"expected sizes >= 0, found {list(split)}")
        expect(
            len(split) > 0 and sum(split) == x[axis],
            f"expected sizes that sum to {x[axis]}, found {list(split)}",
        )
        element = element_type_of(self.input.type)
        return [tensor(element, (*x[:axis], size, *x[axis + 1 :])) for size in split]

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        axis, start = self.axis.value.data, 0
        pieces: list[SSAValue] = []
        for piece in self.pieces:
            shape, element = shape_of(piece.type), element_type_of(piece.type)
            index = list(Space.over(shape).parallel)
            index[axis] = index[axis] + start
            pieces.append(emit.elementwise(shape, element, [Read(self.input, index)], lambda x: x))
            start += shape[axis]
        return pieces

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis, x = self.axis.value.data, dims[0]
        if isinstance(x[axis], OpenSize):
            return None
        return [(*x[:axis], size, *x[axis + 1 :]) for size in int_tuple(self.split)]


@irdl_op_definition
class PadOp(ShapeOp):
    """Adds `pads` elements at the begin and end of each dimension, first all begins, then all
    ends: `value` (0 if absent) in mode `constant`, else elements of the input: mirrored without
    (`reflect`) or the last one (`edge`), or from the other end (`wrap`). Pads below 0 cut off, e.g.
    `graph.pad %x {mode = "constant", pads = array<i64: 0, 1, 0, 1>} : (tensor<8x4xf32>) ->
    tensor<8x6xf32>`."""

    name = "graph.pad"

    pads = prop_def(INTS)
    mode = prop_def(StringAttr)
    value = opt_prop_def(ArrayAttr)

    def shape(self, x: Shape) -> Sequence[int]:
        pads, mode, rank = int_tuple(self.pads), self.mode.data, len(x)
        modes = ("constant", "reflect", "edge", "wrap")
        expect(mode in modes, f"expected mode {', '.join(modes)}, found {mode}")
        expect(len(pads) == 2 * rank, f"expected {2 * rank} pads, found {len(pads)}")
        if self.value is not None:
            wanted, found = tensor(element_type_of(self.input.type), ()), self.value.data.type
            expect(found == wanted, f"expected a value of type {wanted}, found {found}")
            expect(mode == "constant", f"expected no value in mode {mode}, found one")
        sizes = [size + pads[i] + pads[rank + i] for i, size in enumerate(x)]
        expect(min(sizes, default=0) >= 0, f"expected pads that leave sizes >= 0, found {sizes}")
        if mode == "constant":
            return sizes
        # One period in each direction is all that onnx's operators define alike.
        for axis, size in enumerate(x):
            most = size - 1 if mode == "reflect" else size
            found = max(pads[axis], pads[rank + axis])
            expect(
                found <= 0 or (size > 0 and (mode == "edge" or found <= most)),
                f"expected pads of at most {most} in axis {axis}, found {found}",
            )
            kept = size + min(pads[axis], 0) + min(pads[rank + axis], 0)
            expect(
                kept > 0 or found <= 0, f"expected pads that leave elements to copy, found {pads}"
            )
        return sizes

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        if self.mode.data != "constant":
            return _extended_by(emit, self)
        pads = int_tuple(self.pads)
        index = [i - begin for i, begin in zip(Space.over(shape).parallel, pads, strict=False)]
        value = self.value.data.values().item() if self.value is not None else 0
        if 0 in shape_of(self.input.type):
            return emit.fill(value, element, shape)
        return emit.elementwise(shape, element, [Read(self.input, index, pad=value)], lambda x: x)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        pads, found = int_tuple(self.pads), list[Dim]()
        for i, dim in enumerate(dims[0]):
            both = pads[i], pads[len(dims[0]) + i]
            if isinstance(dim, OpenSize) and any(both):
                return None
            found.append(dim + sum(both) if isinstance(dim, int) else dim)
        return [tuple(found)]


class BlocksOp(ByBatch, ShapeOp):
    """Defines what the moves between the channels and the plane of `[N,C,H,W]` share."""

    blocksize = prop_def(INT)

    def block(self, x: Shape) -> int:
        """Gives the block size; raises VerifyException."""
        size = self.blocksize.value.data
        expect(len(x) == 4, f"expected an input of rank 4, found {dims(x)}")
        expect(size >= 1, f"expected blocksize >= 1, found {size}")
        return size


@irdl_op_definition
class DepthToSpaceOp(BlocksOp):
    """Moves channels to blocks of the plane: in mode `DCR` the block's position is the slower part
    of the channel, in mode `CRD` the faster one, e.g. `graph.depth_to_space %x {blocksize = 2 :
    i64, mode = "DCR"} : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>`.
    """

    name = "graph.depth_to_space"

    mode = prop_def(StringAttr)

    def shape(self, x: Shape) -> Sequence[int]:
        block, mode = self.block(x), self.mode.data
        expect(mode in ("DCR", "CRD"), f"expected mode DCR or CRD, found {mode}")
        expect(x[1] % block**2 == 0, f"expected channels divisible by {block**2}, found {x[1]}")
        return x[0], x[1] // block**2, x[2] * block, x[3] * block

    def define(self, emit: Emitter) -> SSAValue:
        block, channels = self.blocksize.value.data, shape_of(self.result.type)[1]
        n, c, h, w = Space.over(shape_of(self.result.type)).parallel
        place = modulo(h, block) * block + modulo(w, block)
        depth = place * channels + c if self.mode.data == "DCR" else c * block**2 + place
        return self.copied(emit, [n, depth, divided(h, block), divided(w, block)])


@irdl_op_definition
class SpaceToDepthOp(BlocksOp):
    """Moves blocks of the plane to channels, the block's position being the slower part, e.g.
    `graph.space_to_depth %x {blocksize = 2 : i64} : (tensor<1x2x4x6xf32>) -> tensor<1x8x2x3xf32>`.
    """

    name = "graph.space_to_depth"

    def shape(self, x: Shape) -> Sequence[int]:
        block = self.block(x)
        expect(
            x[2] % block == 0 and x[3] % block == 0,
            f"expected a plane divisible by {block}, found {dims(x[2:])}",
        )
        return x[0], x[1] * block**2, x[2] // block, x[3] // block

    def define(self, emit: Emitter) -> SSAValue:
        block, channels = self.blocksize.value.data, shape_of(self.input.type)[1]
        n, c, h, w = Space.over(shape_of(self.result.type)).parallel
        place = divided(c, channels)
        row, column = divided(place, block), modulo(place, block)
        return self.copied(emit, [n, modulo(c, channels), h * block + row, w * block + column])


@irdl_op_definition
class TriluOp(KeepsShape, ShapeOp):
    """Keeps a triangle of the last two dimensions, with 0 elsewhere: the upper one, from diagonal k
    on, if `upper` is 1, else the lower one, up to diagonal k, e.g. `graph.trilu %x {k = 0 : i64,
    upper = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>`.
    """

    name = "graph.trilu"

    k = prop_def(INT)
    upper = prop_def(INT)

    def shape(self, x: Shape) -> Sequence[int]:
        expect(len(x) >= 2, f"expected an input of rank >= 2, found {dims(x)}")
        expect_flag("upper", self.upper)
        return x

    def define(self, emit: Emitter) -> SSAValue:
        """Copies the triangle, where the guard holds, over zeros."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        space, k = Space.over(shape), self.k.value.data
        row, column = space.parallel[-2:]
        kept = column + row * -1 - k if self.upper.value.data else row + column * -1 + k
        zeros = emit.fill(0, element, shape)
        return emit.block(space, [Read(self.input, space.parallel)], zeros, first, where=[kept])


@irdl_op_definition
class ReverseSequenceOp(Exact, GraphOp):
    """Reverses the first `lengths[b]` elements along `time_axis` for each index b of `batch_axis`,
    e.g. `graph.reverse_sequence %x, %lengths {batch_axis = 1 : i64, time_axis = 0 : i64} :
    (tensor<4x8xf32>, tensor<8xi64>) -> tensor<4x8xf32>`."""

    name = "graph.reverse_sequence"

    input = operand_def(TensorType)
    lengths = operand_def(TensorType)
    batch_axis = prop_def(INT)
    time_axis = prop_def(INT)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, batch, time = shape_of(self.input.type), self.batch_axis, self.time_axis
        expect(
            sorted((batch.value.data, time.value.data)) == [0, 1] and len(x) >= 2,
            f"expected axes 0 and 1, found {batch.value.data} and {time.value.data}",
        )
        wanted = tensor(i64, [x[batch.value.data]])
        expect(self.lengths.type == wanted, f"expected {wanted}, found {self.lengths.type}")
        return [tensor(element_type_of(self.input.type), x)]

    def define(self, emit: Emitter) -> SSAValue:
        """Makes a block in which a step before the length reads the one as far from it, others
        themselves."""
        shape, time = shape_of(self.result.type), self.time_axis.value.data
        at = Space.over(shape).parallel
        reads = [counter(emit, size, expr) for size, expr in zip(shape, at, strict=True)]
        lengths = Read(self.lengths, [at[self.batch_axis.value.data]])

        def body(*scalars: Emitted) -> Emitted:
            *places, length, table = scalars
            here = places[time]
            places[time] = here.compare("lt", length).select(length - here - 1, here)
            return table.read(*places)

        element = element_type_of(self.input.type)
        return emit.elementwise(shape, element, [*reads, lengths, Read.whole(self.input)], body)


def _extended_by(emit: Emitter, op: PadOp) -> SSAValue:
    """Pads one dimension after the other: emits a copy of the elements that stay, then copies of
    those before and behind.
    """
    pads, source = int_tuple(op.pads), shape_of(op.input.type)
    value, rank = op.input, len(source)
    # Negative pads cut first; the rest is mirrored, continued or wrapped around.
    for axis in range(rank):
        value = _cut(emit, value, axis, -min(pads[axis], 0), -min(pads[rank + axis], 0))
    if 0 in shape_of(value.type):
        return emit.empty(element_type_of(value.type), shape_of(op.result.type))
    for axis in range(rank):
        begin, end = max(pads[axis], 0), max(pads[rank + axis], 0)
        if begin or end:
            value = _extended(emit, value, axis, begin, end, op.mode.data)
    return value


def _part(
    emit: Emitter, value: SSAValue, into: SSAValue, axis: int, size: int, to: int, index: Index
) -> SSAValue:
    """Copies `size` elements of `value`, read at `index`, into `into` from place `to` on along an
    axis; in `index` that axis counts from 0.
    """
    shape = list(shape_of(value.type))
    shape[axis] = size
    space = Space.over(tuple(shape))
    out = list(space.parallel)
    out[axis] = out[axis] + to
    return emit.block(space, [Read(value, index)], into, first, out)


def _cut(emit: Emitter, value: SSAValue, axis: int, begin: int, end: int) -> SSAValue:
    if not (begin or end):
        return value
    shape, element = list(shape_of(value.type)), element_type_of(value.type)
    shape[axis] -= begin + end
    index = at_axis(shape, axis, AffineExpr.dimension(axis) + begin)
    return emit.elementwise(tuple(shape), element, [Read(value, index)], lambda x: x)


def _extended(
    emit: Emitter, value: SSAValue, axis: int, begin: int, end: int, mode: str
) -> SSAValue:
    shape, element = shape_of(value.type), element_type_of(value.type)
    size, i = shape[axis], AffineExpr.dimension(axis)
    most = {"reflect": size - 1, "wrap": size}.get(mode)
    if most is not None and max(begin, end) > most:  # a pad would repeat the array more than once
        return looked_up(emit, value, axis, _repeated(size, begin, end, mode))
    before = {"edge": AffineExpr.constant(0), "reflect": i * -1 + begin, "wrap": i + size - begin}
    behind = {"edge": AffineExpr.constant(size - 1), "reflect": i * -1 + size - 2, "wrap": i}
    result = emit.empty(element, (*shape[:axis], begin + size + end, *shape[axis + 1 :]))
    parts = [(size, begin, i), (begin, 0, before[mode]), (end, begin + size, behind[mode])]
    for count, to, expr in parts:
        if count:
            index = at_axis(shape, axis, expr)
            result = _part(emit, value, result, axis, count, to, index)
    return result


def _repeated(size: int, begin: int, end: int, mode: str) -> Table:
    """Lists the source index of each element of a padded dimension: size 3 with 1 before and after,
    reflected → [1, 0, 1, 2, 1]."""
    period = size if mode == "wrap" else max(2 * (size - 1), 1)
    found = [i % period for i in range(-begin, size + end)]
    return found if mode == "wrap" else [min(i, period - i) if size > 1 else 0 for i in found]
