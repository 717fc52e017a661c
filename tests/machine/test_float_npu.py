"""A described machine for nets of f32 computes what the evaluator does, without hazards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from nets.classic_nets import NETS, Scale
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.dialects.types import f32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import Pattern, block, composite, wildcard
from byocir.vendor.user_code import import_file

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "float_npu.py")


def expect_equal(model: onnx.ModelProto) -> byocir.Package:
    """Compiles a model, runs it with its checks, and compares: sums may be in another order."""
    module = byocir.import_onnx(model)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    package = byocir.compile(byocir.import_onnx(model), targets=[EXAMPLE], levels=("tensor",))
    for name, found in package.run(feeds, check=True).items():
        near = 2e-5 * max(1, np.abs(expected[name]).max())
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=near)
    return package


def model_of(ports: str, nodes: str, numbers: str = "") -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 21]> net '
    return onnx.parser.parse_model(f"{header}{ports} {numbers} {{ {nodes} }}")


@pytest.mark.parametrize("shape", ["20", "2,3,10,7", "1,2,70,150"])
def test_a_softmax_is_vectors_and_their_reductions(shape: str) -> None:
    """A vector longer than a row is reduced in parts, and stays whole in each tile."""
    model = model_of(f"(float[{shape}] x) => (float[{shape}] y)", "y = Softmax (x)")
    package = expect_equal(model)
    (region,) = package.report.regions
    (composite,) = region.composites
    assert composite.pattern == "fnpu.softmax"
    assert "reduce_max, sub, exp, reduce_add, div = blocks()" in composite.schedule


@pytest.mark.parametrize("sizes", [(2, 10, 48), (1, 1, 5), (1, 33, 100)])
def test_a_norm_is_vectors_and_their_reductions(sizes: tuple[int, int, int]) -> None:
    shape, width = ",".join(map(str, sizes)), sizes[-1]
    ports = f"(float[{shape}] x) => (float[{shape}] y)"
    ones, halves = (", ".join([n] * width) for n in ("1.0", "0.5"))
    numbers = f"<float[{width}] g = {{{ones}}}, float[{width}] b = {{{halves}}}>"
    for operands in ("x, g, b", "x, g"):
        node = f"y = LayerNormalization <axis = -1> ({operands})"
        package = expect_equal(model_of(ports, node, numbers))
        taken = [each.pattern for each in package.report.decisions if each.taken]
        assert taken == ["fnpu.layer_norm"]


def test_attention_stays_on_the_chip() -> None:
    """Scores, their scale, softmax and contexts are one region, whose sums are not stored."""
    ports = "(float[1,2,12,16] q, float[1,2,16,12] k, float[1,2,12,16] v) => (float[1,2,12,16] y)"
    nodes = "s = MatMul (q, k) t = Div (s, root) p = Softmax (t) y = MatMul (p, v)"
    package = expect_equal(model_of(ports, nodes, "<float root = {4.0}>"))
    (region,) = package.report.regions
    taken = Counter(each.pattern for each in region.composites)
    assert taken == {"fnpu.matmul": 2, "fnpu.softmax": 1}
    assert package.report.macs["host"] == 0


def convolution(
    channels: tuple[int, int],
    kernel: tuple[int, int],
    size: int,
    normed: bool,
    group: int = 1,
) -> onnx.ModelProto:
    """A convolution, rectified, behind a normalisation or not."""
    random, (c, o) = np.random.default_rng(0), channels
    arrays = {
        "w": random.normal(0, 0.3, (o, c // group, *kernel)),
        **{name: random.uniform(0.5, 2, o) for name in ("scale", "offset", "mean", "var")},
    }
    window = {"pads": [side // 2 for side in kernel] * 2, "group": group}
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["c"], **window)]
    if normed:
        inputs = ["c", "scale", "offset", "mean", "var"]
        nodes.append(onnx.helper.make_node("BatchNormalization", inputs, ["n"]))
    nodes.append(onnx.helper.make_node("Relu", ["n" if normed else "c"], ["y"]))
    ports = {"x": [1, c, size, size], "y": [1, o, size, size]}
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    )
    made = [onnx.numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    used = {name for node in nodes for name in node.input}
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], [a for a in made if a.name in used])
    opset = onnx.helper.make_opsetid("", 21)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


def test_a_convolution_takes_a_normalisation_and_the_windows_of_few_channels() -> None:
    package = expect_equal(convolution((3, 40), (5, 5), 9, normed=True))
    (region,) = package.report.regions
    assert [each.pattern for each in region.composites] == ["fnpu.conv"]
    assert any("1x13x13x3 becomes 1x9x9x75" in note for note in package.report.notes)


def test_a_depthwise_convolution_is_products_of_vectors() -> None:
    """The unit that sets vectors to zero, and adds products to them, takes fewer cycles than one
    that begins sums, but multiplies matrices."""
    package = expect_equal(convolution((40, 40), (3, 3), 6, normed=True, group=40))
    (region,) = package.report.regions
    assert [each.pattern for each in region.composites] == ["fnpu.depthwise"]
    (profile,) = package.profile()
    assert profile.units["products"]["busy"] == 0
    assert profile.details["padded_macs"] >= 40 * 6 * 6 * 9


@pytest.mark.parametrize("kernel", [(3, 3), (1, 3), (3, 1)])
def test_sums_that_depend_on_their_order_are_taken_in_it(kernel: tuple[int, int]) -> None:
    """A target that does not say that any order will do gets those of the model, bit for bit."""
    example = import_file(Path(EXAMPLE), "B217")

    @composite("fnpu.conv")
    def conv() -> Pattern:
        window = wildcard("x", dtype=f32)["n (h + r - ph) (w + s - pw) c"].padded(0)
        weights = wildcard("weights", dtype=f32)["c r s o"]
        return block("n h w o | c r s", window, weights, example.multiply_add)

    class InOrder(example.FloatNpu):
        patterns, reassociates = (conv,), False

    meanings = list[ModuleOp]()

    def keep(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if pass_.name == "match-composites":
            meanings.append(module.clone())

    module = byocir.import_onnx(convolution((40, 8), kernel, 5, normed=False))
    package = byocir.compile(module, targets=[InOrder()], levels=("tensor",), after_pass=keep)
    feeds = random_feeds(meanings[-1])
    expected = evaluate(meanings[-1], feeds)
    for name, found in package.run(feeds, check=True).items():
        np.testing.assert_array_equal(found, expected[name])
    assert package.report.macs["host"] == 0


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ResNet-18", "MobileNetV2")]


@pytest.mark.parametrize("name", ["encoder", *SLOW])
def test_whole_nets_leave_no_products_to_the_host(name: str) -> None:
    package = expect_equal(onnx.load_from_string(NETS[name](Scale(32, 8, 1))))
    assert package.report.macs["host"] == 0
