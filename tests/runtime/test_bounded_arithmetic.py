"""Arithmetic, reductions and movement on arrays of open shape of which the largest is known: C
computes what the evaluator computes, and what lies beside an array comes into no result."""

import numpy as np
import onnx
import pytest
from host_models import model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from open_models import node, outputs_of, same

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.runtime.export import export_project
from byocir.runtime.native import host_code

ROWS, COLUMNS = 5, 3
WEIGHTS = {
    "low": np.float32(0),
    "two": np.float32(2),
    "row": np.array([0.5, -1, 2], np.float32),
    "square": np.arange(9, dtype=np.float32).reshape(3, 3) / 4 - 1,
    "column": np.array([0]),
    "last": np.array([1]),
    "both": np.array([0, 1]),
    "flat": np.array([-1]),
    "halves": np.array([-1, 1, 3]),
    "from": np.array([1]),
    "to": np.array([-1]),
    "far": np.array([99]),
    "back": np.array([-1]),
    "start": np.array([-100]),
    "axis": np.array(0),
    "pick": np.array([2]),
    "depth": np.array(3),
    "pair": np.array([0, 1], np.float32),
    "tall": np.ones((2, 3), np.float32),
    "outer": np.array([True, False, True]),
    "image": np.array([-1, 1, 3]),
    "kernel": np.arange(4, dtype=np.float32).reshape(2, 1, 2),
    "one": np.ones(2, np.float32),
    "twos": np.full(2, 2, np.float32),
}
ROWS_KEPT = [
    node("ReduceSum", "x last", "sum", keepdims=0),
    node("Greater", "sum low", "c"),
    node("Compress", "x c", "v", axis=0),
    node("Neg", "x", "nx"),
    node("Compress", "nx c", "u", axis=0),
    node("NonZero", "c", "n"),
    node("Squeeze", "n column", "at"),
    node("Gather", "x at", "w", axis=0),
]
"""`v`, `u` and `w` [n,3], of the rows of `x` with a positive sum; C does not know that these are of
one size."""


def rows(*kept):
    """Rows of random numbers, some of which are kept."""
    x = np.random.default_rng(len(kept)).integers(-6, 7, (ROWS, COLUMNS)).astype(np.float32) / 2
    x[:, 2] = -x[:, :2].sum(1) - 1
    x[list(kept), 2] += 3
    return x


def model(nodes, outputs):
    return model_of([*ROWS_KEPT, *nodes], {"x": (ROWS, COLUMNS)}, outputs, WEIGHTS)


SINGLE = {
    "pairs of one size": [node("Mul", "v v", "y")],
    "sizes that must be the same": [node("Sub", "v w", "y")],
    "a row": [node("Add", "row u", "y")],
    "a scalar": [node("Pow", "v two", "y")],
    "where": [node("Greater", "v row", "g"), node("Where", "g v two", "y")],
    "division": [node("Div", "two v", "y")],
    "integers": [
        node("Cast", "v", "i", to=TensorProto.INT32),
        node("Mod", "i i", "m"),
        node("Add", "m i", "y"),
    ],
    "a sum of all": [node("ReduceSum", "v both", "y", keepdims=0)],
    "a sum": [node("Exp", "v", "e"), node("ReduceSum", "e column", "y", keepdims=0)],
    "a sum of rows": [node("Exp", "v", "e"), node("ReduceSum", "e last", "y", keepdims=1)],
    "a product": [node("ReduceProd", "v column", "y", keepdims=1)],
    "softmax": [node("Neg", "v", "m"), node("Softmax", "m", "y", axis=0)],
    "softmax of rows": [node("Softmax", "v", "y")],
    "running sums": [node("CumSum", "v axis", "y", reverse=1)],
    "a product of matrices": [node("MatMul", "v square", "y")],
    "a contraction": [
        node("Exp", "v", "e"),
        node("Transpose", "e", "t", perm=[1, 0]),
        node("Neg", "v", "f"),
        node("MatMul", "t f", "y"),
    ],
    "one after the other": [node("Exp", "u", "e"), node("Concat", "v e u", "y", axis=0)],
    "beside each other": [node("Exp", "u", "e"), node("Concat", "v e", "y", axis=1)],
    "a slice": [node("Slice", "v from to", "y")],
    "from the end": [node("Slice", "v back start column back", "y")],
    "a column": [node("Exp", "v", "e"), node("Slice", "e from far last", "y")],
    "new dimensions": [node("Unsqueeze", "v last", "e"), node("Add", "e e", "y")],
    "flat": [node("Exp", "v", "e"), node("Reshape", "e flat", "f"), node("Neg", "f", "y")],
    "in another shape": [node("Reshape", "v halves", "e"), node("Exp", "e", "y")],
    "how many": [node("Size", "v", "s"), node("Cast", "s", "y", to=TensorProto.FLOAT)],
    "the shape": [node("Exp", "v", "e"), node("Shape", "e", "y")],
    "the shape of what nothing else reads": [node("Atan", "v", "e"), node("Shape", "e", "y")],
    "how many there are of it": [node("Sinh", "v", "e"), node("Size", "e", "y")],
    "rows by indices": [
        node("Add", "at at", "i"),
        node("Sub", "i at", "j"),
        node("Gather", "x j", "y", axis=0),
    ],
    "the greatest of each row": [
        node("Exp", "v", "e"),
        node("TopK", "e pick", "t i", axis=1),
        node("OneHot", "i depth pair", "h"),
        node("ReduceSum", "h last", "s", keepdims=0),
        node("MatMul", "t tall", "m"),
        node("Add", "s m", "y"),
    ],
    "some columns": [node("Exp", "v", "e"), node("Compress", "e outer", "y", axis=1)],
    "a convolution": [
        node("Reshape", "v image", "e"),
        node("Conv", "e kernel", "f", pads=[1, 0]),
        node("BatchNormalization", "f one twos one twos", "g"),
        node("Relu", "g", "h"),
        node("GlobalMaxPool", "h", "p"),
        node("Flatten", "p", "y"),
    ],
    "norms of rows": [node("LayerNormalization", "v row row", "y")],
    "16 bits": [
        node("Cast", "v", "h", to=TensorProto.FLOAT16),
        node("Exp", "h", "e"),
        node("ReduceSum", "e both", "s", keepdims=0),
        node("Cast", "s", "y", to=TensorProto.FLOAT),
    ],
    "writing": [
        node("Unsqueeze", "at last", "i"),
        node("Exp", "w", "e"),
        node("ScatterND", "x i e", "y"),
    ],
    "every pair": [
        node("ReduceSum", "v last", "s", keepdims=0),
        node("Unsqueeze", "s last", "a"),
        node("Unsqueeze", "s column", "b"),
        node("Sub", "a b", "y"),
    ],
}
"""What is computed with rows of which a run tells how many there are, and all of it in C."""


def named(nodes, prefix):
    """The same nodes, but for the names of what they make."""
    made = {name for each in nodes for name in each.output}
    renamed = []
    for each in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(each)
        for names in (copy.input, copy.output):
            names[:] = [f"{prefix}_{name}" if name in made else name for name in names]
        renamed.append(copy)
    return renamed


@pytest.fixture(scope="module")
def packages():
    """All of these in one model, by what runs the host."""
    nodes = [each for i, name in enumerate(SINGLE) for each in named(SINGLE[name], f"n{i}")]
    outputs = [f"n{i}_y" for i in range(len(SINGLE))]
    net = model(nodes, outputs)
    return [byocir.compile(net, targets=[], host=host) for host in ("reference", "c")]


KEPT = [(0, 1, 2, 3, 4), (1, 4), (2,), ()]


@pytest.fixture(scope="module")
def results(packages):
    """What the evaluator gives, C, and the evaluator of what became C."""
    reference, c = packages
    feeds = [{"x": rows(*kept)} for kept in KEPT]
    return [(reference.run(f), c.run(f), evaluate(c.module, f)) for f in feeds]


def test_all_of_it_is_c(packages):
    assert host_code(packages[1].module).calls == []
    assert not packages[1].report.called_back


@pytest.mark.parametrize("what", SINGLE)
def test_c_computes_what_the_evaluator_computes(what, results):
    name = f"n{[*SINGLE].index(what)}_y"
    for expected, *others in results:
        for found in others:
            assert found[name].dtype == expected[name].dtype
            assert found[name].shape == expected[name].shape
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


def test_a_project_computes_with_open_shapes(tmp_path):
    nodes = [
        *(node("Mul", "v u", "y"), node("Sub", "v w", "d"), node("Exp", "d", "e")),
        *(node("ReduceMean", "e both", "m", keepdims=0), node("Concat", "y v", "z", axis=0)),
        *(node("Slice", "z from to", "part"), node("Reshape", "part flat", "line")),
        *(node("Softmax", "y", "p", axis=0), node("Cast", "y", "i", to=TensorProto.INT32)),
        *(node("Div", "i i", "q"), node("ReduceSum", "q column", "t", keepdims=0)),
        *(node("Neg", "v", "f"), node("ArgMax", "f", "a", axis=0)),
        *(node("ReduceMax", "f column", "b", keepdims=0), node("ReduceMin", "e column", "l")),
    ]
    package = same(model(nodes, ["y", "m", "line", "p", "a", "b", "l"]), {"x": rows(0, 2, 3)})
    feeds = {"x": rows(0, 2, 3)}
    found = outputs_of(export_project(package), tmp_path, package, feeds)
    for name, array in package.run(feeds).items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_what_is_made_of_a_shape_alone_is_not_of_the_largest():
    net = model([node("Atan", "v", "e"), node("EyeLike", "e", "y")], ["y"])
    for kept in KEPT:
        same(net, {"x": rows(*kept)})


def test_sizes_that_do_not_fit_end_the_run():
    """One row is repeated, two do not fit three."""
    nodes = [
        node("Greater", "nsum low", "d"),
        node("Compress", "x d", "o", axis=0),
        node("Add", "v o", "y"),
    ]
    nodes.insert(0, node("Neg", "sum", "nsum"))
    net = model(nodes, ["y"])
    for kept in [(3,), (0, 1, 2, 4)]:
        package = same(net, {"x": rows(*kept)})
    assert host_code(package.module).calls == []
    with pytest.raises(ByocirError, match=r"B312.*sizes that fit each other"):
        package.run({"x": rows(0, 1)})
    with pytest.raises(ByocirError, match=r"B312.*found \[2, 3\]"):
        evaluate(package.module, {"x": rows(0, 1)})


# -- random graphs

KINDS = ("unary", "binary", "row", "reduce", "softmax", "concat", "slice", "matmul")
UNARY = ("Exp", "Neg", "Abs", "Sigmoid", "Relu", "Floor", "Sign")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
REDUCE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceLogSumExp")


@st.composite
def graphs(draw):
    """Chains of layers on [n,3] and [m,3], of one of which sizes are known to be those of
    another."""
    nodes, values = [], {"v": "v", "u": "v", "w": "v"}
    for i in range(draw(st.integers(2, 8))):
        out, source = f"v{i}", draw(st.sampled_from([*values]))
        size = values[source]
        like = [name for name, each in values.items() if each == size]
        kind = draw(
            st.sampled_from(
                ["unary", "binary", "row", "reduce", "softmax", "concat", "slice", "matmul"]
            )
        )
        if kind == "unary":
            nodes.append(node(draw(st.sampled_from(UNARY)), source, out))
        elif kind == "binary":
            pair = f"{source} {draw(st.sampled_from(like))}"
            nodes.append(node(draw(st.sampled_from(BINARY)), pair, out))
        elif kind == "row":
            nodes.append(node(draw(st.sampled_from(BINARY)), f"{source} row", out))
        elif kind == "reduce":
            axes, op = (
                draw(st.sampled_from(["both", "column", "last"])),
                draw(st.sampled_from(REDUCE)),
            )
            nodes += [
                node("Sigmoid", source, f"{out}s"),
                node(op, f"{out}s {axes}", f"{out}r", keepdims=1),
                node("Sub", f"{source} {out}r", out),
            ]
        elif kind == "softmax":
            nodes.append(node("Softmax", source, out, axis=draw(st.integers(0, 1))))
        elif kind == "matmul":
            nodes.append(node("MatMul", f"{source} square", out))
        elif kind == "concat":
            other = draw(st.sampled_from([*values]))
            nodes.append(node("Concat", f"{source} {other}", out, axis=0))
            size = out
        else:
            ends = draw(st.sampled_from(["from to", "column far", "start to", "back far"]))
            nodes.append(node("Slice", f"{source} {ends}", out))
            size = out
        values[out] = size
    outputs = sorted({draw(st.sampled_from([*values])), [*values][-1]} - {"v", "u", "w"})
    return model(nodes, outputs)


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 20, deadline=None)
@given(graphs(), st.sampled_from([(0, 1, 2, 3, 4), (0, 2), (4,), (0, 1, 3)]))
def test_random_graphs_on_open_shapes(net, kept):
    package = same(net, {"x": np.tanh(rows(*kept))})
    assert host_code(package.module).calls == []
