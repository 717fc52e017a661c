"""A machine that multiplies f16, and adds and computes in f32, takes nets of f16."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.types import f16, f32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Interlocked, Machine, up_to
from byocir.patterns import Pattern, block, composite, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline

half = Machine("half")
dma, products, vectors = (half.unit(name, queue=4) for name in ("dma", "products", "vectors"))
narrow = half.memory("narrow", f16, row=(16,), rows=1024)
wide = half.memory("wide", f32, row=(16,), rows=1024)
half.order(Interlocked((narrow, wide)))

runs = dict(rows=up_to(16), lanes=up_to(16), cycles=lambda s: 20 + s["rows"])
half.copy("load", MAIN, narrow, unit=dma, **runs)


@half.instruction(dma, into=wide, **runs)
def load_wide() -> Pattern:
    return block("rows lanes", wildcard("x", dtype=f16)["rows lanes"], lambda _, x: x.to(f32))


@half.instruction(dma, **runs)
def store_narrow() -> Pattern:
    return block("rows lanes", wide("x")["rows lanes"], lambda _, x: x.to(f16))


box = dict(into=wide, i=up_to(16), j=up_to(16), cycles=lambda s: 4 + s["i"])


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(f32) * w.to(f32)


@half.instruction(
    products, into=wide, m=up_to(16), n=up_to(16), k=up_to(16), strided=("a", "out"),
    cycles=lambda s: s["m"],
)  # fmt: skip
def product() -> Pattern:
    a, w = narrow("a")["m k"], narrow("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return begun | block("m n | k", a, w, multiply_add, init=wide("c"))


@half.instruction(vectors, strided=("x", "out"), **box)
def rounded() -> Pattern:
    return block("i j", wide("x")["i j"], lambda _, x: x.to(f16).to(f32))


@half.instruction(vectors, strided=("x", "out"), **box)
def add() -> Pattern:
    return block("i j", wide("x")["i j"], wide("y")["j"], lambda _, x, y: x + y)


@half.instruction(vectors, strided=("x", "out"), **box)
def bound() -> Pattern:
    return block("i j", wide("x")["i j"], lambda _, x: x.clamp(0.0, number("most")))


def ended(y: Pattern) -> Pattern:
    bias = wildcard("bias", dtype=f16)["o"]
    before = block("*i o", y["*i o"], bias, lambda _, x, b: (x + b.to(f32)).to(f16))
    cut = block("*i", y["*i"], lambda _, x: x.to(f16))
    y = before | optional(cut, lambda v: block("*i o", v["*i o"], bias, lambda _, x, b: x + b))
    clamped = lambda _, x: x.clamp(0.0, number("most"))  # noqa: E731
    return optional(y, lambda v: block("*i", v["*i"], clamped))


@composite("half.matmul")
def matmul() -> Pattern:
    a, b = wildcard("a", dtype=f16)["*b m k"], wildcard("b", dtype=f16)["~b k n"]
    return ended(block("*b m n | k", a, b, multiply_add))


@composite("half.conv")
def conv() -> Pattern:
    x = wildcard("x", dtype=f16)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = wildcard("weights", dtype=f16)["r s c o"]
    return ended(block("n h w o | r s c", x, weights, multiply_add))


class Half(byocir.Target):
    name, machine, patterns = "half", half, (conv, matmul)
    channels_last = reassociates = True


@pytest.mark.parametrize("shape", [(20, 30), (8, 6, 6)])
@pytest.mark.parametrize("nodes", ["y = {}", "c = {} y = Clip (c, low, high)"])
def test_nets_of_halves_are_taken_whole(shape: tuple[int, ...], nodes: str) -> None:
    """The bias of a product is added to rounded sums, that of a convolution before."""
    random, channels = np.random.default_rng(0), shape[-1] if len(shape) == 2 else shape[0]
    weights = [(channels, 24)] if len(shape) == 2 else [(24, channels, 3, 3)]
    arrays = {"w": random.normal(0, 0.2, *weights), "b": random.normal(0, 1, 24)}
    arrays |= {"low": np.array(0), "high": np.array(6)}
    node = "Gemm (x, w, b)" if len(shape) == 2 else "Conv <pads = [0, 0, 0, 0]> (x, w, b)"
    sizes = ",".join(map(str, shape if len(shape) == 2 else (1, *shape)))
    result = f"{shape[0]},24" if len(shape) == 2 else "1,24,4,4"
    text = f"net (float16[{sizes}] x) => (float16[{result}] y) {{ {nodes.format(node)} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    used = {name for each in model.graph.node for name in each.input}
    made = {name: array.astype(np.float16) for name, array in arrays.items() if name in used}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in made.items())
    module = byocir.import_onnx(model)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["y"].astype(np.float32)
    package = byocir.compile(module, targets=[Half()], levels=("tensor",))
    found = package.run(feeds, check=True)["y"].astype(np.float32)
    assert np.abs(found - expected).max() <= 2e-3 * np.abs(expected).max()
    assert package.report.macs["host"] == 0
    assert len(package.report.regions) == 1
    (taken,) = [each for each in package.report.decisions if each.taken]
    assert len(taken.nodes) == len(model.graph.node)


# Nets of f32, whose operands are rounded as they come in.

mixed = Machine("mixed")
port, array = mixed.unit("port", queue=4), mixed.unit("array", queue=4)
operands = mixed.memory("operands", f16, row=(16,), rows=1024)
results = mixed.memory("results", f32, row=(16,), rows=1024)
mixed.order(Interlocked((operands, results)))
mixed.copy("store", results, MAIN, unit=port, **runs)


@mixed.instruction(port, into=operands, **runs)
def load_rounded() -> Pattern:
    narrowed = block("rows lanes", wildcard("x", dtype=f32)["rows lanes"], lambda _, x: x.to(f16))
    return narrowed | block("rows lanes", wildcard("x", dtype=f16)["rows lanes"], lambda _, x: x)


@mixed.instruction(
    array, into=results, m=up_to(16), n=up_to(16), k=up_to(16), strided=("a", "out"),
    cycles=lambda s: s["m"],
)  # fmt: skip
def mixed_product() -> Pattern:
    a, w = operands("a")["m k"], operands("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return begun | block("m n | k", a, w, multiply_add, init=results("c"))


@mixed.instruction(port, into=operands, y=up_to(16), x=up_to(16), cycles=lambda s: 20 + s["y"])
def load_image() -> Pattern:
    image = wildcard("x", dtype=f16)["(y - top) (x - left) c"].padded(0)
    return block("y x c", image, lambda _, x: x)


@composite("mixed.matmul")
def mixed_matmul() -> Pattern:
    given = block("*i", wildcard("x", dtype=f32)["*i"], lambda _, x: x.to(f16))
    weights = wildcard("w", dtype=f16)
    return block("*b m n | k", given["*b m k"], weights["~b k n"], multiply_add)


@composite("mixed.conv")
def mixed_conv() -> Pattern:
    """A convolution that rounds its image, where it has no pads."""
    given = block("*i", wildcard("x", dtype=f32)["*i"], lambda _, x: x.to(f16))
    window = given["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    return block("n h w o | r s c", window, wildcard("w", dtype=f16)["r s c o"], multiply_add)


class Mixed(byocir.Target):
    name, machine, patterns = "mixed", mixed, (mixed_matmul, mixed_conv)
    channels_last = reassociates = True
    rounds_operands = "f16"


def test_products_of_f32_are_taken_by_units_that_multiply_halves() -> None:
    text = "net (float[20,30] x) => (float[20,24] y) { c = MatMul (x, w) y = Relu (c) }"
    assert reason_to_refuse(text, (30, 24)) == ""


def test_no_block_reads_pads_around_what_another_makes() -> None:
    """Nothing would set them: such a match is refused, not made and then not scheduled."""
    nodes = "c = Conv <pads = [0, 0, 0, 0]> (x, w) y = Conv <pads = [1, 1, 1, 1]> (c, w)"
    text = f"net (float[1,8,6,6] x) => (float[1,8,4,4] y) {{ {nodes} }}"
    assert "pads around arrays from main memory" in reason_to_refuse(text, (8, 8, 3, 3))


@pytest.mark.parametrize("left_out", ["rounds_operands", "reassociates", "channels_last"])
def test_a_note_says_what_a_class_could_ask_for(left_out: str) -> None:
    text = "net (float[1,8,6,6] x) => (float[1,8,4,4] y) { y = Conv (x, w) }"

    def notes(**changed: object) -> list[str]:
        target: type[byocir.Target] = type("Changed", (Mixed,), changed)
        module = with_weights(text, (8, 8, 3, 3))
        found = byocir.partition(module, [target()], levels=("tensor",)).notes
        return [note.split("model: ")[1] for note in found if "its class can ask for" in note]

    assert notes() == []
    (told,) = notes(**{left_out: getattr(byocir.Target, left_out)})
    assert told.split()[0] == left_out
    assert "," not in told


def with_weights(text: str, shape: tuple[int, ...]) -> ModuleOp:
    """Makes a net of f32 with weights `w` of this shape."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    weights = np.random.default_rng(0).normal(0, 0.2, shape).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return byocir.import_onnx(model)


def reason_to_refuse(text: str, shape: tuple[int, ...]) -> str:
    """Compiles a net of f32 with weights `w`, expects its numbers, and tells why the target does
    not take its contraction; empty if it does."""
    module = with_weights(text, shape)
    feeds = random_feeds(module)
    package = byocir.compile(module.clone(), targets=[Mixed()], levels=("tensor",))
    found = package.run(feeds, check=True)["y"]
    run_passes(module, load_context(), meaning_pipeline(module, [Mixed()]))
    np.testing.assert_allclose(found, evaluate(module, feeds)["y"], rtol=1e-5, atol=1e-5)
    refused = [each.reason for each in package.report.decisions if not each.taken]
    assert bool(package.report.macs["host"]) == bool(refused)
    return "\n".join(refused)
