"""VTA as a description: what it takes is bit-equal to the evaluator in its simulator, without
hazards."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path

import jsonschema
import numpy as np
import onnx.parser
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from quantised_nets import Net, UnsignedNet
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.dialects.decisions import Padded
from byocir.dialects.types import i8
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN
from byocir.patterns import Pattern, block, composite, wildcard
from byocir.rewrites.machine.copies import Copies
from byocir.runtime.report import Report
from byocir.runtime.report_text import explain, summary
from byocir.targets.loader import Runner
from byocir.targets.vta_runs import runner_of
from byocir.vendor.user_code import import_file

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "vta_machine.py")


def expect_equal(
    module: ModuleOp, taken: int | None, rounding: str = "floor", config: str = ""
) -> byocir.Package:
    """Compiles for the described VTA, the default or one with this configuration, runs it with its
    checks, on its own simulator and, where the program has words, bit by bit on VTA's, and
    compares. It takes so many composites, or any number of them."""

    class OnBoth(import_file(Path(EXAMPLE), "B217").Vta16):
        fixed_point = rounding

        def load_checked(self, blobs: Mapping[str, bytes]) -> Runner:
            described, words = super().load_checked(blobs), runner_of(blobs, check=True)

            def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
                results = described(symbol, inputs)
                if f"{symbol}.insns" in blobs:
                    for one, other in zip(results, words(symbol, inputs), strict=True):
                        np.testing.assert_array_equal(one, other)
                return results

            return run

    target = OnBoth(config=config)
    meanings: list[ModuleOp] = []

    def keep(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if pass_.name == "fix-point":
            meanings.append(module.clone())

    package = byocir.compile(module, targets=[target], levels=("tensor",), after_pass=keep)
    feeds = random_feeds(meanings[-1])
    expected = evaluate(meanings[-1], feeds)
    for name, found in package.run(feeds, check=True).items():
        np.testing.assert_array_equal(found, expected[name])
    assert taken in (None, sum(each.taken for each in package.report.decisions))
    return package


def has_words(package: byocir.Package) -> bool:
    """Tells whether all programs of a package have words, which `expect_equal` then ran."""
    files = {name for blobs in package.blobs.values() for name in blobs}
    return all(f"{symbol}.insns" in files for symbol in package.report.device)


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_convolution_leaves_requantised(per_channel: bool) -> None:
    net = Net((1, 16, 6, 6), per_channel=per_channel)
    model = net.of(net.conv(net.value, (16, 32), 3, 2), (1, 32, 3, 3))
    package = expect_equal(byocir.import_onnx(model), 1)
    (region,) = package.report.regions
    assert "gemm" in region.composites[0].schedule
    assert "shr_number" in region.composites[0].schedule
    assert has_words(package)


ZEROS = np.int8(0), np.int8(-7), np.uint8(121)
QUICK = [("floor", ZEROS[1]), ("half_even", ZEROS[2])]


@pytest.mark.parametrize(
    ("rounding", "zero"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in product(("floor", "half_up", "half_even"), ZEROS)
    ],
)
def test_arrays_with_zero_points_leave_rounded(rounding: str, zero: np.int8 | np.uint8) -> None:
    """An image with a border of its zero point, a sum of terms with theirs, unsigned bytes."""
    net = Net((1, 16, 6, 6), per_channel=True, zero=zero)
    first = net.conv(net.value, (16, 16))
    second = net.conv(first, (16, 16), relu=False)
    model = net.of(net.add(second, first, relu=True), (1, 16, 6, 6))
    report = expect_equal(byocir.import_onnx(model), 2, rounding).report
    assert report.macs["host"] == 0


def test_a_bias_that_serves_many_points_is_added_by_products() -> None:
    """The weights of a bias take as long to load as the unit takes to add it to 40 vectors."""
    for side, name in ((8, "gemm0"), (2, "add_vectors")):
        net = Net((1, 16, side, side), per_channel=True)
        model = net.of(net.conv(net.value, (16, 16)), (1, 16, side, side))
        (region,) = expect_equal(byocir.import_onnx(model), 1).report.regions
        assert name in region.composites[0].schedule


def test_a_residual_sum_stays_in_the_accumulators() -> None:
    net = Net((1, 16, 6, 6), per_channel=False)
    first = net.conv(net.value, (16, 16))
    second = net.conv(first, (16, 16), relu=False)
    model = net.of(net.add(second, first, relu=True), (1, 16, 6, 6))
    package = expect_equal(byocir.import_onnx(model), 2)
    found = [each for region in package.report.regions for each in region.composites]
    assert [each.pattern for each in found] == ["vta16.conv", "vta16.conv_join"]
    assert "gemm_diagonal" in found[1].schedule
    assert has_words(package)


def computed(kind: str, zero: int) -> ModuleOp:
    """A convolution, and what is computed of each of its bytes, alone or with others."""
    net = Net((1, 16, 6, 6), per_channel=False, zero=np.int8(zero))
    name, _, other = kind.partition(" ")
    image, first = net.value, net.conv(net.value, (16, 16), relu=False)
    if other == "of both":
        value = net.node(name, [first, net.requantize(net.node("Relu", [first]), net.scale)])
    elif other == "of constants":
        value = net.node(name, [first, net.weights((1, 16, 1, 1), per_channel=False, axis=0)[0]])
    else:
        value = net.node(name, [first, image] if other else [first])
    return byocir.import_onnx(net.of(net.requantize(value, net.scale), (1, 16, 6, 6)))


@pytest.mark.parametrize(
    ("kind", "zero", "taken"),
    [
        ("LeakyRelu", 0, 2),
        ("LeakyRelu", -7, 2),
        ("Mul of images", -7, 1),
        ("Mul of constants", 0, 1),
        ("Add of constants", -7, 1),
        ("Add of both", -7, 3),
    ],
)
def test_what_is_computed_of_each_byte_is_taken(kind: str, zero: int, taken: int) -> None:
    assert has_words(expect_equal(computed(kind, zero), taken))


@pytest.mark.parametrize("relu", [True, False])
def test_a_convolution_and_its_max_pool_stay_in_the_accumulators(relu: bool) -> None:
    """Only the maxima are requantised; a pool behind it takes bytes of main memory."""
    net = Net((1, 16, 12, 12), per_channel=False)
    value = net.conv(net.value, (16, 16), 3, relu=relu)
    for window in ({"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [3, 3]}):
        value = net.requantize(net.node("MaxPool", [value], **window), net.scale)
    package = expect_equal(byocir.import_onnx(net.of(value, (1, 16, 4, 4))), 2)
    found = [each for region in package.report.regions for each in region.composites]
    assert [each.pattern for each in found] == ["vta16.conv_pool", "vta16.max_pool"]
    assert re.search("gemm, .*max_vectors, .*mul_number, .*store_out", found[0].schedule)
    start = "" if relu else "add_number, "  # of bytes that are not negative, zero is one
    assert f"load_acc8, {start}max_vectors, " in found[1].schedule
    assert has_words(package)


def test_products_of_any_number_of_dimensions_are_taken() -> None:
    net = Net((2, 3, 16, 16), per_channel=False)
    value = net.dense(net.value, (16, 32), relu=True)
    assert has_words(expect_equal(byocir.import_onnx(net.of(value, (2, 3, 16, 32))), 1))


def test_a_number_is_added_where_rows_of_it_would_take_longer_to_load() -> None:
    """Sums of 32 rows could begin with a row of the half that rounds them, loaded 32 times."""
    net = Net((1, 32, 64), per_channel=False)
    weight, _ = net.weights((64, 256), per_channel=False, axis=1)
    value = net.requantize(net.node("MatMul", [net.value, weight]), net.scale * 4)
    package = expect_equal(byocir.import_onnx(net.of(value, (1, 32, 256))), 1)
    ((composite,),) = [region.composites for region in package.report.regions]
    assert "gemm, add_number" in composite.schedule


def test_products_of_two_computed_arrays_have_no_words() -> None:
    """VTA reads weights in blocks, as which the host does not pack what it computes."""
    net = Net((1, 16, 16), per_channel=False)
    value = net.dense(net.value, (16, 16))
    value = net.requantize(net.node("MatMul", [value, value]), net.scale)
    assert not has_words(expect_equal(byocir.import_onnx(net.of(value, (1, 16, 16))), 2))


@settings(max_examples=2 if settings.default.max_examples < 100 else 500)
@given(
    st.sampled_from([1, 16, 20, 48]), st.sampled_from([10, 16, 32]),
    st.tuples(st.integers(1, 12), st.integers(1, 12)), st.integers(1, 4), st.integers(1, 3),
    st.integers(1, 2), st.lists(st.integers(0, 3), min_size=4, max_size=4), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_words_of_convolutions_of_all_windows_are_equal(
    inputs, outputs, sides, kernel, stride, dilation, pads, per_channel, added
):
    """Also of channels that fill no block, and with a residual sum of the result."""
    net, pads = (
        Net((1, inputs, *sides), per_channel=per_channel),
        [min(p, kernel - 1) for p in pads],
    )
    room = [sides[d] + pads[d] + pads[d + 2] - dilation * (kernel - 1) for d in range(2)]
    assume(min(room) > 0)
    sizes = [-(-each // stride) for each in room]
    value = net.conv(
        net.value, (inputs, outputs), kernel, stride, pads=pads, dilation=dilation, relu=not added
    )
    if added:
        value = net.add(net.conv(value, (outputs, outputs), 1, relu=False), value, relu=True)
    package = expect_equal(byocir.import_onnx(net.of(value, (1, outputs, *sizes))), 1 + added)
    assert has_words(package)


def pooled(
    op_type: str,
    channels: int,
    side: int,
    window: dict[str, object],
    zero: int = 0,
    *,
    apart: bool = False,
) -> ModuleOp:
    """A convolution, so that channels come last, and a pool of its result, or of its double."""
    net = Net((1, channels, side, side), per_channel=False, zero=np.int8(zero))
    value = net.conv(net.value, (channels, channels), 1, relu=False)
    value = net.add(value, value) if apart else value
    value = net.requantize(net.node(op_type, [value], **window), net.scale)
    return byocir.import_onnx(net.of(value, (1, channels, "h", "w")))


@pytest.mark.parametrize(
    ("op_type", "window", "steps"),
    [
        ("GlobalAveragePool", {}, "load_acc8, add_vectors, add_vectors0, mul_vectors"),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, "add_vectors, add_number"),
        (
            "AveragePool",
            {"kernel_shape": [3, 3], "pads": [1] * 4},  # means of four, six or nine
            "load_acc8, add_vectors, add_vectors0, mul_vectors",
        ),
    ],
)
def test_means_are_taken_in_the_accumulators(op_type, window, steps) -> None:
    """No clamp is there, as each mean of bytes is a byte."""
    package = expect_equal(pooled(op_type, 16, 6, window), 2)
    found = [each for region in package.report.regions for each in region.composites]
    assert [each.pattern for each in found] == ["vta16.conv", "vta16.average_pool"]
    assert steps in found[1].schedule
    assert not {"max", "min"} & {*re.split(r"\W|_", found[1].schedule)}


sides = st.tuples(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.integers(0, 3)
)


@settings(max_examples=2 if settings.default.max_examples < 100 else 500)
@given(
    st.sampled_from(["AveragePool", "MaxPool"]), st.sampled_from([1, 16, 20, 40]),
    st.integers(1, 20), st.tuples(sides, sides), st.booleans(), st.booleans(),
    st.sampled_from([0, -7]), st.booleans(),
)  # fmt: skip
def test_pools_of_all_windows_are_equal(
    op_type, channels, side, window, ceil, counts, zero, apart
) -> None:
    """Kernels, strides, dilations and pads that are smaller than what a kernel reaches."""
    kernel, strides, dilations, *pads = (list(each) for each in zip(*window, strict=True))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [min(p, k - 1) for p, k in zip([*pads[0], *pads[1]], kernel * 2, strict=True)]
    assume(all(side + a + b >= n for a, b, n in zip(pads[:2], pads[2:], reach, strict=True)))
    given_ = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
    given_ |= {"count_include_pad": int(counts)} if op_type == "AveragePool" else {}
    given_["ceil_mode"] = int(ceil)
    expect_equal(pooled(op_type, channels, side, given_, zero, apart=apart), None)


@pytest.mark.parametrize(
    ("side", "channels", "kernel", "stride", "pads"),
    [(6, 32, 3, 1, [1, 1, 1, 1]), (5, 20, 2, 2, [1, 0, 0, 1]), (1, 16, 3, 1, [1, 1, 1, 1])],
)
def test_a_depthwise_convolution_has_its_weights_on_diagonals(
    side: int, channels: int, kernel: int, stride: int, pads: list[int]
) -> None:
    """Also one of channels that fill no block, with an even kernel, and of one pixel."""
    net = Net((1, channels, side, side), per_channel=True)
    both = (channels, channels)
    value = net.conv(net.value, both, kernel, stride, group=channels, pads=pads)
    after = -(-side // stride)
    package = expect_equal(byocir.import_onnx(net.of(value, (1, channels, after, after))), 1)
    ((found,),) = [region.composites for region in package.report.regions]
    assert found.pattern == "vta16.depthwise"
    assert "gemm_diagonal" in found.schedule
    assert package.report.macs["host"] == 0
    assert has_words(package) == (channels % 16 == 0)  # VTA loads whole vectors


@settings(max_examples=2 if settings.default.max_examples < 100 else 500)
@given(
    st.sampled_from([16, 17, 20, 48]), st.integers(1, 20), st.integers(1, 5), st.integers(1, 3),
    st.integers(1, 2), st.lists(st.integers(0, 4), min_size=4, max_size=4), st.booleans(),
)  # fmt: skip
def test_depthwise_convolutions_of_all_windows_are_equal(
    channels, side, kernel, stride, dilation, pads, per_channel
):
    net, both = Net((1, channels, side, side), per_channel=per_channel), (channels, channels)
    pads = [min(pad, kernel - 1) for pad in pads]
    room = [side + pads[d] + pads[d + 2] - dilation * (kernel - 1) for d in range(2)]
    assume(min(room) > 0)
    sizes = [-(-each // stride) for each in room]
    window = {"group": channels, "pads": pads, "dilation": dilation}
    value = net.conv(net.value, both, kernel, stride, **window)
    package = expect_equal(byocir.import_onnx(net.of(value, (1, channels, *sizes))), 1)
    assert package.report.macs["host"] == 0


@pytest.mark.parametrize(
    ("most", "per_channel"),
    [
        *[(False, True), (True, False)],
        *(pytest.param(both, both, marks=pytest.mark.slow) for both in (False, True)),
    ],
)
def test_weights_of_nine_bits_are_multiplied_as_bytes(most: bool, per_channel: bool) -> None:
    """By convolutions with borders of zero points, steps and groups, and by products."""
    net = UnsignedNet((1, 16, 5, 5), most=most, per_channel=per_channel)
    value = net.conv(net.value, (16, 32), 3)
    value = net.conv(value, (32, 32), 3, group=32)
    value = net.conv(value, (32, 16), 1, 2)
    package = expect_equal(byocir.import_onnx(net.pooled(value, 16, 10)), 5)
    assert package.report.macs["host"] == 0


def test_a_depthwise_convolution_of_several_results_a_channel_is_taken_in_parts() -> None:
    """It is one in groups, and stays on the host of a target that does not ask for others."""
    net = Net((1, 16, 6, 6), per_channel=True)
    model = net.of(net.conv(net.value, (16, 32), 3, group=16), (1, 32, 6, 6))
    assert expect_equal(byocir.import_onnx(model), None).report.macs["host"] == 0
    base = import_file(Path(EXAMPLE), "B217").Vta16
    whole = type("Own", (base,), {"split_groups": 0})()
    report = byocir.partition(byocir.import_onnx(model), [whole])
    (conv,) = [node.name for node in report.nodes if node.op_type == "Conv"]
    assert conv in report.host
    told = "found [n, h + r, w + s, g], [r, s, g, o] for [n, h, w, 2 * g + o]"
    assert any(told in each.reason for each in report.reasons[conv])


@settings(max_examples=2 if settings.default.max_examples < 100 else 100)
@given(
    st.lists(st.sampled_from([16, 32]), min_size=2, max_size=3), st.integers(1, 5), st.booleans()
)
def test_layers_whose_bytes_pass_through_main_memory_are_one_region(
    channels: list[int], side: int, per_channel: bool
) -> None:
    """No tokens lead from stores to loads: they go by way of the unit that computes."""
    net = Net((1, 16, side, side), per_channel=per_channel)
    value = net.value
    for before, behind in pairwise([16, *channels]):
        value = net.conv(value, (before, behind), 1)
    model = net.of(value, (1, channels[-1], side, side))
    package = expect_equal(byocir.import_onnx(model), len(channels))
    assert len(package.report.regions) == 1
    assert has_words(package)


def test_the_digits_net_runs_in_whole_blocks_of_channels() -> None:
    """Its image has one channel, its result ten classes; windows of the image come as channels."""
    path = Path(EXAMPLE).parent / "digits" / "digits_int8.onnx"
    module = byocir.import_onnx(str(path), shapes={"image": (1, 1, 8, 8)})
    report = expect_equal(module, 10).report
    assert report.macs["host"] == 0
    assert any("1x10x10x16 becomes 1x8x8x16, 576 bytes fewer" in note for note in report.notes)


def test_loads_of_the_next_tile_run_beside_what_the_compute_unit_loads_itself() -> None:
    """Between two tiles' products it loads factors: that holds back no load of another unit."""
    net = Net((1, 256, 7, 7), per_channel=False)
    model = net.of(net.conv(net.value, (256, 256), 3), (1, 256, 7, 7))
    package = byocir.compile(byocir.import_onnx(model), targets=[EXAMPLE], levels=("tensor",))
    (profile,) = package.profile()
    assert profile.units["compute"]["order"] * 30 < profile.cycles


def test_a_copy_costs_a_call_for_each_run_of_rows() -> None:
    """Rows of one call follow each other in a scratchpad: 112 by 4 vectors are 112 calls."""
    machine = import_file(Path(EXAMPLE), "B217").Vta16().machine
    shapes = [np.array([112, 112]), np.array([4, 1]), np.array([16, 16])]
    copies = Copies(i8, shapes, MAIN, machine.inp)
    cycles = {name: found.tolist() for name, found in copies.cycles(machine).items()}
    moved = {"read": [112 * 2 * 4, 2 * 112]}
    assert cycles == {"load": [112 * (24 + 2 * 4), 24 + 2 * 112], **moved}


def test_a_refusal_tells_what_each_instruction_of_the_kind_says() -> None:
    """They have a line each, none of which is cut: what does it first, and no copies."""

    @composite("vta16.mul")
    def mul() -> Pattern:
        return block("*i", wildcard("x")["*i"], wildcard("y")["*i"], lambda _, x, y: x * y)

    base = import_file(Path(EXAMPLE), "B217").Vta16
    target = type("Own", (base,), {"patterns": (mul,)})()
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net (int32[1,16] x, int32[1,16] y) '
        "=> (int32[1,16] z) { [mul] z = Mul (x, y) }"
    )
    report = byocir.partition(byocir.import_onnx(model), [target])
    (decision,) = report.reasons["mul"]
    said = dict(line.split(": ", 1) for line in decision.reason.splitlines()[1:])
    assert next(iter(said)) == "vta16.mul_vectors"
    assert said["vta16.shr_vectors"] == "expected body x >> y, found x * y"
    assert len(said) == 4
    assert "…" not in explain(report, "mul")


def test_a_report_with_code_counts_the_programs_products_and_cycles() -> None:
    """Weights of 3x3x16x32 for 6x6 results, to which the ALU adds a bias; each is timed as its
    profile is."""
    net = Net((1, 16, 6, 6), per_channel=False)
    model = net.of(net.conv(net.value, (16, 32), 3), (1, 32, 6, 6))
    package = byocir.compile(byocir.import_onnx(model), targets=[EXAMPLE])
    ((symbol, device),) = package.report.device.items()
    (profile,) = package.profile()
    assert (profile.symbol, profile.cycles) == (symbol, device["cycles"])
    assert device["padded_macs"] == 6 * 6 * 32 * 16 * 3 * 3
    told = summary(package.report).splitlines()
    assert f"{'vta16 MACs with padding':<28}{device['padded_macs']:>14,}" in told
    assert f"{'vta16 cycles':<28}{profile.cycles:>14,}   simulated, of all calls" in told


def narrow_net() -> onnx.ModelProto:
    """A convolution of 3 to 20 channels and a depthwise one."""
    net = Net((1, 3, 6, 6), per_channel=False)
    value = net.conv(net.conv(net.value, (3, 20), 3), (20, 20), 3, group=20)
    return net.of(value, (1, 20, 6, 6))


def test_a_report_says_which_layers_got_channels_and_what_that_costs() -> None:
    """What the host computes of them is counted, too: a layer that the target declines is padded
    with the others."""
    base = import_file(Path(EXAMPLE), "B217").Vta16
    own = tuple(each for each in base.patterns if each.name != "vta16.depthwise")
    target = type("Own", (base,), {"patterns": own})()
    report = byocir.partition(byocir.import_onnx(narrow_net()), [target])
    wide, deep = [node for node in report.nodes if node.op_type == "Conv"]
    assert report.padded == {
        wide.name: Padded([3, 16], [20, 32], [wide.macs, wide.macs * 16 * 32 // (3 * 20)]),
        deep.name: Padded([20, 32], [20, 32], [deep.macs, deep.macs * 32 // 20]),
    }
    assert deep.name in report.host
    assert report.padded_host_macs == deep.macs * 32 // 20
    told = "  pad-channels: 20 → 32 channels in, 20 → 32 out, 6,480 → at most 10,368 MACs"
    assert told in explain(report, deep.name).splitlines()
    assert told in explain(report).splitlines()
    assert f"{'host MACs with padding':<28}{10368:>14,}" in summary(report).splitlines()
    schema = json.loads((files("byocir.runtime") / "report.schema.json").read_text())
    jsonschema.validate(json.loads(report.to_json()), schema)
    assert Report.from_dict(json.loads(report.to_json())).padded == report.padded


@pytest.mark.parametrize("multiple", [1, 8])
def test_a_layer_that_is_refused_for_its_channels_names_what_pads_them(multiple: int) -> None:
    base = import_file(Path(EXAMPLE), "B217").Vta16
    target = type("Own", (base,), {"channel_multiple": multiple})()
    report = byocir.partition(byocir.import_onnx(narrow_net()), [target])
    wide, deep = [node.name for node in report.nodes if node.op_type == "Conv"]
    hint = "channel_multiple = 16 in the target's class pads its channels"
    refused = next(d for d in report.reasons[wide] if d.pattern == "vta16.conv" and not d.taken)
    assert refused.reason.splitlines()[1].endswith(f"; {hint}")
    assert not any(hint in decision.reason for decision in report.reasons[deep])


def test_a_layer_is_placed_by_hand_with_copies_that_lead_to_it_left_to_the_host() -> None:
    """Its channels are padded, come last, and its image gets a border; a layer that is a copy
    itself is not on the way to anything."""
    net = Net((1, 3, 6, 6), per_channel=False)
    model = byocir.import_onnx(net.of(net.conv(net.value, (3, 20), 3), (1, 20, 6, 6)))
    (conv,) = [op.name for op in byocir.partition(model.clone(), []).nodes if op.op_type == "Conv"]
    report = byocir.partition(model, [EXAMPLE], placement={conv: "vta16"})
    assert report.placement[conv] == "vta16_0"
    turned = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net (int8[16,32] x) => (int8[32,16] y) '
        "{ [turn] y = Transpose <perm = [1, 0]> (x) }"
    )
    with pytest.raises(byocir.ByocirError, match="expected vta16 to take turn") as error:
        byocir.partition(byocir.import_onnx(turned), [EXAMPLE], placement={"turn": "vta16"})
    assert error.value.code == "B244"
