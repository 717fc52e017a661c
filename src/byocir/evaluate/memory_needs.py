"""Asks for the memory of what ops make, before they are run (`byocir.memory`).

Sizes that types tell are checked when a block is first run, all of them before its first op, and
again before each op together with the values held then (`Held`). Sizes that only values tell, such
as the shape that an Expand is given, are inferred from the values by ONNX's own rules. A rule
itself asks for the memory that it needs beside its results (`GraphOp.ask_for`). For a whole program
`ask_for_program` checks by types alone, before it is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.locations import place
from byocir.dialects.tir import EmptyOp
from byocir.dialects.traits import is_constant
from byocir.dialects.types import DYNAMIC, dtype_of, element_type_of, holds_numbers, shape_of
from byocir.frontend.onnx.infer import SMALL, inferred
from byocir.frontend.onnx.tensors import any_dtype
from byocir.memory import expect_memory


def ask_for_results(op: Operation) -> int:
    """Counts the bytes that an op makes, as far as types tell; raises ByocirError B140 if they are
    too many. Constants are there already.
    """
    nbytes = made_by(op)
    if nbytes > _LITTLE:
        expect_memory(nbytes, f"what {kind_of(op)} makes", place(op.location))
    return nbytes


def ask_for_held(op: Operation, nbytes: int) -> None:
    """Raises ByocirError B140 for an op whose results, with the other values alive, would take too
    many bytes."""
    if nbytes > _LITTLE:
        expect_memory(
            nbytes, f"what {kind_of(op)} makes and what is held beside it", place(op.location)
        )


class Held:
    """Keeps the arrays that values stand for at a time, and counts how much memory they take. An
    array and those that are views of it count once.
    """

    def __init__(self) -> None:
        self.total = 0
        self._roots: dict[SSAValue, list[np.ndarray]] = {}
        self._users: dict[int, int] = {}

    def keep(self, key: SSAValue, value: Any) -> None:
        """Counts the arrays of a value from now on, in place of those that it stood for before."""
        if key in self._roots:
            self.free(key)
        self._roots[key] = roots = list(_roots(value))
        for root in roots:
            users = self._users.get(id(root), 0)
            self._users[id(root)] = users + 1
            self.total += 0 if users else root.nbytes

    def free(self, key: SSAValue) -> None:
        """Stops counting the arrays of a value."""
        for root in self._roots.pop(key, ()):
            self._users[id(root)] -= 1
            if not self._users[id(root)]:
                del self._users[id(root)]
                self.total -= root.nbytes


def _roots(value: Any) -> Iterator[np.ndarray]:
    """Gives the arrays that own the memory of a value."""
    if isinstance(value, (list, tuple)):
        for each in cast(Sequence[Any], value):
            yield from _roots(each)
    elif _is_array(value):
        while _is_array(value.base):
            value = value.base
        yield value


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """Lists for each op the values, made in its block, of which it is the last reader. Values that
    the block returns are in no list, nor are constants, whose memory is not freed.
    """
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        values = (value for each in op.walk() for value in each.operands) if op.regions else ()
        last.update((value, op) for value in (*op.operands, *values, *op.results))
    found: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        owner = value.owner
        if not isinstance(owner, Operation) or is_constant(owner):
            continue
        if owner.parent is block and op is not block.last_op:
            found.setdefault(op, []).append(value)
    return found


def ask_for_program(module: ModuleOp) -> None:
    """Raises ByocirError B140 where a function would hold more at once than the limit, as far as
    types tell. Graphs inside of ops are not looked into."""
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and not function.is_declaration:
            _ask_for_block(function.body.block)


_MOVING = frozenset((g.FlattenOp, g.ReshapeOp, g.SqueezeOp, g.TransposeOp, g.UnsqueezeOp))
"""Ops whose results may be in the memory of what they are given."""


def made_by(op: Operation) -> int:
    """Counts the bytes of new memory for an op's results, as far as types tell. Constants are there
    already; an empty tensor takes no memory until something is written in its place.
    """
    if type(op) in _MOVING or type(op) is EmptyOp or is_constant(op):
        return 0
    return sum(nbytes_of(result.type) for result in op.results)


def _ask_for_block(block: Block) -> None:
    held = sum(nbytes_of(argument.type) for argument in block.args)
    last, left = last_uses(block), dict[SSAValue, int]()
    for op in block.ops:
        made, dead = ask_for_results(op), last.get(op, [])
        ask_for_held(op, made + held if made else 0)
        if type(op) in _MOVING:
            left[op.results[0]] = left.pop(op.operands[0], 0) if op.operands[0] in dead else 0
        elif made:
            held += made
            left.update((result, nbytes_of(result.type)) for result in op.results)
        held -= sum(left.pop(value, 0) for value in dead)


def kind_of(op: Operation) -> str:
    """Names an op in messages: foreign ones by their ONNX type."""
    return op.kind if isinstance(op, g.ForeignOp) else op.name


_LITTLE = 2**20
"""Bytes that no limit is below that anything could be computed with."""


def nbytes_of(type_: Attribute) -> int:
    """Gives the bytes of a value of this type; 0 if the type does not tell."""
    if not isinstance(type_, TensorType | MemRefType):
        return 0
    shape, element = shape_of(cast(Attribute, type_)), element_type_of(cast(Attribute, type_))
    if DYNAMIC in shape:
        return 0
    return math.prod(shape) * (dtype_of(element).itemsize if holds_numbers(element) else 8)


def memory_key(value: Any) -> Hashable:
    """Gives the part of a value that decides how much memory its users need: its shape, and its
    elements if these may be sizes.
    """
    if not _is_array(value):
        return None
    return value.shape, value.tobytes() if _may_be_sizes(value) else None


def _is_array(value: Any) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray)


def _may_be_sizes(value: np.ndarray) -> bool:
    return value.size <= SMALL and value.dtype.kind in "iub"


def ask_for_outputs(op: Operation, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """Raises ByocirError B140 if a value of a model, which stands for an op or a function, would
    take too much memory for these inputs.
    """
    known = onnx.ModelProto()
    known.CopyFrom(model)
    for port in known.graph.input:
        value = feeds[port.name]
        if _is_array(value) and port.type.HasField("tensor_type"):
            shape = port.type.tensor_type.shape
            shape.Clear()
            shape.SetInParent()
            for size in value.shape:
                shape.dim.add(dim_value=size)
            if _may_be_sizes(value):
                known.graph.initializer.append(onnx.numpy_helper.from_array(value, port.name))
    for port in known.graph.output:  # onnx refuses to infer a type that contradicts a declared one
        port.type.tensor_type.ClearField("shape")
    graph = inferred(known)
    values = [_of_port(value.type.tensor_type) for value in graph.value_info]
    outputs = sum(_of_port(port.type.tensor_type) for port in graph.output)
    expect_memory(max(outputs, *values, 0), f"what {kind_of(op)} makes", place(op.location))


def _of_port(type_: onnx.TypeProto.Tensor) -> int:
    dtype = any_dtype(type_.elem_type)
    sizes = [size.dim_value for size in type_.shape.dim if size.HasField("dim_value")]
    if not type_.HasField("shape") or len(sizes) < len(type_.shape.dim):
        return 0
    return math.prod(sizes) * (8 if dtype is None else dtype.itemsize)
