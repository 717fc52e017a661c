"""Holds an ONNX node together with the values that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import onnx

from byocir.dialects.types import Shape


class PoolAxis(NamedTuple):
    """Describes one spatial dimension of a pool: the windows that slide along it, and the pads
    around."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def extent(self) -> int:
        """Counts the elements between the ends of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1


class OperatorCall:
    """Describes a node of some opset of its domain with its inputs, None for those that are
    absent."""

    def __init__(self, node: onnx.NodeProto, inputs: Sequence[Any], opset: int) -> None:
        self.node, self.opset = node, opset
        self._inputs = [_value(each) for each in inputs]
        self._attributes: dict[str, Any] = {
            each.name: onnx.helper.get_attribute_value(each)
            for each in node.attribute
            if not each.ref_attr_name
        }

    def attribute(self, name: str, default: Any = None) -> Any:
        """Reads an attribute, text as `str`; gives the default where the node has none."""
        value = self._attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def array(self, index: int) -> np.ndarray | None:
        """Gives an input if it is an array; None for another or an absent one."""
        value = self._inputs[index] if index < len(self._inputs) else None
        return cast(np.ndarray, value) if isinstance(value, np.ndarray) else None

    def numbers(self, name: str, index: int) -> list[int] | None:
        """Reads integers that newer opsets take as an input and older ones as an attribute."""
        array = self.array(index)
        if array is not None:
            return [int(each) for each in array.ravel()]
        given = self.attribute(name)
        return None if given is None else list(given)

    @property
    def arrays(self) -> list[np.ndarray]:
        """Lists all inputs that are arrays."""
        return [cast(np.ndarray, each) for each in self._inputs if isinstance(each, np.ndarray)]

    @property
    def is_same_padded(self) -> bool:
        """Tells if the node asks for pads that give one window for each stride."""
        return str(self.attribute("auto_pad", "NOTSET")).startswith("SAME")

    def axes(self) -> list[PoolAxis]:
        """Describes the windows of a pool or a convolution along each spatial dimension."""
        x, weight = self.array(0), self.array(1)
        assert x is not None
        sizes: Shape = x.shape[2:]
        given: list[int] | None = self.attribute("kernel_shape")
        kernel = given or (list(weight.shape[2:]) if weight is not None else [])
        ones, rank = [1] * len(sizes), len(sizes)
        strides = self.attribute("strides", ones)
        dilations = self.attribute("dilations", ones)
        pads = self.attribute("pads") or [0] * (2 * rank)
        if self.attribute("auto_pad", "NOTSET") != "NOTSET":
            pads = [0] * (2 * rank)
        rows = (sizes, kernel, strides, dilations, pads[:rank], pads[rank:])
        axes = [PoolAxis(*row) for row in zip(*rows, strict=False)]
        return [self._same(axis) for axis in axes] if self.is_same_padded else axes

    def _same(self, axis: PoolAxis) -> PoolAxis:
        total = max((-(-axis.size // axis.stride) - 1) * axis.stride + axis.extent - axis.size, 0)
        least, most = total // 2, total - total // 2
        is_upper = self.attribute("auto_pad") == "SAME_UPPER"
        before, after = (least, most) if is_upper else (most, least)
        return axis._replace(before=before, after=after)

    def starts(self, axis: PoolAxis) -> range:
        """Lists the positions at which windows along a dimension begin; the first element is at
        0.
        """
        free = axis.size + axis.before + axis.after - axis.extent
        count = free // axis.stride + 1
        if self.attribute("ceil_mode", 0) and count * axis.stride < axis.size + axis.before:
            count = -(-free // axis.stride) + 1
        return range(-axis.before, -axis.before + max(count, 0) * axis.stride, axis.stride)


def _value(given: Any) -> Any:
    """Turns numpy's scalars into arrays; leaves other values as they are."""
    return np.asarray(cast(Any, given)) if isinstance(given, np.generic) else given
