"""Random region functions for VTA: every kind of composite, small shapes, extreme values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from vta_programs import Body, Net, Scale, d
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.graph.fixed_point import fixed_parameters
from byocir.dialects.types import i8, i32, i64, shape_of

ROUNDINGS = st.sampled_from(["floor", "half_up", "half_even"])


class Maker:
    """Draws the composites of one function."""

    def __init__(self, draw, block: int) -> None:
        self.draw = draw
        self.block = block
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.count = 0

    def ints(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def channels(self) -> int:
        return self.draw(st.sampled_from([1, 3, self.block, self.block + 1, 2 * self.block + 1]))

    def bytes(self, *shape: int) -> np.ndarray:
        """i8 values: any, all extreme, or all of one sign."""
        kind = self.draw(st.sampled_from(["any", "any", "extreme", "negative"]))
        if kind == "extreme":
            return self.random.choice(np.array([-128, 127], np.int8), shape)
        high = 0 if kind == "negative" else 128
        return self.random.integers(-128, high, shape).astype(np.int8)

    def node(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def scale(self, shape: tuple[int, ...], most: float, to_half: bool = True) -> Scale:
        """Parameters as fix-point chooses them, for accumulators up to about `most`."""
        size = self.draw(st.sampled_from(["fits", "saturates", "power of two", "above one"]))
        factor = {"fits": 127.0, "saturates": 1000.0, "power of two": 0, "above one": 0}[size]
        spread = self.random.uniform(0.3, 1.0, shape)
        scales = spread * factor / max(most, 1.0)
        if size == "power of two":
            scales = np.full(shape, 2.0 ** -self.ints(0, 12))
        if size == "above one":
            scales = self.random.uniform(1.0, 40.0, shape)
        multipliers, shift = fixed_parameters(scales)
        return Scale(np.asarray(multipliers, np.int32), shift, self.draw(ROUNDINGS))

    def tail(self, body: Body, value: SSAValue, shape: tuple[int, ...], most: float) -> SSAValue:
        """Optional relu, requantise, optional clip."""
        if self.draw(st.booleans()):
            value = body.relu(value)
        value = body.requantise(value, self.scale(shape, most))
        clip = self.draw(st.sampled_from([None, None, (0, 60), (-7, 5), (3, 100), (-128, -2)]))
        return body.clip(value, *clip) if clip else value

    def per_channel(self, x: SSAValue, channels: int) -> tuple[int, ...]:
        """The shape of a multiplier: a number or one for each channel."""
        spatial = [1] * (len(shape_of(x.type)) - 2)
        return self.draw(st.sampled_from([(), (channels, *spatial)]))

    def contraction(self, net: Net, x: SSAValue) -> SSAValue:
        """A convolution or matrix product with bias and tail; behind it a maximum over windows or a
        residual sum."""
        make = self.product(x)
        behind = self.draw(st.sampled_from([None, None, "pool", "sum"]))
        if behind == "sum":
            other = net.composite(self.node("Conv"), [x], make)
            terms = self.sum()
            return net.composite(
                self.node("ConvAdd"),
                [x, other],
                lambda body, value, term: terms(body, make(body, value), term),
            )
        if behind is None or len(shape_of(x.type)) < 3:
            return net.composite(self.node("Conv"), [x], make)

        def pooled(body: Body, value: SSAValue) -> SSAValue:
            made = make(body, value)
            kernel = [self.ints(1, min(3, size)) for size in shape_of(made.type)[2:]]
            maximum = body.pool(made, "max", kernel, self.ints(1, 3), self.ints(0, 2))
            return body.clip(maximum, -3, 100) if self.draw(st.booleans()) else maximum

        return net.composite(self.node("ConvPool"), [x], pooled)

    def product(self, x: SSAValue) -> Callable[[Body, SSAValue], SSAValue]:
        """A convolution or matrix product with bias and tail, of arrays like this one."""
        shape, out = shape_of(x.type), self.channels()
        rank = len(shape) - 2
        kernel = [self.ints(1, min(3, size)) for size in shape[2:]]
        dilation = self.ints(1, 2) if min(shape[2:], default=9) >= 5 else 1
        stride, pad = self.ints(1, 2), self.ints(0, 2)
        weights = self.bytes(*((out, shape[1], *kernel) if rank else (shape[1], out)))
        points = float(np.prod((shape[1], *kernel))) * 127 * 127
        bias = self.random.integers(-(2**14), 2**14, out).astype(np.int32)
        if self.draw(st.sampled_from([False, False, True])):
            bias = self.random.choice(np.array([-(2**31), 2**31 - 1], np.int32), out)
        with_bias = self.draw(st.booleans())

        def make(body: Body, value: SSAValue) -> SSAValue:
            if rank:
                acc = body.conv(value, weights, stride, pad, dilation)
            else:
                acc = body.dense(value, weights)
            if with_bias:
                acc = body.bias(acc, bias)
            return self.tail(body, acc, self.per_channel(acc, out), points / 4)

        return make

    def pool(self, net: Net, x: SSAValue) -> SSAValue:
        """A window sum or maximum with tail."""
        shape = shape_of(x.type)
        if len(shape) < 3:
            return self.chain(net, x)
        kernel = [self.ints(1, min(3, size)) for size in shape[2:]]
        stride, pad = self.ints(1, 2), self.ints(0, 2)
        kind = self.draw(st.sampled_from(["sum", "max", "max"]))

        def make(body: Body, value: SSAValue) -> SSAValue:
            pooled = body.pool(value, kind, kernel, stride, pad)
            if kind == "max" and self.draw(st.booleans()):
                return pooled
            positions = shape_of(pooled.type)[2:]
            factor = self.draw(st.sampled_from([(), positions]))
            return self.tail(body, pooled, factor, 127.0 * float(np.prod(kernel)))

        return net.composite(self.node("Pool"), [x], make)

    def add(self, net: Net, x: SSAValue) -> SSAValue:
        """A residual add of a value and a value computed from it, or itself."""
        y = self.draw(st.sampled_from([self.chain, lambda _, v: v]))(net, x)
        return net.composite(self.node("Add"), [x] if x is y else [x, y], self.sum())

    def sum(self) -> Callable[..., SSAValue]:
        """The sum of two values, or of one and itself, each times a number, with tail."""
        factors = st.sampled_from([1, 3, -128, 127, 128, 40_000, 2_000_000])
        a, b = (self.draw(factors) for _ in range(2))

        def make(body: Body, *values: SSAValue) -> SSAValue:
            terms = [
                body.requantise(value, Scale(np.array(m, np.int32), 0), i32)
                for value, m in zip([values[0], values[-1]], (a, b), strict=True)
            ]
            total = body.elementwise(terms, lambda p, q: p + q)
            return self.tail(body, total, (), 127.0 * (abs(a) + abs(b)))

        return make

    def chain(self, net: Net, x: SSAValue) -> SSAValue:
        """Element-wise ops alone."""

        def make(body: Body, value: SSAValue) -> SSAValue:
            kind = self.draw(st.sampled_from(["tail", "relu", "clip", "shared"]))
            if kind == "tail":
                return self.tail(body, value, self.per_channel(value, shape_of(value.type)[1]), 127)
            if kind == "relu":
                return body.relu(value)
            if kind == "clip":
                return body.clip(value, -3, 70)
            wide = body.elementwise([value], lambda a: a.to(i32))
            scaled = body.elementwise([wide], lambda a: (a * 300 + 7) * a)
            total = body.elementwise([wide, scaled], lambda a, b: (b + a).max(a))
            return self.tail(body, total, (), 127.0**2 * 300)

        return net.composite(self.node("Chain"), [x], make)

    def view(self, net: Net, x: SSAValue) -> SSAValue:
        """[N, C, 1, 1] to [N, C] or back, as reshape gives it."""
        shape = shape_of(x.type)
        if max([1, *shape[2:]]) > 1:
            return self.chain(net, x)
        n, c = shape[:2]
        zero = AffineExpr.constant(0)
        flat = d(0) * c + d(1)
        if len(shape) > 2:
            out, indices = (n, c), (flat // c, flat % c, *[zero] * (len(shape) - 2))
        else:
            out, indices = (n, c, 1, 1), (d(0), d(1))
        map_ = AffineMap(len(out), 0, indices)

        def make(body: Body, value: SSAValue) -> SSAValue:
            return body.elementwise([value], lambda a: a, i8, [map_], out)

        return net.composite(self.node("Reshape"), [x], make)


class Case:
    """A module with a VTA function, and inputs for its @main."""

    def __init__(self, module: ModuleOp, inputs: list[np.ndarray]) -> None:
        self.module = module
        self.inputs = inputs
        self.text = str(module)

    def __repr__(self) -> str:
        return self.text


@st.composite
def nets(draw, block: int = 16, longest: int = 3) -> Case:
    """A function of up to `longest` composites (more where one needs another) and its inputs."""
    maker = Maker(draw, block)
    rank = draw(st.sampled_from([2, 3, 4, 4, 4]))
    batch = draw(st.sampled_from([1, 1, 2]))
    spatial = [maker.ints(1, 7) for _ in range(rank - 2)]
    shape = (batch, maker.channels(), *spatial)
    net = Net(shape)
    value: SSAValue = net.inputs[0]
    kinds = [maker.contraction, maker.contraction, maker.pool, maker.add, maker.chain, maker.view]
    for _ in range(maker.ints(1, longest)):
        value = draw(st.sampled_from(kinds))(net, value)
    module = net.module(value, options={"block": IntegerAttr(block, i64)})
    return Case(module, [maker.bytes(*shape)])
