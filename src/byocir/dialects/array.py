"""Constant arrays are known by their content, never written as text in bulk, and safe for inf and
nan.

A constant holds a `#graph.array<…>` whose data is an `Array`: digest,
dtype, shape and, when they are at hand, the values. Arrays with the same digest are equal, so CSE
and comparisons cost the same for one value as for a hundred million. Up to
`INLINE_LIMIT` elements print inline; more print as their digest and live in a side file
(safetensors), which `ArrayStore` reads and writes.

An array whose values are absent is legal: it parses, verifies, matches shape rules and prints. Code
that needs the values calls `values()`, whose error names the digest and the flag that supplies it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from byocir.dialects.types import Shape, dtype_of, element_of, element_type_of, tensor
from byocir.errors import ByocirError
from byocir.toolchain.calling import ALIGN, aligned_zeros

INLINE_LIMIT = 16
"""Arrays of up to this many elements print inline."""

LARGE = 2**20
"""Arrays of more bytes than this get their digest late."""
CHUNK = 2**25
"""Bytes of a piece of memory that arrays share."""
DIGEST = 32
"""Hexadecimal digits of a digest."""
LOOK = 16
"""The number of elements at either end that are compared first."""


class Array:
    """Holds a read-only array known by its content: shape, dtype and a SHA-256 of dtype, shape,
    bytes.

    The digest of a large array is computed when it is first needed, because an array that has no
    copies is never compared.
    """

    __slots__ = ("_digest", "dtype", "maybe_values", "shape")

    def __init__(
        self,
        digest: str | None,
        dtype: np.dtype,
        shape: Shape,
        maybe_values: np.ndarray | None = None,
    ) -> None:
        """Takes a digest, or None if there are values, which are read-only and contiguous."""
        self._digest, self.dtype, self.shape = digest, dtype, shape
        self.maybe_values = maybe_values

    @staticmethod
    def of(values: np.ndarray) -> Array:
        """Gives the array of these values; they are copied unless already read-only and
        contiguous."""
        owned = np.ascontiguousarray(values).reshape(values.shape)
        if owned.flags.writeable:
            owned = owned.copy()
            owned.flags.writeable = False
        return Array(None, owned.dtype, owned.shape, owned)

    @property
    def digest(self) -> str:
        if self._digest is None:
            values = self.values()
            digest = hashlib.sha256(f"{values.dtype.name}{values.shape}".encode())
            digest.update(values.reshape(-1).view(np.uint8).data)
            self._digest = digest.hexdigest()[:DIGEST]
        return self._digest

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Array):
            return self is other
        if self.dtype != other.dtype or self.shape != other.shape:
            return False
        known = self._digest is not None and other._digest is not None
        return (known or not _differ_at_ends(self, other)) and self.digest == other.digest

    def __hash__(self) -> int:
        # The same whether or not the values are at hand.
        large = self.size * self.dtype.itemsize > LARGE
        return hash((self.dtype, self.shape) if large else self.digest)

    def __repr__(self) -> str:
        return f"Array({self.digest!r}, {self.dtype!r}, {self.shape!r})"

    @property
    def type(self) -> TensorType:
        return tensor(element_of(self.dtype), self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def present(self) -> bool:
        return self.maybe_values is not None

    def values(self) -> np.ndarray:
        """Gives the values, read-only; raises ByocirError B107 when they were not supplied."""
        if self.maybe_values is None:
            raise ByocirError(
                "B107",
                f"the values of array {self.digest} ({self.type}) are needed but were not given",
                help="pass the file that holds them: --weights FILE.safetensors",
            )
        return self.maybe_values


def constant_array(value: SSAValue | None) -> Array | None:
    """Gives the array of a constant op, of the graph or of functions in memory; None for other
    values.
    """
    owner = None if value is None else value.owner
    if not isinstance(owner, Operation) or owner.name not in ("graph.constant", "tir.constant"):
        return None
    attribute = owner.properties["value"]
    assert isinstance(attribute, ArrayAttr)
    return attribute.data


def constant_values(value: SSAValue | None) -> np.ndarray | None:
    """Gives the values of a constant op, read-only; None for other values. Raises ByocirError B107
    when they were not supplied.
    """
    array = constant_array(value)
    return None if array is None else array.values()


def known_values(value: SSAValue | None) -> np.ndarray | None:
    """Gives the values of a constant op, read-only; None for other values, and where they were not
    supplied.
    """
    array = constant_array(value)
    return None if array is None else array.maybe_values


def column(numbers: np.ndarray, rank: int) -> np.ndarray:
    """Reshapes numbers so that they lie along the first of so many dimensions: [n] → [n, 1, 1]. A
    number without dimensions stays.
    """
    return numbers.reshape(-1, *[1] * (rank - 1)) if numbers.ndim else numbers


def _differ_at_ends(one: Array, other: Array) -> bool:
    """Tells if two arrays of one type differ in their first or last elements."""
    if one.maybe_values is None or other.maybe_values is None:
        return False
    first, second = one.maybe_values.reshape(-1), other.maybe_values.reshape(-1)
    ends = (slice(None, LOOK), slice(-LOOK, None))
    return any(first[end].tobytes() != second[end].tobytes() for end in ends)


class SharedMemory:
    """Hands out new arrays that lie beside each other in large pieces of memory: systems use large
    pages for these, which take fewer interrupts and translations of addresses. A piece is freed
    with its last array.
    """

    def __init__(self) -> None:
        self._left = np.empty(0, np.uint8)

    def zeros(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        """Gives a new array of zeros that begins at a multiple of `ALIGN`."""
        nbytes = math.prod(shape) * dtype.itemsize
        taken = -(-nbytes // ALIGN) * ALIGN
        if taken > self._left.size:
            self._left = aligned_zeros((max(taken, CHUNK),), np.dtype(np.uint8))
        made, self._left = self._left[:nbytes], self._left[taken:]
        return made.view(dtype).reshape(shape)


class ArrayStore:
    """Holds the arrays that are known while a text is parsed, by digest."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def add(self, array: Array) -> None:
        self._arrays[array.digest] = array

    def get(self, digest: str) -> Array | None:
        return self._arrays.get(digest)

    def update(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Adds arrays that were read from a side file; each must have the digest that it is filed
        under.
        """
        for digest, values in arrays.items():
            array = Array.of(values)
            if array.digest != digest:
                raise ByocirError(
                    "B108",
                    f"expected an array with digest {digest}, found {array.digest}",
                    help="the weights file was changed or damaged: write it again",
                )
            self.add(array)


class ByocirContext(Context):
    """Extends xDSL's context by the store in which `#graph.array<"digest">` is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays = ArrayStore()

    def clone(self) -> ByocirContext:
        copy = ByocirContext()
        copy.__dict__.update(super().clone().__dict__)
        copy.arrays = self.arrays
        return copy


def _format_scalar(value: object) -> str:
    number = cast(float, value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(float(number))


def _prints_inline(array: Array) -> bool:
    if array.maybe_values is None or array.size > INLINE_LIMIT:
        return False
    if array.dtype.kind == "c":
        return False
    if not isinstance(element_of(array.dtype), AnyFloat):
        return True
    # A NaN other than the usual one would lose its payload as text.
    bits = array.maybe_values[np.isnan(array.maybe_values)].tobytes()
    usual = np.full(len(bits) // array.dtype.itemsize, np.nan, array.dtype).tobytes()
    return bits == usual


@irdl_attr_definition
class ArrayAttr(Data[Array]):
    """Holds a constant array, e.g. `#graph.array<[1, -2] : tensor<2xi8>>` or, when it is large,
    `#graph.array<"0f3c…" : tensor<64x64x3x3xi8>>` with the values in the side file."""

    name = "graph.array"

    @staticmethod
    def of(values: np.ndarray) -> ArrayAttr:
        return ArrayAttr(Array.of(values))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Array:
        with parser.in_angle_brackets():
            digest = parser.parse_optional_str_literal()
            numbers = None
            if digest is None:
                numbers = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_number(parser)
                )
            parser.parse_punctuation(":")
            type_ = parser.parse_type()
        if not isinstance(type_, TensorType):
            parser.raise_error("expected a tensor type")
        type_ = cast(TensorType, type_)
        shape, dtype = type_.get_shape(), _dtype(parser, type_)
        if digest is not None:
            if not (digest.isascii() and digest.isalnum() and len(digest) <= 2 * DIGEST):
                parser.raise_error("expected a digest in hexadecimal digits")
            store = parser.ctx.arrays if isinstance(parser.ctx, ByocirContext) else None
            known = store.get(digest) if store else None
            if known is not None and (known.dtype, known.shape) != (dtype, shape):
                parser.raise_error(f"expected {known.type} for array {digest}, found {type_}")
            return known or Array(digest, dtype, shape)
        if numbers is None or len(numbers) != math.prod(shape):
            parser.raise_error(f"expected {math.prod(shape)} elements, found {len(numbers or [])}")
        return Array.of(np.array(numbers, dtype=dtype).reshape(shape))

    def print_parameter(self, printer: Printer) -> None:
        array = self.data
        with printer.in_angle_brackets():
            if _prints_inline(array):
                flat = array.values().reshape(-1).tolist()
                is_float = isinstance(element_of(array.dtype), AnyFloat)
                texts = (_format_scalar(v) if is_float else str(int(v)) for v in flat)
                printer.print_string(f"[{', '.join(texts)}]")
            else:
                printer.print_string(f'"{array.digest}"')
            printer.print_string(" : ")
            printer.print_attribute(array.type)


def _dtype(parser: AttrParser, type_: TensorType) -> np.dtype:
    try:
        return dtype_of(element_type_of(type_))
    except KeyError:
        parser.raise_error(f"expected a tensor of numbers, found {type_}")


def _parse_number(parser: AttrParser) -> float | int:
    negative = parser.parse_optional_punctuation("-") is not None
    for word, value in (("inf", math.inf), ("nan", math.nan)):
        if parser.parse_optional_keyword(word) is not None:
            return -value if negative else value
    number = parser.parse_number(allow_boolean=False)
    return -number if negative else number


def arrays_of(attributes: Iterator[Attribute]) -> dict[str, Array]:
    """Gives, by digest, those arrays in these attributes that are printed as a digest."""
    found: dict[str, Array] = {}
    for attribute in attributes:
        if isinstance(attribute, ArrayAttr) and not _prints_inline(attribute.data):
            found[attribute.data.digest] = attribute.data
    return found
