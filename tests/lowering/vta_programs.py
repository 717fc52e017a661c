"""Builds region functions for VTA as the graph lowering makes them, and evaluates modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.array import Array
from byocir.dialects.byoc import (
    TARGET,
    CallOp,
    CompositeOp,
    TargetAttr,
    YieldOp,
    composites_in,
)
from byocir.dialects.context import load_context
from byocir.dialects.intervals import integer_range
from byocir.dialects.locations import named, names
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
    IteratorAttr,
    IteratorKind,
)
from byocir.dialects.tir.bodies import (
    multiply_accumulate,
    saturate,
    scale_round,
    scale_round_even,
    widen_add,
)
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    i8,
    i32,
    i64,
    shape_of,
    tensor,
)
from byocir.dialects.verify import verify_module
from byocir.evaluate.interpreter import RULES, Interpreter, rule_of
from byocir.lowering.tir_to_vta.composites import vta_functions

P, R = IteratorKind.PARALLEL, IteratorKind.REDUCTION
d = AffineExpr.dimension


@dataclass(frozen=True)
class Scale:
    """A fixed-point requantise: multiplier (int32, broadcasts) and shift."""

    multiplier: np.ndarray
    shift: int
    rounding: str = "half_up"


@dataclass
class Body:
    """The body of a composite being built; methods append blocks and return tensors."""

    types: Sequence[object]
    node: str
    block: Block = field(init=False)

    def __post_init__(self) -> None:
        self.block = Block(arg_types=list(self.types))

    def add(self, op: Operation) -> SSAValue:
        op.location = named(self.node)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, values: np.ndarray) -> SSAValue:
        return self.add(ConstantOp.of(Array.of(values)))

    def fill(self, number: int, shape: Sequence[int], element=i32) -> SSAValue:
        return self.add(FillOp.of(IntegerAttr(number, element), tensor(element, shape)))

    def conv(self, x, weights, stride=1, pad=0, dilation=1, around=0) -> SSAValue:
        shape, kernel = shape_of(x.type), weights.shape[2:]
        sizes = [
            (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for size, k in zip(shape[2:], kernel, strict=True)
        ]
        out, rank = (shape[0], weights.shape[0], *sizes), len(kernel)
        names = ["n", "o", *[f"p{i}" for i in range(rank)]]
        iterators = [IteratorAttr.of(n, P, e) for n, e in zip(names, out, strict=True)]
        iterators += [IteratorAttr.of("c", R, weights.shape[1])]
        iterators += [IteratorAttr.of(f"k{i}", R, k) for i, k in enumerate(kernel)]
        count = len(iterators)
        spatial = [d(2 + i) * stride + d(3 + rank + i) * dilation - pad for i in range(rank)]
        x_map = AffineMap(count, 0, (d(0), d(2 + rank), *spatial))
        w_map = AffineMap(count, 0, (d(1), *(d(2 + rank + i) for i in range(rank + 1))))
        o_map = AffineMap(count, 0, tuple(d(i) for i in range(rank + 2)))
        w = self.constant(weights)
        body = emit_body([i8, i8, i32], lambda a, b, acc: multiply_accumulate(a, b, acc, to=i32))
        pads = [IntegerAttr(around, i8) if pad else None, None]
        op = BlockOp(iterators, [x, w], [self.fill(0, out)], [x_map, w_map, o_map], body, pads=pads)
        return self.add(op)

    def dense(self, x, weights) -> SSAValue:
        (n, k), m = shape_of(x.type), weights.shape[1]
        iterators = [IteratorAttr.of("n", P, n), IteratorAttr.of("m", P, m)]
        iterators.append(IteratorAttr.of("k", R, k))
        maps = [AffineMap(3, 0, (d(a), d(b))) for a, b in ((0, 2), (2, 1), (0, 1))]
        body = emit_body([i8, i8, i32], lambda a, b, acc: multiply_accumulate(a, b, acc, to=i32))
        w = self.constant(weights)
        return self.add(BlockOp(iterators, [x, w], [self.fill(0, (n, m))], maps, body))

    def pool(self, x, kind, kernel, stride=1, pad=0, dilation=1) -> SSAValue:
        shape = shape_of(x.type)
        sizes = [
            (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for size, k in zip(shape[2:], kernel, strict=True)
        ]
        out, rank = (*shape[:2], *sizes), len(kernel)
        names = ["n", "c", *[f"p{i}" for i in range(rank)]]
        iterators = [IteratorAttr.of(n, P, e) for n, e in zip(names, out, strict=True)]
        iterators += [IteratorAttr.of(f"k{i}", R, k) for i, k in enumerate(kernel)]
        count = len(iterators)
        spatial = [d(2 + i) * stride + d(2 + rank + i) * dilation - pad for i in range(rank)]
        maps = [
            AffineMap(count, 0, (d(0), d(1), *spatial)),
            AffineMap(count, 0, tuple(d(i) for i in range(rank + 2))),
        ]
        element, start = (i32, 0) if kind == "sum" else (i8, -128)
        steps = {
            "sum": lambda a, acc: widen_add(a, acc),
            "max": lambda a, acc: acc.max(a),
        }
        pads = [IntegerAttr(start, i8) if pad else None]
        init = self.fill(start, out, element)
        body = emit_body([i8, element], steps[kind])
        return self.add(BlockOp(iterators, [x], [init], maps, body, pads=pads))

    def elementwise(self, values, function, element=i32, maps=None, shape=None) -> SSAValue:
        """`function` of tensors of one shape, or broadcast against the first as numpy does."""
        shape = shape or shape_of(values[0].type)
        rank = len(shape)
        maps = maps or [_broadcast(shape_of(v.type), shape) for v in values]
        iterators = [IteratorAttr.of(f"i{i}", P, e) for i, e in enumerate(shape)]
        empty = self.add(EmptyOp.of(tensor(element, shape)))
        types = [element_type_of(v.type) for v in values]
        body = emit_body([*types, element], lambda *args: function(*args[:-1]))
        return self.add(
            BlockOp(iterators, values, [empty], [*maps, AffineMap.identity(rank)], body)
        )

    def requantise(self, x, scale: Scale, to=i8) -> SSAValue:
        low, high = integer_range(to)
        half, shift = (1 << scale.shift) >> 1, scale.shift

        def body(value, multiplier):
            if shift == 0:
                scaled = value.to(i64) * multiplier.to(i64)
            elif scale.rounding == "half_up":
                scaled = scale_round(value, multiplier, half, shift)
            else:
                scaled = scale_round_even(value, multiplier, half - 1, shift)
            return saturate(scaled, low, high, to=to)

        return self.elementwise([x, self.constant(scale.multiplier)], body, to)

    def bias(self, x, values) -> SSAValue:
        spread = values.reshape(-1, *[1] * (len(shape_of(x.type)) - 2))
        return self.elementwise([x, self.constant(spread)], lambda a, b: a + b)

    def relu(self, x) -> SSAValue:
        return self.elementwise([x], lambda a: a.max(0), element_type_of(x.type))

    def clip(self, x, low, high) -> SSAValue:
        return self.elementwise([x], lambda a: a.clamp(low, high), element_type_of(x.type))


def _broadcast(shape, out) -> AffineMap:
    lead = len(out) - len(shape)
    exprs = [
        d(lead + i) if size > 1 or out[lead + i] == 1 else AffineExpr.constant(0)
        for i, size in enumerate(shape)
    ]
    return AffineMap(len(out), 0, tuple(exprs))


class Net:
    """A region function being built."""

    def __init__(self, *shapes: Sequence[int]) -> None:
        self.block = Block(arg_types=[tensor(i8, shape) for shape in shapes])
        self.inputs = list(self.block.args)

    def composite(
        self, node: str, inputs: Sequence[SSAValue], make: Callable[..., SSAValue]
    ) -> SSAValue:
        """Appends a composite; `make(body, *arguments)` appends its blocks."""
        body = Body([v.type for v in inputs], node)
        result = make(body, *body.block.args)
        body.block.add_op(YieldOp.create(operands=[result], location=named(node)))
        op = CompositeOp.of(
            f"vta.{node}", "graph", inputs, [result.type], Region(body.block), named(node)
        )
        self.block.add_op(op)
        return op.outputs[0]

    def module(self, *results: SSAValue, options=None) -> ModuleOp:
        """The function, called by @main."""
        ins, outs = [v.type for v in self.inputs], [v.type for v in results]
        self.block.add_op(ReturnOp(*results))
        function = FuncOp("vta_0", FunctionType.from_lists(ins, outs), Region(self.block))
        function.attributes[TARGET] = TargetAttr.of("vta", options or {})
        main = Block(arg_types=ins)
        call = CallOp.of("vta_0", list(main.args), outs, location=named("vta_0"))
        main.add_ops([call, ReturnOp(*call.outputs)])
        caller = FuncOp("main", FunctionType.from_lists(ins, outs), Region(main))
        module = ModuleOp([caller, function])
        module.verify()
        return module


_random = np.random.default_rng(7)


def _garbage(_: Interpreter, op: AllocOp | EmptyOp, __: Sequence[object]) -> tuple[np.ndarray]:
    dtype = dtype_of(element_type_of(op.result.type))
    ends = np.iinfo(dtype)
    return (_random.integers(ends.min, ends.max, shape_of(op.result.type), dtype),)


def evaluate(module: ModuleOp, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of @main. Fresh tensors and buffers hold garbage, so that a read before a write
    is seen."""
    zeros = rule_of(AllocOp.of(i8, (1,)))
    RULES.update({AllocOp: _garbage, EmptyOp: _garbage})
    try:
        interpreter = Interpreter(module)
        return interpreter.call(interpreter.function("main"), list(inputs))
    finally:
        RULES.update({AllocOp: zeros, EmptyOp: zeros})


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """All arrays are equal, bit for bit."""
    for array, wanted in zip(found, expected, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


CONTEXT = load_context()


def apply(module: ModuleOp, *passes: type[ModulePass]) -> ModuleOp:
    """The module after these passes, verified after each; every op still has a location."""
    for kind in passes:
        kind().apply(CONTEXT, module)
        verify_module(module)
        assert_locations(module)
    return module


def assert_locations(module: ModuleOp) -> None:
    """Every op inside the composites of VTA's functions names its nodes."""
    for function in vta_functions(module):
        for composite in composites_in(function):
            for op in composite.walk():
                inside_body = isinstance(op.parent_op(), BlockOp)
                assert inside_body or names(op.location), f"{op.name} lost its location"
