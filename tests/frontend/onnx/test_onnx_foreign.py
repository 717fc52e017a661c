"""Nodes that no graph op stands for: they import, mean what ONNX says, and go out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import Arrays, assert_equal, main_of, make_model, one_node, run_byocir, run_ort
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.graph import ForeignOp
from byocir.dialects.text import parse_module, print_module
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, ModelRunner
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import export_onnx, import_onnx
from byocir.runtime.host import Host
from byocir.vendor.engine import NotComputed

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)


def foreign(module: ModuleOp) -> list[ForeignOp]:
    return [op for op in module.walk() if isinstance(op, ForeignOp)]


def check(model: onnx.ModelProto, feeds: Arrays) -> ModuleOp:
    """The model, its text read back, and its export all compute what ONNX Runtime does."""
    module = import_onnx(model)
    module.verify()
    again = parse_module(print_module(module))
    exported = export_onnx(module)
    onnx.checker.check_model(exported)
    expected = run_ort(model, feeds)
    assert_equal(run_byocir(module, feeds), expected)
    assert_equal(run_byocir(again, feeds), expected)
    assert_equal(run_ort(exported, feeds), expected)
    return module


def test_an_operator_without_a_graph_op() -> None:
    module = check(one_node("Compress", {"x": X}, {"c": np.array([True, False, True])}), {"x": X})
    (op,) = foreign(module)
    assert (op.op_type.data, op.opset.value.data) == ("Compress", 21)
    assert op.reason is not None
    assert op.reason.data == "no graph op stands for this operator"
    assert str(op.results[0].type) == "tensor<?xf32>"


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fewer_indices_than_elements_where_sizes_are_open(axis: int) -> None:
    indices = np.array([[[1, -1]]])
    model = one_node("GatherElements", {"x": X, "i": indices}, axis=axis)
    for value in [*model.graph.input, *model.graph.output]:
        for n, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"{value.name}{n}"
    (op,) = foreign(check(model, {"x": X, "i": indices}))
    assert op.op_type.data == "GatherElements"
    with pytest.raises(ByocirError, match="an index outside of"):
        run_byocir(import_onnx(model), {"x": X, "i": np.array([[[9]]])})


def test_further_outputs_that_are_used() -> None:
    model = one_node("Dropout", {"x": X})
    model.graph.node[0].output.append("mask")
    model.graph.output.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, X.shape))
    (op,) = foreign(check(model, {"x": X}))
    assert op.reason is not None
    assert op.reason.data == "expected its first outputs to be used only, found 'mask'"


def test_absent_inputs_in_the_middle_and_absent_outputs() -> None:
    x = {"x": X.reshape(2, 3, 4)}
    w = np.ones((1, 4, 4), np.float32) * 0.1
    weights = {"w": w, "r": w[:, :, :1] * np.ones((1, 4, 1), np.float32), "h": np.zeros((1, 3, 1))}
    weights["h"] = weights["h"].astype(np.float32)
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=1, name="lstm"
    )
    model = make_model([node], x, weights)
    module = import_onnx(model)
    assert_equal(run_byocir(module, x), run_ort(model, x))
    assert_equal(run_ort(export_onnx(module), x), run_ort(model, x))


def _if_model(condition: str = "c") -> onnx.ModelProto:
    def branch(op_type: str, weight: float) -> onnx.GraphProto:
        nodes = [
            helper.make_node("Mul", ["captured", "w"], ["m"]),
            helper.make_node(op_type, ["m"], ["b"]),
        ]
        return helper.make_graph(
            nodes,
            op_type,
            [],
            [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3, 4])],
            [onnx.numpy_helper.from_array(np.array(weight, np.float32), "w")],
        )

    nodes = [
        helper.make_node("Relu", ["x"], ["captured"]),
        helper.make_node(
            "If",
            [condition],
            ["y"],
            then_branch=branch("Tan", 0.5),
            else_branch=branch("Neg", 2.0),
        ),
    ]
    return make_model(nodes, {"x": X, "c": np.array(True)}, {"known": np.array(False)})


@pytest.mark.parametrize("condition", [True, False])
def test_graphs_inside_use_values_from_outside(condition: bool) -> None:
    module = check(_if_model(), {"x": X, "c": np.array(condition)})
    op = next(op for op in foreign(module) if op.op_type.data == "If")
    assert [value.owner.name for value in op.captures()] == ["graph.relu"]  # type: ignore[union-attr]
    assert str(op.results[0].type) == "tensor<2x3x4xf32>"


def test_a_branch_that_is_known_is_taken_at_import() -> None:
    module = import_onnx(_if_model("known"))
    assert not any(op.op_type.data == "If" for op in foreign(module))
    found = run_byocir(module, {"x": X, "c": np.array(True)})
    assert_equal(found, [-2 * np.maximum(X, 0)])


def test_a_loop_carries_values_and_scans() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["cond"], ["cond_out"]),
            helper.make_node("Add", ["v", "x"], ["v_out"]),
            helper.make_node("Identity", ["v_out"], ["s"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 3, 4]),
        ],
        [
            helper.make_tensor_value_info("cond_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [2, 3, 4]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [2, 3, 4]),
        ],
    )
    node = helper.make_node("Loop", ["n", "yes", "start"], ["y", "sums"], body=body)
    weights = {"n": np.array(3), "yes": np.array(True), "start": np.zeros_like(X)}
    model = make_model([node], {"x": X}, weights, ["y", "sums"])
    del model.graph.value_info[:]
    for name, port in zip(("y", "sums"), model.graph.output, strict=True):
        shape = X.shape if name == "y" else [None, *X.shape]
        port.CopyFrom(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    module = import_onnx(model)
    expected = run_ort(model, {"x": X})
    # onnx's reference does not stack what a loop scans.
    found = evaluate(module, {"x": X}, interpreter=Interpreter(module, engine=Host()))
    assert_equal(list(found.values()), expected)
    assert_equal(run_ort(export_onnx(module), {"x": X}), expected)
    assert [str(t) for t in main_of(module).function_type.outputs] == [
        "tensor<2x3x4xf32>",
        "tensor<?x2x3x4xf32>",
    ]


def _loop_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """A Loop of two turns at opset 14 whose nodes make `v_out` of `v` [n,4]."""
    scalars = [("i", TensorProto.INT64), ("cond", TensorProto.BOOL)]
    ports = [helper.make_tensor_value_info(name, kind, []) for name, kind in scalars]
    state = helper.make_tensor_value_info("v", TensorProto.FLOAT, ["n", 4])
    made = [
        helper.make_tensor_value_info("cond_out", TensorProto.BOOL, []),
        helper.make_tensor_value_info("v_out", TensorProto.FLOAT, ["n", 4]),
    ]
    inner = [helper.make_node("Identity", ["cond"], ["cond_out"]), *nodes]
    body = helper.make_graph(inner, "body", [*ports, state], made)
    loop = helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)
    model = make_model([loop], {"x": X[:, 0]}, {"turns": np.array(2)}, opset=14)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]))
    return model


def test_equal_parts_in_a_loop_are_told_their_number() -> None:
    model = _loop_of(
        helper.make_node("Split", ["v"], ["a", "b"], axis=1),
        helper.make_node("Concat", ["b", "a"], ["joined"], axis=1),
        helper.make_node("Add", ["v", "joined"], ["v_out"]),
    )
    module = import_onnx(model)
    (split,) = (op for op in foreign(module) if op.op_type.data == "Split")
    assert [str(result.type) for result in split.results] == ["tensor<?x2xf32>"] * 2
    (y,) = evaluate(module, {"x": X[:, 0]}, interpreter=Interpreter(module, engine=Host())).values()
    assert_equal([y], run_ort(model, {"x": X[:, 0]}))


def test_a_loop_that_is_refused_whole_is_run_op_by_op() -> None:
    model = _loop_of(helper.make_node("Mul", ["v", "v"], ["v_out"]))
    module, host = import_onnx(model), Host()

    def refuses_loops(part: onnx.ModelProto) -> ModelRunner:
        if any(node.op_type == "Loop" for node in part.graph.node):
            raise NotComputed("a Loop")
        return host(part)

    (y,) = evaluate(
        module, {"x": X[:, 0]}, interpreter=Interpreter(module, engine=refuses_loops)
    ).values()
    assert_equal([y], [X[:, 0] ** 4])


def test_sequences() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=1),
        helper.make_node("SequenceLength", ["s"], ["n"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=1),
    ]
    module = check(make_model(nodes, {"x": X}, outputs=["y", "n"]), {"x": X})
    assert "!graph.sequence<tensor<2x1x4xf32>>" in print_module(module)


def test_strings_and_other_domains() -> None:
    node = helper.make_node(
        "LabelEncoder",
        ["t"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["a", "b"],
        values_floats=[0.1, 2.5],
        default_float=-1.0,
    )
    constant = helper.make_node("Constant", [], ["t"], value_strings=["b", "c", "a"])
    graph = helper.make_graph(
        [constant, node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    module = check(model, {})
    assert [op.domain.data for op in foreign(module)] == ["", "ai.onnx.ml"]


def test_symbolic_sizes_stay_open_until_they_are_pinned() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["image"], ["y"])],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, None])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1, None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    module = import_onnx(model)
    (op,) = foreign(module)
    assert op.reason is not None
    assert op.reason.data == "expected inputs of static shape, found tensor<?x1x?xf32>"
    x = np.array([[[-1, 2]]], np.float32)
    assert_equal([evaluate(module, {"image": x})["y"]], [np.maximum(x, 0)])
    with pytest.raises(ByocirError, match=r"B310.*expected tensor<\?x1x\?xf32>"):
        evaluate(module, {"image": x[0]})
    assert not foreign(import_onnx(model, shapes={"image": (1, 1, 2)}))


def test_types_that_graph_ops_do_not_compute_on() -> None:
    x = {"x": np.arange(6).astype(np.complex64).reshape(2, 3)}
    (op,) = foreign(import_onnx(one_node("Transpose", x)))
    assert str(op.results[0].type) == "tensor<3x2xcomplex<f32>>"


def test_an_operator_without_a_schema_imports_and_says_so_when_run() -> None:
    node = helper.make_node("Magic", ["x"], ["y"], domain="com.example", power=0.3)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.example", 3)]
    module = import_onnx(helper.make_model(graph, opset_imports=imports))
    (op,) = foreign(module)
    assert (op.kind, op.opset.value.data) == ("Magic of domain com.example", 3)
    with pytest.raises(ByocirError, match=r"B312.*found Magic of domain com\.example"):
        evaluate(module, {"x": np.ones(2, np.float32)})


def test_functions_of_the_model_are_inlined() -> None:
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=10)
    module = check(model, {"x": X})
    assert not foreign(module)


def test_random_numbers_are_neither_merged_nor_erased() -> None:
    from byocir.dialects.context import load_context
    from byocir.rewrites.clean_up import CleanUpPass

    nodes: list[Any] = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], seed=1.0),
        helper.make_node("RandomNormalLike", ["x"], ["b"], seed=1.0),
        helper.make_node("Compress", ["x", "c"], ["unused"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    module = import_onnx(make_model(nodes, {"x": X}, {"c": np.array([True, False])}))
    CleanUpPass().apply(load_context(), module)
    assert [op.op_type.data for op in foreign(module)] == ["RandomNormalLike"] * 2


def test_a_mask_that_nothing_uses_keeps_no_dropout() -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"], ratio=0.5)
    assert not foreign(check(make_model([node], {"x": X}, opset=9), {"x": X}))


def test_sizes_given_as_minus_one_are_open() -> None:
    model = one_node("Relu", {"x": X})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert str(main_of(import_onnx(model)).args[0].type) == "tensor<?x3x4xf32>"
    pinned = import_onnx(model, shapes={"x": X.shape})
    assert_equal(run_byocir(pinned, {"x": X}), [np.maximum(X, 0)])


def test_pads_that_exporters_compute_are_known() -> None:
    """Pairs in reverse, as exporters of PyTorch turn them into ONNX's order."""
    weights = {
        "pairs": np.array([1, 2, 0, 1, 0, 0]),
        "matrix": np.array([-1, 2]),
        "last": np.array([-1]),
        "first": np.array([-9]),
        "axis": np.array([0]),
    }
    nodes = [
        helper.make_node("Reshape", ["pairs", "matrix"], ["p"]),
        helper.make_node("Slice", ["p", "last", "first", "axis", "last"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "last"], ["pads"]),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    assert not foreign(check(make_model(nodes, {"x": X}, weights), {"x": X}))


def test_nodes_of_old_forms_go_out_beside_graph_ops() -> None:
    """Before opset 18 ReduceMean and ReduceMax had their axes as an attribute: the one that stays
    foreign, for its input is of open size, has them as an input like the one that does not."""

    def branch(op_type: str, name: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node("Compress", ["x", "keep"], [f"{name}c"], axis=1),
            helper.make_node("ReduceMean", [f"{name}c"], [f"{name}m"], axes=[1]),
            helper.make_node("ReduceSum", ["x", "axes"], [f"{name}s"]),
            helper.make_node("ReduceMax", ["x"], [f"{name}x"], axes=[1]),
            helper.make_node(op_type, [f"{name}m", f"{name}s"], [f"{name}a"]),
            helper.make_node("Add", [f"{name}a", f"{name}x"], [name]),
        ]
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 1, 4])
        return helper.make_graph(nodes, name, [], [result])

    branches = {"then_branch": branch("Add", "t"), "else_branch": branch("Sub", "e")}
    nodes = [helper.make_node("If", ["c"], ["y"], **branches)]
    inputs = {"x": X, "c": np.array(True)}
    weights = {"keep": np.array([True, False, True]), "axes": np.array([1])}
    module = check(make_model(nodes, inputs, weights, opset=16), inputs)
    means = [op for op in foreign(module) if op.op_type.data == "ReduceMean"]
    assert [op.opset.value.data for op in means] == [21, 21]


POOLED = {"kernel_shape": [4], "strides": [3], "pads": [1, 2], "ceil_mode": 1}


@pytest.mark.parametrize("opset", [12, 21, 22])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("size", [17, "n"])
def test_windows_that_begin_in_the_last_pad_are_none(operator: str, opset: int, size: Any) -> None:
    """Inference counts them before opset 22: with indices, and where another size is open."""
    outputs = ["y", "i"] if operator == "MaxPool" else ["y"]
    x = np.arange(17, dtype=np.float32).reshape(1, 1, 17)
    model = make_model(
        [helper.make_node(operator, ["x"], outputs, **POOLED)], {"x": x}, opset=opset
    )
    for axis, name in ((0, "batch"), (2, size)) if size == "n" else ((0, "batch"),):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    model.graph.output[0].type.tensor_type.ClearField("shape")
    module = import_onnx(model)
    assert foreign(module)
    for host in ("reference", "c"):
        (y, *_) = byocir.compile(model, targets=(), host=host).run({"x": x}).values()
        assert y.shape == (1, 1, 6)
    assert_equal(run_byocir(module, {"x": x}), run_ort(model, {"x": x}))


def test_a_spectrum_has_one_side_by_default() -> None:
    signal = np.arange(8, dtype=np.float32).reshape(1, 8, 1)
    weights = {"step": np.array(2), "window": np.ones(4, np.float32)}
    module = import_onnx(one_node("STFT", {"x": signal}, weights))
    (found,) = run_byocir(module, {"x": signal})
    assert found.shape == (1, 3, 3, 2)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride", "extra"), [(1, 4, 0), (2, 3, 0), (2, 5, 2)])
def test_same_pads_of_a_transposed_convolution_are_not_below_zero(
    mode: str, kernel: int, stride: int, extra: int
) -> None:
    x = np.arange(1, 4, dtype=np.float32).reshape(1, 1, 3)
    w = {"w": np.arange(1, kernel + 1, dtype=np.float32).reshape(1, 1, kernel)}
    model = one_node(
        "ConvTranspose", {"x": x}, w, auto_pad=mode, strides=[stride], output_padding=[extra]
    )
    assert not foreign(check(model, {"x": x}))


def declared(operator: str, *shape: int, opset: int = 17) -> onnx.ModelProto:
    """A model of one node of `x` [2,3], whose output is declared to have this shape."""
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, shape),
    ]
    node = helper.make_node(operator, ["x", "k"][: 1 + (operator == "Compress")], ["y"], axis=0)
    if operator == "Relu":
        node.ClearField("attribute")
    keep = onnx.numpy_helper.from_array(np.array([True, False]), "k")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [keep])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 1)])
def test_an_output_of_other_sizes_than_declared_is_a_note(shape: tuple[int, ...]) -> None:
    package = byocir.compile(declared("Relu", *shape), targets=())
    said = "x".join(map(str, shape))
    note = f"the model says that its output 'y' is {said}, its operators make it 2x3"
    assert note in package.report.notes
    assert package.run({"x": np.ones((2, 3), np.float32)})["y"].shape == (2, 3)
    assert not byocir.compile(declared("Relu", 2, 3), targets=()).report.notes


@pytest.mark.parametrize(
    ("shape", "said"), [((7, 9), "7x9"), (("n", 4), "?x4"), (("n", 3, 1), "?x3x1"), ((5, 3), "")]
)
def test_sizes_are_compared_as_far_as_they_are_known(
    shape: tuple[int | str, ...], said: str
) -> None:
    model = declared("Relu")
    for port, sizes in ((model.graph.input[0], ("n", 3)), (model.graph.output[0], shape)):
        port.CopyFrom(helper.make_tensor_value_info(port.name, TensorProto.FLOAT, sizes))
    notes = [note for note in byocir.compile(model, targets=()).report.notes if "'y'" in note]
    told = f"the model says that its output 'y' is {said}, its operators make it ?x3"
    assert notes == ([told] if said else [])


@pytest.mark.parametrize("host", ["reference", "c"])
def test_an_output_of_which_only_the_model_tells_may_have_other_sizes(host: str) -> None:
    package = byocir.compile(declared("Compress", 2, 3), targets=(), host=host)
    assert package.run({"x": np.ones((2, 3), np.float32)})["y"].shape == (1, 3)
