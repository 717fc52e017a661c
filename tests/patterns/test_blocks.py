"""Block patterns: any loop order, operand order and names; what they decline, and why."""

import itertools
from dataclasses import dataclass

import pytest
from block_programs import Conv, Read, Spec, at, attempt, matmul, product
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from byocir.dialects.decisions import Gap
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32, i8, i32, i64, shape_of, tensor
from byocir.patterns import Composite, block, number, wildcard

SIZES = {"n": 2, "o": 3, "c": 4, "h": 5, "w": 6, "r": 2, "s": 3}


def gemm():
    a, b = wildcard("a"), wildcard("b")
    return block("m n | k", a["m k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))


def conv(pad: int | None = 0):
    x, k = wildcard("x"), wildcard("k")
    image = x["n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"]
    image = image if pad is None else image.padded(pad)
    return block("n o h w | c r s", image, k["o c r s"], product)


@pytest.mark.parametrize("order", list(itertools.permutations("mnk")), ids="".join)
@pytest.mark.parametrize("swap", [(0, 1), (1, 0)])
def test_loops_and_operands_in_any_order(order, swap):
    """A matrix product whose loops run in another order than the pattern's."""
    spec = matmul(order=order, swap=swap)
    found = attempt(spec, gemm())
    assert found.fits
    assert found.match["a"].type.shape == (3, 5)
    assert found.match["b"].type.shape == (4, 5)
    assert len(found.match.state.constants) == 1


def test_names_of_iterators_do_not_matter():
    spec = matmul(names={"m": "n", "n": "whatever", "k": "m"})
    assert attempt(spec, gemm()).fits


def test_equal_extents_do_not_confuse():
    spec = matmul(4, 4, 4, order="knm")
    found = attempt(spec, gemm())
    assert found.match["a"].value is found.root.operands[0]


def test_a_transposed_operand_declines():
    spec = matmul()
    spec.reads = [Read(at("m", "k")), Read(at("k", "n"))]
    found = attempt(spec, gemm())
    assert found.reason == (
        "expected indices [m k], [n k] for [m n], found [m, k], [k, n] for [m, n]; b differs"
    )
    assert not found.matched
    a, b = wildcard(), wildcard()
    assert attempt(spec, block("m n | k", a["m k"], b["k n"], product)).fits


def test_a_transposed_result_is_another_index():
    spec = matmul()
    spec.out = at("n", "m")
    a, b = wildcard("a"), wildcard("b")
    found = attempt(spec, block("m n | k", a["m k"], b["n k"], product, out="n m"))
    assert found.fits
    # The product is symmetric in its operands, so this is also one with the operands swapped.
    assert attempt(spec, gemm()).match["a"].type.shape == (4, 5)


def test_other_bodies_decline():
    for body in (
        lambda acc, x, y: acc + x.to(i32) + y.to(i32),
        lambda acc, x, y: acc - x.to(i32) * y.to(i32),
        lambda acc, x, y: x.to(i32) * y.to(i32),
        lambda acc, x, y: acc + (x * y).to(i32),
    ):
        spec = matmul()
        spec.body = body
        found = attempt(spec, gemm())
        assert found.reason.startswith("expected body acc + (x.to(i32) * y.to(i32)), found ")
        assert len(found.matched) == 1, "it reads and writes as the pattern does"


def test_only_windows_read_outside():
    """Channels beyond those that there are would be those of something else on a device."""
    _, root = Conv(SIZES, pads=(1, 1)).spec().module()
    image = root.ins[0]
    batch, channels, *rest = shape_of(image.type)
    Rewriter.replace_value_with_new_type(image, tensor(i8, [batch, channels - 1, *rest]))
    assert Composite("toy.block", (conv(),)).attempt(root).reason == (
        f"expected c to read inside {channels - 1} elements at "
        f"[n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)], found {channels}"
    )


def test_strides_dilations_and_pads_bind():
    numbers = Conv(SIZES, strides=(2, 3), dilations=(1, 2), pads=(1, 2))
    match = attempt(numbers.spec(order="srwchon", swap=(1, 0)), conv()).match
    read = {name: match[name] for name in ("sh", "sw", "dh", "dw", "ph", "pw")}
    assert read == {"sh": 2, "sw": 3, "dh": 1, "dw": 2, "ph": 1, "pw": 2}


def test_numbers_in_an_index_must_be_equal():
    x, k = wildcard(), wildcard()
    image = x["n c (2*h + r) (w*2 + s + 0)"]
    pattern = block("n o h w | c r s", image, k["o c r s"], product)
    assert attempt(Conv(SIZES, strides=(2, 2)).spec(), pattern).fits
    assert not attempt(Conv(SIZES, strides=(2, 1)).spec(), pattern).fits
    assert not attempt(Conv(SIZES, strides=(2, 2), pads=(1, 0)).spec(), pattern).fits


def test_one_unknown_has_one_value():
    x, k = wildcard(), wildcard()
    pattern = block("n o h w | c r s", x["n c (h*t + r) (w*t + s)"], k["o c r s"], product)
    assert attempt(Conv(SIZES, strides=(3, 3)).spec(), pattern).match["t"] == 3
    assert not attempt(Conv(SIZES, strides=(2, 3)).spec(), pattern).fits
    # A row alone tells nothing of its stride, so the columns decide.
    flat = Conv({**SIZES, "h": 1}, strides=(1, 3)).spec()
    flat.reads[0].index[2] = ({"r": 1}, 0)
    assert attempt(flat, pattern).match["t"] == 3


def test_iterators_of_extent_one_may_be_missing():
    """A 1x1 convolution of one image, as written by hand: no batch and no kernel loops."""
    reads = [Read(at("0", "c", "h", "w")), Read(at("o", "c", "0", "0"))]
    sizes = {"o": 3, "h": 5, "w": 6}
    spec = Spec(sizes, {"c": 4}, reads, at("0", "o", "h", "w"), product)
    found = attempt(spec, conv(pad=None))
    assert found.fits
    assert (found.match["sh"], found.match["dw"], found.match["ph"]) == (1, 1, 0)


def test_a_missing_iterator_is_not_one_that_is_there():
    reads = [Read(at("0", "c", "h", "w")), Read(at("o", "c", "0", "0"))]
    sizes = {"b": 2, "o": 3, "h": 5, "w": 6}
    spec = Spec(sizes, {"c": 4}, reads, at("0", "o", "h", "w"), product)
    assert not attempt(spec, conv(pad=None)).fits, "it runs twice over the result"


def test_pads():
    padded = Conv(SIZES, pads=(1, 1))
    found = attempt(padded.spec(), conv(pad=None))
    index = "n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"
    assert found.reason == f"expected no pad at [{index}], found 0"
    assert attempt(padded.spec(), conv(pad=-1)).reason == f"expected pad -1 at [{index}], found 0"
    assert attempt(Conv(SIZES).spec(), conv(pad=7)).fits, "nothing is read outside"


def test_what_the_result_starts_from():
    """The initial value is a fill before the block; another number declines."""
    assert attempt(matmul(init=0), gemm()).fits
    found = attempt(matmul(init=5), gemm())
    assert found.reason == "expected the result to start from 0, found 5"
    found = attempt(matmul(init=None), gemm())
    assert found.reason == "expected the result to start from 0, found tir.empty"
    a, b = wildcard(), wildcard()
    assert attempt(matmul(init=5), block("m n | k", a["m k"], b["n k"], product, init=5)).fits


def test_a_start_from_any_value_is_a_pattern():
    """A bias as the initial value: the sum begins with it."""
    spec = matmul()
    module, op = spec.module()
    bias = Spec({"m": 3, "n": 4}, {}, [Read(at("n"), i32)], at("m", "n"), lambda acc, b: b)
    value = module.body.block.first_op.body.block.insert_arg(bias.type_of(bias.reads[0]), 2)
    made = bias.build([value])
    op.parent.insert_ops_before(made, op)
    op.operands[2] = made[-1].results[0]
    a, b, start = wildcard("a"), wildcard("b"), wildcard("start")
    added = block("*i", start["~i"], lambda acc, b: b)
    pattern = block("m n | k", a["m k"], b["n k"], product, init=added)
    found = Composite("toy.biased", (pattern,)).attempt(op)
    assert found.fits
    assert (len(found.matched), found.total) == (2, 2)
    assert found.match["start"].type.shape == (4,)
    assert Composite("toy.gemm", (gemm(),)).attempt(op).reason == (
        "expected the result to start from 0, found tir.block"
    )


def test_parts_of_a_block_decline():
    spec = matmul()
    _, op = spec.module()
    guarded = with_part(
        op, where=AffineMap(3, 0, (AffineExpr.constant(2) - AffineExpr.dimension(0),))
    )
    reason = "expected a whole block, found a part (where or bases)"
    assert Composite("toy.gemm", (gemm(),)).attempt(guarded).reason == reason
    based = with_part(op, bases=Block(arg_types=[IndexType()] * 3).args)
    assert Composite("toy.gemm", (gemm(),)).attempt(based).reason == reason


def with_part(op: BlockOp, **part) -> BlockOp:
    maps = [attr.data for attr in op.maps]
    made = BlockOp(list(op.iterators), op.ins, op.outs, maps, op.body.clone(), **part)
    op.parent.insert_op_after(made, op)
    return made


K = AffineExpr.dimension(2)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (
            K // 2,
            "expected indices [m k], [n k] for [m n], found [m, k floordiv 2], [n, k] for [m, n]; "
            "a differs",
        ),
        (K % 2, "expected affine indices, or such divided by a number"),
        (K // 2 + 1, "expected affine indices, or such divided by a number"),
    ],
)
def test_divided_indices_decline(index, reason):
    spec = matmul()
    _, op = spec.module()
    maps = [attr.data for attr in op.maps]
    maps[0] = AffineMap(3, 0, (maps[0].results[0], index))
    made = BlockOp(list(op.iterators), op.ins, op.outs, maps, op.body.clone())
    op.parent.insert_op_after(made, op)
    assert Composite("toy.gemm", (gemm(),)).attempt(made).reason == reason


def test_other_numbers_of_inputs_and_iterators():
    x = wildcard()
    found = attempt(matmul(), block("m n | k", x["m k"], lambda acc, x: acc + x))
    told = "expected a block of 1 inputs, found 2 in acc + (x.to(i32) * y.to(i32))"
    assert found.reason == told
    assert found.gap == Gap.KIND
    found = attempt(Conv(SIZES).spec(), gemm())
    assert found.reason == "expected at most 1 reduction iterators, found 3"
    assert found.gap == Gap.PART
    a, b = wildcard(), wildcard()
    found = attempt(matmul(), block("m n *p | k", a["m k"], b["n k"], product))
    assert found.fits, "a group may be empty"
    found = attempt(matmul(), block("m | k", a["m k"], b["k"], product))
    differs = "expected indices [m k], [k] for [m], found [m, k], [n, k] for [m, n]"
    assert found.reason.startswith(differs)


@pytest.mark.parametrize(
    ("body", "gap"),
    [
        (lambda acc, x: acc.max(x), Gap.KIND),
        (lambda acc, x: x, Gap.KIND),
        (lambda acc, x: x - 1, Gap.PART),
    ],
)
def test_a_pattern_that_sums_up_or_only_copies_is_of_another_kind(body, gap):
    spec = Spec({"i": 6}, {}, [Read(at("i"), i32)], at("i"), lambda acc, x: x + 1, init=None)
    assert attempt(spec, block("i", wildcard()["i"], body)).gap == gap


@pytest.mark.parametrize("line", [(), ("0",)], ids=["lines", "images"])
def test_a_result_with_too_few_dimensions_is_told_how_many_more_may_fit(line):
    """A convolution over lines is one over images that are 1 high."""
    window = ({"w": 1, "s": 1}, 0)
    reads = [Read([*at("n", "c", *line), window]), Read(at("o", "c", *line, "s"))]
    sizes = {"n": 2, "o": 3, "w": 6}, {"c": 4, "s": 3}
    found = attempt(Spec(*sizes, reads, at("n", "o", *line, "w"), product), conv(None))
    hint = (
        "found [n, c, w + s], [o, c, s] for [n, o, w]; it may fit with 1 more dimension of size 1"
    )
    assert found.fits if line else found.reason.endswith(hint)


def test_a_result_with_too_many_dimensions_is_told_what_stands_for_them():
    """The reads of a product of matrices have as many more, or none where all share a matrix."""
    a, b = wildcard(), wildcard()
    each, shared = (block("*b m n | k", a["*b m k"], b[i], product) for i in ("*b k n", "k n"))
    sizes = {"b": 2, "m": 3, "n": 4}, {"k": 5}
    straight = block("m n | k", a["m k"], b["k n"], product)
    for right, taker in ((at("b", "k", "n"), each), (at("k", "n"), shared)):
        spec = Spec(*sizes, [Read(at("b", "m", "k")), Read(right)], at("b", "m", "n"), product)
        hint = "; it may fit with a group in front, as in [*b m n]"
        found = attempt(spec, straight)
        assert found.reason.endswith(hint)
        assert found.gap == Gap.DIMENSIONS
        assert attempt(spec, taker).fits
        either = block("*b m n | k", a["*b m k"], b["~b k n"], product)
        assert attempt(spec, either).fits


def test_a_pattern_of_numbers_by_channel_is_told_how_it_takes_a_single_one():
    def scaled(_, x, s):
        return x * s

    one, by_channel = (Read(index, f32) for index in ([], at("n")))
    plain = block("m n", wildcard("x")["m n"], wildcard("s")["n"], scaled)
    single = block("m n", wildcard("x")["m n"], wildcard("s")[""], scaled)
    either = block("*m *n", wildcard("x")["*m *n"], wildcard("s")["~n"], scaled)
    for read, other, hint in (
        (one, plain, "; a single number fits [~n], for a group *n of the result"),
        (by_channel, single, "; the pattern takes a single number there"),
    ):
        reads = [Read(at("m", "n"), f32), read]
        spec = Spec({"m": 3, "n": 4}, {}, reads, at("m", "n"), scaled, element=f32, init=None)
        assert attempt(spec, other).reason.endswith(hint)
        assert attempt(spec, either).fits


def test_the_root_must_be_a_block():
    spec = matmul()
    _, op = spec.module()
    found = Composite("toy.gemm", (gemm(),)).attempt(op.outs[0].owner)
    assert found.reason == "expected a block, found tir.fill"


def test_numbers_of_a_body_bind_and_must_agree():
    def body(acc, x):
        return (x.to(i64) * 7 + 4 >> 3).clamp(-128, 127).to(i8)

    spec = Spec({"i": 6}, {}, [Read(at("i"), i32)], at("i"), body, element=i8, init=None)
    x = wildcard("x")

    def pattern(acc, x):
        scaled = x.to(i64) * number("m") + number("half") >> number("s")
        return scaled.clamp(-128, 127).to(i8)

    match = attempt(spec, block("*i", x["*i"], pattern)).match
    assert (match["m"], match["half"], match["s"]) == (7, 4, 3)

    def same(acc, x):
        scaled = x.to(i64) * number("m") + number("m") >> number("s")
        return scaled.clamp(-128, 127).to(i8)

    assert not attempt(spec, block("*i", x["*i"], same)).fits


def test_a_number_alone_is_a_body():
    spec = Spec({"i": 3}, {}, [], at("i"), lambda acc: acc.max(3).min(3), init=None)
    assert not attempt(spec, block("*i", lambda acc: 3)).fits


@dataclass
class Adds:
    """A body that has no hash."""

    number: int

    def __call__(self, acc, x):
        return x + self.number


class AddsAlike(Adds):
    """A body that equals others, whatever they add."""

    def __eq__(self, other):
        return isinstance(other, AddsAlike)

    def __hash__(self):
        return 0


@pytest.mark.parametrize("kind", [Adds, AddsAlike])
def test_objects_that_can_be_called_are_bodies(kind):
    spec = Spec({"i": 6}, {}, [Read(at("i"), i32)], at("i"), lambda acc, x: x + 3, init=None)
    x = wildcard("x")
    assert attempt(spec, block("*i", x["*i"], kind(3))).fits
    found = attempt(spec, block("*i", x["*i"], kind(2)))
    assert found.reason == "expected body x + 2, found x + 3"


def test_an_unused_start_is_no_input_and_a_used_one_is():
    """A block that adds in place reads what its result starts from."""
    spec = Spec({"i": 6}, {}, [Read(at("i"), i32)], at("i"), lambda acc, x: acc + x, init=3)
    x = wildcard("x")
    found = attempt(spec, block("*i", x["*i"], lambda acc, x: acc + x))
    assert found.fits
    assert [c.name for c in found.match.state.constants] == ["tir.fill"]
    assert IntegerAttr(3, i32) == found.match.state.constants[0].value
