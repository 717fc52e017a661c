"""Products written by hand as blocks go to VTA, however their loops and operands are ordered and
however they are narrowed to i8."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.compiler import generate, partition
from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import Emitted, emit_body, number_attr
from byocir.dialects.types import i8, i32, tensor
from byocir.evaluate.module import evaluate

SIZES = {"m": 5, "n": 20, "k": 18}
WEIGHTS = np.random.default_rng(0).integers(-128, 128, (18, 20)).astype(np.int8)

NARROWINGS: dict[str, Callable[[Emitted], Emitted]] = {
    "rounded shift": lambda x: (x + 64 >> 7).clamp(-128, 127).to(i8),
    "shift and relu": lambda x: (x >> 6).clamp(0, 127).to(i8),
    "symmetric clip": lambda x: x.clamp(-127, 127).to(i8),
}


def written_by_hand(
    order: str, *, swapped: bool, turned: bool, narrow: Callable[[Emitted], Emitted]
) -> ModuleOp:
    """`narrow(x @ WEIGHTS)` with the loops in this order; weights are [n, k] where `turned`."""
    body = Block(arg_types=[tensor(i8, (5, 18))])

    def add(op: Operation) -> SSAValue:
        body.add_op(op)
        return op.results[0]

    weights = add(ConstantOp.of(Array.of(np.ascontiguousarray(WEIGHTS.T) if turned else WEIGHTS)))
    total = add(FillOp.of(number_attr(0, i32), tensor(i32, (5, 20))))
    factors = [(body.args[0], "mk"), (weights, "nk" if turned else "kn")]
    factors = factors[::-1] if swapped else factors
    kinds = {True: IteratorKind.REDUCTION, False: IteratorKind.PARALLEL}
    iterators = [IteratorAttr.of(name, kinds[name == "k"], SIZES[name]) for name in order]
    maps = [
        AffineMap(3, 0, tuple(AffineExpr.dimension(order.index(name)) for name in index))
        for index in (*(index for _, index in factors), "mn")
    ]
    product = emit_body([i8, i8, i32], lambda a, b, acc: multiply_accumulate(a, b, acc, to=i32))
    total = add(BlockOp(iterators, [value for value, _ in factors], [total], maps, product))
    narrowed = add(EmptyOp.of(tensor(i8, (5, 20))))
    iterators = [IteratorAttr.of(name, kinds[False], SIZES[name]) for name in "mn"]
    region = emit_body([i32, i8], lambda x, _: narrow(x))
    result = add(BlockOp(iterators, [total], [narrowed], [AffineMap.identity(2)] * 2, region))
    body.add_op(ReturnOp(result))
    type_ = FunctionType.from_lists(body.arg_types, [result.type])
    module = ModuleOp([FuncOp("main", type_, Region(body))])
    module.verify()
    return module


@pytest.mark.parametrize("turned", [False, True], ids=["k n", "n k"])
@pytest.mark.parametrize("swapped", [False, True], ids=["x w", "w x"])
@pytest.mark.parametrize("order", ["".join(order) for order in permutations("mnk")])
def test_every_way_to_write_a_product_is_taken(order: str, swapped: bool, turned: bool):
    module = written_by_hand(
        order, swapped=swapped, turned=turned, narrow=NARROWINGS["rounded shift"]
    )
    report = partition(module, ["vta"])
    (region,) = report.regions
    assert [c.pattern for c in region.composites] == ["vta.contraction"]


@pytest.mark.parametrize("narrowing", NARROWINGS)
def test_every_way_to_narrow_it_computes_what_the_evaluator_computes(narrowing: str):
    def make() -> ModuleOp:
        return written_by_hand("kmn", swapped=True, turned=False, narrow=NARROWINGS[narrowing])

    x = np.random.default_rng(1).integers(-128, 128, (5, 18)).astype(np.int8)
    (expected,) = evaluate(make(), {"arg0": x}).values()
    module = make()
    report = partition(module, ["vta"])
    assert len(report.regions) == 1
    package = generate(module, report)
    (found,) = package.run({"arg0": x}, check=True).values()
    assert np.array_equal(found, expected)
    assert len(np.unique(found)) > 1


def test_a_product_narrowed_without_a_clip_is_not_taken():
    """VTA's store wraps as well, but no pattern says so."""
    module = written_by_hand("mnk", swapped=False, turned=False, narrow=lambda x: x.to(i8))
    assert not partition(module, ["vta"]).regions
