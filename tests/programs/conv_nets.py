"""Random nets of convolutions with constant weights and of what stands around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from byocir.dialects import graph
from byocir.dialects.array import ArrayAttr
from byocir.dialects.locations import named
from byocir.dialects.types import element_of, shape_of, tensor


class ConvNet:
    """A function of one input under construction. `values` are its images [N, C, H, W] of one type,
    or with one dimension [N, C, W].
    """

    def __init__(self, draw: st.DrawFn, dimensions: int = 2) -> None:
        self.draw, self.dimensions = draw, dimensions
        self.dtype = np.dtype(draw(st.sampled_from([np.float32, np.float32, np.int8])))
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        size = [draw(st.integers(5, 9)), draw(st.integers(5, 17))]
        size = size[2 - dimensions :]
        shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 4, 8])), *size)
        self.array = self.numbers(shape)
        self.block = Block(arg_types=[tensor(element_of(self.dtype), shape)])
        self.values: list[SSAValue] = [self.block.args[0]]

    def numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        if self.dtype.kind == "f":
            return self.rng.normal(size=shape).astype(np.float32)
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def add(self, op: graph.GraphOp) -> SSAValue:
        op.location = named(f"op{len(list(self.block.ops))}")
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: np.ndarray) -> SSAValue:
        return self.add(graph.ConstantOp.of(ArrayAttr.of(array).data))

    @property
    def any(self) -> SSAValue:
        return self.draw(st.sampled_from(self.values))

    def module(self) -> ModuleOp:
        """The module that returns the last value, and perhaps another."""
        results = [self.values[-1]]
        if self.draw(st.booleans()):
            results.append(self.any)
        self.block.add_op(func.ReturnOp(*results))
        types = [*self.block.arg_types], [value.type for value in results]
        return ModuleOp([func.FuncOp("main", types, Region(self.block))])

    # -- layers

    def conv(self) -> SSAValue:
        draw, x = self.draw, self.any
        inputs, *size = shape_of(x.type)[1:]
        group = draw(st.sampled_from([1, 1, 1, 2, inputs]))
        group = group if inputs % group == 0 else 1
        most = [min(3, n) for n in size]
        kernel = [draw(st.integers(1, n)) for n in most]
        outputs = group * draw(st.sampled_from([1, 2, 5, 16, 20, 24]))
        weight = self.constant(self.numbers((outputs, inputs // group, *kernel)))
        window = {
            "strides": [draw(st.integers(1, 2)) for _ in kernel],
            "pads": [draw(st.integers(0, k - 1)) for k in [*kernel, *kernel]],
            "dilations": [1] * self.dimensions,
        }
        operands = [x, weight]
        if self.dtype.kind == "f" and draw(st.booleans()):
            operands.append(self.constant(self.numbers((outputs,))))
        made = self.add(graph.ConvOp.make(*operands, group=group, **window))
        return made if self.dtype.kind == "f" else self.narrow(made)

    def narrow(self, value: SSAValue) -> SSAValue:
        """Integers of 32 bits as those of 8 that are left of them."""
        return self.add(graph.CastOp.make(value, to=element_of(self.dtype)))

    def relu(self) -> SSAValue:
        return self.add(graph.ReluOp.make(self.any))

    def pool(self) -> SSAValue:
        x = self.any
        pads = [self.draw(st.integers(0, 1)) for _ in range(2 * self.dimensions)]
        kernel = [min(n, 2) for n in shape_of(x.type)[2:]]
        strides = [2, 1][: self.dimensions]
        window = {"strides": strides, "dilations": [1] * self.dimensions, "pads": pads}
        return self.add(graph.MaxPoolOp.make(x, kernel_shape=kernel, ceil_mode=False, **window))

    def residual(self) -> SSAValue:
        x = self.any
        alike = [value for value in self.values if value.type == x.type]
        return self.add(graph.AddOp.make(x, self.draw(st.sampled_from(alike))))

    def concat(self) -> SSAValue:
        x = self.any
        n, _, *size = shape_of(x.type)
        alike = [
            v
            for v in self.values
            if [n, *size] == [s for i, s in enumerate(shape_of(v.type)) if i != 1]
        ]
        return self.add(graph.ConcatOp.make(x, self.draw(st.sampled_from(alike)), axis=1))

    def transpose(self) -> SSAValue:
        turned = reversed(range(2, 2 + self.dimensions))
        return self.add(graph.TransposeOp.make(self.any, perm=[0, 1, *turned]))


LAYERS: list[Callable[[ConvNet], SSAValue]] = [
    *[ConvNet.conv] * 4,
    *(ConvNet.relu, ConvNet.pool, ConvNet.residual, ConvNet.concat, ConvNet.transpose),
]


@st.composite
def conv_nets(
    draw: st.DrawFn, dimensions: int = 2, first: Callable[[ConvNet], SSAValue] = ConvNet.conv
) -> tuple[ModuleOp, np.ndarray]:
    """A net of up to six layers, and its input."""
    net = ConvNet(draw, dimensions)
    net.values.append(first(net))
    for _ in range(draw(st.integers(0, 5))):
        layer = draw(st.sampled_from(LAYERS))
        net.values.append(layer(net))
    return net.module(), net.array
