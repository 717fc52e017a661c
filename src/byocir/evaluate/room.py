"""Asks for the memory of what ops make, before they are run (`byocir.memory`).

What is told by types is asked for when a block is first run, all of it before its first op. What
only values tell, as the shape that an Expand is given, is inferred from them by ONNX's own rules.
What a rule needs beside its results it asks for itself (`ask_for`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.traits import ConstantLike

from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import place
from byocir.dialects.types import DYNAMIC, dtype_of, element_type_of, holds_numbers, shape_of
from byocir.frontend.onnx.infer import SMALL, infer_outputs
from byocir.frontend.onnx.tensors import any_dtype
from byocir.memory import ask


def ask_for_results(op: Operation) -> None:
    """Raises ByocirError B140 for an op whose results would take too much memory, as far as types
    tell. Constants are there already."""
    nbytes = sum(nbytes_of(result.type) for result in op.results)
    if nbytes > _LITTLE and not op.has_trait(ConstantLike):
        ask(nbytes, f"what {kind_of(op)} makes", place(op.location))


def kind_of(op: Operation) -> str:
    """Names an op in messages: a foreign one by its ONNX type."""
    return op.kind if isinstance(op, ForeignOp) else op.name


_LITTLE = 2**20
"""Bytes that no limit is below that anything could be computed with."""


def nbytes_of(type_: Attribute) -> int:
    """The bytes of a value of this type; 0 if the type does not tell."""
    if not isinstance(type_, TensorType | MemRefType):
        return 0
    shape, element = shape_of(cast(Attribute, type_)), element_type_of(cast(Attribute, type_))
    if DYNAMIC in shape:
        return 0
    return math.prod(shape) * (dtype_of(element).itemsize if holds_numbers(element) else 8)


def ask_for(op: Operation, shape: Sequence[int], dtype: np.dtype) -> None:
    """Raises ByocirError B140 for an array of this shape that the rule of an op works on, if it
    would take too much memory."""
    ask(math.prod(shape) * dtype.itemsize, f"what {op.name} works on", place(op.location))


def told_of(value: Any) -> Hashable:
    """Gives all of a value that decides how much memory its users need: its shape, and its elements
    if these may be sizes."""
    if not _is_array(value):
        return None
    return value.shape, value.tobytes() if _may_be_sizes(value) else None


def _is_array(value: Any) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray)


def _may_be_sizes(value: np.ndarray) -> bool:
    return value.size <= SMALL and value.dtype.kind in "iub"


def ask_for_outputs(op: Operation, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """Raises ByocirError B140 if the outputs of a model, which stands for an op, would take too
    much memory for these inputs."""
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
    for port in known.graph.output:  # what is inferred must not be at odds with what is declared
        port.type.tensor_type.ClearField("shape")
    outputs = infer_outputs(known)
    nbytes = sum(_of_port(port.type.tensor_type) for port in outputs)
    ask(nbytes, f"what {kind_of(op)} makes", place(op.location))


def _of_port(type_: onnx.TypeProto.Tensor) -> int:
    dtype = any_dtype(type_.elem_type)
    sizes = [size.dim_value for size in type_.shape.dim if size.HasField("dim_value")]
    if not type_.HasField("shape") or len(sizes) < len(type_.shape.dim):
        return 0
    return math.prod(sizes) * (8 if dtype is None else dtype.itemsize)
