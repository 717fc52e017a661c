"""What is scheduled reaches the C code: loops in their order and of their kinds, and the numbers of
the evaluator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from c_host import SANITIZED, run_c
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_requests import REQUESTS, granted

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import dtype_of, element_type_of, is_float, shape_of
from byocir.evaluate.module import evaluate_function
from byocir.evaluate.ports import ports_of
from byocir.rewrites.host.c_host import CHost, set_c_host
from byocir.rewrites.schedule import Schedule
from byocir.rewrites.schedule.script import run_script
from byocir.runtime.native import host_code
from byocir.testing.buffers import Program, buffer_programs


def arrays_for(function):
    rng = np.random.default_rng(0)
    types = ports_of(function)[0]
    scale = 1 / 7 if any(is_float(element_type_of(type_)) for type_ in types) else 1
    numbers = (rng.integers(-9, 9, shape_of(type_)) * scale for type_ in types)
    return [n.astype(dtype_of(element_type_of(t))) for n, t in zip(numbers, types, strict=True)]


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 5, deadline=None)
@given(
    buffer_programs(),
    st.lists(st.sampled_from(REQUESTS), min_size=2, max_size=8),
    st.integers(1, 3),
    st.data(),
)
def test_c_computes_what_the_evaluator_computes(program: Program, asked, threads, data) -> None:
    """Exactly: sums keep their order."""
    for ask in asked:
        granted(program, ask, data.draw)
    set_c_host(program.module, CHost("generic", threads))
    arrays = arrays_for(program.function)
    expected = evaluate_function(program.module, "main", arrays)
    flags = (*SANITIZED, "-fopenmp") if threads > 1 else SANITIZED
    _, found = run_c(program.module, arrays, flags)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


GEMM = """
func.func @main(%a: memref<8x96xi32>, %b: memref<96x64xi32>, %c: memref<8x64xi32>) {
  tir.fill 3 : i32 into %c : memref<8x64xi32> loc("start")
  tir.block [m: 8, n: 64 | k: 96]
      ins(%a[m, k] : memref<8x96xi32>, %b[k, n] : memref<96x64xi32>)
      outs(%c[m, n] : memref<8x64xi32>) {
  ^bb0(%x: i32, %w: i32, %acc: i32):
    %0 = arith.muli %x, %w : i32
    %1 = arith.addi %acc, %0 : i32
    tir.yield %1 : i32
  } loc("gemm")
  func.return
}
"""


def compiled(script: str, host: str = "c{cpu=generic}"):
    module = parse_module(GEMM)
    (function,) = module.ops
    run_script(Schedule(function), script)
    return byocir.compile(module, targets=[], host=host)


def source_of(package) -> str:
    """What runs, without the functions of blocks."""
    text = host_code(package.module).source
    return text[text.index("int model_run") :]


def product(package):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.int32) for shape in ((8, 96), (96, 64)))
    (found,) = package.run({"arg0": a, "arg1": b}).values()
    np.testing.assert_array_equal(found, a @ b + 3)


def loops_in(text: str) -> list[str]:
    """The extents of the loops, in their order."""
    return re.findall(r"for \(ptrdiff_t i\d+ = 0; i\d+ < (\d+)", text)


def test_loops_are_written_in_their_order() -> None:
    package = compiled("m, n, k = tile(gemm, m=2, n=16, k=48); reorder(k, n, m)")
    assert package.report.host_runs_on == "c"
    assert loops_in(source_of(package)) == ["2", "4", "4"]
    product(package)


def test_an_unrolled_loop_is_written_out() -> None:
    package = compiled("m, n = tile(gemm, m=2, n=16); unroll(m)")
    text = source_of(package)
    assert loops_in(text) == ["4"] * 4
    assert re.findall(r"const ptrdiff_t i0 = (\d);", text) == ["0", "1", "2", "3"]
    product(package)


def test_a_loop_that_is_too_long_to_write_out_is_left_to_the_compiler() -> None:
    script = "a, b, c = tile(gemm, m=1, n=1, k=1); unroll(a); unroll(b); unroll(c)"
    text = source_of(compiled(script))
    assert loops_in(text) == ["8", "64"]
    assert text.count("#pragma GCC unroll") == 2


def test_a_vectorised_loop_is_the_lane_of_its_block() -> None:
    script = "m, n = tile(gemm, m=2, n=1); split(n, 16); vectorise(loops(gemm)[2])"
    package = compiled(script)
    assert loops_in(source_of(package)) == ["4", "4"]
    assert "int32_t acc0[16];" in host_code(package.module).source
    product(package)


def test_lanes_have_no_buffers_of_their_own() -> None:
    package = compiled("m, n = tile(gemm, m=8, n=16); stage(gemm, 0, near, at=n); vectorise(n)")
    assert "ivdep" not in source_of(package)
    product(package)


def test_threads_share_the_outermost_parallel_loop() -> None:
    script = "m, n = tile(gemm, m=2, n=16); parallel(m); parallel(n)"
    assert "parallel" not in source_of(compiled(script))
    package = compiled(script, "c{cpu=generic,threads=3}")
    text = source_of(package)
    assert text.count("OMP(parallel for num_threads(3) schedule(dynamic))") == 1
    assert text.index("OMP(parallel") < text.index("for (ptrdiff_t i0")
    product(package)


def test_each_thread_has_its_own_large_buffers() -> None:
    """Small ones are arrays of the loop's body."""
    script = "m, = tile(gemm, m=4); stage(gemm, 1, near, at=m); stage(gemm, 2, acc, at=m)"
    package = compiled(script + "; parallel(m)", "c{cpu=generic,threads=2}")
    text = source_of(package)
    assert "int32_t l0[256];" in text
    assert "const ptrdiff_t thread = THREAD;" in text
    assert package.report.memory["arena"] == 2 * 96 * 64 * 4
    product(package)


def test_a_loop_that_may_end_the_run_is_not_shared_nor_are_its_buffers() -> None:
    text = """func.func @main(%i: memref<2048xi64>, %t: memref<16xf32>, %c: memref<8x2048xf32>) {
      tir.for %p = 0 to 8 parallel {
        %a = tir.alloc : memref<2048xf32>
        tir.block [n: 2048] ins(%i[n] : memref<2048xi64>, %t : memref<16xf32>)
            outs(%a[n] : memref<2048xf32>) {
        ^bb0(%0: i64, %1: memref<16xf32>, %2: f32):
          %3 = tir.read %1[%0] : memref<16xf32> -> f32
          tir.yield %3 : f32
        }
        tir.block [n: 2048] ins(%a[n] : memref<2048xf32>) outs(%c[0, n] : memref<8x2048xf32>) {
        ^bb0(%0: f32, %1: f32):
          tir.yield %0 : f32
        }
      }
      func.return
    }"""
    host = "c{cpu=generic,threads=2}"
    package = byocir.compile(parse_module(text), targets=[], host=host)
    source = source_of(package)
    assert "THREAD" not in source[source.index("int model_run") :]
    rows = package.run({"arg0": np.arange(2048) % 16, "arg1": np.arange(16, dtype=np.float32)})
    np.testing.assert_array_equal(rows["arg2"][0], np.arange(2048) % 16)
    with pytest.raises(byocir.ByocirError, match="B303"):
        package.run({"arg0": np.full(2048, 99), "arg1": np.ones(16, np.float32)})


def test_a_package_of_a_schedule_is_saved_and_loaded(tmp_path) -> None:
    package = compiled("m, n = tile(gemm, m=2, n=16); unroll(m)")
    assert [list(package.inputs), list(package.outputs)] == [["arg0", "arg1"], ["arg2"]]
    package.save(tmp_path / "gemm.byocir")
    product(byocir.load(tmp_path / "gemm.byocir"))
    with pytest.raises(byocir.ByocirError, match="B310"):
        package.run({"arg0": np.zeros((8, 96), np.int32)})


def test_arguments_that_are_written_come_last() -> None:
    text = "func.func @main(%c: memref<4xi32>, %a: memref<4xi32>) {"
    text += "tir.copy %a to %c sizes [4] : memref<4xi32> to memref<4xi32>\nfunc.return\n}"
    with pytest.raises(byocir.ByocirError, match="B340") as caught:
        byocir.compile(parse_module(text), targets=[], host="c")
    assert "found argument 0 written and argument 1 not" in caught.value.message


def test_outputs_begin_as_zeros() -> None:
    text = GEMM.replace('tir.fill 3 : i32 into %c : memref<8x64xi32> loc("start")', "")
    package = byocir.compile(parse_module(text), targets=[], host="c")
    a, b = np.ones((8, 96), np.int32), np.ones((96, 64), np.int32)
    for _ in range(2):
        (found,) = package.run({"arg0": a, "arg1": b}).values()
        assert (found == 96).all()
