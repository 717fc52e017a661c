"""Writes a region as C that builds a net of oneDNN primitives, and the bytes of its constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.byoc import CompositeOp, YieldOp, stored
from byocir.dialects.graph import ConstantOp, FixedAttr, RequantizeOp
from byocir.dialects.types import (
    Shape,
    dtype_of,
    element_of,
    element_type_of,
)
from byocir.targets.dnnl.patterns import BINARY, BYTES, VIEWS
from byocir.targets.dnnl.terms import (
    TYPES,
    aligned,
    along,
    attributes,
    c_dims,
    c_number,
    c_sizes,
    c_type,
    fits_rows,
    function_of,
    in_rows,
    is_float,
    is_result_of,
    number_of,
    numbers_of,
    other_operand,
    readers,
    sizes,
    spelled_out,
)

ALIGN = 64
LATER = ("graph.cast", "graph.dequantize", "graph.pad")
"""The ops that are written where something reads their result as it is, or not at all."""
NONE = "DNNL_NET_NONE"


class Net:
    """Builds the net of a function. `last_reads` comes from a net of the same function that was
    written before, and tells which line reads each value last; the net that is written now notes
    its own in `reads`.
    """

    def __init__(self, function: FuncOp, last_reads: dict[str, int] | None = None) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, tuple[Array, int]] = {}
        self._later: dict[SSAValue, Operation] = {}
        self.reads: dict[str, int] = {}
        self._last_reads = last_reads or {}
        self._size = 0
        self._names: dict[SSAValue, str] = {}
        self._roots: dict[str, str] = {}
        """The value whose elements a view has, by the view."""
        body = function.body.block
        for argument in body.args:
            self._names[argument] = self._add(f"dnnl_net_input(n, {c_type(argument)})")
        for op in body.ops:
            self._write(op)

    @classmethod
    def of(cls, function: FuncOp) -> Net:
        """Makes the net of a function by writing it twice, so that the second one knows when values
        are read last.
        """
        return cls(function, cls(function).reads)

    def source(self, name: str, arrays: str, threads: int) -> str:
        """Writes the C that defines the functions of a region."""
        lines = "".join(f"    {line}\n" for line in self.lines)
        return f"""static void {name}_build(dnnl_net *n, const unsigned char *data)
{{
    (void)data;
{lines}}}

int {name}_open(void **state, const void *data)
{{
    return dnnl_net_open(state, {name}_build, data, {threads});
}}

int {name}(void *state, {arrays})
{{
    return dnnl_net_run(state, inputs, outputs);
}}

void {name}_close(void *state)
{{
    dnnl_net_close(state);
}}
"""

    def data(self) -> bytes:
        """Lays out the numbers of all constants where the C looks for them."""
        made = bytearray(self._size)
        for array, offset in self.constants.values():
            data = array.values().tobytes()
            made[offset : offset + len(data)] = data
        return bytes(made)

    # -- values

    def _add(self, call: str, of: str | None = None) -> str:
        """Adds a line that makes a value, and gives its name; `of` is the value of which it is a
        view.
        """
        name = f"v{len(self.lines)}"
        self.lines.append(f"const int {name} = {call};")
        if of is not None:
            self._roots[name] = self._roots.get(of, of)
        return name

    def _read(self, value: SSAValue) -> str:
        """Names a value for the next line, and notes that this line reads it."""
        return self._noted(self._named(value))

    def _named(self, value: SSAValue) -> str:
        """Names a value; one that was left for later is written now."""
        if value not in self._names and isinstance(value.owner, ConstantOp):
            self._names[value] = self._stored(stored(value.owner))
        elif value not in self._names:
            op = self._later[value]
            is_cast = op.name == "graph.cast"
            self._names[value] = self._named(op.operands[0]) if is_cast else self._dequantize(op)
        return self._names[value]

    def _noted(self, name: str) -> str:
        self.reads[self._roots.get(name, name)] = len(self.lines)
        return name

    def _shaped(self, value: SSAValue, shape: Shape) -> str:
        """Names a value in another shape."""
        return self._reshaped(self._read(value), sizes(value), shape)

    def _reshaped(self, name: str, found: Shape, shape: Shape) -> str:
        if found == shape:
            return self._noted(name)
        made = self._add(f"dnnl_net_reshape(n, {name}, {c_dims(shape)})", of=name)
        return self._noted(made)

    def _is_read_later(self, name: str) -> bool:
        return self._last_reads.get(self._roots.get(name, name), 0) > len(self.lines)

    # -- ops

    def _write(self, op: Operation) -> None:
        if isinstance(op, ReturnOp):
            for value in op.operands:
                self.lines.append(f"dnnl_net_output(n, {self._read(value)});")
        elif isinstance(op, CompositeOp):
            self._composite(op)

    def _stored(self, array: Array) -> str:
        if array.digest not in self.constants:
            self.constants[array.digest] = array, self._size
            self._size += -(-array.size * array.dtype.itemsize // ALIGN) * ALIGN
        _, offset = self.constants[array.digest]
        type_ = f"{TYPES[element_of(array.dtype)]}, {c_dims(array.shape or (1,))}"
        return self._add(f"dnnl_net_constant(n, {type_}, data + {offset})")

    def _composite(self, composite: CompositeOp) -> None:
        body = composite.body.block
        for argument, value in zip(body.args, composite.inputs, strict=True):
            self._names[argument] = self._named(value)
        left = [op for op in body.ops if not isinstance(op, ConstantOp | YieldOp)]
        if composite.pattern.data.endswith(".smooth"):
            call = f"{self._read(body.args[0])}, {spelled_out(left)}"
            self._names[left[-1].results[0]] = self._add(f"dnnl_net_eltwise(n, {call})")
            left = []
        while left:
            op = left.pop(0)
            in_integers = isinstance(op, RequantizeOp) and isinstance(op.rounding, FixedAttr)
            if left and (op.name in LATER or in_integers):
                self._later[op.results[0]] = op
                continue
            after = self._fused(op, left)
            self._names[[op, *after][-1].results[0]] = self._primitive(op, after)
            left = [each for each in left if each not in after]
        last = body.last_op
        assert isinstance(last, YieldOp)
        for result, value in zip(composite.outputs, last.values, strict=True):
            self._names[result] = self._names[value]

    def _fused(self, op: Operation, left: Sequence[Operation]) -> list[Operation]:
        """Lists the ops that are computed together with an op, each on the result of the one
        before: all that follow and keep its shape, except a sum with bytes whose type or shape is
        another, which is computed in floats.
        """
        made: list[Operation] = []
        value, smooth = op.results[0], list[Operation]()
        while True:
            following = readers(value, left)
            if not following or sizes(following[0].results[0]) != sizes(op.results[0]):
                break
            if len(following) > 1:
                smooth = [each for each in left if each not in made]
                break
            made.append(following[0])
            value = following[0].results[0]
        names = [each.name for each in made]
        if "graph.requantize" in names:
            end = names.index("graph.requantize") + 1
            is_sum = names[end : end + 2] == ["graph.dequantize", "graph.add"]
            return made if not is_sum or self._adds_bytes(made[end:]) else made[:end]
        if any(function_of(op, value) is not None for value in op.operands[:2]):
            return []  # oneDNN's primitives for functions fuse no further ops
        values = [op, *made]
        kept = [
            each.name == "graph.add" or function_of(each, before.results[0]) is not None
            for before, each in zip(values, made, strict=False)
        ]
        return made[: kept.index(False)] if False in kept else made + smooth

    def _adds_bytes(self, tail: Sequence[Operation]) -> bool:
        """Tells if a sum that is quantised adds bytes in the shape of the result, so that oneDNN
        can store the result in their place.
        """
        other = self._later.get(other_operand(tail[1], tail[0].results[0]))
        if other is None or tail[-1].name != "graph.quantize":
            return False
        (added, *_), result = other.operands, tail[-1].results[0]
        return element_type_of(added.type) in BYTES and sizes(added) == sizes(result)

    def _primitive(self, op: Operation, after: Sequence[Operation]) -> str:
        """Writes an op together with the ops on its result, and gives the name of the last
        result.
        """
        kind = op.name.removeprefix("graph.")
        if op.name in VIEWS:
            return self._view(op)
        for value in op.operands[:2]:
            if (function := function_of(op, value)) is not None:
                self._follow(op, after)
                return self._add(f"dnnl_net_eltwise(n, {self._read(value)}, {function})")
        if op.name in BINARY:
            return self._binary(op, after)
        return getattr(self, f"_{kind}")(op, after)

    def _follow(self, op: Operation, after: Sequence[Operation], rows: Shape = ()) -> None:
        """Writes the ops that are computed on each element of a result. `rows` is the shape in
        which the result is computed, if that is another one.
        """
        shape = sizes(op.results[0])
        rows, value, zero = rows or shape, op.results[0], 0
        for i, each in enumerate(after):
            following = after[i + 1] if i + 1 < len(after) else None
            if len(readers(value, after[i:])) > 1:
                self.lines.append(f"dnnl_net_then(n, {spelled_out(after[i:])});")
                break
            if (function := function_of(each, value)) is not None:
                self.lines.append(f"dnnl_net_then(n, {function});")
            elif each.name == "graph.requantize":
                zero = self._rescale(each, rows, shape, following)
            elif each.name == "graph.dequantize":
                self._to_floats(each, zero, following)
            elif each.name == "graph.quantize":
                scale, added = (number_of(v) for v in each.operands[1:])
                self._then("linear", 1 / scale, added)
            else:
                self._sum(other_operand(each, value), rows, shape, is_first=i == 0)
            value = each.results[0]

    def _then(self, kind: str, alpha: float = 0.0, beta: float = 0.0) -> None:
        numbers = f"{c_number(alpha)}, {c_number(beta)}"
        self.lines.append(f"dnnl_net_then(n, dnnl_eltwise_{kind}, {numbers});")

    def _then_with(self, kind: str, other: SSAValue, rows: Shape, shape: Shape) -> None:
        name = self._shaped(other, in_rows(sizes(other), rows, shape))
        self.lines.append(f"dnnl_net_then_with(n, dnnl_binary_{kind}, {name});")

    def _requantize(self, op: Operation, _: Sequence[Operation]) -> str:
        """Writes a requantisation of bytes, from which a zero point may be subtracted first."""
        x, factor, shape = op.operands[0], 1.0, sizes(op.results[0])
        whole = self._later.get(x)
        if whole is not None:
            x, factor = whole.operands[0], number_of(whole.operands[1])
        by = self._stored(Array.of(np.full([1] * len(shape), factor, np.float32)))
        if whole is not None:
            self._then("linear", 1.0, attributes(whole)["zero_point"])
        self._rescale(op, shape, shape, None)
        return self._combined(self._read(x), by, "mul", op.results[0])

    def _rescale(
        self, op: Operation, rows: Shape, shape: Shape, following: Operation | None
    ) -> int:
        """Writes a requantisation; gives the zero point that its result still lacks."""
        zero = attributes(op)["zero_point"]
        self._then_with("mul", op.operands[1], rows, shape)
        if following is not None and following.name == "graph.dequantize":
            limits = np.iinfo(dtype_of(element_type_of(op.results[0].type)))
            self._then("round")
            self._then("clip_v2", limits.min - zero, limits.max - zero)
            return zero
        if zero != 0:  # it is added after rounding
            self._then("round")
            self._then("linear", 1.0, zero)
        return 0

    def _to_floats(self, op: Operation, zero: int, following: Operation | None) -> None:
        """Writes a dequantisation; it also subtracts the zero point of the operand that is added
        next.
        """
        scale, own = (number_of(v) for v in op.operands[1:])
        less = 0.0
        if following is not None and following.name == "graph.add":
            other = self._later[other_operand(following, op.results[0])]
            less = float(np.prod([number_of(v) for v in other.operands[1:]]))
        self._then("linear", scale, (zero - own) * scale - less)

    def _sum(self, other: SSAValue, rows: Shape, shape: Shape, is_first: bool) -> None:
        scale, added = 1.0, self._later.get(other)
        if added is not None and other not in self._names:
            scale, other = number_of(added.operands[1]), added.operands[0]
        if added is None and not (sizes(other) == shape and is_first and is_float(other)):
            self._then_with("add", other, rows, shape)
            return
        name = self._shaped(other, rows)
        later = int(self._is_read_later(name))
        self.lines.append(f"dnnl_net_then_add(n, {name}, {c_number(scale)}, {later});")

    def _view(self, op: Operation) -> str:
        name = self._read(op.operands[0])
        if op.name != "graph.transpose":
            return self._reshaped(name, sizes(op.operands[0]), sizes(op.results[0]))
        order = attributes(op)["perm"]
        places = ", ".join(str(order.index(i)) for i in range(len(order)))
        return self._add(f"dnnl_net_transpose(n, {name}, (const int[]){{{places or 0}}})", of=name)

    def _binary(self, op: Operation, after: Sequence[Operation]) -> str:
        shape = sizes(op.results[0])
        x, y = (self._shaped(v, aligned(sizes(v), len(shape))) for v in op.operands)
        self._follow(op, after)
        return self._combined(x, y, BINARY[op.name], [op, *after][-1].results[0])

    def _combined(self, x: str, y: str, kind: str, result: SSAValue) -> str:
        call = f"{self._noted(x)}, {self._noted(y)}, dnnl_binary_{kind}, {c_type(result)}"
        return self._add(f"dnnl_net_binary(n, {call})")

    def _quantize(self, op: Operation, _: Sequence[Operation]) -> str:
        x, scale, zero = op.operands
        rank, axis = len(sizes(x)), attributes(op)["axis"]
        by, name = self._along(scale, rank, axis), self._read(x)
        self._then("round")
        zeros = self._as_floats(zero)
        self._then_with_name("add", self._reshaped(zeros, sizes(zero), along(zero, rank, axis)))
        return self._combined(name, by, "div", op.results[0])

    def _dequantize(self, op: Operation, _: Sequence[Operation] = ()) -> str:
        x, scale, zero = op.operands
        rank, axis = len(sizes(x)), attributes(op)["axis"]
        if not isinstance(x.owner, ConstantOp) and numbers_of(scale).size == 1:
            zeros = self._stored(Array.of(numbers_of(zero).reshape(1).astype(np.int32)))
            by = self._shaped(scale, (1,))
            return self._add(f"dnnl_net_dequantize(n, {self._read(x)}, {by}, {zeros})")
        name, zeros = self._read(x), self._as_floats(zero)
        less = self._reshaped(zeros, sizes(zero), along(zero, rank, axis))
        self._then_with_name("mul", self._along(scale, rank, axis))
        return self._combined(name, less, "sub", op.results[0])

    def _then_with_name(self, kind: str, name: str) -> None:
        self.lines.append(f"dnnl_net_then_with(n, dnnl_binary_{kind}, {self._noted(name)});")

    def _along(self, value: SSAValue, rank: int, axis: int) -> str:
        return self._shaped(value, along(value, rank, axis))

    def _as_floats(self, value: SSAValue) -> str:
        """Converts a constant of integers to one of floats, and names it."""
        return self._stored(Array.of(numbers_of(value).astype(np.float32)))

    def _conv(self, op: Operation, after: Sequence[Operation]) -> str:
        attrs, (x, w, *bias) = attributes(op), op.operands
        shape, groups = sizes(w), attrs["group"]
        if groups > 1:
            shape = (groups, shape[0] // groups, *shape[1:])
        half = len(attrs["pads"]) // 2
        begins, ends = attrs["pads"][:half], attrs["pads"][half:]
        pad = 0
        if x in self._later:
            padded = self._later[x]
            around, (x, *_) = attributes(padded), padded.operands
            middle, pad = len(around["pads"]) // 2, around["value"]
            begins, ends = around["pads"][2:middle], around["pads"][middle + 2 :]
        given = self._bias(w, bias, pad)
        zero = self._stored(Array.of(np.array([pad], np.int32))) if pad else NONE
        window = (attrs["strides"], [d - 1 for d in attrs["dilations"]], begins, ends)
        return self._window(op, after, x, self._shaped(w, shape), given, window, zero)

    def _bias(self, w: SSAValue, bias: Sequence[SSAValue], zero: int) -> str:
        """Names the bias of a convolution. Where pads have the value of a zero point, oneDNN
        subtracts that from all that it reads; the bias adds this back.
        """
        if not zero:
            return self._read(bias[0]) if bias else NONE
        weights = numbers_of(w).astype(np.int32)
        made = zero * weights.sum(axis=tuple(range(1, weights.ndim)), dtype=np.int32)
        made = made + numbers_of(bias[0]) if bias else made
        return self._stored(Array.of(made.astype(np.int32)))

    def _matmul(self, op: Operation, after: Sequence[Operation]) -> str:
        (x, w), shape = op.operands, sizes(op.results[0])
        rows = (prod(shape[:-1]), shape[-1])
        added = [v for each in after for v in each.operands if not is_result_of(v, op, after)]
        if len(sizes(w)) == 2 and all(fits_rows(sizes(v), shape) for v in added):
            left, right = self._shaped(x, (rows[0], sizes(x)[-1])), self._read(w)
        else:
            rows = shape
            left, right = (self._shaped(v, aligned(sizes(v), len(shape))) for v in (x, w))
        self._follow(op, after, rows)
        element = TYPES[element_type_of([op, *after][-1].results[0].type)]
        call = f"{self._noted(left)}, {self._noted(right)}, {element}, {c_dims(rows)}"
        return self._reshaped(self._add(f"dnnl_net_matmul(n, {call})"), rows, shape)

    def _sum_pool(self, op: Operation, after: Sequence[Operation]) -> str:
        """Writes a sum over windows as a convolution of each channel with ones."""
        attrs, channels = attributes(op), sizes(op.operands[0])[1]
        kernel = attrs["kernel_shape"]
        ones = Array.of(np.ones((channels, 1, 1, *kernel), np.int8))
        window = [attrs["strides"], [d - 1 for d in attrs["dilations"]]]
        window += _pads_of_windows(op, attrs)
        return self._window(op, after, op.operands[0], self._stored(ones), NONE, window)

    def _window(
        self,
        op: Operation,
        after: Sequence[Operation],
        x: SSAValue,
        weights: str,
        bias: str,
        window: Sequence[Sequence[int]],
        zero: str = NONE,
    ) -> str:
        self._follow(op, after)
        if zero != NONE:
            self.lines.append(f"dnnl_net_zero_point(n, {zero});")
        return self._add(
            f"dnnl_net_conv(n, {self._read(x)}, {self._noted(weights)}, {bias}, "
            f"{c_type([op, *after][-1].results[0])}, {', '.join(map(c_sizes, window))})"
        )

    def _pool(self, op: Operation, kind: str, attrs: dict[str, Any]) -> str:
        kernel, dilations = attrs["kernel_shape"], attrs["dilations"]
        window = (attrs["strides"], kernel, [d - 1 for d in dilations])
        window += (*_pads_of_windows(op, attrs),)
        return self._add(
            f"dnnl_net_pool(n, {self._read(op.operands[0])}, dnnl_pooling_{kind}, "
            f"{c_dims(sizes(op.results[0]))}, {', '.join(map(c_sizes, window))})"
        )

    def _max_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        return self._pool(op, "max", attributes(op))

    def _average_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        attrs = attributes(op)
        pads = "include" if attrs["count_include_pad"] else "exclude"
        return self._pool(op, f"avg_{pads}_padding", attrs)

    def _global_pool(self, op: Operation, kind: str) -> str:
        kernel = sizes(op.operands[0])[2:]
        ones = [1] * len(kernel)
        pads = [0] * 2 * len(kernel)
        attrs = {"kernel_shape": kernel, "strides": ones, "dilations": ones, "pads": pads}
        return self._pool(op, kind, attrs)

    def _global_average_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        return self._global_pool(op, "avg_exclude_padding")

    def _global_max_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        return self._global_pool(op, "max")

    def _softmax(self, op: Operation, _: Sequence[Operation], kind: str = "accurate") -> str:
        x, axis = self._read(op.operands[0]), attributes(op)["axis"]
        return self._add(f"dnnl_net_softmax(n, {x}, dnnl_softmax_{kind}, {axis})")

    def _log_softmax(self, op: Operation, after: Sequence[Operation]) -> str:
        return self._softmax(op, after, "log")

    def _concat(self, op: Operation, _: Sequence[Operation]) -> str:
        parts = [self._read(value) for value in op.operands]
        listed = f"{len(parts)}, (const int[]){{{', '.join(parts)}}}"
        return self._add(f"dnnl_net_concat(n, {listed}, {attributes(op)['axis']})")

    def _layer_norm(self, op: Operation, _: Sequence[Operation]) -> str:
        attrs, (x, *parameters) = attributes(op), op.operands
        shape = sizes(x)
        rows = (prod(shape[: attrs["axis"]]), prod(shape[attrs["axis"] :]))
        given = [self._shaped(v, rows[1:]) for v in parameters] + [NONE]
        call = f"{self._shaped(x, rows)}, {given[0]}, {given[1]}, {c_number(attrs['epsilon'])}"
        return self._reshaped(self._add(f"dnnl_net_layer_norm(n, {call})"), rows, shape)


def _pads_of_windows(op: Operation, attrs: dict[str, Any]) -> list[list[int]]:
    """Computes the pads in front of and behind each dimension of a pool. Those behind are as small
    as the windows need, which may be more or less than the op asks for, because oneDNN refuses pads
    that hold a whole window.
    """
    x, y = sizes(op.operands[0])[2:], sizes(op.results[0])[2:]
    kernel, strides, dilations = (attrs[n] for n in ("kernel_shape", "strides", "dilations"))
    begins = attrs["pads"][: len(x)]
    needed = [
        (y[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x[i] - begins[i]
        for i in range(len(x))
    ]
    ends = [max(n, min(0, n + stride - 1)) for n, stride in zip(needed, strides, strict=True)]
    return [begins, ends]
