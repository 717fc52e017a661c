"""What a block means, point by point in plain Python; and random blocks to compare with."""

from __future__ import annotations

import itertools
import operator

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr, AffineMap
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import bounds
from byocir.dialects.tir.scalar import emit_body, number_attr
from byocir.dialects.types import dtype_of, f32, i8, i16, i32, i64, is_float, tensor, ui8


def wrap(value, type_):
    """A number as this type holds it; unsigned types and booleans from 0."""
    if is_float(type_):
        return float(dtype_of(type_).type(value))
    if isinstance(type_, IndexType):
        return value
    width = type_.width.data
    value &= (1 << width) - 1
    if dtype_of(type_).kind == "i" and value >= 1 << (width - 1):
        value -= 1 << width
    return value


def _unsigned(value, type_):
    return value & ((1 << type_.width.data) - 1)


BINARY = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divsi": lambda x, y: 0 if y == 0 else abs(x) // abs(y) * (1 if x * y >= 0 else -1),
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.shrsi": operator.rshift,
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.maximumf": max,
    "arith.minimumf": min,
}


def scalar(op, args):
    """The value of a body's op; floats are f32, so that Python's double rounding is harmless for
    one operation."""
    type_ = op.results[0].type
    if op.name == "arith.constant":
        return wrap(op.value.value.data, type_)
    if op.name in BINARY:
        return wrap(BINARY[op.name](*args), type_)
    if op.name in ("arith.extui", "arith.uitofp"):
        return wrap(_unsigned(args[0], op.operands[0].type), type_)
    if op.name == "math.roundeven":
        return float(round(args[0]))
    assert op.name in (
        "arith.extsi",
        "arith.trunci",
        "arith.sitofp",
        "builtin.unrealized_conversion_cast",
    ), op.name
    return wrap(args[0], type_)


def run_body(block, args):
    values = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        if op is block.last_op:
            return operands
        values[op.results[0]] = scalar(op, operands)
    raise AssertionError("a body ends in a yield")


def _index(map_, point):
    return tuple(expr.eval(point, []) for expr in map_.results)


def naive(op: BlockOp, ins, outs, bases=()):
    """The new contents of `outs`, one point after the other in row-major order."""
    outs = [out.copy() for out in outs]
    pads = [None if pad is None else pad.value.data for pad in op.pad_values]
    for offsets in itertools.product(*map(range, op.extents)):
        point = [b + i for b, i in zip(bases or itertools.repeat(0), offsets, strict=False)]
        if op.where is not None and min(_index(op.where.data, point)) < 0:
            continue
        args = []
        for array, map_, pad in zip(ins, op.in_maps, pads, strict=True):
            index = _index(map_, point)
            inside = all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
            assert inside or pad is not None
            args.append(array[index].item() if inside else pad)
        indices = [_index(map_, point) for map_ in op.out_maps]
        args += [out[index].item() for out, index in zip(outs, indices, strict=True)]
        new = run_body(op.body.block, args)
        for out, index, value in zip(outs, indices, new, strict=True):
            out[index] = value
    return outs


class Case:
    """A block with values for its operands."""

    def __init__(self, op: BlockOp, ins, outs, bases):
        self.op, self.ins, self.outs, self.bases = op, ins, outs, bases

    def module(self) -> ModuleOp:
        """The block in a function of its operands."""
        types = [value.type for value in self.op.operands]
        block = Block(arg_types=types)
        op = self.op.clone(dict(zip(self.op.operands, block.args, strict=True)))
        block.add_ops([op, func.ReturnOp(*op.results)])
        results = [result.type for result in op.results]
        return ModuleOp([func.FuncOp("main", (types, results), Region(block))])

    def __repr__(self):
        return f"{self.op}\n{self.ins}\n{self.outs}\n{self.bases}"


INTEGER_BODIES = [
    lambda x, y, acc: acc + x.to(i32) * y.to(i32),
    lambda x, y, acc: x.to(i32) * y.to(i32) + acc,
    lambda x, y, acc: acc.max(x.to(i32) - y.to(i32)),
    lambda x, y, acc: acc.min(x.to(i32)),
    lambda x, y, acc: acc * (x.to(i32) + y.to(i32)),
    lambda x, y, acc: acc + 3,
    lambda x, y, acc: acc + (x.to(i64) * y.to(i64) * 65537 >> 3).to(i32),
    lambda x, y, acc: acc + x.to(i32) * x.to(i32) * y.to(i32),
    lambda x, y, acc: (acc * 3 + x.to(i32)) / 2 - y.to(i16).to(i32),
    lambda x, y, acc: x.to(i32).clamp(-5, 100),
    lambda x, y, acc: acc - y.to(i32),
]
FLOAT_BODIES = [
    lambda x, y, acc: acc + x.to(f32) * y.to(f32),
    lambda x, y, acc: acc.max(x.to(f32)),
    lambda x, y, acc: acc * 0.5 + x.to(f32),
    lambda x, y, acc: acc + x.to(f32) - y.to(f32),
    lambda x, y, acc: (x.to(f32) * 1.5).roundeven().min(y.to(f32)),
]
TYPES = [i8, ui8, i16, i32]


def values(draw, element, shape):
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    dtype = dtype_of(element)
    if is_float(element):
        return rng.uniform(-8, 8, shape).astype(dtype)
    info = np.iinfo(dtype)
    low, high = draw(st.sampled_from([(info.min, info.max), (-3, 3), (info.max - 1, info.max)]))
    return rng.integers(max(low, info.min), high, shape, dtype, endpoint=True)


@st.composite
def expressions(draw, iterators):
    expr = AffineExpr.constant(draw(st.integers(-2, 2)))
    for i in iterators:
        coefficient = draw(st.sampled_from([0, 1, 1, 2, -1]))
        expr = expr + AffineExpr.dimension(i) * coefficient
    if draw(st.integers(0, 4)) == 0:
        kind = draw(st.sampled_from(list(AffineBinaryOpKind)[2:]))
        expr = AffineBinaryOpExpr(kind, expr, AffineExpr.constant(draw(st.integers(1, 3)))) + 1
    return expr


@st.composite
def cases(draw):
    """Blocks with random iterators, maps, pads, bases, guards and one of the bodies above."""
    kinds = draw(st.lists(st.sampled_from(list(IteratorKind)), min_size=1, max_size=4))
    extents = [draw(st.integers(1, 4)) for _ in kinds]
    iterators = [
        IteratorAttr.of(name, kind, extent)
        for name, kind, extent in zip("abcd", kinds, extents, strict=False)
    ]
    count = len(kinds)
    bases = draw(st.just([]) | st.lists(st.integers(0, 3), min_size=count, max_size=count))
    first = bases or [0] * count
    last = [b + e - 1 for b, e in zip(first, extents, strict=True)]
    known = list(map(Interval, first, last))
    is_float_ = draw(st.booleans())
    ins, maps, pads = [], [], []
    for _ in range(2):
        element = f32 if is_float_ and draw(st.booleans()) else draw(st.sampled_from(TYPES))
        exprs = draw(st.lists(expressions(range(count)), max_size=3))
        ranges = [bounds(expr, known) for expr in exprs]
        padded = draw(st.booleans())
        if padded:
            shape = [draw(st.integers(1, 4)) for _ in exprs]
        else:
            exprs = [expr - low for expr, (low, _) in zip(exprs, ranges, strict=True)]
            shape = [high - low + 1 for low, high in ranges]
        pad = draw(st.integers(0, 100)) if padded else None
        ins.append(values(draw, element, shape))
        maps.append(AffineMap(count, 0, tuple(exprs)))
        pads.append(None if pad is None else number_attr(pad, element))
    out_map, shape = draw(out_maps(kinds, first, last))
    acc = f32 if is_float_ else i32
    outs = [values(draw, acc, shape)]
    body = draw(st.sampled_from(FLOAT_BODIES if is_float_ else INTEGER_BODIES))
    where = None
    if draw(st.integers(0, 3)) == 0:
        exprs = draw(st.lists(expressions(range(count)), min_size=1, max_size=2))
        where = AffineMap(count, 0, tuple(exprs))
    op = make_block(iterators, ins, outs, [*maps, out_map], body, pads, bases, where)
    return Case(op, ins, outs, bases)


@st.composite
def out_maps(draw, kinds, first, last):
    """A map that takes different parallel points to different elements, and the array's shape."""
    parallels = [i for i, kind in enumerate(kinds) if kind is IteratorKind.PARALLEL]
    order = draw(st.permutations(parallels))
    exprs, shape = [], []
    for i in order:
        scale, offset = draw(st.sampled_from([(1, 0), (2, 1), (-1, last[i])]))
        exprs.append(AffineExpr.dimension(i) * scale + offset)
        shape.append(max(scale * first[i], scale * last[i]) + offset + 1)
    if len(order) > 1 and draw(st.booleans()):  # the first two as one dimension
        exprs[:2] = [exprs[0] * shape[1] + exprs[1]]
        shape[:2] = [shape[0] * shape[1]]
        if draw(st.booleans()):
            exprs[0] = AffineBinaryOpExpr(
                AffineBinaryOpKind.FloorDiv, exprs[0] * 3, AffineExpr.constant(3)
            )
    return AffineMap(len(kinds), 0, tuple(exprs)), shape


def element_of(array) -> IntegerType:
    return next(t for t in [*TYPES, i64, f32] if dtype_of(t) == array.dtype)


def make_block(iterators, ins, outs, maps, body, pads=None, bases=(), where=None) -> BlockOp:
    """A block in value form on values of these arrays' types."""
    types = [element_of(array) for array in [*ins, *outs]]
    operands: list[SSAValue] = [
        create_ssa_value(tensor(type_, array.shape))
        for type_, array in zip(types, [*ins, *outs], strict=True)
    ]
    return BlockOp(
        iterators,
        operands[: len(ins)],
        operands[len(ins) :],
        maps,
        emit_body(types, body),
        pads=pads,
        bases=[create_ssa_value(IndexType()) for _ in bases],
        where=where,
    )
