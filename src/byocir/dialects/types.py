"""Converts element types between MLIR's scalar types and numpy's dtypes.

Signless integers hold ONNX's signed ones (`i8` is int8), `ui8` holds uint8, `i1` is bool. Graph ops
compute on the core types; the others (integers of less than 8 bits, floats of less than 16, complex
numbers) are only held, for `graph.foreign` and constants.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    ComplexType,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

Shape = tuple[int, ...]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DYNAMIC = DYNAMIC_INDEX
"""The size of a dimension that is only known when the program runs; MLIR writes it as `?`."""

MOST_DIMENSIONS = 64
"""Dimensions that a tensor or memref can have: as many as numpy's arrays."""

i1, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
ui8, ui16, ui32, ui64 = (IntegerType(w, Signedness.UNSIGNED) for w in (8, 16, 32, 64))
f16, f32, f64, bf16 = Float16Type(), Float32Type(), Float64Type(), BFloat16Type()

_CORE: dict[Attribute, np.dtype] = {
    i1: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    ui8: np.dtype(np.uint8),
    ui16: np.dtype(np.uint16),
    ui32: np.dtype(np.uint32),
    ui64: np.dtype(np.uint64),
    f16: np.dtype(np.float16),
    bf16: np.dtype(ml_dtypes.bfloat16),
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
}

DTYPES: dict[Attribute, np.dtype] = {
    **_CORE,
    IntegerType(2): np.dtype(ml_dtypes.int2),
    IntegerType(4): np.dtype(ml_dtypes.int4),
    IntegerType(2, Signedness.UNSIGNED): np.dtype(ml_dtypes.uint2),
    IntegerType(4, Signedness.UNSIGNED): np.dtype(ml_dtypes.uint4),
    Float4E2M1FNType(): np.dtype(ml_dtypes.float4_e2m1fn),
    Float6E2M3FNType(): np.dtype(ml_dtypes.float6_e2m3fn),
    Float6E3M2FNType(): np.dtype(ml_dtypes.float6_e3m2fn),
    Float8E4M3FNType(): np.dtype(ml_dtypes.float8_e4m3fn),
    Float8E4M3FNUZType(): np.dtype(ml_dtypes.float8_e4m3fnuz),
    Float8E5M2Type(): np.dtype(ml_dtypes.float8_e5m2),
    Float8E5M2FNUZType(): np.dtype(ml_dtypes.float8_e5m2fnuz),
    Float8E8M0FNUType(): np.dtype(ml_dtypes.float8_e8m0fnu),
    ComplexType(f32): np.dtype(np.complex64),
    ComplexType(f64): np.dtype(np.complex128),
}
"""The numpy dtype of each scalar type that tensors can have."""

_TYPES = {dtype: element for element, dtype in DTYPES.items()}


def dtype_of(element: Attribute) -> np.dtype:
    """Gives the numpy dtype of a scalar type; raises KeyError for a type that holds no number."""
    return DTYPES[element]


def element_of(dtype: np.dtype) -> IntegerType | AnyFloat:
    """Gives the scalar type of a numpy dtype; raises KeyError for dtypes ONNX tensors cannot
    have."""
    element = _TYPES[np.dtype(dtype)]
    return cast(IntegerType | AnyFloat, element)


def listed(types: Iterable[Attribute]) -> str:
    """Words types, one after the other."""
    return ", ".join(map(str, types))


def is_memref(type_: Attribute) -> bool:
    """Tells if a type is that of a buffer in memory."""
    return isinstance(type_, MemRefType)


def static_shape(type_: Attribute) -> Shape | None:
    """Gives the shape of a tensor type whose rank and sizes are all known, else None."""
    if not isinstance(type_, TensorType):
        return None
    shape = cast("TensorType", type_).get_shape()
    return None if DYNAMIC in shape else shape


def sizes_shown(type_: Attribute) -> list[str]:
    """Writes the sizes of a tensor type for users, "?" where one is not known."""
    return ["?" if size == DYNAMIC else str(size) for size in shape_of(type_)]


def has_dtype(dtype: np.dtype) -> bool:
    """Tells if tensors of this numpy dtype can be held."""
    return np.dtype(dtype) in _TYPES


def is_core(dtype: np.dtype) -> bool:
    """Tells if graph ops compute on tensors of this numpy dtype."""
    return np.dtype(dtype) in _CORE.values()


def has_element(element: Attribute) -> bool:
    """Tells if this is a scalar type that tensors of graph ops can have."""
    return element in _CORE


def holds_numbers(element: Attribute) -> bool:
    """Tells if this is a scalar type that tensors can have, be it only to be held."""
    return element in DTYPES


def tensor(element: Attribute, shape: Sequence[int]) -> TensorType:
    """Makes the ranked tensor type `tensor<shape x element>`; often it is the same object, which is
    quick to compare.
    """
    return _tensor(element, tuple(map(int, shape)))


@lru_cache(maxsize=4096)
def _tensor(element: Attribute, shape: Shape) -> TensorType:
    return TensorType(element, shape)


def shape_of(type_: Attribute) -> Shape:
    """Gives the shape of a tensor or memref type."""
    assert isinstance(type_, TensorType | MemRefType)
    return type_.get_shape()


def strides_of(shape: Shape) -> Shape:
    """Gives the row-major strides of a shape, in elements: [2, 3, 4] → [12, 4, 1]."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def element_type_of(type_: Attribute) -> Attribute:
    """Gives the element type of a tensor or memref type."""
    assert isinstance(type_, TensorType | MemRefType)
    return type_.element_type


def nbytes(type_: Attribute) -> int:
    """Counts the bytes of a tensor or memref of known sizes, as numpy holds its numbers."""
    return math.prod(shape_of(type_)) * dtype_of(element_type_of(type_)).itemsize


def too_deep(type_: Attribute) -> str:
    """Words the message about a tensor or memref that has too many dimensions to compute with;
    empty for others.
    """
    if not isinstance(type_, TensorType | MemRefType):
        return ""
    rank = len(type_.shape)
    if rank <= MOST_DIMENSIONS:
        return ""
    return f"expected at most {MOST_DIMENSIONS} dimensions, found {rank:,}"


def is_float(element: Attribute) -> bool:
    """Tells if a scalar type is a floating-point type."""
    return isinstance(element, AnyFloat)


def is_integer(element: Attribute) -> bool:
    """Tells if a scalar type is an integer type, booleans included; `index` is none."""
    return isinstance(element, IntegerType)


def is_unsigned(type_: Attribute) -> bool:
    """Tells if this is an unsigned integer type; i1 counts as unsigned (true is 1)."""
    return type_ in (i1, ui8, ui16, ui32, ui64)


def width_of(element: Attribute) -> int:
    """Counts the bits of an integer type."""
    assert isinstance(element, IntegerType)
    return cast(IntegerType, element).width.data


@cache
def named_elements() -> Mapping[str, Attribute]:
    """Gives the scalar types that tensors can have, by the name that MLIR prints, e.g. `ui8`."""
    return {str(element): element for element in DTYPES}
