"""split-phases: splits contractions that skip points by a stride into several that skip none.

Does: a transposed convolution with stride s sums, for the result at place i, over those positions k
of its kernel for which `i + b - k` is a multiple of s. The results at the places p, s + p, 2 s + p,
… meet the same positions, so they are a convolution of their own: a phase. The block becomes one
contraction for each phase, of the positions that it meets, and copies that put their results side
by side: `phase[n, o, i] → y[n, o, s * i + p]`. No contraction has a guard then, and no product is
computed that the transposed convolution would leave out.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit but for sums with the flag `reassoc`, which run along the
elements that they read; every new op has the location of the block it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.tir import BlockOp, FillOp, blocks_in
from byocir.dialects.tir.affine import canonical, divided, form_of, linear, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Number
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import replace_op
from byocir.evaluate.scalar import number
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import may_reorder, multiplies_and_adds

MOST_PHASES = 64
"""The largest number of phases that are worth the code: strides of 8 in two dimensions."""


@dataclass(frozen=True)
class SplitPhasesPass(ModulePass):
    """Splits transposed convolutions into one convolution for each phase of their strides."""

    name = "split-phases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in blocks_in(function):
                strided = _strided(block)
                if strided is not None:
                    _split(strided)


@dataclass(frozen=True)
class _Phase:
    """Describes the part of a dimension with the results at `place`, `place + stride`, …: its
    result i sums over positions k0, k0 + step, … of the kernel, `positions` many, and reads the
    elements i + begin, i + begin + apart, …"""

    place: int
    count: int
    positions: int
    k0: int = 0
    step: int = 1
    begin: int = 0
    apart: int = 1

    @property
    def backwards(self) -> _Phase:
        """Gives the same phase with the sum in the opposite order."""
        last = self.positions - 1
        k0, begin = self.k0 + last * self.step, self.begin + last * self.apart
        return _Phase(self.place, self.count, self.positions, k0, -self.step, begin, -self.apart)


@dataclass(frozen=True)
class _Dim:
    """Describes a dimension in which result i meets position k of a kernel where `stride` divides
    `i + begin - dilation * k`, and reads the element that the quotient says. `read` is the
    dimension of the operand that is read so, `out` that of the result."""

    i: int
    k: int
    read: int
    out: int
    stride: int
    dilation: int
    begin: int

    def phases(self, size: int, kernel: int, reorder: bool) -> list[_Phase]:
        """Lists the phases of a result of `size`; where `reorder` allows it, sums run over the
        elements in their order.
        """
        made: list[_Phase] = []
        for place in range(min(self.stride, size)):
            count = -(-(size - place) // self.stride)
            at = place + self.begin
            met = [k for k in range(kernel) if (at - k * self.dilation) % self.stride == 0]
            if not met:
                made.append(_Phase(place, count, 0))
                continue
            common = gcd(self.dilation, self.stride)
            begin = (at - met[0] * self.dilation) // self.stride
            step, apart = self.stride // common, -(self.dilation // common)
            phase = _Phase(place, count, len(met), met[0], step, begin, apart)
            made.append(phase.backwards if reorder else phase)
        return made


@dataclass(frozen=True)
class _Strided:
    """Describes a contraction whose guards leave out the points that strides do not meet: it reads
    operand `image` through `dims`, and weights at the iterators themselves.
    """

    op: BlockOp
    image: int
    dims: tuple[_Dim, ...]

    @property
    def phases(self) -> list[tuple[_Phase, ...]]:
        """Lists the combinations of the phases of all dimensions, the last one's innermost."""
        extents, reorder = self.op.extents, may_reorder(self.op)
        return list(product(*(d.phases(extents[d.i], extents[d.k], reorder) for d in self.dims)))


def _strided(op: BlockOp) -> _Strided | None:
    if not op.in_value_form or op.bases or op.where is None or not multiplies_and_adds(op):
        return None
    if not isinstance(op.outs[0].owner, FillOp):
        return None
    for image in (0, 1):
        dims = [_dim(op, image, guard) for guard in op.where.data.results]
        known = [dim for dim in dims if dim is not None]
        if prod(dim.stride for dim in known) > MOST_PHASES:
            return None
        if len(known) == len(dims) and _stands_alone(op, image, known):
            return _Strided(op, image, tuple(sorted(known, key=lambda dim: dim.out)))
    return None


def _dim(op: BlockOp, image: int, guard: AffineExpr) -> _Dim | None:
    """Reads the dimension that a guard `-((i + begin - dilation * k) mod stride)` describes; None
    for another guard.
    """
    form = form_of(guard)
    if len(form.terms) != 1 or form.constant or form.terms[0][1] >= 0:
        return None
    rest = form.terms[0][0]
    if isinstance(rest, int) or not isinstance(rest, AffineBinaryOpExpr):
        return None
    stride, distance = form_of(rest.rhs).constant, linear(rest.lhs)
    if canonical(modulo(rest.lhs, stride)) != canonical(rest) or distance is None:
        return None
    ones = [i for i, c in distance.terms if c == 1 and i in op.parallels]
    kernels = [(i, -c) for i, c in distance.terms if c < 0 and i in op.reductions]
    if len(ones) != 1 or len(kernels) != 1 or len(distance.terms) != 2:
        return None
    element = canonical(divided(rest.lhs, stride))
    reads = [at for at, expr in enumerate(op.in_maps[image].results) if canonical(expr) == element]
    outs = [at for at, expr in enumerate(op.out_maps[0].results) if _is(expr, ones[0])]
    if len(reads) != 1 or len(outs) != 1:
        return None
    ((k, dilation),) = kernels
    return _Dim(ones[0], k, reads[0], outs[0], stride, dilation, distance.constant)


def _stands_alone(op: BlockOp, image: int, dims: Sequence[_Dim]) -> bool:
    """Tells if nothing but reads through these dims, weights and results uses their iterators."""
    moving = [i for dim in dims for i in (dim.i, dim.k)]
    read, written = {dim.read for dim in dims}, {dim.out for dim in dims}
    rest = [e for at, e in enumerate(op.in_maps[image].results) if at not in read]
    rest += [e for at, e in enumerate(op.out_maps[0].results) if at not in written]
    weights = op.in_maps[1 - image].results
    rest += [e for e in weights if not isinstance(e, AffineDimExpr)]
    inner = [e.position for e in weights if isinstance(e, AffineDimExpr)]
    kernels = {dim.k for dim in dims}
    return (
        len(set(moving)) == len(moving)
        and not any(e.used_dims() & set(moving) for e in rest)
        and all(inner.count(k) == 1 for k in kernels)
        and not {dim.i for dim in dims} & set(inner)
        and op.pad_values[1 - image] is None
    )


def _is(expr: AffineExpr, iterator: int) -> bool:
    return isinstance(expr, AffineDimExpr) and expr.position == iterator


def _split(strided: _Strided) -> None:
    """Replaces a block by its phases, and copies of them into the result."""
    op, emit = strided.op, Emitter(strided.op.location)
    result, fill = op.outs[0], op.outs[0].owner
    assert isinstance(fill, FillOp)
    start = number(fill.value).item()
    for phases in strided.phases:
        if not all(phase.positions for phase in phases):
            continue  # no position of the kernel adds anything to these results
        part = _contraction(emit, strided, phases, start)
        space = Space.over(shape_of(part.type))
        into = list(space.parallel)
        for dim, phase in zip(strided.dims, phases, strict=True):
            into[dim.out] = into[dim.out] * dim.stride + phase.place
        result = emit.block(space, [Read(part, space.parallel)], result, first, into)
    replace_op(op, emit.ops, [result])


def _contraction(
    emit: Emitter, strided: _Strided, phases: Sequence[_Phase], start: Number
) -> SSAValue:
    """Makes the contraction of one phase, whose result has only the places of that phase."""
    op, image = strided.op, strided.image
    extents, shape = list(op.extents), list(shape_of(op.results[0].type))
    exprs = list(op.in_maps[image].results)
    for dim, phase in zip(strided.dims, phases, strict=True):
        extents[dim.i], extents[dim.k] = phase.count, phase.positions
        shape[dim.out] = phase.count
        i, k = AffineExpr.dimension(dim.i), AffineExpr.dimension(dim.k)
        exprs[dim.read] = canonical(i + k * phase.apart + phase.begin)
    ins, maps = list(op.ins), [*op.in_maps, *op.out_maps]
    ins[1 - image] = _weights(emit, strided, phases)
    maps[image] = AffineMap(len(extents), 0, tuple(exprs))
    made = BlockOp(
        [it.resized(extent) for it, extent in zip(op.iterators, extents, strict=True)],
        ins,
        [emit.fill(start, element_type_of(op.results[0].type), tuple(shape))],
        maps,
        op.body.clone(),
        pads=op.pad_values,
        location=op.location,
    )
    return emit.add(made).results[0]


def _weights(emit: Emitter, strided: _Strided, phases: Sequence[_Phase]) -> SSAValue:
    """Copies the weights that a phase meets: w[c, o, k0 + step * k] → [c, o, k]."""
    op = strided.op
    source, exprs = op.ins[1 - strided.image], op.in_maps[1 - strided.image].results
    shape = list(shape_of(source.type))
    index = list(Space.over(shape_of(source.type)).parallel)
    for dim, phase in zip(strided.dims, phases, strict=True):
        axis = next(axis for axis, expr in enumerate(exprs) if _is(expr, dim.k))
        shape[axis] = phase.positions
        index[axis] = index[axis] * phase.step + phase.k0
    element = element_type_of(source.type)
    return emit.elementwise(tuple(shape), element, [Read(source, index)], lambda x: x)
