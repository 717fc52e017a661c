"""Random contractions match their pattern with the right unknowns; near misses do not."""

import math

from block_programs import Conv, Read, Spec, attempt, product
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.types import i32
from byocir.patterns import block, wildcard

SMALL = st.integers(1, 4)


def conv_pattern():
    x, k = wildcard("x"), wildcard("k")
    image = x["n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"].padded(0)
    return block("n o h w | c r s", image, k["o c r s"], product)


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


@given(convolutions(), spellings())
def test_every_convolution_matches_one_pattern(conv, spelling):
    match = attempt(conv.spec(**spelling), conv_pattern()).match
    assert match is not None
    found = [(match[f"{kind}h"], match[f"{kind}w"]) for kind in "sdp"]
    assert found == [conv.strides, conv.dilations, conv.pads]
    assert len(match["x"].type.shape) == 4
    assert match["k"].type.shape == tuple(conv.sizes[name] for name in "ocrs")


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


@given(convolutions(), spellings(), st.sampled_from(sorted(BODIES)))
def test_another_body_does_not_match(conv, spelling, name):
    spec = conv.spec(**spelling)
    spec.body = BODIES[name]
    found = attempt(spec, conv_pattern())
    assert found.reason.startswith("expected body ")


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
