"""Calls that are done at once give what they give one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import element_type_of, f32, i8
from byocir.errors import ByocirError
from byocir.machine import MAIN, Machine, exactly, up_to
from byocir.machine.batches import steps_in
from byocir.machine.calls import calls_in
from byocir.machine.simulator import Simulator
from byocir.patterns import Pattern, ScalarPattern, block

S = ScalarPattern
ROWS, BUFFER, LINE = (
    64,
    'memref<8x8xELEMENT, "batched.near">',
    'memref<2x4xELEMENT, "batched.line">',
)
DTYPES = {"i8": np.int8, "f32": np.float32}


def batched(element: str) -> Machine:
    """A machine whose instructions all work on rows of one memory, two of them with an operand that
    stays in the unit."""
    machine, type_ = Machine("batched"), {"i8": i8, "f32": f32}[element]
    unit = machine.unit("unit")
    near = machine.memory("near", type_, row=(4,), rows=ROWS)
    line = machine.memory("line", type_, row=(4,), rows=4, fifo=True)
    moved = {"unit": unit, "cycles": lambda s: 1, "rows": up_to(4), "lanes": exactly(4)}
    for name, source, into in (
        ("load", MAIN, near), ("store", near, MAIN), ("enter", near, line), ("leave", line, near)
    ):  # fmt: skip
        machine.copy(name, source, into, **moved)
    sizes = {"m": up_to(4), "n": exactly(4), "cycles": lambda s: 10}

    @machine.instruction(unit, into=near, **sizes, keeps="w", kept_cycles=lambda s: 2)
    def add() -> Pattern:
        return block("m n", near("x")["m n"], near("w")["n"], lambda _, x, w: x + w)

    @machine.instruction(unit, into=near, **sizes, k=exactly(4), keeps="w")
    def product() -> Pattern:
        def multiply_add(c: S, a: S, w: S) -> S:
            return c + a * w

        read = near("a")["m k"], near("w")["k n"]
        added = block("m n | k", *read, multiply_add, init=near("c"))
        return added | block("m n | k", *read, multiply_add)

    return machine


def op(
    callee: str, cut: str, iterators: str, ins: str, outs: str, body: str, before: str = ""
) -> str:
    names = ["%a", "%b", "%c"][: ins.count("[") + 1]
    args = ", ".join(f"{name}: ELEMENT" for name in names)
    return f"""
  tir.intrinsic "batched.{callee}" {cut} {{{before}
    tir.block [{iterators}] ins({ins}) outs({outs}) {{
    ^bb0({args}):
      {body}
    }}
  }}"""


COPY = "tir.yield %a : ELEMENT"
ADD = """%0 = ADD %a, %b : ELEMENT
      tir.yield %0 : ELEMENT"""
MULTIPLY_ADD = """%0 = MUL %a, %b : ELEMENT
      %1 = ADD %c, %0 : ELEMENT
      tir.yield %1 : ELEMENT"""
ZERO = """
    tir.block [m: 4, n: 8] outs(%{}[m + {}, n] : BUFFER) {{
    ^bb0(%z: ELEMENT):
      %zero = arith.constant 0ZERO : ELEMENT
      tir.yield %zero : ELEMENT
    }}"""


@st.composite
def ops(draw: st.DrawFn) -> str:
    """An op on buffers that lie anywhere, or what goes through the FIFO."""
    one, into = draw(st.permutations("pqr"))[:2] if draw(st.integers(0, 3)) else "ss"
    other = draw(st.sampled_from("sssp"))
    at, read, written = (draw(st.sampled_from([0, 0, 4, 3])) for _ in range(3))
    rows = draw(st.integers(1, 4))
    cut = f"cut [{rows}, 4]" + draw(st.sampled_from(["", " order [1, 0]"]))
    beside = draw(st.sampled_from(["", " beside"]))
    x, w = f"%{one}[i + {at}, j] : BUFFER", f"%{other}[{read}, j] : BUFFER"
    y = f"%{into}[i + {written}, j] : BUFFER"
    main = draw(st.sampled_from("xy"))
    match draw(st.sampled_from(["load", "store", "add", "add", "product", "product", "line"])):
        case "load":
            x = f"%{main}[i + {at}, j] : memref<8x8xELEMENT>"
            return op("load", cut + beside, "i: 4, j: 8", x, y, COPY)
        case "store":
            y = f"%y[i + {written}, j] : memref<8x8xELEMENT>"
            return op("store", cut + beside, "i: 4, j: 8", x, y, COPY)
        case "add":
            return op("add", cut + beside, "i: 4, j: 8", f"{x}, {w}", y, ADD)
        case "line":
            line = "%line[i, j] : LINE"
            entered = op("enter", "cut [1, 4]" + beside, "i: 2, j: 4", x, line, COPY)
            return entered + op("leave", "cut [2, 4]", "i: 2, j: 4", line, y, COPY)
    order = draw(st.permutations(range(3)))
    cut = f"cut [{rows}, 4, 4] order [{', '.join(map(str, order))}]{beside}"
    ins = f"%{one}[m + {at}, k] : BUFFER, %{other}[k, n] : BUFFER"
    start = ZERO.format(into, written) if draw(st.booleans()) else ""
    outs = f"%{into}[m + {written}, n] : BUFFER"
    return op("product", cut, "m: 4, n: 8 | k: 8", ins, outs, MULTIPLY_ADD, start)


@st.composite
def programs(draw: st.DrawFn, element: str) -> FuncOp:
    lies = [
        (name, draw(st.sampled_from([16 * n, 16 * n, 40])), BUFFER) for n, name in enumerate("pqrs")
    ]
    return parsed(
        [*lies, ("line", 0, LINE)], draw(st.lists(ops(), min_size=1, max_size=8)), element
    )


def parsed(buffers: list[tuple[str, int, str]], ops: list[str], element: str) -> FuncOp:
    alloc = "%{} = tir.alloc {{row = {} : i64}} : {}"
    body = "\n  ".join([*(alloc.format(*each) for each in buffers), *ops])
    ends = ("", "i") if element == "i8" else (".0", "f")
    text = f"func.func @f(%x: ARRAY, %y: ARRAY) {{\n  {body}\n  func.return\n}}"
    for name, value in (
        ("ARRAY", "memref<8x8xELEMENT>"), ("BUFFER", BUFFER), ("LINE", LINE), ("ZERO", ends[0]),
        ("ADD", f"arith.add{ends[1]}"), ("MUL", f"arith.mul{ends[1]}"), ("ELEMENT", element)
    ):  # fmt: skip
        text = text.replace(name, value)
    (function,) = parse_module(text, load_context()).ops
    assert isinstance(function, FuncOp)
    return function


def outcome(machine: Machine, function: FuncOp, *, singly: bool) -> list[object]:
    """What a program leaves in all memories, and the error that it ends with."""
    rng, dtype = (
        np.random.default_rng(0),
        DTYPES[str(element_type_of(function.body.block.args[0].type))],
    )
    arrays = [rng.integers(-9, 9, (8, 8)).astype(dtype) / dtype(3) for _ in range(2)]
    arrays = [each.astype(dtype) for each in arrays]
    simulator, told = Simulator(machine), ""
    try:
        calls = [*calls_in(machine, function.body.block)] if singly else None
        simulator.run(function, arrays, calls)
    except ByocirError as error:
        told = str(error)
    return [told, *arrays, *simulator.memories.values()]


@pytest.mark.parametrize("element", ["i8", "f32"])
@settings(max_examples=40 if settings.default.max_examples < 100 else 1000)
@given(st.data())
def test_memories_are_as_after_one_call_after_the_other(element: str, data: st.DataObject) -> None:
    machine, function = batched(element), data.draw(programs(element))
    pairs = (outcome(machine, function, singly=singly) for singly in (False, True))
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_stays_in_a_unit_is_used_by_all_calls_of_an_op() -> None:
    """The row is in the unit still, when another buffer is written to where it was."""
    copied, sides = (
        op("load", "cut [4, 4]", "i: 4, j: 8", "%x[i, j] : ARRAY", "{}", COPY),
        "i: 4, j: 4",
    )
    added = op("add", "cut [1, 4]", sides, "%p[i, j] : BUFFER, %s[0, j] : BUFFER", "{}", ADD)
    copies = [copied.replace("{}", f"%{each}[i, j] : BUFFER") for each in "psr"]
    copies[1] = copies[1].replace("%x", "%y")
    sums = [added.replace("{}", f"%q[i + {at}, j] : BUFFER") for at in (0, 4)]
    buffers = [("p", 0, BUFFER), ("q", 16, BUFFER), ("r", 48, BUFFER), ("s", 48, BUFFER)]
    function = parsed(buffers, [*copies[:2], sums[0], copies[2], sums[1]], "i8")
    machine = batched("i8")
    steps = steps_in(machine, calls_in(machine, function.body.block))
    kept = [step.is_kept.tolist() for step in steps if step.kind.fit.instruction.keeps]
    assert kept == [[False] * 4, [True] * 4]
    near = outcome(machine, function, singly=False)[3]
    assert isinstance(near, np.ndarray)
    np.testing.assert_array_equal(near[16:20], near[20:24])
