"""Gemmini's words for random layers and nets, run by a model of its instruction set."""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gemmini_isa import Gemmini
from host_arrays import arrays_of
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_nets import Net, UnsignedNet, encoder, resnet18
from random_machines import product_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

import byocir
from byocir.compiler import partition
from byocir.dialects.byoc import TARGET, CompositeOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.evaluate.ports import ports_of
from byocir.machine import Call
from byocir.machine.calls import calls_in
from byocir.machine.encoding import Encoder, code_by_call
from byocir.machine.numeric_programs import hazards_of, times_of
from byocir.patterns.target_classes import register
from byocir.rewrites.machine import PASSES
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.export import export_project
from byocir.runtime.package import Package
from byocir.targets.described import functions_of
from byocir.toolchain import built_and_loaded
from byocir.vendor.user_code import import_file

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
EXAMPLE = Path(__file__).parents[2] / "examples" / "gemmini.py"
POOLS = EXAMPLE.with_name("gemmini_pools.py")


def function_of(m: int, n: int, k: int) -> FuncOp:
    example = import_file(EXAMPLE, "B217")
    register("gemmini", example.Gemmini)
    module = product_module(m, n, k, relu=False)
    partition(module, targets=[example.Gemmini()], levels=("tensor",))
    run_passes(module, load_context(), f"apply-schedules,{PASSES}")
    (function,) = (f for f in module.ops if isinstance(f, FuncOp) and TARGET in f.attributes)
    return function


def one_by_one(calls: Sequence[Call]) -> list[Any]:
    """The code of calls each of which is encoded by itself."""
    return [entry for _, code in code_by_call(calls) for entry in code]


def model_of_the_isa(blobs: Mapping[str, bytes]) -> Callable[..., list[np.ndarray]]:
    """Runs the words of a package's programs on the model of the instruction set."""

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        outputs, arrays = arrays_of(blobs, symbol, inputs)
        words = [word for entry in json.loads(blobs[f"{symbol}.json"]) for word in entry]
        Gemmini(arrays).run(words)
        return outputs

    return run


def on_the_isa(
    module: ModuleOp, load: Callable[..., Any] = model_of_the_isa
) -> tuple[byocir.Package, ModuleOp]:
    """A package whose programs the model of the instruction set runs, and what fix-point made."""
    example = import_file(POOLS, "B217")

    class OnIsa(example.Gemmini):
        def load(self, blobs: Mapping[str, bytes]) -> Any:
            return load(blobs)

    meanings: dict[str, ModuleOp] = {}

    def keep(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if pass_.name == "fix-point":
            meanings[pass_.name] = module.clone()

    package = byocir.compile(module, targets=[OnIsa()], levels=("tensor",), after_pass=keep)
    return package, meanings["fix-point"]


def expect_on_the_isa(module: ModuleOp, taken: Mapping[str, int]) -> None:
    """Holds what the model of the instruction set computes against the evaluator. All sums leave
    scaled, and those in front of a pool as its maxima."""
    feeds = random_feeds(module)
    package, meaning = on_the_isa(module)
    expected = evaluate(meaning, feeds)
    for name, found in package.run(feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    assert Counter(each.pattern for each in package.report.decisions if each.taken) == taken
    schedules = [each.schedule for r in package.report.regions for each in r.composites]
    assert all("mvout_scaled" in each or "mvout_pooled" in each for each in schedules)


def test_its_words_run_a_network_bit_for_bit() -> None:
    module = byocir.import_onnx(resnet18(8, (16,), 1, per_channel=False))
    taken = {"gemmini.pooled_conv": 1, "gemmini.conv": 2, "gemmini.add": 1, "gemmini.matmul": 1}
    expect_on_the_isa(module, taken)


@pytest.mark.parametrize("zero", [0, 117])
def test_its_words_run_a_network_with_zero_points_bit_for_bit(zero: int) -> None:
    """What is rectified ends at 0 where that is the least byte, else the host cuts it. Pixels
    outside count as 0 in its pools, and so pools are the host's."""
    module = byocir.import_onnx(resnet18(8, (16,), 1, per_channel=False, zero=np.uint8(zero)))
    expect_on_the_isa(module, {"gemmini.conv": 3, "gemmini.add": 1, "gemmini.matmul": 1})


@pytest.mark.parametrize("most", [False, True])
def test_its_words_run_products_with_weights_of_nine_bits_bit_for_bit(most: bool) -> None:
    net = UnsignedNet((1, 16, 7, 7), most=most)
    value = net.conv(net.value, (16, 24), 3, relu=False)
    model = net.pooled(net.conv(value, (24, 16), 1, 2, relu=False), 16, 10)
    expect_on_the_isa(byocir.import_onnx(model), {"gemmini.conv": 2, "gemmini.matmul": 1})


def test_its_words_run_products_of_arrays_with_zero_points_bit_for_bit() -> None:
    """The zero points of two computed factors are columns and rows of theirs, and one number."""
    module = byocir.import_onnx(encoder(1, 6, 16, zero=np.uint8(117)))
    expect_on_the_isa(module, {"gemmini.matmul": 8})


def test_its_words_run_products_of_any_number_of_dimensions_bit_for_bit() -> None:
    """Dense layers of an encoder have one matrix for all tokens, attention one for each head."""
    module = byocir.import_onnx(encoder(1, 6, 16))
    expect_on_the_isa(module, {"gemmini.matmul": 8})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_int8", "digits_u8"])
def test_its_words_run_trained_digits_bit_for_bit(name: str) -> None:
    module = byocir.import_onnx(DIGITS / f"{name}.onnx", shapes={"image": (1, 1, 8, 8)})
    expect_on_the_isa(module, {"gemmini.conv": 6, "gemmini.add": 2, "gemmini.matmul": 1})


@pytest.mark.slow
def test_its_words_run_a_resnet18_of_224_pixels_bit_for_bit() -> None:
    module = byocir.import_onnx(resnet18(224, (16, 32, 64, 128), per_channel=False))
    taken = {"gemmini.pooled_conv": 1, "gemmini.conv": 19, "gemmini.add": 8, "gemmini.matmul": 1}
    expect_on_the_isa(module, taken)


HEADER = """
#include <stdint.h>
#define XCUSTOM_ACC 3
enum { k_CONFIG, k_MVIN2, k_MVIN, k_MVOUT, k_COMPUTE_PRELOADED, k_COMPUTE_ACCUMULATE, k_PRELOAD };
void (*gemmini_rocc)(int, uint64_t, uint64_t);
#define ROCC_INSTRUCTION_RS1_RS2(x, rs1, rs2, funct) gemmini_rocc(funct, rs1, rs2)
#define gemmini_fence() gemmini_rocc(-1, 0, 0)
"""
"""What a program needs of Gemmini's own header, to call in place of issuing."""


class InProcess(Gemmini):
    """The model on this process's memory."""

    def _host(self, address: int, rows: int, stride: int, size: int) -> np.ndarray:
        bytes_ = (ctypes.c_uint8 * ((rows - 1) * stride + size)).from_address(address)
        return np.ndarray((rows, size), np.uint8, bytes_, 0, (stride, 1))


def issued_in_c(blobs: Mapping[str, bytes]) -> Callable[..., list[np.ndarray]]:
    """Runs a package's programs in C, whose instructions the model does."""
    code = import_file(POOLS, "B217").Gemmini().device(blobs)
    library = built_and_loaded("gemmini", {"gemmini.h": HEADER, "regions.c": code.source})
    issue = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        model = InProcess([])
        rocc = issue(lambda *word: model.run([word]))
        held = ctypes.c_void_p.in_dll(library, "gemmini_rocc")
        held.value = ctypes.cast(rocc, ctypes.c_void_p).value
        _, types = ports_of(functions_of(blobs)[symbol])
        outputs = [np.zeros(shape_of(t), dtype_of(element_type_of(t))) for t in types]
        given = [np.ascontiguousarray(array) for array in inputs]
        lists = [
            (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            for arrays in (given, outputs)
        ]
        assert getattr(library, code.functions[symbol])(*lists) == 0
        return outputs

    return run


def test_its_c_program_issues_what_the_evaluator_computes() -> None:
    net = Net((5, 20), per_channel=False)
    module = byocir.import_onnx(net.of(net.dense(net.value, (20, 18), relu=True), (5, 18)))
    package, meaning = on_the_isa(module, issued_in_c)
    feeds = random_feeds(module)
    expected = evaluate(meaning, feeds)
    for name, found in package.run(feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    assert "gemmini/regions.c" in export_project(package)


def test_configuration_is_set_where_it_changes() -> None:
    gemmini = import_file(EXAMPLE, "B217").gemmini
    function = function_of(48, 32, 64)
    calls = calls_in(gemmini, function.body.block)
    code = Encoder(gemmini).code(calls)
    assert code == one_by_one(calls)
    words = [word for entry in code for word in entry]
    assert sum(funct == 0 for funct, _, _ in words) < len(calls) / 4


def test_weights_stay_in_the_array_while_rows_of_the_image_change() -> None:
    example = import_file(EXAMPLE, "B217")
    register("gemmini", example.Gemmini)
    net = Net((1, 32, 7, 7), per_channel=False)
    module = byocir.import_onnx(net.of(net.conv(net.value, (32, 32)), (1, 32, 7, 7)))
    package = byocir.compile(module, targets=[example.Gemmini()], levels=("tensor",))
    (function,) = functions_of(package.blobs["gemmini"]).values()
    calls = calls_in(example.gemmini, function.body.block)
    code = Encoder(example.gemmini).code(calls)
    assert code == one_by_one(calls)
    words = [word for entry in code for word in entry]
    times_named = Counter(funct for funct, _, _ in words)
    assert times_named[4] == 9 * 2 * 2
    assert times_named[5] == 6 * times_named[4]
    (profile,) = package.profile()
    assert profile.bounds["execute"] == times_named[4] * (16 + 6 * 7)


def test_loads_run_beside_products() -> None:
    gemmini = import_file(EXAMPLE, "B217").gemmini
    calls = calls_in(gemmini, function_of(32, 32, 128).body.block)
    assert hazards_of(gemmini, calls) == []
    times = times_of(gemmini, calls)
    assert times.cycles < sum(unit.busy for unit in times.units)


def test_words_of_operands_that_begin_inside_a_row_are_refused() -> None:
    """A word names rows: half a row further on would be the row itself."""
    example = import_file(EXAMPLE, "B217")

    class Inside(example.Gemmini):
        def schedule(self, composite: CompositeOp) -> str:
            staged = "".join(f"; stage(product, {n}, gemmini.{m})" for n, m in INSIDE)
            begun = "product, = blocks(); stored = cache_write(product)"
            return f"{begun}; k, = tile(product, k=8){staged}"

    module = product_module(16, 16, 32, relu=False)
    told = r"begins with a row of gemmini\.sp, found one that begins at lane 8"
    with pytest.raises(ByocirError, match=told) as caught:
        byocir.compile(module, targets=[Inside()], levels=("tensor",))
    assert caught.value.code == "B271"


INSIDE = ((2, "acc"), (0, "sp"), (1, "sp"))

BORDERED = """func.func @main(%0: tensor<4x5x2x1xi8>, %1: tensor<3x2x1x2xi8>)
    -> tensor<4x3x2x2xi32> {
  %2 = tir.fill 0 : i32 : tensor<4x3x2x2xi32>
  %3 = tir.block [n: 4, h: 3, w: 2, o: 2 | r: 3, s: 2, c: 1]
      ins(%0[n, h + 2 * r - 1, 2 * w + s - 1, c] pad 0 : i8 : tensor<4x5x2x1xi8>,
          %1[r, s, c, o] : tensor<3x2x1x2xi8>) outs(%2[n, h, w, o] : tensor<4x3x2x2xi32>) {
  ^bb0(%4: i8, %5: i8, %6: i32):
    %7 = arith.extsi %4 : i8 to i32
    %8 = arith.extsi %5 : i8 to i32
    %9 = arith.muli %7, %8 : i32
    %10 = arith.addi %6, %9 : i32
    tir.yield %10 : i32
  }
  func.return %3 : tensor<4x3x2x2xi32>
}"""


def compiled_right(text: str) -> Package:
    """The package of a module, which computes what the evaluator computes."""
    module = parse_module(text, load_context())
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    package = byocir.compile(module, targets=[str(EXAMPLE)])
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected)
    return package


def test_borders_of_rows_that_lie_apart_are_set_one_by_one() -> None:
    """Those of images with one channel: a move of several rows wants them one after the other."""
    assert compiled_right(BORDERED).report.regions


NUMBERS = """
func.func @main(%0: tensor<i8>, %1: tensor<i8>) -> tensor<i32> {
  %2 = tir.constant <[1.0] : tensor<f32>> : tensor<f32>
  %3 = tir.empty : tensor<i8>
  %4 = tir.block [] ins(%0[] : tensor<i8>, %2[] : tensor<f32>) outs(%3[] : tensor<i8>) {
  ^bb0(%5: i8, %6: f32, %7: i8):
    %8 = arith.sitofp %5 : i8 to f32
    %9 = arith.mulf %8, %6 : f32
    %10 = math.roundeven %9 : f32
    %11 = arith.constant -1.280000e+02 : f32
    %12 = arith.maximumf %10, %11 : f32
    %13 = arith.constant 1.270000e+02 : f32
    %14 = arith.minimumf %12, %13 : f32
    %15 = arith.fptosi %14 : f32 to i8
    tir.yield %15 : i8
  }
  %16 = tir.empty : tensor<i32>
  %17 = tir.block [] ins(%4[] : tensor<i8>) outs(%16[] : tensor<i32>) {
  ^bb0(%18: i8, %19: i32):
    %20 = arith.extsi %18 : i8 to i32
    tir.yield %20 : i32
  }
  %21 = tir.constant <[1.0] : tensor<f32>> : tensor<f32>
  %22 = tir.empty : tensor<i8>
  %23 = tir.block [] ins(%1[] : tensor<i8>, %21[] : tensor<f32>) outs(%22[] : tensor<i8>) {
  ^bb0(%24: i8, %25: f32, %26: i8):
    %27 = arith.sitofp %24 : i8 to f32
    %28 = arith.mulf %27, %25 : f32
    %29 = math.roundeven %28 : f32
    %30 = arith.constant -1.280000e+02 : f32
    %31 = arith.maximumf %29, %30 : f32
    %32 = arith.constant 1.270000e+02 : f32
    %33 = arith.minimumf %31, %32 : f32
    %34 = arith.fptosi %33 : f32 to i8
    tir.yield %34 : i8
  }
  %35 = tir.empty : tensor<i32>
  %36 = tir.block [] ins(%23[] : tensor<i8>) outs(%35[] : tensor<i32>) {
  ^bb0(%37: i8, %38: i32):
    %39 = arith.extsi %37 : i8 to i32
    tir.yield %39 : i32
  }
  %40 = tir.empty : tensor<i32>
  %41 = tir.block [] ins(%17[] : tensor<i32>, %36[] : tensor<i32>) outs(%40[] : tensor<i32>) {
  ^bb0(%42: i32, %43: i32, %44: i32):
    %45 = arith.addi %42, %43 : i32
    tir.yield %45 : i32
  }
  func.return %41 : tensor<i32>
}"""


def test_sums_of_two_numbers_are_the_hosts() -> None:
    """An instruction steps over rows of an array, and 0-d arrays have none."""
    assert not compiled_right(NUMBERS).report.regions


def test_it_is_described_in_160_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 160


@settings(max_examples=2 if settings.default.max_examples < 100 else 2000)
@given(st.data())
def test_random_layers_run_bit_for_bit(data: st.DataObject) -> None:
    size = st.integers(1, 40)
    module = byocir.import_onnx(random_layer(data.draw, size))
    feeds = random_feeds(module)
    package, meaning = on_the_isa(module)
    expected = evaluate(meaning, feeds)
    for name, found in package.run(feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    assert any(each.taken for each in package.report.decisions)


def test_pads_around_what_a_pool_reads_fit_into_the_accumulator() -> None:
    net = Net((1, 1, 21, 38), per_channel=False)
    made = net.conv(net.value, (1, 1), 1, pads=[0] * 4)
    made = net.node("MaxPool", [made], kernel_shape=[3, 3], pads=[2, 0, 2, 2])
    model = net.of(net.requantize(made, net.scale), (1, 1, 23, 38))
    expect_on_the_isa(byocir.import_onnx(model), {"gemmini.pooled_conv": 1})


def test_columns_that_a_pool_reads_may_begin_in_its_pads_and_end_before_the_last() -> None:
    net = Net((1, 1, 5, 9), per_channel=False)
    made = net.conv(net.value, (1, 16), 2, relu=True, pads=[1, 1, 0, 0])
    made = net.node("MaxPool", [made], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 1, 0, 0])
    model = net.of(net.requantize(made, net.scale), (1, 16, 2, 3))
    expect_on_the_isa(byocir.import_onnx(model), {"gemmini.pooled_conv": 1})


POOL_BESIDE_ITS_ARRAY = """
func.func @main(%x: tensor<1x1x1x16xi8>, %w: tensor<1x1x16x16xi8>) -> tensor<1x2x1x16xi8> {
  %z = tir.fill 0 : i32 : tensor<1x1x1x16xi32>
  %s = tir.block [n: 1, h: 1, w: 1, o: 16 | r: 1, s: 1, c: 16]
      ins(%x[n, h + r, w + s, c] pad 0 : i8 : tensor<1x1x1x16xi8>,
          %w[r, s, c, o] : tensor<1x1x16x16xi8>)
      outs(%z[n, h, w, o] : tensor<1x1x1x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  %i = tir.empty : tensor<1x1x1x16xi32>
  %p = tir.block [n: 1, h: 1, w: 1, o: 16] ins(%s[n, h, w, o] : tensor<1x1x1x16xi32>)
      outs(%i[n, h, w, o] : tensor<1x1x1x16xi32>) {
  ^bb0(%a: i32, %old: i32):
    %zero = arith.constant 0 : i32
    %0 = arith.maxsi %a, %zero : i32
    tir.yield %0 : i32
  }
  %f = tir.constant <[1.0] : tensor<f32>> : tensor<f32>
  %e = tir.empty : tensor<1x1x1x16xi8>
  %q = tir.block [n: 1, h: 1, w: 1, o: 16]
      ins(%p[n, h, w, o] : tensor<1x1x1x16xi32>, %f[] : tensor<f32>)
      outs(%e[n, h, w, o] : tensor<1x1x1x16xi8>) {
  ^bb0(%a: i32, %scale: f32, %old: i8):
    %0 = arith.sitofp %a : i32 to f32
    %1 = arith.mulf %0, %scale : f32
    %2 = math.roundeven %1 : f32
    %low = arith.constant -128.0 : f32
    %3 = arith.maximumf %2, %low : f32
    %high = arith.constant 127.0 : f32
    %4 = arith.minimumf %3, %high : f32
    %5 = arith.fptosi %4 : f32 to i8
    tir.yield %5 : i8
  }
  %m = tir.fill -128 : i8 : tensor<1x2x1x16xi8>
  %y = tir.block [n: 1, h: 2, w: 1, c: 16 | r: 2, s: 1]
      ins(%q[n, h + r, w + s, c] pad -128 : i8 : tensor<1x1x1x16xi8>)
      outs(%m[n, h, w, c] : tensor<1x2x1x16xi8>) {
  ^bb0(%a: i8, %most: i8):
    %0 = arith.maxsi %most, %a : i8
    tir.yield %0 : i8
  }
  func.return %y : tensor<1x2x1x16xi8>
}"""


def test_a_pool_is_left_of_which_a_window_has_no_element() -> None:
    module = parse_module(POOL_BESIDE_ITS_ARRAY)
    package = byocir.compile(module, targets=[str(POOLS)], levels=("tensor",))
    reasons = [d.reason for d in package.report.decisions if d.pattern == "gemmini.pooled_conv"]
    assert any("found some that are outside" in reason for reason in reasons)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected)


def random_layer(draw: Callable[..., Any], size: st.SearchStrategy[int]) -> onnx.ModelProto:
    """A convolution or product of any sizes with what may follow it, or a residual sum."""
    channels, out, kernel = draw(size), draw(size), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["conv", "dense", "add", "pool"]))
    zero = draw(st.sampled_from([np.int8(0), np.uint8(0), np.uint8(117)]))
    if kind == "dense":
        net = Net((draw(size), channels), per_channel=False, zero=zero)
        value = net.dense(net.value, (channels, out), relu=draw(st.booleans()))
        return net.of(value, (net.first[0], out))
    dilation, stride = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    reach = dilation * (kernel - 1) + 1
    side = st.integers(reach, max(reach, 40))
    shape = (1, channels, draw(side), draw(side))
    net = Net(shape, per_channel=draw(st.integers(0, 7)) == 0, zero=zero)
    value, scale = net.value, net.scale
    relu, bias = draw(st.booleans()), draw(st.booleans())
    if kind == "add":
        inner = net.conv(value, (channels, channels), 1, relu=relu)
        net.scale = max(net.scale, scale)
        return net.of(net.add(inner, value, relu=relu), net.first)
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    made = net.conv(
        value, (channels, out), kernel, stride, relu=relu, bias=bias, pads=pads, dilation=dilation
    )
    sides = zip(net.first[2:], pads[:2], pads[2:], strict=True)
    shape = (1, out, *((n + a + b - reach) // stride + 1 for n, a, b in sides))
    return _pooled(draw, net, made, shape) if kind == "pool" else net.of(made, shape)


def _pooled(
    draw: Callable[..., Any], net: Net, value: str, shape: tuple[int, ...]
) -> onnx.ModelProto:
    """A maximum over windows of a layer's result, most of them squares."""
    width = draw(st.integers(1, min(4, *shape[2:])))
    window = (width, draw(st.sampled_from([width] * 3 + [1])))
    pads = [draw(st.integers(0, side - 1)) for side in (*window, *window)]
    stride = draw(st.integers(1, 3))
    made = net.node("MaxPool", [value], kernel_shape=window, strides=[stride] * 2, pads=pads)
    ends = zip(shape[2:], pads[:2], pads[2:], window, strict=True)
    sides = ((n + a + b - side) // stride + 1 for n, a, b, side in ends)
    return net.of(net.requantize(made, net.scale), (*shape[:2], *sides))
