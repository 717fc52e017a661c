"""Steps that a loop repeats: ONNX's recurrent operators, and an integer one of blocks."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from byocir.dialects.text import parse_module

STEPS, BATCH, INPUTS = 5, 2, 3
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    kind: str = "LSTM", *, hidden: int = 4, direction: str = "forward", steps: int = STEPS
) -> onnx.ModelProto:
    """One operator, `cell`, with random weights. x [steps, 2, 3] to y and to the last state h."""
    rng = np.random.default_rng(hidden)
    directions, rows = 1 + (direction == "bidirectional"), GATES[kind] * hidden
    shapes = {
        "w": (directions, rows, INPUTS),
        "r": (directions, rows, hidden),
        "b": (directions, 2 * rows),
    }
    node = helper.make_node(
        kind, ["x", *shapes], ["y", "h"], "cell", hidden_size=hidden, direction=direction
    )
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, BATCH, INPUTS])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h")],
        [
            numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
            for name, shape in shapes.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@st.composite
def recurrent_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Any operator, over any number of steps in any direction."""
    return recurrent(
        draw(st.sampled_from(sorted(GATES))),
        hidden=draw(st.integers(1, 6)),
        direction=draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        steps=draw(st.integers(1, 6)),
    )


def quantised(steps: int = 5, rows: int = 2, hidden: int = 16, shift: int = 6, seed: int = 0):
    """A step in integers: the state times weights, narrowed to i8 by a shift, and the input added.
    arg0 [steps, rows, hidden] and the first state arg1 [rows, hidden] to the last state and all."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, hidden * hidden).tolist()
    state, states = f"tensor<{rows}x{hidden}xi8>", f"tensor<{steps}x{rows}x{hidden}xi8>"
    sums, square = f"tensor<{rows}x{hidden}xi32>", f"tensor<{hidden}x{hidden}xi8>"
    space = f"m: {rows}, n: {hidden}"
    module = parse_module(f"""
    func.func @main(%x: {states}, %h0: {state}) -> ({state}, {states}) {{
      %w = tir.constant <{weights} : {square}> : {square}
      %none = tir.empty : {states}
      %last, %all = tir.for %t = 0 to {steps} serial
          carry(%h = %h0 : {state}, %seen = %none : {states}) {{
        %zeros = tir.fill 0 : i32 : {sums}
        %product = tir.block [{space} | k: {hidden}] ins(%h[m, k] : {state}, %w[n, k] : {square})
            outs(%zeros[m, n] : {sums}) {{
        ^bb0(%a: i8, %b: i8, %acc: i32):
          %0 = arith.extsi %a : i8 to i32
          %1 = arith.extsi %b : i8 to i32
          %2 = arith.muli %0, %1 : i32
          %3 = arith.addi %acc, %2 : i32
          tir.yield %3 : i32
        }} loc("gates")
        %e = tir.empty : {state}
        %narrow = tir.block [{space}] ins(%product[m, n] : {sums}) outs(%e[m, n] : {state}) {{
        ^bb0(%a: i32, %old: i8):
          %half = arith.constant {1 << shift - 1} : i32
          %shift = arith.constant {shift} : i32
          %low = arith.constant -128 : i32
          %high = arith.constant 127 : i32
          %0 = arith.addi %a, %half : i32
          %1 = arith.shrsi %0, %shift : i32
          %2 = arith.maxsi %1, %low : i32
          %3 = arith.minsi %2, %high : i32
          %4 = arith.trunci %3 : i32 to i8
          tir.yield %4 : i8
        }} loc("gates")
        %zero = arith.constant 0 : index
        %next = tir.block [t: 1, {space}] at(%t, %zero, %zero)
            ins(%x[t, m, n] : {states}, %narrow[m, n] : {state}) outs(%e[m, n] : {state}) {{
        ^bb0(%a: i8, %b: i8, %old: i8):
          %0 = arith.addi %a, %b : i8
          tir.yield %0 : i8
        }} loc("cell")
        %more = tir.block [t: 1, {space}] at(%t, %zero, %zero)
            ins(%next[m, n] : {state}) outs(%seen[t, m, n] : {states}) {{
        ^bb0(%a: i8, %old: i8):
          tir.yield %a : i8
        }} loc("cell")
        tir.yield %next, %more : {state}, {states}
      }} loc("steps")
      func.return %last, %all : {state}, {states}
    }}
    """)
    feeds = {
        "arg0": rng.integers(-128, 128, (steps, rows, hidden)).astype(np.int8),
        "arg1": rng.integers(-128, 128, (rows, hidden)).astype(np.int8),
    }
    return module, feeds
