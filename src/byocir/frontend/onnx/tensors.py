"""Converts ONNX's element types and tensors to numpy's; None or Unsupported for those that byocir
cannot hold.
"""

from __future__ import annotations

import numpy as np
import onnx

from byocir.dialects.array import Array
from byocir.dialects.types import has_dtype, is_core


class Unsupported(Exception):
    """Tells that a part of a model has no form at graph level, with the reason in one sentence."""


class NoForm(Unsupported):
    """Tells that no graph op stands for a node, though the node may be valid."""


def numpy_dtype(data_type: int) -> np.dtype | None:
    """Finds the numpy dtype of an element type (TensorProto.DataType), if graph ops compute on
    it.
    """
    dtype = any_dtype(data_type)
    return dtype if dtype is not None and is_core(dtype) else None


def any_dtype(data_type: int) -> np.dtype | None:
    """Finds the numpy dtype of an element type (TensorProto.DataType), if tensors of it can be
    held.
    """
    if data_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return None
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))
    except KeyError:  # no such type: the checker lets any number pass
        return None
    return dtype if has_dtype(dtype) else None


def type_name(data_type: int) -> str:
    """Names an element type as ONNX's documentation does."""
    known = onnx.TensorProto.DataType
    return known.Name(data_type) if data_type in known.values() else f"type {data_type}"


def array_of(tensor: onnx.TensorProto) -> Array:
    """Reads the values of a tensor, without a copy where they are raw; raises Unsupported."""
    if any_dtype(tensor.data_type) is None:
        raise Unsupported(f"expected a tensor of numbers, found {type_name(tensor.data_type)}")
    return Array.of(values_of(tensor))


def is_packed(dtype: np.dtype) -> bool:
    """Tells if ONNX's raw data puts several elements into one byte, which numpy's arrays do not."""
    return any(part in dtype.name for part in ("int2", "int4", "float4", "float6"))


def values_of(tensor: onnx.TensorProto, raw: np.ndarray | None = None) -> np.ndarray:
    """Reads the values of a tensor, strings as objects; raises Unsupported if it is not complete.
    Its bytes may be in `raw` in place of the tensor, for a dtype that is not packed.
    """
    try:
        if raw is not None:
            return np.frombuffer(raw, any_dtype(tensor.data_type)).reshape(tuple(tensor.dims))
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise Unsupported(f"expected a complete tensor, found: {error}") from error
