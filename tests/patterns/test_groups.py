"""Groups of iterators: one pattern for any rank, broadcasting, layouts around the named ones."""

import pytest
from block_programs import Conv, Read, Spec, at, attempt, matmul, product

from byocir.dialects.types import i32
from byocir.errors import ByocirError
from byocir.patterns import block, constant, wildcard
from byocir.patterns.index import Iterators, parse_index

POINTWISE = {"n": 2, "o": 3, "c": 4, "h": 5, "w": 6, "r": 1, "s": 1}


def grouped():
    """A product of anything in front, so a matrix product and a 1x1 convolution."""
    a, b = wildcard("a"), wildcard("b")
    return block("*m n | k", a["*m k"], b["n k"], product)


def each(spec: Spec) -> Spec:
    spec.init = None
    return spec


def copy_of(sizes, read, out):
    return each(Spec(sizes, {}, [Read(at(*read), i32)], at(*out), lambda acc, x: x + 1))


def plus_one():
    x = wildcard("x")
    return block("*i", x["*i"], lambda acc, x: x + 1)


def sum_of(sizes, read, other, out):
    reads = [Read(at(*read), i32), Read(at(*other), i32)]
    return each(Spec(sizes, {}, reads, at(*out), lambda acc, x, b: x - b))


def minus():
    x, b = wildcard("x"), wildcard("b")
    return block("*i", x["*i"], b["~i"], lambda acc, x, b: x - b)


@pytest.mark.parametrize("order", ["mnk", "knm"])
def test_matrix_product_matches_the_grouped_pattern(order):
    found = attempt(matmul(order=order), grouped())
    assert found.fits
    assert found.match["a"].type.shape == (3, 5)


@pytest.mark.parametrize("swap", [(0, 1), (1, 0)])
@pytest.mark.parametrize("order", ["nohwcrs", "srcwhon"])
def test_pointwise_convolution_matches_the_grouped_pattern(order, swap):
    """The group is batch, rows and columns, on both sides of the channels."""
    found = attempt(Conv(POINTWISE).spec(order=order, swap=swap), grouped())
    assert found.fits
    assert found.match["a"].type.shape == (2, 4, 5, 6)
    assert found.match["b"].type.shape == (3, 4, 1, 1)


def test_pointwise_convolution_of_one_image_and_unit_loops_dropped():
    reads = [Read(at("0", "c", "h", "w")), Read(at("o", "c", "0", "0"))]
    spec = Spec({"o": 3, "h": 5, "w": 6}, {"c": 4}, reads, at("0", "o", "h", "w"), product)
    assert attempt(spec, grouped()).fits


def test_a_group_may_be_empty():
    """A star stands for any number of iterators: none of a matrix product, none of a number."""
    a, b = wildcard("a"), wildcard("b")
    batched = block("*b m n | k", a["*b m k"], b["*b n k"], product) @ "gemm"
    match = attempt(matmul(), batched).match
    assert match is not None
    assert match["gemm"].iterators["b"] == ()
    assert match["gemm"].extents == {"b": 1, "m": 3, "n": 4, "k": 5}
    assert attempt(copy_of({}, "", ""), plus_one()).fits
    vector = Spec({"n": 4}, {"k": 5}, [Read(at("k")), Read(at("n", "k"))], at("n"), product)
    assert attempt(vector, grouped()).fits


def test_groups_are_told_apart_by_what_they_index():
    """One pattern for products with rows, batches, both and neither, in any order of loops."""
    a, b = wildcard("a"), wildcard("b")
    pattern = block("*b *m n | k", a["*b *m k"], b["*b n k"], product) @ "gemm"
    sizes = {"b": 2, "c": 3, "m": 4, "p": 5, "n": 6}
    reads = [Read(at(*"bcmpk")), Read(at(*"bcnk"))]
    spec = Spec(sizes, {"k": 7}, reads, at(*"bcmpn"), product, order="knpmcb")
    match = attempt(spec, pattern).match
    assert match is not None
    assert match["gemm"].iterators == {"b": (5, 4), "m": (3, 2), "n": (1,), "k": (0,)}
    assert match["gemm"].extents == {"b": 6, "m": 20, "n": 6, "k": 7}
    assert attempt(matmul(), pattern).match["gemm"].extents == {"b": 1, "m": 3, "n": 4, "k": 5}


@pytest.mark.parametrize("order", ["nchw", "wchn"])
@pytest.mark.parametrize(("kept", "summed"), [("nc", "hw"), ("hw", "nc"), ("", "nchw"), ("c", "n")])
def test_one_pattern_is_every_reduction(order, kept, summed):
    """Over any axes of an array of any rank."""
    sizes = {name: 2 + i for i, name in enumerate("nchw") if name in kept + summed}
    axes = [name for name in "nchw" if name in sizes]
    parallel = {name: sizes[name] for name in axes if name in kept}
    reduced = {name: sizes[name] for name in axes if name in summed}
    loops = [name for name in order if name in sizes]
    spec = Spec(
        parallel,
        reduced,
        [Read(at(*axes), i32)],
        at(*kept),
        lambda acc, x: acc + x,
        order=loops,
    )
    x = wildcard("x")
    pattern = block("*i | *r", x["*i *r"], lambda acc, x: acc + x) @ "sum"
    match = attempt(spec, pattern).match
    assert match is not None
    assert match["sum"].iterators["r"] == tuple(
        loops.index(name) for name in axes if name in summed
    )
    largest = block("*i | *r", x["*i *r"], lambda acc, x: acc.max(x))
    assert not attempt(spec, largest).fits
    spec.reads[0].index[0] = ({axes[0]: 2}, 0)
    assert not attempt(spec, pattern).fits


def test_a_contraction_of_several_reductions_reads_both_operands_in_one_order():
    a, b = wildcard("a"), wildcard("b")
    pattern = block("m n | *k", a["m *k"], b["n *k"], product)
    sizes, sums = {"m": 2, "n": 3}, {"k": 4, "l": 5}
    reads = [Read(at(*"mkl")), Read(at(*"nkl"))]
    for order in ("mnkl", "lknm"):
        assert attempt(Spec(sizes, sums, reads, at(*"mn"), product, order=order), pattern).fits
    crossed = [Read(at(*"mkl")), Read(at(*"nlk"))]
    assert not attempt(Spec(sizes, sums, crossed, at(*"mn"), product), pattern).fits


def test_a_broadcast_iterator_of_one_point_may_be_anywhere():
    """A number for each channel of images that are 1 wide, channels last: [c, 1, w]."""
    sizes = {"n": 2, "h": 3, "w": 1, "c": 4}
    numbers = [*at("c", "0"), ({"w": 1}, 0)]
    spec = sum_of(sizes, "nhwc", "", "nhwc")
    spec.reads = [spec.reads[0], Read(numbers, i32)]
    assert attempt(spec, minus()).fits
    spec.parallel = {**sizes, "w": 2}
    assert not attempt(spec, minus()).fits


def test_batched_product_matches_and_a_batch_of_both_does_not():
    sizes = {"b": 2, "m": 3, "n": 4}
    reads = [Read(at("b", "m", "k")), Read(at("n", "k"))]
    assert attempt(Spec(sizes, {"k": 5}, reads, at("b", "m", "n"), product), grouped()).fits
    reads = [Read(at("b", "m", "k")), Read(at("b", "n", "k"))]
    spec = Spec(sizes, {"k": 5}, reads, at("b", "m", "n"), product)
    assert attempt(spec, grouped()).reason.startswith("expected indices [")


@pytest.mark.parametrize(
    "conv",
    [
        Conv({**POINTWISE, "r": 3}),
        Conv(POINTWISE, strides=(2, 2)),
        Conv(POINTWISE, pads=(1, 1)),
    ],
    ids=["3x1", "strided", "padded"],
)
def test_other_convolutions_do_not(conv):
    assert not attempt(conv.spec(), grouped()).fits


def test_a_group_keeps_its_order_so_a_transpose_is_no_elementwise_block():
    sizes = {"i": 2, "j": 3, "l": 4}
    assert attempt(copy_of(sizes, "ijl", "ijl"), plus_one()).fits
    for read in ("ilj", "jil", "lji"):
        assert attempt(copy_of(sizes, read, "ijl"), plus_one()).reason.startswith(
            "expected indices ["
        )
    assert not attempt(copy_of({"i": 3, "j": 3}, "ji", "ij"), plus_one()).fits
    spec = copy_of({"i": 2, "j": 3}, "ji", "ji")
    assert attempt(spec, plus_one()).fits, "the order of the loops is another matter"


def test_a_group_reads_each_element_once_and_all_of_them():
    assert not attempt(copy_of({"i": 3}, "ii", "i"), plus_one()).fits
    assert not attempt(copy_of({"i": 3, "j": 2}, "i", "ij"), plus_one()).fits
    spec = copy_of({"i": 3}, "i", "i")
    spec.reads[0].index[0] = ({"i": 2}, 0)
    assert not attempt(spec, plus_one()).fits
    spec.reads[0].index[0] = ({"i": 1}, 1)
    assert not attempt(spec, plus_one()).fits


def test_dimensions_of_size_one_may_be_added():
    """What reshaping between [n, c] and [n, c, 1, 1] reads."""
    assert attempt(copy_of({"n": 2, "c": 3}, "nc00", "nc"), plus_one()).fits
    assert attempt(copy_of({"n": 2, "c": 3}, "nc", "nc00"), plus_one()).fits


@pytest.mark.parametrize(
    "other", ["c", "0c00", "c00", "nchw", "hw", "0", ""], ids=lambda other: other or "scalar"
)
def test_broadcasts(other):
    sizes = {"n": 2, "c": 3, "h": 4, "w": 5}
    assert attempt(sum_of(sizes, "nchw", other, "nchw"), minus()).fits


@pytest.mark.parametrize("other", ["hc", "cc", "wh"])
def test_what_is_no_broadcast(other):
    sizes = {"n": 2, "c": 3, "h": 4, "w": 5}
    assert not attempt(sum_of(sizes, "nchw", other, "nchw"), minus()).fits


def test_broadcast_of_a_constant_bias():
    sizes = {"n": 2, "c": 3}
    x, b = wildcard("x"), constant("b")
    pattern = block("*i", x["*i"], b["~i"], lambda acc, x, b: x - b)
    found = attempt(sum_of(sizes, "nc", "c", "nc"), pattern)
    assert found.reason == "expected constant b, found an input of the function"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected distinct iterators, found ''"),
        ("m m | k", "expected distinct iterators, found 'm m | k'"),
        ("m | m", "expected distinct iterators, found 'm | m'"),
        ("*m | *m", r"expected distinct iterators, found '\*m \| \*m'"),
        ("m | k | l", "expected iterators by name, such as 'm n | k', found 'm | k | l'"),
        ("*i *i", r"expected distinct iterators, found '\*i \*i'"),
    ],
)
def test_iterators_that_cannot_be(text, message):
    with pytest.raises(ValueError, match=message.replace(" | ", r" \| ")):
        Iterators.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q", r"expected one of the iterators h, k, \*i, found 'q'"),
        ("*h", r"expected one of the iterators h, k, \*i, found '\*h'"),
        ("(h k)", r"expected a sum of iterators, found '\(h k\)'"),
        ("(h*k)", r"expected iterator \* coefficient terms"),
        ("(a*b)", r"expected iterator \* coefficient terms"),
        ("(h + h)", r"expected iterator \* coefficient terms"),
        ("(h + p + q)", r"expected iterator \* coefficient terms"),
        ("(k - h)", r"expected iterator \* coefficient terms"),
        ("(h + i)", r"expected iterator \* coefficient terms"),
        ("(h +)", "expected a sum of iterators"),
        ("(h) floordiv k", "expected floordiv by a positive number or a name, found 'k'"),
        ("(h) floordiv 0", "expected floordiv by a positive number or a name, found '0'"),
        ("(h) floordiv 2a", "expected floordiv by a positive number or a name, found '2a'"),
        ("*i ~i", r"expected each group once, found '\*i ~i'"),
    ],
)
def test_indices_that_cannot_be(text, message):
    with pytest.raises(ValueError, match=message):
        parse_index(text, Iterators.parse("*i h | k"))


def test_the_result_is_indexed_by_parallel_iterators_only():
    x = wildcard()
    with pytest.raises(ByocirError, match="expected one of the iterators m, found 'k'"):
        block("m | k", x["m k"], lambda acc, x: acc + x, out="m k")
