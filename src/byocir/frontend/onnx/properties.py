"""Reads properties of graph ops from ONNX nodes: attributes and constant inputs, with
defaults written out, negative axes counted from the front and `auto_pad` resolved."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph.nn import window_shape
from byocir.dialects.types import element_of
from byocir.frontend.onnx.entry import Property
from byocir.frontend.onnx.reader import NodeReader
from byocir.frontend.onnx.tensors import Unsupported, numpy_dtype, type_name


def integer(name: str, default: int) -> Property:
    """Reads an attribute that holds an integer."""
    return lambda node: node.integer(name, default)


def number(name: str, default: float) -> Property:
    """Reads an attribute that holds a number."""
    return lambda node: node.number(name, default)


def text(name: str, default: str) -> Property:
    """Reads an attribute that holds a string."""
    return lambda node: node.text(name, default)


def element_named(node: NodeReader, name: str, default: Attribute) -> Attribute:
    """Reads an attribute that names an element type by ONNX's number."""
    wanted = node.integer(name, 0)
    if not wanted:
        return default
    dtype = numpy_dtype(wanted)
    if dtype is None:
        raise Unsupported(f"expected {name} a type of numbers, found {type_name(wanted)}")
    return element_of(dtype)


def axis(default: int, beyond: int = 0) -> Property:
    """Reads the attribute `axis`, counted from the front; it may exceed the last axis by up to
    `beyond`.
    """
    return lambda node: from_front(node.integer("axis", default), node.rank, beyond)


def from_front(axis: int, rank: int, beyond: int = 0) -> int:
    """Counts an axis from the front; raises Unsupported if there is no such axis."""
    if not -rank <= axis < rank + beyond:
        raise Unsupported(f"expected axis from {-rank} to {rank - 1 + beyond}, found {axis}")
    return axis + rank if axis < 0 else axis


def normal_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Counts axes from the front, in rising order; raises Unsupported for an axis named twice."""
    normal = sorted(from_front(axis, rank) for axis in axes)
    if len(set(normal)) < len(normal):
        raise Unsupported(f"expected each axis once, found {list(axes)}")
    return normal


def permutation(node: NodeReader) -> Sequence[int]:
    """Reads the attribute `perm`, by default the dimensions in reverse."""
    return node.integers("perm", range(node.rank)[::-1])


def bound(index: int) -> Property:
    """Reads a bound of Clip, a constant scalar input."""

    def read(node: NodeReader) -> ArrayAttr | None:
        values = node.known(index)
        if values is None:
            return None
        if values.size != 1:
            raise Unsupported(f"expected a scalar bound, found shape {list(values.shape)}")
        return ArrayAttr.of(values.reshape(()))

    return read


# -- windows


def _spatial(node: NodeReader) -> int:
    return max(node.rank - 2, 0)


def kernel_shape(node: NodeReader) -> Sequence[int]:
    """Reads the attribute `kernel_shape` of a pool."""
    return node.integers("kernel_shape", [])


def conv_kernel(node: NodeReader, weight_index: int = 1) -> Sequence[int]:
    """Reads the kernel's shape, which is the weight's; raises Unsupported if an attribute
    differs.
    """
    weight = list(node.shape(weight_index)[2:])
    found = node.integers("kernel_shape", weight)
    if found != weight:
        raise Unsupported(f"expected kernel_shape {weight} as the weight has, found {found}")
    return weight


def strides(node: NodeReader) -> Sequence[int]:
    """Reads the strides, by default 1 along each spatial dimension."""
    return node.integers("strides", [1] * _spatial(node))


def dilations(node: NodeReader) -> Sequence[int]:
    """Reads the dilations, by default 1 along each spatial dimension."""
    return node.integers("dilations", [1] * _spatial(node))


def pads(node: NodeReader) -> Sequence[int]:
    """Computes the pads of a pool from the attributes `pads` and `auto_pad`."""
    return _pads(node, kernel_shape(node))


def conv_pads(node: NodeReader, weight_index: int = 1) -> Sequence[int]:
    """Computes the pads of a convolution from the attributes `pads` and `auto_pad`."""
    return _pads(node, conv_kernel(node, weight_index))


def _pads(node: NodeReader, kernel: Sequence[int]) -> Sequence[int]:
    mode = node.text("auto_pad", "NOTSET")
    explicit = node.integers("pads", [0] * (2 * _spatial(node)))
    if mode == "NOTSET":
        return explicit
    if mode == "VALID":
        return [0] * (2 * _spatial(node))
    return _same_pads(node, kernel, upper=mode == "SAME_UPPER")


def ceil_mode(node: NodeReader) -> int:
    """Reads the attribute `ceil_mode` of a pool; 0 also where rounding up gives no further
    window.
    """
    if not node.integer("ceil_mode", 0):
        return 0
    window = kernel_shape(node), strides(node), pads(node), dilations(node)
    sizes = node.shape(0)[2:]
    return int(window_shape(sizes, *window, ceil=True) != window_shape(sizes, *window))


def _same_pads(node: NodeReader, kernel: Sequence[int], upper: bool) -> list[int]:
    """Computes pads that give ceil(size / stride) windows; an odd one goes to the end if
    `upper`.
    """
    begins: list[int] = []
    ends: list[int] = []
    sizes = node.shape(0)[2:]
    rows = (sizes, kernel, strides(node), dilations(node))
    if len({len(row) for row in rows}) != 1:
        raise Unsupported(f"expected kernel, strides and dilations of {len(sizes)} dimensions")
    for size, extent, stride, dilation in zip(*rows, strict=True):
        reach = (-(-size // stride) - 1) * stride + (extent - 1) * dilation + 1
        total = max(reach - size, 0)
        begins.append(total // 2 if upper else total - total // 2)
        ends.append(total - begins[-1])
    return [*begins, *ends]


# -- windows of transposed convolutions


def output_padding(node: NodeReader) -> Sequence[int]:
    """Reads `output_padding`, by default 0 along each spatial dimension."""
    return node.integers("output_padding", [0] * _spatial(node))


def conv_transpose_pads(node: NodeReader) -> Sequence[int]:
    """Computes the pads of a transposed convolution from the attributes `pads`, `auto_pad` and
    `output_shape`.
    """
    rank, mode = _spatial(node), node.text("auto_pad", "NOTSET")
    explicit = node.integers("pads", [0] * (2 * rank))
    kernel = conv_kernel(node)
    wanted = node.integers("output_shape", [])[-rank:]
    is_same = mode.startswith("SAME") and not wanted
    if is_same:
        wanted = [
            size * stride for size, stride in zip(node.shape(0)[2:], strides(node), strict=True)
        ]
    if not wanted:
        return [0] * (2 * rank) if mode == "VALID" else explicit
    begins: list[int] = []
    ends: list[int] = []
    rows = node.shape(0)[2:], kernel, strides(node), dilations(node), output_padding(node), wanted
    if len({len(row) for row in rows}) != 1:
        raise Unsupported(f"expected kernel, strides and shapes of {rank} dimensions")
    for size, extent, stride, dilation, extra, out in zip(*rows, strict=True):
        total = (size - 1) * stride + extra + (extent - 1) * dilation + 1 - out
        if is_same:  # onnx's inference and ONNX Runtime compute it in this way
            total = max(total, 0)
        if total < 0:
            raise Unsupported(f"expected an output_shape of at most {out + total}, found {out}")
        begins.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
        ends.append(total - begins[-1])
    return [*begins, *ends]
