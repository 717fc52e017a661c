"""Threads: what they share, and that they change nothing."""

import numpy as np
import pytest
from c_host import STRICT
from conv_nets import conv_nets
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on
from test_loops_to_c import IN_PLACE, PARTS, SWAPPED

from byocir.compiler import host_pipeline
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import contractions, emit_host, openmp
from byocir.lowering.tir_to_c.conditions import KEPT_APART
from byocir.lowering.tir_to_c.openmp import alone, shared_for, shared_loops
from byocir.lowering.tir_to_c.tree import Block, Declare, For
from byocir.lowering.tir_to_c.unwritten import unwritten_of, writes_apart
from byocir.rewrites.host.c_host import CHost
from byocir.runtime.c_function import OPENMP
from byocir.runtime.native import HostProgram

FEW = settings.default.max_examples // 20


@pytest.fixture(autouse=True, scope="module")
def everything_is_worth_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contractions, "WORTH_SHARING", 1)
        patch.setattr(openmp, "WORTH_TEAM", 1)
        yield


def on_threads(module, threads, arrays):
    """The source for so many threads and what it computes, from memory that holds NaN."""
    function = Interpreter(module).function("main")
    code = emit_host(function, host=CHost("generic", threads))
    program = HostProgram(code, Interpreter(module), (*STRICT, OPENMP))
    program.arena[:] = 0xFF
    return code.source, [array.tobytes() for array in program.run(arrays)]


@pytest.mark.hypothesis
@settings(max_examples=3 * FEW, deadline=None)
@given(conv_nets(), st.sampled_from(["generic", "x86-64-v3"]))
def test_threads_give_the_same_bits(net, cpu):
    module, x = net
    run_on(module, f"convert-graph-to-tir,{host_pipeline(CHost(cpu))}")
    assert on_threads(module, 3, [x])[1] == on_threads(module, 1, [x])[1]


@pytest.mark.parametrize("text", [SWAPPED, IN_PLACE, PARTS], ids=["swapped", "in place", "parts"])
def test_a_team_runs_loops_that_carry_values(text):
    module = parse_module(text)
    types = module.body.block.first_op.function_type.inputs
    arrays = [np.arange(t.element_count(), dtype=np.int32).reshape(t.get_shape()) for t in types]
    source, found = on_threads(module, 3, arrays)
    assert source.count("OMP(parallel") == 1
    assert found == [array.tobytes() for array in evaluate_function(module, "main", arrays)]


def test_loops_are_cut_evenly():
    assert shared_for([8, 3], 2) == "OMP(for schedule(static))"
    assert shared_for([7, 8], 2) == "OMP(for schedule(static) collapse(2))"
    assert shared_for([5, 3], 2, waits=False) == "OMP(for schedule(static) collapse(2) nowait)"
    assert shared_for([1000, 8], 3) == "OMP(for schedule(static))"


def test_one_thread_does_what_is_beside_shared_loops():
    loop, calls = For("i", 8, ["f(i);"]), Block(["g();"])
    assert shared_loops([loop, calls], 2) == [
        *("OMP(for schedule(static))", loop),
        *("OMP(single)", calls),
    ]
    assert shared_loops([calls], 2) is None
    assert shared_loops([Declare("int", "x", "0"), loop], 2) is None
    assert alone(["g();", "h();"]) == ["OMP(single)", Block(["g();", "h();"])]


def test_nests_are_shared_as_far_as_they_have_nothing_beside_them():
    inner = For("j", 5, [For("k", 64, ["f();"])])
    (shared, _) = shared_loops([For("i", 3, [KEPT_APART, inner])], 2)
    assert shared == "OMP(for schedule(static) collapse(2))"
    (shared, _) = shared_loops([For("i", 3, ["g();", inner])], 2)
    assert shared == "OMP(for schedule(static))"
    assert shared_loops([For("i", "left", ["f();"])], 2) is None


BLOCK = """
func.func @main(%x: tensor<3x4xf32>) -> tensor<{shape}xf32> {{
  %z = tir.fill 0.0 : f32 : tensor<{shape}xf32>
  %r = tir.block [i: 3, j: 4] ins(%x[i, j] : tensor<3x4xf32>)
      outs(%z[{at}] : tensor<{shape}xf32>) {{
  ^bb0(%v: f32, %o: f32):
    tir.yield %v : f32
  }}
  func.return %r : tensor<{shape}xf32>
}}
"""


@pytest.mark.parametrize(
    ("shape", "at", "apart", "unwritten"),
    [
        ("3x4", "i, j", True, 0),
        ("3x4", "(i + 1) mod 3, j", True, 0),
        ("5x6", "i + 1, j + 1", True, 18),
        ("2x2x4", "(i + 1) mod 2, (i + 1) floordiv 2, j", True, 4),
        ("6", "i + j", False, 0),
        ("4", "j", False, 0),
    ],
)
def test_what_a_block_writes(shape, at, apart, unwritten):
    module = parse_module(BLOCK.format(shape=shape, at=at))
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    assert writes_apart(block, 0) == apart
    assert sum(runs.count * runs.length for runs in unwritten_of(block, 0)) == unwritten
    arrays = [np.arange(12, dtype=np.float32).reshape(3, 4)]
    source, found = on_threads(module, 2, arrays)
    assert ("OMP(for" in source) == apart
    assert found == [array.tobytes() for array in evaluate_function(module, "main", arrays)]
