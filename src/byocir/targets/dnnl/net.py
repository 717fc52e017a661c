"""Writes a region as C that builds a net of oneDNN primitives, and the bytes of its constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.byoc import CompositeOp, YieldOp, stored
from byocir.dialects.graph import ConstantOp
from byocir.dialects.types import Shape, element_type_of, f32, shape_of
from byocir.patterns.match import python_value
from byocir.targets.dnnl.patterns import BINARY, FUNCTIONS, VIEWS

ALIGN = 64
TYPES: dict[Attribute, str] = {f32: "dnnl_f32"}
NONE = "DNNL_NET_NONE"


class Net:
    """The net of a function. `last_reads`, of a net of the same function that was written before,
    tells when each value is read last; the one that is written notes them."""

    def __init__(self, function: FuncOp, last_reads: dict[str, int] | None = None) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, tuple[Array, int]] = {}
        self.reads: dict[str, int] = {}
        self._last_reads = last_reads or {}
        self._size = 0
        self._names: dict[SSAValue, str] = {}
        self._roots: dict[str, str] = {}
        """The value whose elements a view has, by the view."""
        body = function.body.block
        for argument in body.args:
            self._names[argument] = self._add(f"dnnl_net_input(n, {_typed(argument)})")
        for op in body.ops:
            self._write(op)

    @classmethod
    def of(cls, function: FuncOp) -> Net:
        """The net of a function that knows when its values are read last."""
        return cls(function, cls(function).reads)

    def source(self, name: str, arrays: str, threads: int) -> str:
        """C that defines the functions of a region."""
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
        """The numbers of all constants, where the C looks for them."""
        made = bytearray(self._size)
        for array, offset in self.constants.values():
            data = array.values().tobytes()
            made[offset : offset + len(data)] = data
        return bytes(made)

    # -- values

    def _add(self, call: str, of: str | None = None) -> str:
        """Adds a line that makes a value; `of` is the one that it is a view of."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"const int {name} = {call};")
        if of is not None:
            self._roots[name] = self._roots.get(of, of)
        return name

    def _read(self, value: SSAValue) -> str:
        """The name of a value that the next line reads."""
        return self._noted(self._names[value])

    def _noted(self, name: str) -> str:
        self.reads[self._roots.get(name, name)] = len(self.lines)
        return name

    def _shaped(self, value: SSAValue, shape: Shape) -> str:
        """The name of a value in another shape."""
        return self._reshaped(self._read(value), sizes(value), shape)

    def _reshaped(self, name: str, found: Shape, shape: Shape) -> str:
        if found == shape:
            return self._noted(name)
        made = self._add(f"dnnl_net_reshape(n, {name}, {_dims(shape)})", of=name)
        return self._noted(made)

    def _is_read_later(self, name: str) -> bool:
        root = self._roots.get(name, name)
        return root != name or self._last_reads.get(root, 0) > len(self.lines)

    # -- ops

    def _write(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            self._constant(op)
        elif isinstance(op, ReturnOp):
            for value in op.operands:
                self.lines.append(f"dnnl_net_output(n, {self._read(value)});")
        elif isinstance(op, CompositeOp):
            self._composite(op)

    def _constant(self, op: ConstantOp) -> None:
        array = stored(op)
        if array.digest not in self.constants:
            self.constants[array.digest] = array, self._size
            self._size += -(-array.size * array.dtype.itemsize // ALIGN) * ALIGN
        _, offset = self.constants[array.digest]
        call = f"dnnl_net_constant(n, {_typed(op.result)}, data + {offset})"
        self._names[op.result] = self._add(call)

    def _composite(self, composite: CompositeOp) -> None:
        body = composite.body.block
        self._names.update(
            zip(body.args, (self._names[value] for value in composite.inputs), strict=True)
        )
        ops: list[Operation] = []
        for op in body.ops:
            if isinstance(op, ConstantOp):
                self._constant(op)
            elif isinstance(op, YieldOp):
                made = [self._names[value] for value in op.values]
                self._names.update(zip(composite.outputs, made, strict=True))
            else:
                ops.append(op)
            if ops and isinstance(op.next_op, YieldOp):
                self._names[ops[-1].results[0]] = self._primitive(ops[0], ops[1:])

    def _primitive(self, op: Operation, after: Sequence[Operation]) -> str:
        """Writes an op with what follows it, as far as it keeps the shape; the name of the
        result."""
        shape = sizes(op.results[0])
        kept = [sizes(each.results[0]) == shape for each in after]
        if False in kept:
            i = kept.index(False)
            self._names[(op, *after)[i].results[0]] = self._primitive(op, after[:i])
            return self._primitive(after[i], after[i + 1 :])
        kind = op.name.removeprefix("graph.")
        if op.name in VIEWS:
            return self._view(op)
        if op.name in FUNCTIONS:
            self._follow(op, after)
            return self._add(f"dnnl_net_eltwise(n, {self._read(op.operands[0])}, {_function(op)})")
        if op.name in BINARY:
            return self._binary(op, after)
        return getattr(self, f"_{kind}")(op, after)

    def _follow(self, op: Operation, after: Sequence[Operation], rows: Shape = ()) -> None:
        """Writes what is done with each element of a result. `rows` is the shape in which it is
        computed, if that is another one."""
        value = op.results[0]
        for i, each in enumerate(after):
            if each.name in FUNCTIONS:
                self.lines.append(f"dnnl_net_then(n, {_function(each)});")
            else:
                other = each.operands[1 if each.operands[0] is value else 0]
                self._sum(other, rows or sizes(value), sizes(value), is_first=i == 0)
            value = each.results[0]

    def _sum(self, other: SSAValue, rows: Shape, shape: Shape, is_first: bool) -> None:
        if sizes(other) == shape and is_first:
            name = self._shaped(other, rows)
            later = int(self._is_read_later(name))
            self.lines.append(f"dnnl_net_then_add(n, {name}, {later});")
            return
        name = self._shaped(other, aligned(sizes(other), len(rows)))
        self.lines.append(f"dnnl_net_then_with(n, dnnl_binary_add, {name});")

    def _view(self, op: Operation) -> str:
        name = self._read(op.operands[0])
        if op.name != "graph.transpose":
            return self._reshaped(name, sizes(op.operands[0]), sizes(op.results[0]))
        order = _attrs(op)["perm"]
        places = ", ".join(str(order.index(i)) for i in range(len(order)))
        return self._add(f"dnnl_net_transpose(n, {name}, (const int[]){{{places or 0}}})", of=name)

    def _binary(self, op: Operation, after: Sequence[Operation]) -> str:
        shape = sizes(op.results[0])
        x, y = (self._shaped(v, aligned(sizes(v), len(shape))) for v in op.operands)
        self._follow(op, after)
        call = f"dnnl_net_binary(n, {x}, {y}, dnnl_binary_{BINARY[op.name]}, {_dims(shape)})"
        return self._add(call)

    def _conv(self, op: Operation, after: Sequence[Operation]) -> str:
        attrs, (x, w, *bias) = _attrs(op), op.operands
        shape, groups = sizes(w), attrs["group"]
        if groups > 1:
            shape = (groups, shape[0] // groups, *shape[1:])
        weights = self._shaped(w, shape)
        given = self._read(bias[0]) if bias else NONE
        half = len(attrs["pads"]) // 2
        window = (
            attrs["strides"],
            [d - 1 for d in attrs["dilations"]],
            attrs["pads"][:half],
            attrs["pads"][half:],
        )
        self._follow(op, after)
        return self._add(
            f"dnnl_net_conv(n, {self._read(x)}, {weights}, {given}, {_typed(op.results[0])}, "
            f"{', '.join(map(_sizes, window))})"
        )

    def _matmul(self, op: Operation, after: Sequence[Operation]) -> str:
        (x, w), shape = op.operands, sizes(op.results[0])
        rows = (prod(shape[:-1]), shape[-1])
        added = [v for each in after for v in each.operands if not _is_one_of(v, op, after)]
        if len(sizes(w)) == 2 and all(_fits_rows(sizes(v), shape) for v in added):
            left, right = self._shaped(x, (rows[0], sizes(x)[-1])), self._read(w)
        else:
            rows = shape
            left, right = (self._shaped(v, aligned(sizes(v), len(shape))) for v in (x, w))
        self._follow(op, after, rows)
        element = TYPES[element_type_of(op.results[0].type)]
        made = self._add(f"dnnl_net_matmul(n, {left}, {right}, {element}, {_dims(rows)})")
        return self._reshaped(made, rows, shape)

    def _pool(self, op: Operation, kind: str, attrs: dict[str, Any]) -> str:
        x, y = sizes(op.operands[0])[2:], sizes(op.results[0])[2:]
        kernel, strides = attrs["kernel_shape"], attrs["strides"]
        begins, dilations = attrs["pads"][: len(x)], attrs["dilations"]
        # As many at the ends as the windows need, which may end behind what was asked for.
        ends = [
            max(
                pad, (y[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x[i] - begins[i]
            )
            for i, pad in enumerate(attrs["pads"][len(x) :])
        ]
        window = (strides, kernel, [d - 1 for d in dilations], begins, ends)
        return self._add(
            f"dnnl_net_pool(n, {self._read(op.operands[0])}, dnnl_pooling_{kind}, "
            f"{_dims(sizes(op.results[0]))}, {', '.join(map(_sizes, window))})"
        )

    def _max_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        return self._pool(op, "max", _attrs(op))

    def _average_pool(self, op: Operation, _: Sequence[Operation]) -> str:
        attrs = _attrs(op)
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
        x, axis = self._read(op.operands[0]), _attrs(op)["axis"]
        return self._add(f"dnnl_net_softmax(n, {x}, dnnl_softmax_{kind}, {axis})")

    def _log_softmax(self, op: Operation, after: Sequence[Operation]) -> str:
        return self._softmax(op, after, "log")

    def _concat(self, op: Operation, _: Sequence[Operation]) -> str:
        parts = [self._read(value) for value in op.operands]
        listed = f"{len(parts)}, (const int[]){{{', '.join(parts)}}}"
        return self._add(f"dnnl_net_concat(n, {listed}, {_attrs(op)['axis']})")

    def _layer_norm(self, op: Operation, _: Sequence[Operation]) -> str:
        attrs, (x, *parameters) = _attrs(op), op.operands
        shape = sizes(x)
        rows = (prod(shape[: attrs["axis"]]), prod(shape[attrs["axis"] :]))
        given = [self._shaped(v, rows[1:]) for v in parameters] + [NONE]
        call = f"{self._shaped(x, rows)}, {given[0]}, {given[1]}, {_number(attrs['epsilon'])}"
        return self._reshaped(self._add(f"dnnl_net_layer_norm(n, {call})"), rows, shape)


def sizes(value: SSAValue) -> Shape:
    """The shape of a value for oneDNN, which has no arrays without dimensions."""
    return shape_of(value.type) or (1,)


def aligned(shape: Shape, rank: int) -> Shape:
    """A shape with as many dimensions as what it is broadcast to."""
    return (*[1] * (rank - len(shape)), *shape)


def _is_one_of(value: SSAValue, op: Operation, after: Sequence[Operation]) -> bool:
    """Tells if a value is the result of one of these ops."""
    return any(value.owner is each for each in (op, *after))


def _fits_rows(added: Shape, shape: Shape) -> bool:
    """Tells if what is added to a stack of matrices is added alike to one of all rows."""
    return added == shape or prod(added[:-1]) == 1


def _attrs(op: Operation) -> dict[str, Any]:
    return {name: python_value(a) for name, a in op.properties.items()}


def _function(op: Operation) -> str:
    kind, *numbers = FUNCTIONS[op.name](_attrs(op))
    return ", ".join([f"dnnl_eltwise_{kind}", *map(_number, numbers)])


def _number(value: float) -> str:
    return f"{float(value).hex()}f"


def _sizes(values: Sequence[int]) -> str:
    return f"(const dnnl_dims_t){{{', '.join(map(str, values))}}}"


def _dims(shape: Shape) -> str:
    return f"{len(shape)}, {_sizes(shape)}"


def _typed(value: SSAValue) -> str:
    return f"{TYPES[element_type_of(value.type)]}, {_dims(sizes(value))}"
