"""raise-scf-to-tir: loops as others write them, as blocks with the same meaning."""

import numpy as np
import pytest
from family_checks import check_few, each_family
from hypothesis import event, given, settings
from loop_programs import Matmul, matmuls
from pass_checks import LOOPS, run_on, same
from raised import contents_after, on_memory, only_blocks, reasons
from random_loops import BUFFERS, SIZE, programs

from byocir.compiler import generate, import_onnx, partition
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, ExternOp, ForOp, ReadOp
from byocir.dialects.types import i32
from byocir.evaluate.module import evaluate_function
from byocir.patterns import Composite, block, wildcard
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline

RAISE = "raise-scf-to-tir"


@pytest.mark.hypothesis
@each_family
def test_what_was_made_loops_is_raised_again(cases):
    def check(module, arrays, expected):
        # Loops over time carry their state on; routines are calls; computed indices stay loops.
        is_blocks = not any(isinstance(op, ForOp | ExternOp | ReadOp) for op in module.walk())
        run_on(module, f"{LOOPS},{RAISE}")
        if is_blocks:
            assert not reasons(module)
            assert only_blocks(module)
        same(evaluate_function(module, "main", arrays), expected)

    check_few(cases, check)


def product(acc, x, y):
    return acc + x.to(i32) * y.to(i32)


def float_product(acc, x, y):
    return acc + x * y


def gemm(body):
    """The one pattern that takes all of them: what is added to is nothing, or a third matrix."""
    a, b, c = wildcard("a"), wildcard("b"), wildcard("c")
    given = block("m n | k", a["m k"], b["k n"], body, init=c)
    return Composite("toy.gemm", (block("m n | k", a["m k"], b["k n"], body), given))


GEMM = {"i8": gemm(product), "f32": gemm(float_product)}


def arrays_of(program, seed=0):
    m, n, k = program.sizes
    rng = np.random.default_rng(seed)
    dtype, acc = (np.int8, np.int32) if program.element == "i8" else (np.float32, np.float32)
    shapes = [((m, k), dtype), ((k, n), dtype), ((m, n), acc)]
    return [rng.integers(-9, 9, shape).astype(kind) for shape, kind in shapes]


def check_matmul(program):
    text = program.text()
    arrays = arrays_of(program)
    expected = on_memory(parse_module(text), arrays)
    a, b, c = (array.astype(expected.dtype) for array in arrays)
    np.testing.assert_array_equal(expected, a @ b + (c if program.start == "kept" else 0))
    module = run_on(parse_module(text), RAISE)
    assert not reasons(module)
    assert only_blocks(module)
    given = arrays if program.start == "kept" else arrays[:2]
    same(evaluate_function(module, "main", given), [expected])
    return module


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 2)
@given(matmuls())
def test_matrix_products_are_taken_by_one_pattern_however_they_are_written(program):
    module = check_matmul(program)
    if min(program.sizes) == 1:
        return  # what runs once is no iterator
    (contraction,) = [op for op in module.walk() if isinstance(op, BlockOp) and op.reductions]
    assert [len(contraction.parallels), len(contraction.reductions)] == [2, 1]
    assert GEMM[program.element].attempt(contraction).fits


FORMS = {
    "i-j-k": Matmul((4, 6, 8)),
    "i-k-j": Matmul((4, 6, 8), ("m", "k", "n")),
    "swapped": Matmul((4, 6, 8), swapped=True),
    "affine": Matmul((4, 6, 8), ("n", "k", "m"), dialect="affine"),
    "tir": Matmul((4, 6, 8), ("k", "m", "n"), dialect="tir"),
    "tiled": Matmul((4, 6, 8), ("m.", "n.", "k.", "m", "n", "k")),
    "tiled with remainders": Matmul((5, 7, 9), ("m.", "n.", "k.", "m", "n", "k")),
    "affine tiles": Matmul((5, 7, 9), ("m.", "n.", "k.", "k", "n", "m"), dialect="affine"),
    "carried": Matmul((4, 6, 8), start="inside", carried=True),
    "carried through tiles": Matmul((4, 6, 9), ("m", "n", "k.", "k"), start="kept", carried=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_one_contraction(form):
    module = check_matmul(FORMS[form])
    (contraction,) = [op for op in module.walk() if isinstance(op, BlockOp) and op.reductions]
    assert GEMM["i8"].attempt(contraction).fits


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 3)
@given(programs())
def test_whatever_loops_do_is_kept(text):
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-5, 5, SIZE).astype(np.int32) for name in BUFFERS}
    expected = contents_after(parse_module(text), arrays)
    module = run_on(parse_module(text), RAISE)
    found = contents_after(module, arrays)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    event("on tensors" if only_blocks(module) else "in part" if reasons(module) else "on memory")


ON_VTA = """
"memref.global"() <{{sym_name = "weights", type = memref<16x16xi8>, constant,
  initial_value = dense<"0x{weights}"> : tensor<16x16xi8>, sym_visibility = "private"}}> : () -> ()
"memref.global"() <{{sym_name = "scale", type = memref<1xi32>, constant,
  initial_value = dense<7> : tensor<1xi32>, sym_visibility = "private"}}> : () -> ()
func.func public @main(%x: memref<4x16xi8> {{byoc.name = "x"}},
                       %y: memref<4x16xi8> {{byoc.name = "y"}}) {{
  %w = memref.get_global @weights : memref<16x16xi8>
  %scale = memref.get_global @scale : memref<1xi32>
  %zero = arith.constant 0 : i32
  %half = arith.constant 512 : i64
  %shift = arith.constant 10 : i64
  %low = arith.constant -128 : i64
  %high = arith.constant 127 : i64
  affine.for %i = 0 to 4 {{
    affine.for %j = 0 to 16 {{
      %acc = affine.for %k = 0 to 16 iter_args(%s = %zero) -> (i32) {{
        %a = affine.load %x[%i, %k] : memref<4x16xi8>
        %b = affine.load %w[%k, %j] : memref<16x16xi8>
        %u = arith.extsi %a : i8 to i32
        %v = arith.extsi %b : i8 to i32
        %p = arith.muli %u, %v : i32
        %t = arith.addi %s, %p : i32
        affine.yield %t : i32
      }}
      %m = affine.load %scale[0] : memref<1xi32>
      %wide = arith.extsi %acc : i32 to i64
      %times = arith.extsi %m : i32 to i64
      %product = arith.muli %wide, %times : i64
      %sum = arith.addi %product, %half : i64
      %q = arith.shrsi %sum, %shift : i64
      %least = arith.maxsi %q, %low : i64
      %most = arith.minsi %least, %high : i64
      %r = arith.trunci %most : i64 to i8
      affine.store %r, %y[%i, %j] : memref<4x16xi8>
    }}
  }}
  func.return
}}"""


def test_loops_run_on_vta():
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, (16, 16)).astype(np.int8)
    module = parse_module(ON_VTA.format(weights=weights.tobytes().hex()))
    x = rng.integers(-128, 128, (4, 16)).astype(np.int8)
    (expected,) = evaluate_function(module, "main", [x])
    package = generate(module, partition(run_on(module, RAISE), "vta"))
    assert [region.target for region in package.report.regions] == ["vta"]
    np.testing.assert_array_equal(package.run({"x": x})["y"], expected)


def test_what_matched_before_matches_after_a_round_trip():
    whole = import_onnx("examples/digits/digits_int8.onnx", shapes={"image": (1, 1, 8, 8)})
    context = load_context()
    run_passes(whole, context, meaning_pipeline(whole, "vta"))
    run_passes(whole, context, "convert-graph-to-tir")
    again = run_on(whole.clone(), f"{LOOPS},{RAISE}")
    again.attributes.update(whole.attributes)
    found = []
    for module in (whole, again):
        run_on(module, "match-composites{level=tensor}")
        found.append([op.pattern.data for op in module.walk() if isinstance(op, CompositeOp)])
    assert found[0] == found[1]
    assert "vta.contraction" in found[0]
