"""The base of all graph ops infers types, from which building and verifying follow."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.checks import expect
from byocir.dialects.graph.open_sizes import Dims, Mask, broadcast_dims, is_open
from byocir.dialects.locations import names, place
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import (
    Shape,
    element_type_of,
    f32,
    has_element,
    i1,
    is_float,
    is_integer,
    listed,
    shape_of,
    static_shape,
    too_deep,
    ui8,
    ui16,
    ui32,
    ui64,
)
from byocir.errors import ByocirError
from byocir.memory import expect_memory

INT = IntegerAttr.constr(i64)
"""A property that holds one 64-bit integer, e.g. `group = 1 : i64`."""

INTS = DenseArrayBase.constr(i64)
"""A property that holds 64-bit integers, e.g. `strides = array<i64: 1, 1>`."""


FLOAT = FloatAttr.constr(EqAttrConstraint(f32))
"""A property that holds one number, as ONNX's float attributes do, e.g. `alpha = 0.01 : f32`."""

PropertyValue = Attribute | int | float | str | Sequence[int]
"""The Python values that properties can be made from; see `attribute_of`."""


_MethodT = TypeVar("_MethodT", bound=Callable[..., Any])

Lowered = SSAValue | Sequence[SSAValue]
"""An op's only result, or all its results."""


class Way(StrEnum):
    """Names the form that an op is lowered to."""

    BLOCKS = "blocks"
    """Blocks, one after the other."""
    LOOP = "for"
    """A loop that carries values, with blocks inside and around."""
    EXTERN = "extern"
    """A call of a routine of the runtime's C sources."""


_LACKING: set[object] = set()
"""The methods that stand for parts of a definition that a class lacks."""


def may_lack(method: _MethodT) -> _MethodT:
    """Marks a method of a base class that an op must override to have a definition."""
    _LACKING.add(method)
    return method


class GraphOp(IRDLOperation):
    """Defines what the operators on ranked tensors share.

    A subclass is a table: docstring with one line of MLIR, typed fields, `infer` and
    `define`. Properties follow ONNX's names and meanings in normalised form: what ONNX passes as
    constant inputs (axes, pads, clip bounds) is a property, defaults are written out, `auto_pad`
    is gone.
    """

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @abstractmethod
    def infer(self) -> Sequence[TensorType]:
        """Gives the result types, from operands and properties; raises VerifyException, one
        sentence, when they do not fit each other."""

    WAY: ClassVar[Way] = Way.BLOCKS
    """The form that `define` gives to the op."""

    @may_lack
    def define(self, emit: Emitter) -> Lowered:
        """Emits what computes the results, at the tensor level, and returns them: the definition
        of the op. It may look at the op's attributes, at the types of its operands and results, and
        at operands that are constants: ops that agree in these get copies of one definition. An op
        of a user's dialect may lack one; it then stays at the graph level."""
        raise undefined(self, "it has no definition")

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        """Gives the sizes of the results in a run from those of the operands, some of which only
        the run tells. None, the default, for ops whose results on the largest shape are not those
        on the smaller one, padded.
        """
        return None

    def masks(self) -> Sequence[Mask]:
        """Lists the operands whose elements must be a certain number beside the array, where only a
        run tells its sizes and the largest is computed with.
        """
        return ()

    @classmethod
    def make(
        cls,
        *operands: SSAValue | None,
        location: LocationAttr | None = None,
        **properties: PropertyValue,
    ) -> Self:
        """Makes an op with inferred result types. Properties may be given as plain numbers, strings
        and sequences of integers; a trailing optional operand may be None. Raises VerifyException.
        """
        definition = cls.get_irdl_definition().properties
        defaults = {
            name: prop.default_value for name, prop in definition.items() if prop.default_value
        }
        draft = cls.create(
            operands=[v for v in operands if v is not None],
            result_types=[],
            properties=defaults | {name: attribute_of(v) for name, v in properties.items()},
            location=location,
        )
        try:
            types = draft.infer()
            deep = next((found for type_ in types if (found := too_deep(type_))), "")
            expect(not deep, deep)
            return cls.create(
                operands=list(draft.operands),
                result_types=list(types),
                properties=draft.properties,
                location=location,
            )
        finally:
            draft.erase(safe_erase=False)  # else the operands would still list it as a user

    def is_exact(self) -> bool:
        """Tells if the operands fix every bit of the results, whatever computes them. That is not
        so where the order of float additions matters, or a library's exponential.
        """
        return False

    def macs(self) -> int:
        """Counts the multiply-accumulates, those on padding included; 0 for ops that are no
        contraction."""
        return 0

    def ask_for(self, shape: Sequence[int], dtype: np.dtype) -> None:
        """Raises ByocirError B140 if an array of this shape, which computing the op needs, would
        take too much memory.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        expect_memory(nbytes, f"what {self.name} works on", place(self.location))

    def expect_core(self) -> None:
        """Raises VerifyException for an operand with an element type that can be held, but not
        computed with.
        """
        held = [v.type for v in self.operands if not has_element(element_type_of(v.type))]
        expect(not held, f"expected operands of core element types, found {listed(held[:1])}")

    def expect_static(self) -> None:
        """Raises VerifyException for an operand or a result with a size that is open."""
        values = (*self.operands, *self.results)
        open_ = [v.type for v in values if static_shape(v.type) is None]
        expect(not open_, lambda: f"expected static shapes, found {open_[0]}")

    def verify_(self) -> None:
        self.expect_static()
        self.expect_core()
        found = [result.type for result in self.results]
        expected = list(self.infer())
        if found != expected:
            raise VerifyException(
                f"expected result type {listed(expected)} to match operands, found {listed(found)}"
            )


class OneInputOp(GraphOp):
    """Defines what ops share that make one tensor of one, and whose other settings are
    properties."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"


@cache
def is_defined(kind: type[Operation]) -> bool:
    """Tells if ops of a class are graph ops with a definition of which no part is left to a
    subclass.
    """
    if not issubclass(kind, GraphOp):
        return False
    owner = next(base for base in kind.__mro__ if "define" in vars(base))
    parts = {getattr(kind, name) for name in ("define", "body") if name in vars(owner)}
    return parts.isdisjoint(_LACKING)


def macs(op: Operation) -> int:
    """Counts the multiply-accumulates of a graph op, those on padding, too; 0 for other ops."""
    return op.macs() if isinstance(op, GraphOp) else 0


def undefined(op: Operation, reason: str) -> ByocirError:
    """Makes the error for an op that has no form at the tensor level."""
    return ByocirError(
        "B305",
        f"expected an op with a tensor-level form, found {op.name}: {reason}",
        where=", ".join(names(op.location)),
        help="give it to a target that takes it at graph level",
    )


class Exact:
    """Marks ops whose operands fix every bit of the results. Put before `GraphOp`."""

    def is_exact(self) -> bool:
        return True


class ExactOnIntegers:
    """Marks ops that are exact on integers but add floats in some order. Put before `GraphOp`."""

    def is_exact(self) -> bool:
        assert isinstance(self, GraphOp)
        return all(is_integer(element_type_of(result.type)) for result in self.results)


class KeepsShape:
    """Marks ops whose result is as large as the first operand in every run. Put before
    `GraphOp`.
    """

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        return [dims[0]]


class Broadcasts:
    """Marks ops whose result has the shape to which all operands broadcast. Put before
    `GraphOp`.
    """

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        joined = broadcast_dims(*dims)
        return None if joined is None else [joined]


class ByBatch:
    """Marks ops that compute each element of the first dimension by itself. Put before
    `GraphOp`.
    """

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        assert isinstance(self, GraphOp)
        first, *others = dims
        if is_open([*first[1:], *(dim for each in others for dim in each)]):
            return None
        return [(first[0], *shape_of(result.type)[1:]) for result in self.results]


def attribute_of(value: PropertyValue) -> Attribute:
    """Converts a property to an attribute: integers become i64, floats f32, sequences i64
    arrays.
    """
    match value:
        case Attribute():
            return value
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f32)
        case str():
            return StringAttr(value)
        case _:
            return ints(value)


def number_of(attribute: FloatAttr) -> float:
    """Gives the value of an attribute `… : f32`."""
    return attribute.value.data


def ints(values: Sequence[int]) -> DenseArrayBase[I64]:
    """Makes the attribute `array<i64: …>`."""
    return DenseArrayBase.from_list(i64, list(values))


def int_tuple(attribute: DenseArrayBase[I64]) -> tuple[int, ...]:
    """Gives the values of an attribute `array<i64: …>`."""
    return attribute.get_values()


def is_number(element: Attribute) -> bool:
    """Tells if arithmetic is defined on this element type: floats and integers, not bool."""
    return is_float(element) or (isinstance(element, IntegerType) and element != i1)


def is_signed(element: Attribute) -> bool:
    """Tells if this element type has negative numbers."""
    return is_number(element) and element not in (ui8, ui16, ui32, ui64)


def expect_float(value: SSAValue) -> Attribute:
    """Gives the element type of a tensor of floats; raises VerifyException for another one."""
    element = element_type_of(value.type)
    expect(is_float(element), lambda: f"expected a floating-point tensor, found {value.type}")
    return element


def expect_flag(name: str, value: IntegerAttr) -> int:
    """Requires a property to be 0 or 1; raises VerifyException for another number."""
    flag = value.value.data
    expect(flag in (0, 1), f"expected {name} 0 or 1, found {flag}")
    return flag


def expect_axis(axis: int, rank: int) -> None:
    """Raises VerifyException unless this is a dimension, counted from the front."""
    expect(0 <= axis < rank, f"expected axis from 0 to {rank - 1}, found {axis}")


def expect_axes(axes: Sequence[int], rank: int) -> None:
    """Raises VerifyException unless these are dimensions, each once, in rising order."""
    expect(
        bool(axes) and list(axes) == sorted(set(axes)) and axes[0] >= 0 and axes[-1] < rank,
        f"expected rising axes from 0 to {rank - 1}, found {list(axes)}",
    )


def broadcast(*shapes: Shape) -> Shape:
    """Gives the shape that these broadcast to, as numpy and ONNX define it; raises
    VerifyException."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        found = " and ".join(map(dims, shapes))
        expect(len(wanted) <= 1, f"expected shapes that broadcast, found {found}")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def shapes(values: Sequence[SSAValue]) -> list[Shape]:
    """Gives the shapes of these tensors."""
    return [shape_of(value.type) for value in values]


def dims(shape: Sequence[int]) -> str:
    """Writes a shape as messages do, e.g. `1x3x8x8`."""
    return "x".join(map(str, shape)) or "scalar"
