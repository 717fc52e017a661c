"""Small random float nets, as users have them before ONNX Runtime's quantiser writes them anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from nets.classic_nets import Net, Scale
from nets.int8_nets import SETTINGS, Form, quantised

Draw = st.DrawFn


@dataclass(frozen=True)
class QuantisedNet:
    """A quantised net: how that was done, whether a run tells scales, its file and its inputs."""

    how: str
    is_dynamic: bool
    model: bytes
    feeds: list[dict[str, np.ndarray]]

    def __repr__(self) -> str:
        return f"{self.how}, {len(self.model)} bytes"


@st.composite
def quantised_nets(draw: Draw) -> QuantisedNet:
    """A net of up to four layers in any setting of the quantiser, and inputs: as in calibration, so
    large that they saturate, of one sign, and of zeros, which are what surrounds an image."""
    net = draw(st.one_of(images(), sequences()))
    setting = draw(st.sampled_from(list(SETTINGS)))
    ops = [node.op_type for node in net.nodes]
    # As operators of integers the quantiser has no transposed convolutions.
    forms = ["QDQ"] if "ConvTranspose" in ops else ["QDQ", "QOperator", "dynamic"]
    form: Form = draw(st.sampled_from(forms))
    per_channel = draw(st.booleans())
    model = quantised(net.model(), SETTINGS[setting], form, per_channel=per_channel)
    x = np.random.default_rng(7).normal(size=net.shape).astype(np.float32)
    feeds = [{"x": value} for value in (x, 100 * x, -np.abs(x), np.zeros_like(x))]
    how = f"{setting} {form} per_channel={per_channel}: {', '.join(ops)}"
    return QuantisedNet(how, form == "dynamic", model, feeds)


@st.composite
def images(draw: Draw) -> Net:
    """Of pictures, some so small that windows lie in the border alone."""
    channels, height, width = (draw(st.sampled_from(s)) for s in ([1, 3, 16], [1, 2, 5], [1, 3, 6]))
    net = started(draw, (channels, height, width))
    convolution(draw, net)
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from(IMAGE_LAYERS))(draw, net)
    if draw(st.booleans()):
        net.add("GlobalAveragePool")
        net.add("Flatten")
        net.linear(draw(st.sampled_from([3, 10])))
    return net


@st.composite
def sequences(draw: Draw) -> Net:
    """Of tokens: products with weights, and of what they give."""
    width = draw(st.sampled_from([4, 16, 20]))
    net = started(draw, (draw(st.integers(1, 5)), width))
    product(draw, net)
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from([product, attention, residual_product]))(draw, net)
    return net


def started(draw: Draw, shape: tuple[int, ...]) -> Net:
    seed = draw(st.integers(0, 2**16))
    value = np.random.default_rng(seed).normal(size=(2, *shape)).astype(np.float32)
    return Net(Scale(0, 1, 1), value, seed)


# Layers of pictures.


def convolution(draw: Draw, net: Net) -> None:
    channels, *sizes = net.value.shape[1:]
    group = draw(st.sampled_from(_groups(channels)))
    outputs = channels if group > 1 else draw(st.sampled_from([3, 16, 20]))
    kernel, dilation = [draw(st.integers(1, 3)) for _ in sizes], draw(st.integers(1, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    if any(
        s + pads[i] + pads[i + 2] < (k - 1) * dilation + 1
        for i, (s, k) in enumerate(zip(sizes, kernel, strict=True))
    ):
        kernel, pads = [1, 1], [0] * 4
    window = {"pads": pads, "dilations": [dilation] * 2, "strides": [draw(st.integers(1, 2))] * 2}
    weight = net.normal(outputs, channels // group, *kernel)
    net.add("Conv", weight, *bias(draw, net, outputs), group=group, **window)
    activation(draw, net)


def _groups(channels: int) -> list[int]:
    """Numbers of groups, most of the time one; depthwise, or such as fill blocks of 16."""
    return [1, 1, 1, channels, *([2, 4] if channels == 16 else [])]


def bias(draw: Draw, net: Net, outputs: int) -> list[str]:
    """None, or a number for each output."""
    if draw(st.booleans()):
        return []
    return [net.weight(net.rng.normal(0, 0.3, outputs).astype(np.float32))]


def transposed(draw: Draw, net: Net) -> None:
    channels, height, width = net.value.shape[1:]
    if max(height, width) > 12:
        return
    group = draw(st.sampled_from([1, 1, 1, channels]))
    outputs = channels if group > 1 else draw(st.sampled_from([3, 16, 20]))
    kernel, strides = ([draw(st.integers(1, 4)) for _ in range(2)] for _ in range(2))
    dilation = draw(st.integers(1, 2))
    extra = [draw(st.integers(0, stride - 1)) for stride in strides]  # as ONNX Runtime wants it
    pads = [draw(st.integers(0, (k - 1) * dilation // 2)) for k in kernel * 2]
    window = {"pads": pads, "dilations": [dilation] * 2, "strides": strides}
    weight = net.normal(channels, outputs // group, *kernel)
    more = {"group": group, "output_padding": extra}
    net.add("ConvTranspose", weight, *bias(draw, net, outputs), **more, **window)
    activation(draw, net)


def activation(draw: Draw, net: Net) -> None:
    kind = draw(st.sampled_from(["", "Relu", "Clip", "LeakyRelu", "PRelu"]))
    operands: list[str] = []
    if kind == "Clip":
        operands = [net.weight(np.array(bound, np.float32)) for bound in (0, 1)]
    if kind == "PRelu":
        slopes = net.rng.normal(0, 0.5, (net.value.shape[1], 1, 1))
        operands = [net.weight(slopes.astype(np.float32))]
    if kind:
        net.add(kind, *operands)


def pool(draw: Draw, net: Net) -> None:
    kernel = [draw(st.integers(1, min(3, size))) for size in net.value.shape[2:]]
    pads = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    window = {"kernel_shape": kernel, "pads": pads, "strides": [draw(st.integers(1, 2))] * 2}
    if draw(st.booleans()):
        net.add("MaxPool", **window)
    else:
        net.add("AveragePool", count_include_pad=draw(st.integers(0, 1)), **window)


def residual(draw: Draw, net: Net) -> None:
    before, channels = net.last, net.value.shape[1]
    net.add("Conv", net.normal(channels, channels, 1, 1))
    net.add(draw(st.sampled_from(["Add", "Add", "Sub", "Mul"])), before)
    activation(draw, net)


def concat(draw: Draw, net: Net) -> None:
    before, channels = net.last, net.value.shape[1]
    net.add("Conv", net.normal(draw(st.sampled_from([2, 16])), channels, 1, 1))
    activation(draw, net)
    net.add("Concat", before, axis=1)


def resize(draw: Draw, net: Net) -> None:
    none = net.weight(np.zeros(0, np.float32))
    scales = net.weight(np.array([1, 1, 2, 2], np.float32))
    names = {"mode": "nearest", "nearest_mode": "floor"}
    net.add("Resize", none, scales, coordinate_transformation_mode="asymmetric", **names)


def pad(draw: Draw, net: Net) -> None:
    pads = net.weight(np.array([0, 0, 1, 0, 0, 0, 0, 2]))
    net.add("Pad", pads, net.weight(np.array(0, np.float32)), mode="constant")


def slice_(draw: Draw, net: Net) -> None:
    numbers = ([0], [max(net.value.shape[1] // 2, 1)], [1])
    net.add("Slice", *(net.weight(np.array(number)) for number in numbers))


IMAGE_LAYERS = [
    convolution,
    convolution,
    transposed,
    pool,
    residual,
    concat,
    resize,
    pad,
    slice_,
]


# Layers of tokens.


def product(draw: Draw, net: Net) -> None:
    outputs = draw(st.sampled_from([4, 16, 20]))
    net.add(
        "MatMul",
        net.weight(net.rng.normal(0, 0.3, (net.value.shape[-1], outputs)).astype(np.float32)),
    )
    if draw(st.booleans()):
        net.add("Add", net.weight(net.rng.normal(0, 0.3, outputs).astype(np.float32)))
    if draw(st.booleans()):
        net.add("Relu")


def residual_product(draw: Draw, net: Net) -> None:
    before, width = net.last, net.value.shape[-1]
    net.add("MatMul", net.weight(net.rng.normal(0, 0.3, (width, width)).astype(np.float32)))
    net.add(draw(st.sampled_from(["Add", "Mul"])), before)


def attention(draw: Draw, net: Net) -> None:
    """`(x x^T) x`, quantised in between."""
    before = net.last
    turned = net.add("Transpose", perm=[0, 2, 1])
    net.last = before
    net.add("MatMul", turned)
    net.add("MatMul", before)
