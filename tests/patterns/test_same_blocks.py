"""What patterns remember of a block holds for all blocks of its outline: attempts that share it say
what attempts on their own say."""

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.graph import ReluOp
from byocir.dialects.tir import BlockOp, EmptyOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.scalar import emit_body, number_attr
from byocir.dialects.types import i8, tensor
from byocir.patterns import Composite, block, op, path, wildcard
from byocir.patterns.same_blocks import Alike
from byocir.patterns.trail import nearest_misses
from byocir.patterns.value_tests import shape

few = settings(max_examples=settings.default.max_examples // 2)

ROW, COLUMN = AffineExpr.dimension(0), AffineExpr.dimension(1)
ITERATORS = [IteratorAttr.of(name, IteratorKind.PARALLEL, 2) for name in "ij"]
PARALLEL, REDUCTION = IteratorKind.PARALLEL, IteratorKind.REDUCTION


def copied(acc, x):
    return x


def doubled(acc, x):
    return x + x


def added(acc, x):
    return acc + x


def composites() -> list[Composite]:
    """Patterns that take no offset, a number, any, the same twice, and such below another block."""
    found = list[Composite]()
    for read in ["i j", "(i + 1) j", "(i + p) (j + q)", "(i + p) (j + p)", "(i + p) (j*p)"]:
        inner = block("i j", wildcard("x")[read], copied)
        outer = block("i j", inner["i j"], doubled)
        name = f"toy.p{len(found)}"
        found += [Composite(name, (inner,)), Composite(f"{name}_in", (outer,))]
    return found


def composites_of_sizes() -> list[Composite]:
    """Patterns that compare a block itself alike, and its operands or properties not."""
    x, small = wildcard("x"), wildcard("x", where=shape(1, 2))
    patterns = [block("i j", x["i j"], copied), block("i j", small["i j"].padded(0), copied)]
    patterns += [block("i j", x["i j"].padded("p"), copied), block("i j", x["j i"], copied)]
    patterns += [block("j", x["j"], copied), block("i | j", x["i j"], added)]
    patterns += [block("*i | *j", x["*i *j"], added), block("*i j", x["*i j"], doubled)]
    patterns += [
        block("i j", patterns[i]["i j"], doubled, init=init)
        for i in (0, 1, 2)
        for init in (None, 0)
    ]
    patterns += [op("tir.block", x, wildcard(), iterators=has_one_row), small | op("tir.copy", x)]
    return [Composite(f"toy.p{i}", (pattern,)) for i, pattern in enumerate(patterns)]


def has_one_row(iterators: tuple[IteratorAttr, ...]) -> bool:
    """of one row"""
    return iterators[0].extent.data == 1


def block_of(
    value: SSAValue,
    start: tuple[int, int],
    step: int,
    body,
    sizes: tuple[int, int] = (2, 2),
    kind: IteratorKind = PARALLEL,
    pad: int | None = None,
) -> BlockOp:
    """A block [i, j] of these sizes, the last of which may be a reduction, that reads
    `value[i + start, step * j + start]`.
    """
    result = sizes if kind is PARALLEL else sizes[:1]
    empty = EmptyOp.of(tensor(i8, result))
    read = (ROW + start[0], COLUMN * step + start[1])
    maps = [AffineMap(2, 0, read), AffineMap(2, 0, (ROW, COLUMN)[: len(result)])]
    region = emit_body([i8, i8], lambda x, acc: body(acc, x))
    iterators = [IteratorAttr.of(*each) for each in zip("ij", (PARALLEL, kind), sizes, strict=True)]
    pads = [None if pad is None else number_attr(pad, i8)]
    return BlockOp(iterators, [value], [empty.results[0]], maps, region, pads=pads)


@st.composite
def blocks(draw) -> list[BlockOp]:
    """Blocks of one function, each of which reads a part of its argument or another block."""
    whole = Block(arg_types=[tensor(i8, (8, 8))])
    made = list[BlockOp]()
    for _ in range(draw(st.integers(2, 12))):
        body = draw(st.sampled_from([copied, doubled]))
        if made and draw(st.booleans()):
            op = block_of(draw(st.sampled_from(made)).results[0], (0, 0), 1, body)
        else:
            start = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
            op = block_of(whole.args[0], start, draw(st.integers(1, 3)), body)
        whole.add_ops([op.outs[0].owner, op])
        made.append(op)
    whole.add_op(ReturnOp(made[-1].results[0]))
    FuncOp("main", ([whole.args[0].type], [made[-1].results[0].type]), Region(whole)).verify()
    return made


@st.composite
def layers(draw) -> list[BlockOp]:
    """Blocks of several sizes in one function, each on an argument of its own or on another block,
    of which it may read a part, or more than there is.
    """
    whole, made, sizes = Block(), list[BlockOp](), st.integers(1, 3)
    for _ in range(draw(st.integers(2, 12))):
        extents = draw(st.tuples(sizes, sizes))
        body, kind = draw(
            st.sampled_from([(copied, PARALLEL), (doubled, PARALLEL), (added, REDUCTION)])
        )
        fitting = [op.results[0] for op in made if op.results[0].type == tensor(i8, extents)]
        if fitting and draw(st.booleans()):
            value, pad = draw(st.sampled_from(fitting)), None
        else:
            part, pad = draw(sizes), draw(st.sampled_from([None, 0, 1]))
            value = whole.insert_arg(tensor(i8, (extents[0], extents[1] * part)), len(whole.args))
        op = block_of(value, (0, 0), 1, body, extents, kind, pad)
        whole.add_ops([op.outs[0].owner, op])
        made.append(op)
    return made


def check_that_sharing_tells_the_same(patterns: list[Composite], ops: list[BlockOp]) -> None:
    shared = Alike()

    def said(op: BlockOp, alike: Alike | None) -> list[tuple[object, ...]]:
        tried = [composite.attempt(op, alike=alike) for composite in patterns]
        tried += nearest_misses(op, patterns, {}, alike)
        return [(a.composite.name, a.matched, a.reason, a.near, a.match is None) for a in tried]

    assert [said(op, shared) for op in ops] == [said(op, None) for op in ops]


@few
@given(blocks())
def test_attempts_that_share_what_is_alike_say_the_same(ops: list[BlockOp]) -> None:
    check_that_sharing_tells_the_same(composites(), ops)


@few
@given(layers())
def test_attempts_on_layers_of_several_sizes_say_the_same(ops: list[BlockOp]) -> None:
    check_that_sharing_tells_the_same(composites_of_sizes(), ops)


def test_what_bodies_are_called_is_told_apart_though_they_compute_the_same() -> None:
    whole = Block(arg_types=[tensor(i8, (2, 2))])
    made = block_of(whole.args[0], (0, 0), 1, doubled)
    bodies = [lambda acc, x: x, lambda acc, y: y, lambda acc, x: x + 1]
    patterns = [block("i j", wildcard()["i j"], body) for body in bodies]
    shared = Alike()
    found = [Composite("toy.p", (each,)).attempt(made, alike=shared).reason for each in patterns]
    texts = [("x", "x + x"), ("y", "y + y"), ("x + 1", "x + x")]
    assert found == [f"expected body {wanted}, found {seen}" for wanted, seen in texts]


def test_paths_look_at_more_than_the_block_they_end_at() -> None:
    """relu(x) + y comes from two values, relu(x) + relu(x) from one; the outline is the same."""
    type_ = tensor(i8, (2, 2))
    whole = Block(arg_types=[type_, type_])
    relu = ReluOp.make(whole.args[0])
    whole.add_op(relu)
    made = list[BlockOp]()
    for operands in ([relu.results[0], whole.args[1]], [relu.results[0]] * 2):
        empty, region = EmptyOp.of(type_), emit_body([i8] * 3, lambda a, b, acc: a + b)
        maps = [AffineMap(2, 0, (ROW, COLUMN))] * 3
        made.append(BlockOp(ITERATORS, operands, [empty.results[0]], maps, region))
        whole.add_ops([empty, made[-1]])
    of_relu = path(op("graph.relu", wildcard("x")), "tir.block", "tir.empty")
    from_one, shared = Composite("toy.path", (of_relu,)), Alike()
    found = [from_one.attempt(each, alike=shared).match is not None for each in made]
    assert found == [from_one.attempt(each).match is not None for each in made] == [False, True]


def test_blocks_without_inputs_are_told_apart_by_what_they_start_from() -> None:
    type_ = tensor(i8, (2, 2))
    whole, made = Block(), list[BlockOp]()
    for start in (1, 0):
        fill, region = FillOp.of(number_attr(start, i8), type_), emit_body([i8], lambda acc: acc)
        maps = [AffineMap(2, 0, (ROW, COLUMN))]
        made.append(BlockOp(ITERATORS, [], [fill.results[0]], maps, region))
        whole.add_ops([fill, made[-1]])
    zeros, shared = Composite("toy.zeros", (block("i j", lambda acc: acc, init=0),)), Alike()
    found = [zeros.attempt(op, alike=shared).fits for op in made]
    assert found == [zeros.attempt(op).fits for op in made] == [False, True]
