"""Loops and scans of static shapes are C: as often as the model says, or as long as it wants."""

import numpy as np
import pytest
from host_models import model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from open_models import graph, if_, node, outputs_of, same

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.runtime.export import export_project
from byocir.runtime.native import host_code

WEIGHTS = {
    "w": np.float32([1, 0.5, 2]),
    "lim": np.float32(12),
    "half": np.float32(0.5),
    "no": np.array(False),
    "nine": np.array(9),
    "four": np.array([4]),
    "none": np.array(0),
    "square": np.arange(9, dtype=np.float32).reshape(3, 3) / 8 - 0.5,
}


def port(name, kind=TensorProto.FLOAT, shape=(3,)):
    return helper.make_tensor_value_info(name, kind, shape)


TURN, GO, NEXT = (
    port("i", TensorProto.INT64, ()),
    port("c", TensorProto.BOOL, ()),
    port("go", TensorProto.BOOL, ()),
)


def loop(nodes, inputs, outputs, states, left):
    """A Loop whose graph takes and gives these values; `-` is an input that is not there."""
    body = helper.make_graph(nodes, "b", [TURN, GO, *map(port, states)], [NEXT, *left])
    given = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node("Loop", given, outputs.split(), body=body)


ALWAYS = node("Identity", "c", "go")
STEP = [node("Cast", "i", "f", to=1), node("Add", "h f", "g"), node("Mul", "g w", "k")]
UNTIL = [
    node("Add", "h w", "k"),
    node("ReduceSum", "k", "r", keepdims=0),
    node("Less", "r lim", "go"),
]


def scan(nodes, inputs, outputs, count, taken, given, **attributes):
    body = helper.make_graph(nodes, "b", taken, given)
    return node("Scan", inputs, outputs, body=body, num_scan_inputs=count, **attributes)


def model(nodes, outputs, shape=(3,)):
    net = model_of(nodes, {"x": shape}, outputs, WEIGHTS)
    assert all(output.type.HasField("tensor_type") for output in net.graph.output)
    return net


def all_in_c(net, *feeds):
    """The package of a model that C runs all of, after these inputs."""
    package = None
    for x in feeds:
        package = same(net, {"x": np.asarray(x, np.float32)})
        found = evaluate(package.module, {"x": np.asarray(x, np.float32)})
        for name, array in package.run({"x": np.asarray(x, np.float32)}).items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    assert host_code(package.module).calls == []
    assert not package.report.called_back
    return package


def test_a_number_of_turns(tmp_path):
    """What turns leave has as many rows, also for what comes behind."""
    nodes = [loop([*STEP, ALWAYS], "four - x", "y s", ["h"], [port("k"), port("g")])]
    nodes += [node("MatMul", "s square", "p"), node("Neg", "y", "z")]
    package = all_in_c(model(nodes, ["z", "p", "s"]), [1, 2, 3])
    feeds = {"x": np.float32([1, 2, 3])}
    found = outputs_of(export_project(package), tmp_path, package, feeds)
    for name, array in package.run(feeds).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6)
    assert found["s"].shape == (4, 3)


def test_a_loop_ends_early(tmp_path):
    nodes = [loop(UNTIL, "nine - x", "y s", ["h"], [port("k"), port("r", shape=())])]
    nodes += [node("Exp", "s", "e"), node("ReduceMax", "e", "m", keepdims=0)]
    net = model(nodes, ["y", "s", "m"])
    package = all_in_c(net, [1, 2, 3], [-20, 0, 0], [99, 0, 0])
    feeds = {"x": np.float32([1, 2, 3])}
    found = outputs_of(export_project(package), tmp_path, package, feeds)
    assert found["s"].tolist() == [9.5, 13.0]


def test_a_loop_without_a_limit():
    nodes = [loop(UNTIL, "- - x", "y", ["h"], [port("k")])]
    all_in_c(model(nodes, ["y"]), [-9999, 0, 0], [5, 5, 5])


def test_a_limit_that_a_run_tells():
    count = [node("ReduceSum", "x", "t", keepdims=0), node("Cast", "t", "n", to=TensorProto.INT64)]
    nodes = [*count, loop([*STEP, ALWAYS], "n - x", "y", ["h"], [port("k")])]
    all_in_c(model(nodes, ["y"]), [1, 0, 2], [0, 0, 0], [-1, 0, 0])


@pytest.mark.parametrize("condition", ["no", "b"])
def test_a_condition_before_the_first_turn(condition):
    nodes = [node("ReduceSum", "x", "t", keepdims=0), node("Greater", "t lim", "b")]
    inputs = f"nine {condition} x"
    nodes.append(loop(UNTIL, inputs, "y s", ["h"], [port("k"), port("r", shape=())]))
    all_in_c(model(nodes, ["y", "s"]), [1, 2, 3], [50, 0, 0])


def test_what_is_inside_may_branch_and_loop():
    step = [node("Add", "j w", "k"), node("Identity", "c_", "go_")]
    inner = helper.make_graph(
        step,
        "inner",
        [port("i_", TensorProto.INT64, ()), port("c_", TensorProto.BOOL, ()), port("j")],
        [port("go_", TensorProto.BOOL, ()), port("k")],
    )
    then, otherwise = graph([node("Neg", "h", "a")], "a"), graph([node("Exp", "h", "e")], "e")
    body = [
        node("ReduceSum", "h", "t", keepdims=0),
        node("Greater", "t half", "d"),
        if_("d", "o", then, otherwise),
        helper.make_node("Loop", ["four", "", "o"], ["u"], body=inner),
        node("Tanh", "u", "v"),
        ALWAYS,
    ]
    nodes = [loop(body, "four - x", "y s", ["h"], [port("v"), port("t", shape=())])]
    all_in_c(model(nodes, ["y", "s"]), [1, 2, 3], [-1, 0, 0])


def test_only_what_has_no_form_in_c_is_called_back_from_a_loop():
    body = [*STEP, node("Det", "square", "d"), node("Mul", "k d", "q"), ALWAYS]
    nodes = [loop(body, "four - x", "y", ["h"], [port("q")])]
    package = same(model(nodes, ["y"]), {"x": np.ones(3, np.float32)})
    assert {call.op.op_type.data for call in host_code(package.module).calls} == {"Det"}
    with pytest.raises(ByocirError, match="B350"):
        export_project(package)


def test_a_loop_that_changes_shapes_is_called_back_whole():
    body = [node("Concat", "h h", "k", axis=0), ALWAYS]
    inputs = [TURN, GO, port("h", shape=("n",))]
    inner = helper.make_graph(body, "b", inputs, [NEXT, port("k", shape=("m",))])
    nodes = [helper.make_node("Loop", ["four", "", "x"], ["y"], body=inner)]
    net = model_of(nodes, {"x": (3,)}, ["y"], WEIGHTS)
    package = byocir.compile(net, targets=[], host="c")
    assert len(package.report.called_back) == 1


def test_a_scan(tmp_path):
    """From the end, along other axes."""
    nodes = [
        scan(
            [node("Add", "h e", "k"), node("Mul", "k e", "q")],
            "start x",
            "y s r",
            1,
            [port("h"), port("e")],
            [port("k"), port("q"), port("k")],
            scan_input_axes=[1],
            scan_input_directions=[1],
            scan_output_axes=[-1, 0],
            scan_output_directions=[0, 1],
        )
    ]
    nodes.insert(0, node("ReduceMax", "x last", "start", keepdims=0))
    net = model_of(nodes, {"x": (3, 4)}, ["y", "s", "r"], {**WEIGHTS, "last": np.array([1])})
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    package = all_in_c(net, x)
    found = outputs_of(export_project(package), tmp_path, package, {"x": x})
    for name, array in package.run({"x": x}).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6)


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_over_numbers(backwards):
    """States, elements and what turns leave have no dimensions."""
    numbers = [port(name, shape=()) for name in "htefkmqr"]
    given = {value.name: value for value in numbers}
    nodes = [
        node("Add", "h e", "k"),
        node("Mul", "t f", "m"),
        node("Identity", "e", "q"),
        node("Sub", "m k", "r"),
    ]
    scanned = scan(
        nodes,
        "lim half x w",
        "y z s d",
        2,
        [given[name] for name in "htef"],
        [given[name] for name in "kmqr"],
        scan_input_directions=[0, backwards],
        scan_output_directions=[backwards, 0],
    )
    all_in_c(model([scanned], ["y", "z", "s", "d"]), [1, 2, 4])


FLOATS = ("Relu", "Neg", "Tanh", "Abs", "Sigmoid")


@st.composite
def loops(draw):
    """A loop of several states, handed on in any order, that may end early."""
    states = ["h0", "h1", "h2"][: draw(st.integers(1, 3))]
    values, nodes = [*states, "x"], []
    for i in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            nodes.append(
                node(draw(st.sampled_from(FLOATS)), draw(st.sampled_from(values)), f"v{i}")
            )
        else:
            pair = f"{draw(st.sampled_from(values))} {draw(st.sampled_from([*values, 'w']))}"
            nodes.append(node(draw(st.sampled_from(["Add", "Sub", "Max"])), pair, f"v{i}"))
        values.append(f"v{i}")
    given = [draw(st.sampled_from(values)) for _ in states]
    left = draw(st.lists(st.sampled_from(values), max_size=2))
    if draw(st.booleans()):
        nodes += [node("ReduceSum", values[-1], "r", keepdims=0), node("Less", "r lim", "go")]
    else:
        nodes.append(ALWAYS)
    ends = [f"e{i}" for i in range(len(given) + len(left))]
    nodes += [node("Identity", n, e) for n, e in zip([*given, *left], ends, strict=True)]
    inputs = " ".join(["nine", "-", *["x", "w", "x"][: len(states)]])
    outputs = " ".join(f"o{i}" for i in range(len(ends)))
    made = loop(nodes, inputs, outputs, states, [port(e) for e in ends])
    return model([made], list(made.output))


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 20, deadline=None)
@given(loops(), st.sampled_from([(1, 2, 3), (-4, 0, 1), (9, 9, 9)]))
def test_random_loops(net, x):
    all_in_c(net, x)
