"""Bodies that look elements up in whole arrays, compare and select."""

import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineMap

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, EmptyOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import i8, i32, i64, tensor
from byocir.errors import ByocirError
from byocir.patterns import Composite, block, composite, wildcard
from byocir.patterns.document import document
from byocir.rewrites.pipeline import run_passes


def attempt(root: BlockOp, *patterns):
    return Composite("toy.lookup", patterns).attempt(root)


def activation(body, table_shape=(256,), swapped: bool = False) -> BlockOp:
    """An i8 table read for each element of an i8 array, by `body(x, table)`."""
    shapes = [tensor(i8, (3, 4)), tensor(i8, table_shape)]
    shapes = shapes[::-1] if swapped else shapes
    entry = Block(arg_types=shapes)
    values = list(entry.args)
    identity, whole = AffineMap.identity(2), AffineMap(2, 0, ())
    maps = [whole, identity] if swapped else [identity, whole]
    types = [i8, shapes[1]] if not swapped else [shapes[0], i8]
    empty = EmptyOp.of(tensor(i8, (3, 4)))

    def ordered(first, second, _):
        return body(second, first) if swapped else body(first, second)

    iterators = [IteratorAttr.of(n, IteratorKind.PARALLEL, e) for n, e in (("i", 3), ("j", 4))]
    made = BlockOp(
        iterators, values, [empty.results[0]], [*maps, identity], emit_body([*types, i8], ordered)
    )
    entry.add_ops([empty, made, ReturnOp(made.results[0])])
    type_ = FunctionType.from_lists(entry.arg_types, [made.results[0].type])
    ModuleOp([FuncOp("main", type_, Region(entry))]).verify()
    return made


def looked_up(offset: int = 128):
    x, table = wildcard("x"), wildcard("table")
    return block("*i", x["*i"], table, lambda acc, x, t: t.read(x.to(i32) + offset)) @ "lookup"


@pytest.mark.parametrize("swapped", [False, True])
def test_a_lookup_matches_and_binds_its_table(swapped: bool):
    root = activation(lambda x, t: t.read(x.to(i32) + 128), swapped=swapped)
    match = attempt(root, looked_up()).match
    assert match is not None
    assert match["table"].type.shape == (256,)
    assert match["x"].type.shape == (3, 4)
    assert match["lookup"].operands == ((1, 0) if swapped else (0, 1))


def test_another_lookup_does_not():
    root = activation(lambda x, t: t.read(x.to(i32) + 128))
    found = attempt(root, looked_up(127))
    assert found.reason == (
        "expected body t.read((x.to(i32) + 127)), found t.read((x.to(i32) + 128).to(i64))"
    )
    x = wildcard("x")
    found = attempt(root, block("*i", x["*i"], lambda acc, e: e))
    assert found.reason == "expected a block that reads at affine indices, found one with tir.read"
    two = activation(lambda x, t: t.read(x.to(i32), x.to(i32)), (256, 256))
    assert not attempt(two, looked_up(0)).fits


def test_a_block_without_a_table_does_not():
    found = attempt(activation(lambda x, t: x), looked_up())
    assert not found.fits


def test_a_gather_is_a_lookup_in_its_table():
    """Negative indices count from the end, so its body compares and selects."""
    module = parse_module(
        """
        func.func @main(%t: tensor<256xf32>, %i: tensor<4x3xi64>) -> tensor<4x3xf32> {
          %y = graph.gather %t, %i {axis = 0 : i64}
            : (tensor<256xf32>, tensor<4x3xi64>) -> tensor<4x3xf32> loc("gather")
          func.return %y : tensor<4x3xf32>
        }"""
    )
    run_passes(module, load_context(), "convert-graph-to-tir")
    root = next(op for op in module.walk() if isinstance(op, BlockOp))
    i, table = wildcard("i", dtype=i64), wildcard("table")
    gather = block("*i", i["*i"], table, lambda acc, x, t: t.read(x.wrapped(256)))
    assert attempt(root, gather).fits
    other = block("*i", i["*i"], table, lambda acc, x, t: t.read(x.wrapped(255)))
    assert not attempt(root, other).fits


def test_comparisons_have_names():
    x = wildcard("x")
    with pytest.raises(ByocirError, match="expected one of eq, ne, lt, le, gt, ge, found 'less'"):
        block("*i", x["*i"], lambda acc, e: e.compare("less", 0).select(e, 0))


def test_a_table_is_documented_without_an_index():
    @composite("npu.lookup")
    def made():
        return looked_up()

    assert "lookup = block [*i] reads x[*i] as x, table as t" in document("npu", [made])
