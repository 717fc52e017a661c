"""Random blocks match their pattern, and it says the right things of them; near misses do not."""

import math

from block_programs import Conv, Read, Spec, at, attempt, product
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i8, i32
from byocir.patterns import Composite, block, wildcard

few = settings(max_examples=settings.default.max_examples // 2)


def copy(acc, x):
    return x


SMALL = st.integers(1, 4)


def conv_pattern():
    x, k = wildcard("x"), wildcard("k")
    image = x["n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"].padded(0)
    return block("n o h w | c r s", image, k["o c r s"], product) @ "conv"


@st.composite
def convolutions(draw, least=1):
    """Any convolution, 1x1 kernels and outputs of one position included."""
    sizes = {name: draw(st.integers(least, 4)) for name in "nohwcrs"}
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    pads = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    return Conv(sizes, draw(pair), draw(pair), pads)


@st.composite
def spellings(draw):
    """Loop order, operand order and names."""
    order = draw(st.permutations("nohwcrs"))
    names = dict(zip("nohwcrs", draw(st.permutations("abcdhkn")), strict=True))
    return {"order": order, "swap": draw(st.permutations([0, 1])), "names": names}


@few
@given(convolutions(), spellings())
def test_every_convolution_matches_one_pattern(conv, spelling):
    match = attempt(conv.spec(**spelling), conv_pattern()).match
    assert match is not None
    found = [(match[f"{kind}h"], match[f"{kind}w"]) for kind in "sdp"]
    assert found == [conv.strides, conv.dilations, conv.pads]
    assert len(match["x"].type.shape) == 4
    assert match["k"].type.shape == tuple(conv.sizes[name] for name in "ocrs")
    told = match["conv"]
    assert told.extents == conv.sizes
    assert told.operands == tuple(spelling["swap"])
    assert told.pads == (0 if any(conv.pads) else None, None)
    for name, size in conv.sizes.items():
        if size > 1:  # those of extent 1 may stand for each other
            assert told.iterators[name] == (spelling["order"].index(name),)


@few
@given(st.integers(1, 9), st.integers(0, 4), st.integers(0, 5), st.integers(1, 4))
def test_quotients_match_with_numbers_that_read_the_same(size, step, start, divisor):
    """Those of the pattern need not be those of the block, whose index may be simpler."""
    h, x = AffineExpr.dimension(0), wildcard("x")
    spec = Spec(
        {"h": size, "w": 2}, {}, [Read(at("h", "w"), slack=-40)], at("h", "w"), copy, i8, None
    )
    _, op = spec.module()
    read = AffineMap(2, 0, ((h * step + start) // divisor, AffineExpr.dimension(1)))
    maps = [read, op.maps.data[1].data]
    made = BlockOp(list(op.iterators), op.ins, op.outs, maps, op.body.clone())
    op.parent.insert_op_after(made, op)
    pattern = block("h w", x["(h*a + b) floordiv d w"], copy)
    match = Composite("toy.resize", (pattern,)).attempt(made).match
    if step == 0 and size > 1:
        assert match is None  # h is not read at all
        return
    found = [(i * match["a"] + match["b"]) // match["d"] for i in range(size)]
    assert found == [(i * step + start) // divisor for i in range(size)]
    halved = block("h w", x["(h*a + b) floordiv 2 w"], copy)
    taken = Composite("toy.halves", (halved,)).attempt(made).match
    assert (taken is not None) == (match["d"] == 2)


@few
@given(convolutions(), spellings(), st.data())
def test_dropping_unit_iterators_changes_nothing(conv, spelling, data):
    """Iterators of extent 1 may be gone, with their terms."""
    units = [name for name, size in conv.sizes.items() if size == 1]
    gone = data.draw(st.sets(st.sampled_from(units))) if units else set()
    spec = conv.spec()
    for read in spec.reads:
        read.index = without(read.index, gone)
    spec.out = without(spec.out, gone)
    spec.parallel = {n: e for n, e in spec.parallel.items() if n not in gone}
    spec.reduction = {n: e for n, e in spec.reduction.items() if n not in gone}
    spec.order = [name for name in spelling["order"] if name not in gone]
    spec.swap = spelling["swap"]
    match = attempt(spec, conv_pattern()).match
    assert match is not None
    assert (match["ph"], match["pw"]) == conv.pads
    for stride, dilation, rows, kernel, i in (("sh", "dh", "h", "r", 0), ("sw", "dw", "w", "s", 1)):
        assert match[stride] == (1 if rows in gone else conv.strides[i])
        assert match[dilation] == (1 if kernel in gone else conv.dilations[i])


def without(index, gone):
    return [({n: c for n, c in terms.items() if n not in gone}, k) for terms, k in index]


@few
@given(convolutions(least=2), spellings(), st.data())
def test_one_changed_index_does_not_match(conv, spelling, data):
    spec = conv.spec(**spelling)
    read = spec.reads[data.draw(st.integers(0, 1))]
    dim = data.draw(st.integers(0, 3))
    terms, constant = read.index[dim]
    change = data.draw(st.sampled_from(["drop", "double", "shift"]))
    if change == "drop":
        terms = {}
    elif change == "double" and len(terms) == 1:
        terms = {name: 2 for name in terms}
    elif len(terms) == 1:
        constant += 1
    else:
        terms = {**terms, "c": 1}
    read.index[dim] = (terms, constant)
    found = attempt(spec, conv_pattern())
    assert not found.fits
    assert found.reason.startswith("expected indices [")


BODIES = {
    "sum": lambda acc, x, y: acc + x.to(i32) + y.to(i32),
    "difference": lambda acc, x, y: acc - x.to(i32) * y.to(i32),
    "no accumulator": lambda acc, x, y: x.to(i32) * y.to(i32),
    "narrow product": lambda acc, x, y: acc + (x * y).to(i32),
    "largest": lambda acc, x, y: acc.max(x.to(i32) * y.to(i32)),
    "square": lambda acc, x, y: acc + x.to(i32) * x.to(i32),
    "clamped": lambda acc, x, y: (acc + x.to(i32) * y.to(i32)).max(0),
    "scaled": lambda acc, x, y: acc + x.to(i32) * y.to(i32) * 2,
}


@few
@given(convolutions(), spellings(), st.sampled_from(sorted(BODIES)))
def test_another_body_does_not_match(conv, spelling, name):
    spec = conv.spec(**spelling)
    spec.body = BODIES[name]
    found = attempt(spec, conv_pattern())
    assert found.reason.startswith("expected body ")


@few
@given(convolutions(least=2), spellings(), st.data())
def test_a_changed_result_does_not_match(conv, spelling, data):
    """Two indices of the result exchanged: another layout."""
    spec = conv.spec(**spelling)
    i, j = data.draw(st.sampled_from([(0, 1), (1, 2), (2, 3), (0, 3)]))
    spec.out[i], spec.out[j] = spec.out[j], spec.out[i]
    assert not attempt(spec, conv_pattern()).fits


@st.composite
def products(draw):
    """A contraction of some iterators: batches in front, any order."""
    rows = {f"m{i}": draw(SMALL) for i in range(draw(st.integers(1, 3)))}
    sizes = {**rows, "n": draw(SMALL)}
    group = [({name: 1}, 0) for name in rows]
    k, n = ({"k": 1}, 0), ({"n": 1}, 0)
    at = draw(st.integers(0, len(group)))
    reads = [Read([*group[:at], k, *group[at:]]), Read([n, k])]
    at = draw(st.integers(0, len(group)))
    out = [*group[:at], n, *group[at:]]
    spec = Spec(sizes, {"k": draw(SMALL)}, reads, out, product)
    spec.order = draw(st.permutations([*sizes, "k"]))
    spec.swap = draw(st.permutations([0, 1]))
    return spec


@few
@given(products(), st.data())
def test_any_product_matches_the_grouped_pattern(spec, data):
    """Channels may be anywhere among the group's dimensions, in the operand and the result."""
    for index in [*(read.index for read in spec.reads), spec.out]:
        if data.draw(st.booleans()):
            index.insert(data.draw(st.integers(0, len(index))), ({}, 0))
    a, b = wildcard("a"), wildcard("b")
    pattern = block("*m n | k", a["*m k"], b["n k"], product)
    match = attempt(spec, pattern).match
    assert match is not None
    expected = math.prod(spec.parallel[n] for n in spec.parallel if n != "n") * spec.reduction["k"]
    sizes = {math.prod(match[name].type.shape) for name in "ab"}
    assert expected in sizes


COUNTS = st.integers(0, 2)


@st.composite
def contractions(draw):
    """A product of anything: batches, rows, columns and sums of several iterators each, or none."""
    groups = {g: [f"{g}{i}" for i in range(draw(COUNTS))] for g in "bmn"}
    groups["k"] = [f"k{i}" for i in range(draw(st.integers(1, 2)))]
    sizes = {name: draw(SMALL) for names in groups.values() for name in names}
    b, m, n, k = (groups[g] for g in "bmnk")
    reads = [Read(at(*b, *m, *k)), Read(at(*b, *n, *k))]
    parallel = {name: sizes[name] for name in (*b, *m, *n)}
    spec = Spec(parallel, {name: sizes[name] for name in k}, reads, at(*b, *m, *n), product)
    spec.order = draw(st.permutations(list(sizes)))
    spec.swap = draw(st.permutations([0, 1]))
    spec.names = dict(zip(sizes, draw(st.permutations(list(sizes))), strict=True))
    return spec, groups


def any_contraction():
    x, y = wildcard("x"), wildcard("y")
    return block("*b *m *n | *k", x["*b *m *k"], y["*b *n *k"], product) @ "gemm"


@few
@given(contractions(), st.data())
def test_one_pattern_is_every_contraction_and_tells_its_groups(made, data):
    """Dimensions of size one may stand anywhere, and iterators of extent 1 be in any group."""
    spec, groups = made
    for index in [*(read.index for read in spec.reads), spec.out]:
        if data.draw(st.booleans()):
            index.insert(data.draw(st.integers(0, len(index))), ({}, 0))
    match = attempt(spec, any_contraction()).match
    assert match is not None
    told = match["gemm"]
    # Whether rows or columns: an operand may be either factor.
    swapped = told.operands != tuple(spec.swap)
    groups = {**groups, "m": groups["n"], "n": groups["m"]} if swapped else groups
    for group, names in groups.items():
        live = [spec.loops.index(name) for name in names if spec.extent(name) > 1]
        found = [i for i in told.iterators[group] if match.root.extents[i] > 1]
        assert found == live
        assert told.extents[group] == math.prod(spec.extent(name) for name in names)


@few
@given(contractions(), st.data())
def test_a_contraction_read_elsewhere_does_not_match(made, data):
    spec, _ = made
    read = spec.reads[data.draw(st.integers(0, 1))]
    live = [i for i, (terms, _) in enumerate(read.index) if any(spec.extent(n) > 1 for n in terms)]
    if not live:
        return
    dim = data.draw(st.sampled_from(live))
    ((name, _),) = read.index[dim][0].items()
    change = data.draw(st.sampled_from(["stride", "shift", "sum", "twice"]))
    others = [n for n in spec.loops if n != name and spec.extent(n) > 1]
    if change == "stride":
        read.index[dim] = ({name: 2}, 0)
    elif change == "shift" or (change == "sum" and not others):
        read.index[dim] = ({name: 1}, 1)
    elif change == "sum":
        read.index[dim] = ({name: 1, others[0]: 1}, 0)
    else:
        read.index.append(({name: 1}, 0))
    assert not attempt(spec, any_contraction()).fits


@few
@given(contractions(), st.sampled_from(sorted(BODIES)))
def test_a_contraction_with_another_body_does_not_match(made, name):
    spec, _ = made
    spec.body = BODIES[name]
    assert attempt(spec, any_contraction()).reason.startswith("expected body ")


@few
@given(st.data())
def test_one_pattern_is_every_strided_transposed_or_padded_copy_of_a_rank(data):
    sizes = {name: data.draw(st.integers(2, 4)) for name in "ij"}
    stride, start = data.draw(st.integers(1, 3)), data.draw(st.integers(-2, 2))
    transposed = data.draw(st.booleans())
    row = ({"i": stride}, start)
    index = [*at("j"), row] if transposed else [row, *at("j")]
    outside = -5 if start < 0 else None
    read = Read(index, i32, pad=outside)
    order = data.draw(st.permutations("ij"))
    spec = Spec(sizes, {}, [read], at("i", "j"), lambda acc, x: x, init=None, order=order)
    x = wildcard("x")
    pattern = block("i j", x["(i*s + o) j"].padded(-5), lambda acc, e: e) @ "copy"
    across = block("i j", x["j (i*s + o)"].padded(-5), lambda acc, e: e) @ "copy"
    fitting, other = (across, pattern) if transposed else (pattern, across)
    match = attempt(spec, fitting).match
    assert match is not None
    assert (match["s"], match["o"], match["copy"].pads) == (stride, start, (outside,))
    assert match["copy"].iterators == {"i": (order.index("i"),), "j": (order.index("j"),)}
    if (stride, start) != (1, 0):
        assert not attempt(spec, other).fits
    without_pad = block("i j", x["(i*s + o) j"], lambda acc, e: e)
    assert attempt(spec, without_pad).fits == (not transposed and outside is None)


@few
@given(st.data())
def test_one_pattern_is_every_reduction_over_windows(data):
    sizes = {name: data.draw(SMALL) for name in "nchw"}
    window = {name: data.draw(st.integers(1, 3)) for name in "rs"}
    stride, dilation, pad = (data.draw(st.integers(low, 3)) for low in (1, 1, 0))
    rows = ({"h": stride, "r": dilation}, -pad)
    columns = ({"w": 1, "s": 1}, 0)
    image = Read([*at("n", "c"), rows, columns], i32, pad=-9 if pad else None, slack=pad)
    order = data.draw(st.permutations("nchwrs"))
    spec = Spec(sizes, window, [image], at(*"nchw"), lambda acc, x: acc.max(x), init=-9)
    spec.order = order
    x = wildcard("x")
    read = x["*i (h*sh + r*dh - ph) (w*sw + s*dw - pw)"].padded(-9)
    pattern = block("*i h w | r s", read, lambda acc, x: acc.max(x), init=-9) @ "pool"
    match = attempt(spec, pattern).match
    assert match is not None
    assert match["ph"] == pad
    assert match["pool"].extents == {"i": sizes["n"] * sizes["c"], **_hw(sizes), **window}
    if sizes["h"] > 1:
        assert match["sh"] == stride
    if window["r"] > 1:
        assert match["dh"] == dilation
    spec.init = 0
    assert not attempt(spec, pattern).fits


def _hw(sizes):
    return {name: sizes[name] for name in "hw"}
