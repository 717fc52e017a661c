"""C under the compilers' vectorisers: conditions, and what is read outside of arrays.

gcc before 14 confuses elements that are read under a condition in loops that it has unrolled
(PR 114375), which code without AVX never shows.
"""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from c_compilers import COMPILERS, LEVELS, VECTORS, flags_for, use
from c_host import run_c
from graph_ops import Case
from onnx import TensorProto, helper
from pass_checks import numbers, run_on, same

import byocir
from byocir.dialects import graph
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.host.c_host import CHost
from byocir.runtime.native import HostProgram, host_code


def node(op, shape, kind=np.float32, constants=(), **attributes):
    """An op, the input it is given, and further inputs that are constants."""
    array = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(kind)
    return op, array, [np.asarray(c) for c in constants], attributes


SUMS = [
    node("CumSum", shape, kind, [np.int64(axis)])
    for shape, axis, *kinds in (
        ((5, 16), 0, np.float32, np.float64, np.int32, np.int64),
        ((4, 8, 8), 1, np.float32, np.int64),
        ((3, 4, 4), 0, np.float32),
        ((5, 16), 1, np.float32),
        ((7, 64), 0, np.float32),
        ((3, 40), 1, np.float32),
    )
    for kind in kinds
]
WINDOWS = [
    node(op, shape, kernel_shape=kernel, pads=pads)
    for op in ("MaxPool", "AveragePool")
    for shape, kernel, pads in (
        ((1, 16, 6, 5), [3, 3], [1, 1, 1, 1]),
        ((1, 3, 7, 16), [3, 3], [1, 2, 1, 2]),
        ((2, 8, 8), [3], [1, 1]),
        ((1, 4, 9), [4], [2, 1]),
    )
]
CONVOLUTIONS = [
    node("Conv", (1, c, 6, 8), constants=[weight], pads=[1, 2, 1, 0], group=group)
    for c, group, weight in (
        (4, 4, np.arange(36, dtype=np.float32).reshape(4, 1, 3, 3)),
        (3, 1, np.arange(108, dtype=np.float32).reshape(4, 3, 3, 3)),
    )
]
MOVES = [
    node("Pad", (3, 4), constants=[np.int64([1, 2, 1, 3]), np.float32(9)]),
    node("Pad", (4, 16), constants=[np.int64([2, 0, 2, 0]), np.float32(0)]),
    node("Trilu", (6, 16), upper=1),
    node("Trilu", (16, 4), upper=0),
]
NODES = [*SUMS, *WINDOWS, *CONVOLUTIONS, *MOVES]


def model():
    """All of them side by side, and an addition behind each, which may be fused with it."""
    nodes, inputs, outputs, weights = [], [], [], []
    for i, (op, array, constants, attributes) in enumerate(NODES):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(f"x{i}", kind, array.shape))
        names = [f"c{i}_{j}" for j in range(len(constants))]
        weights += [
            onnx.numpy_helper.from_array(c, n) for c, n in zip(constants, names, strict=True)
        ]
        weights.append(onnx.numpy_helper.from_array(np.ones((), array.dtype), f"one{i}"))
        nodes.append(helper.make_node(op, [f"x{i}", *names], [f"y{i}"], **attributes))
        nodes.append(helper.make_node("Add", [f"y{i}", f"one{i}"], [f"z{i}"]))
        outputs += [helper.make_tensor_value_info(f"{n}{i}", kind, None) for n in "yz"]
    made = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.skipif("x86-64-v4" not in LEVELS, reason="no AVX-512")
def test_arrays_of_lanes_are_aligned(monkeypatch):
    """gcc 12 forgets to align arrays of functions that call nothing (PR 109780), and stores to them
    as if it had: 12 or 20 floats are a vector and a rest, which is stored so."""
    use("gcc", monkeypatch)
    flags = ("-std=c99", "-O2", "-march=x86-64-v4", "-ffp-contract=off", "-lm")
    window = {"strides": [2, 1], "pads": [0, 2, 0, 2], "dilations": [1, 1]}
    arrays = [numbers(0, 1, 1, 7, 18), numbers(1, 5, 1, 1, 3), numbers(2, 5)]
    for case in (
        Case(graph.ConvOp, arrays, group=1, **window),
        *(
            Case(graph.CumSumOp, [numbers(0, 3, n)], axis=1, exclusive=False, reverse=False)
            for n in (12, 20)
        ),
    ):
        module = run_on(case.module(), "convert-graph-to-tir")
        _, found = run_c(module, case.arrays, flags)
        same(found, evaluate_function(module, "main", case.arrays))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_reads_what_the_one_before_has_summed(compiler, monkeypatch):
    """gcc 12 made one function of both, and took the first element for the sum of four."""
    use(compiler, monkeypatch)
    x, w = np.full((1, 4), -1, np.int8), np.arange(8, dtype=np.int8).reshape(4, 2)
    kinds = [("x", TensorProto.INT8, x.shape), ("w", TensorProto.INT8, w.shape)]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])],
        "g",
        [helper.make_tensor_value_info(*kind) for kind in kinds],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [onnx.numpy_helper.from_array(np.int8(73), "zero")],
    )
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = byocir.compile(net, targets=[], host="c{cpu=generic}").run({"x": x, "w": w})["y"]
    np.testing.assert_array_equal(found, (x.astype(np.int32) - 73) @ w)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("cpu", VECTORS or [pytest.param("", marks=pytest.mark.skip("no AVX"))])
def test_conditions_among_vectors(cpu, compiler, monkeypatch):
    """Both what is made for the processor and what is made for any and built for it, as users of
    exported projects do."""
    use(compiler, monkeypatch)
    arrays = [array for _, array, _, _ in NODES]
    for made in (cpu, "generic"):
        package = byocir.compile(model(), targets=[], host=f"c{{cpu={made}}}")
        assert package.report.host_runs_on == "c", package.report.notes
        interpreter, code = Interpreter(package.module), host_code(package.module)
        program = HostProgram(
            replace(code, host=CHost("generic")), interpreter, flags_for(CHost(cpu))
        )
        for found, expected in zip(
            program.run(arrays), evaluate_function(package.module, "main", arrays), strict=True
        ):
            close = (
                np.testing.assert_allclose
                if found.dtype.kind == "f"
                else (np.testing.assert_array_equal)
            )
            close(found, expected)
