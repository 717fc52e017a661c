"""flatten-windows: turns sliding windows into contractions over one flat plane.

Does: a contraction whose input is read through windows over its last two dimensions, padded
or strided (`h * 2 + r - 1`, `w * 2 + s - 1`), reads a copy of that input which holds the padding
and, for strides, keeps each phase (`row mod stride`, `column mod stride`) in a plane of its own.
There the elements of all windows follow each other, also from one row to the next, so one iterator
walks over rows and columns; what it computes between two rows is left out when the result is
copied. It pays where results have fewer channels than vectors have lanes, as in the last layer of a
net that makes pictures: others have their channels last by then, and are left alone.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit; every new op has the location of the block it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.tir import BlockOp, FillOp, IteratorAttr, IteratorKind, blocks_in
from byocir.dialects.tir.affine import beyond, divided, iterators_in, linear, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.tir.scalar import Number
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import replace_op
from byocir.evaluate.scalar import number
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_contraction


@dataclass(frozen=True)
class FlattenWindowsPass(ModulePass):
    """Makes windows contiguous for contractions."""

    name = "flatten-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in blocks_in(function):
                _flatten(block)


@dataclass(frozen=True)
class _Slide:
    """Describes an index `stride * out + dilation * kernel + begin` into a dimension of `size`;
    `out` and `kernel` are iterators, the second is None where there is one position.
    """

    out: int
    count: int
    stride: int
    kernel: int | None
    positions: int
    dilation: int
    begin: int
    size: int

    @property
    def reach(self) -> int:
        """Gives the distance from the first position of a window to the last."""
        return self.dilation * (self.positions - 1)

    @property
    def phases(self) -> int:
        return min(self.stride, self.reach + 1)

    @property
    def shift(self) -> int:
        """Gives the distance from the first position of a window to the last, in elements of a
        phase."""
        return self.reach // self.stride

    @property
    def length(self) -> int:
        """Counts the elements of each phase."""
        return self.count + self.shift

    def known(self, phase: int) -> range:
        """Gives the range of elements of a phase that are in the array."""
        start = -(-(-self.begin - phase) // self.stride)
        stop = -(-(self.size - self.begin - phase) // self.stride)
        return range(max(start, 0), min(stop, self.length))

    def at(self, phase: int, index: AffineExpr) -> AffineExpr:
        """Turns an index into a phase into one into the array: i → i * stride + phase + begin."""
        return index * self.stride + (phase + self.begin)

    def split(self) -> tuple[AffineExpr, AffineExpr]:
        """Gives the phase of a position in a window, and its element in the phase, relative to the
        window's first.
        """
        if self.kernel is None:
            return AffineExpr.constant(0), AffineExpr.constant(0)
        distance = AffineExpr.dimension(self.kernel) * self.dilation
        if self.stride == 1:
            return AffineExpr.constant(0), distance
        return modulo(distance, self.stride), divided(distance, self.stride)


@dataclass(frozen=True)
class _Window:
    """Describes a contraction with windows over the last two dimensions of one operand."""

    op: BlockOp
    operand: int
    rows: _Slide
    columns: _Slide

    @property
    def is_flat(self) -> bool:
        """Tells if the rows already follow each other."""
        slides = (self.rows, self.columns)
        return all(s.stride == 1 and s.reach == 0 and s.begin == 0 for s in slides) and (
            self.columns.count == self.columns.size
        )


def _window(op: BlockOp) -> _Window | None:
    if not op.in_value_form or op.bases or not is_contraction(op):
        return None
    if not isinstance(op.outs[0].owner, FillOp):
        return None
    out = op.out_maps[0].results
    if len(out) < 3 or not all(isinstance(expr, AffineDimExpr) for expr in out[-2:]):
        return None
    for operand in (0, 1):
        found = _slides(op, operand)
        if found is not None:
            window = _Window(op, operand, *found)
            alone = window.rows.count * window.columns.count == 1
            return None if window.is_flat or alone else window
    return None


def _slides(op: BlockOp, operand: int) -> tuple[_Slide, _Slide] | None:
    """Finds the windows over the last two dimensions of an operand; None unless their iterators are
    used nowhere else, but those of the kernel by the other operand.
    """
    exprs = op.in_maps[operand].results
    other = iterators_in(op.in_maps[1 - operand].results)
    if len(exprs) < 2 or not _shows_all(op, operand):
        return None
    sizes = shape_of(op.ins[operand].type)[-2:]
    outs = [
        expr.position for expr in op.out_maps[0].results[-2:] if isinstance(expr, AffineDimExpr)
    ]
    slides = [
        _slide(op, linear(expr), out, size)
        for expr, out, size in zip(exprs[-2:], outs, sizes, strict=True)
    ]
    if slides[0] is None or slides[1] is None:
        return None
    inner = iterators_in(exprs[-2:])
    outer = iterators_in(exprs[:-2])
    elsewhere = iterators_in(op.out_maps[0].results[:-2])
    if inner & outer or set(outs) & (other | elsewhere):
        return None
    return slides[0], slides[1]


def _shows_all(op: BlockOp, operand: int) -> bool:
    """Tells if padding is read around the last two dimensions only."""
    exprs = op.in_maps[operand].results[:-2]
    shape = shape_of(op.ins[operand].type)[: len(exprs)]
    is_linear = all(linear(expr) is not None for expr in exprs)
    return is_linear and not any(map(any, beyond(exprs, shape, spans(op.extents))))


def _slide(op: BlockOp, form: Linear[int] | None, out: int, size: int) -> _Slide | None:
    if form is None or form.coefficient(out) < 1:
        return None
    kernels = [i for i, _ in form.terms if i != out]
    if len(kernels) > 1 or any(form.coefficient(i) < 1 for i in kernels):
        return None
    kernel = kernels[0] if kernels else None
    if kernel is not None and kernel not in op.reductions:
        return None
    return _Slide(
        out,
        op.extents[out],
        form.coefficient(out),
        kernel,
        op.extents[kernel] if kernel is not None else 1,
        form.coefficient(kernel) if kernel is not None else 1,
        form.constant,
        size,
    )


def _flatten(op: BlockOp) -> None:
    window = _window(op)
    if window is None:
        return
    emit = Emitter(op.location)
    planes = _planes(emit, window)
    flat = _contracted(emit, window, planes)
    shape, element = shape_of(op.results[0].type), element_type_of(op.results[0].type)
    at = Space.over(shape).parallel
    index = [*at[:-2], at[-2] * window.columns.length + at[-1]]
    result = emit.elementwise(shape, element, [Read(flat, index)], lambda x: x)
    replace_op(op, emit.ops, [result])


def _planes(emit: Emitter, window: _Window) -> SSAValue:
    """Copies the input with its padding, phase by phase: [outer…, row phase, column phase,
    plane].
    """
    op, rows, columns = window.op, window.rows, window.columns
    source = op.ins[window.operand]
    outer, element = shape_of(source.type)[:-2], element_type_of(source.type)
    plane = rows.length * columns.length + columns.shift
    shape = (*outer, rows.phases, columns.phases, plane)
    result = emit.fill(_padding(op.pad_values[window.operand]), element, shape)
    for row, column in _phases(window):
        heights, widths = rows.known(row), columns.known(column)
        if not heights or not widths:
            continue
        space = Space.over((*outer, len(heights), len(widths)))
        *at, i, j = space.parallel
        i, j = i + heights.start, j + widths.start
        into = [AffineConstantExpr(row), AffineConstantExpr(column), i * columns.length + j]
        read = Read(source, [*at, rows.at(row, i), columns.at(column, j)])
        result = emit.block(space, [read], result, first, [*at, *into])
    return result


def _phases(window: _Window) -> Iterator[tuple[int, int]]:
    for row in range(window.rows.phases):
        for column in range(window.columns.phases):
            yield row, column


def _padding(pad: Attribute | None) -> Number:
    return 0 if pad is None else number(pad).item()


def _contracted(emit: Emitter, window: _Window, planes: SSAValue) -> SSAValue:
    """Makes the contraction on planes with one iterator for rows and columns; its result is as long
    as all rows with what is between them.
    """
    op, rows, columns = window.op, window.rows, window.columns
    fill = op.outs[0].owner
    assert isinstance(fill, FillOp)
    count = rows.count * columns.length
    name = f"{op.names[rows.out]}_{op.names[columns.out]}"
    iterators = [
        IteratorAttr.of(name, IteratorKind.PARALLEL, count) if i == columns.out else iterator
        for i, iterator in enumerate(op.iterators)
        if i != rows.out
    ]
    (row_phase, down), (column_phase, right) = rows.split(), columns.split()
    flat = AffineExpr.dimension(columns.out) + down * columns.length + right
    maps = list(op.in_maps)
    maps[window.operand] = _map(
        op, [*maps[window.operand].results[:-2], row_phase, column_phase, flat]
    )
    out = _map(op, [*op.out_maps[0].results[:-2], AffineExpr.dimension(columns.out)])
    ins = list(op.ins)
    ins[window.operand] = planes
    shape = (*shape_of(op.outs[0].type)[:-2], count)
    init = emit.fill(number(fill.value).item(), element_type_of(op.outs[0].type), shape)
    made = BlockOp(
        iterators,
        ins,
        [init],
        [_without(map_, rows.out) for map_ in (*maps, out)],
        op.body.clone(),
        pads=[None if i == window.operand else pad for i, pad in enumerate(op.pad_values)],
        location=op.location,
    )
    return emit.add(made).results[0]


def _map(op: BlockOp, exprs: Sequence[AffineExpr]) -> AffineMap:
    return AffineMap(len(op.iterators), 0, tuple(exprs))


def _without(map_: AffineMap, iterator: int) -> AffineMap:
    """Drops from a map an iterator that it does not use."""
    dims = [
        AffineExpr.dimension(i - (i > iterator)) if i != iterator else AffineExpr.constant(0)
        for i in range(map_.num_dims)
    ]
    return map_.replace_dims_and_symbols(dims, [], map_.num_dims - 1, 0)
