"""A node as it is drawn, after its schema: types, operands and attributes.

Whatever the schema tells is taken from there: which inputs there are and of which types, which
attributes and their defaults. A rule (`onnx_fuzz.rules`) says what a schema cannot: how
shapes fit each other, and which values mean something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import defs, helper

from onnx_fuzz.cases import Case, Value, element_of
from onnx_fuzz.draws import Draws, Unfit
from onnx_fuzz.kinds import STEPPING
from onnx_fuzz.reference import is_float

Formal = defs.OpSchema.FormalParameter
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic

OPEN = 0.12
"""The share of numbers that say what is done, as axes do, that are inputs instead of constants."""


class Draft:
    """A node of a case as it is drawn. Operands that were taken are known by the schema's names."""

    def __init__(self, case: Case, schema: defs.OpSchema, draws: Draws) -> None:
        self.case, self.schema, self.draws = case, schema, draws
        self.attributes: dict[str, Any] = {}
        self.left_out: set[str] = set()
        self.outputs = schema.min_output
        self._bound: dict[str, np.dtype] = {}
        self._operands: dict[str, list[str]] = {}
        self.added: list[str] = []
        self.steps = schema.name in STEPPING

    # What the schema has.

    def has_input(self, name: str) -> bool:
        return any(each.name == name for each in self.schema.inputs)

    def has(self, name: str) -> bool:
        """Tells whether there is such an attribute, at this opset."""
        return name in self.schema.attributes

    def formal(self, name: str) -> Formal:
        return next(each for each in self.schema.inputs if each.name == name)

    def allowed(self, name: str) -> list[np.dtype]:
        """Gives the element types that an input may have."""
        dtypes = [
            dtype
            for each in sorted(self.formal(name).types)
            if (dtype := dtype_of(each)) is not None
        ]
        if not dtypes:
            raise Unfit
        return dtypes

    def bind(self, name: str, *kinds: str) -> np.dtype:
        """Gives the element type of an input: drawn, of these kinds if any are given, once for all
        inputs whose types are tied."""
        key = self.formal(name).type_str
        if key not in self._bound:
            dtypes = [d for d in self.allowed(name) if not kinds or kind_of(d) in kinds]
            if not dtypes:
                raise Unfit
            self._bound[key] = self.draws.dtype(dtypes)
        return self._bound[key]

    # Operands.

    def take(
        self,
        name: str,
        rank: tuple[int, int] = (0, 5),
        shape: Sequence[int] | None = None,
        low: float | None = None,
        high: float | None = None,
        kinds: Sequence[str] = (),
        fresh: bool = False,
    ) -> np.ndarray:
        """Gives an operand: a value that the graph has, or a new one; of a rank between two or of a
        shape. With bounds for its numbers it is new."""
        if not fresh and low is None and high is None and self.draws.chance(0.75):
            found = self._existing(name, rank, shape, kinds)
            if found:
                chosen = self.draws.one(found)
                self._bound[self.formal(name).type_str] = self.case.values[chosen].dtype
                self._operands.setdefault(name, []).append(chosen)
                return self.case.values[chosen].data
        dtype = self.bind(name, *kinds)
        if shape is None:
            shape = self.draws.shape(*rank)
        return self.put(name, self.draws.array(dtype, shape, low, high))

    def _existing(
        self, name: str, rank: tuple[int, int], shape: Sequence[int] | None, kinds: Sequence[str]
    ) -> list[str]:
        bound = self._bound.get(self.formal(name).type_str)
        allowed = [bound] if bound is not None else self.allowed(name)
        return [
            key
            for key, value in self.case.values.items()
            if not value.is_sequence
            and value.dtype in allowed
            and (not kinds or kind_of(value.dtype) in kinds)
            and (value.is_exact or (is_float(value.dtype) and not self.steps))
            and (
                rank[0] <= value.data.ndim <= rank[1]
                if shape is None
                else value.data.shape == tuple(shape)
            )
        ]

    def put(self, name: str, array: Any, constant: float = 0.4) -> Any:
        """Gives a new operand, which is a constant of the model this often, else an input."""
        is_sequence = isinstance(array, list)
        data: Any = cast(Any, array) if is_sequence else np.asarray(array)
        dtype: np.dtype = (data[0] if is_sequence else data).dtype
        if self.has_input(name):
            self._bound.setdefault(self.formal(name).type_str, dtype)
        self.use(name, self._hold(data, dtype, not is_sequence and self.maybe(constant)))
        return data

    def hold(self, array: np.ndarray, constant: float = 0.4) -> str:
        """Gives a new value beside the operands, for the graphs that a node holds; gives its
        name."""
        return self._hold(array, array.dtype, self.maybe(constant))

    def _hold(self, data: Any, dtype: np.dtype, is_constant: bool) -> str:
        held = self.case.constants if is_constant else self.case.given
        key = f"{'c' if is_constant else 'x'}{len(self.case.constants) + len(self.case.given)}"
        held[key] = Value(data, dtype)
        self.added.append(key)
        return key

    def has_operand(self, name: str) -> bool:
        return name in self._operands

    def operand(self, name: str) -> str:
        """Gives the name of the value that was taken last."""
        return self._operands[name][-1]

    def use(self, name: str, key: str) -> None:
        """Takes a value of the graph by its name."""
        self._operands.setdefault(name, []).append(key)

    def say(self, name: str, numbers: Any, dtype: Any = np.int64) -> None:
        """Adds numbers that say what is done, as axes do: an input or an attribute, as this opset
        has it."""
        if self.has_input(name):
            allowed = self.allowed(name)
            dtype = np.dtype(dtype) if np.dtype(dtype) in allowed else self.bind(name)
            self.put(name, np.asarray(numbers, dtype), 0.0 if self.draws.chance(OPEN) else 1.0)
        elif self.has(name):
            self.attributes[name] = numbers
        else:
            raise Unfit

    def maybe(self, chance: float = 0.5) -> bool:
        return self.draws.chance(chance)

    # Attributes.

    def attr(self, name: str, value: Any, default: Any = None) -> Any:
        """Sets an attribute, or leaves it out for its default; gives which it is. One that this
        opset does not have is its default."""
        required = self.has(name) and self.schema.attributes[name].required
        if not self.has(name) or (default is not None and not required and self.maybe(0.35)):
            self.left_out.add(name)
            return default
        self.attributes[name] = value
        return value

    def axis(self, rank: int, name: str = "axis", beyond: int = 0) -> int:
        """Sets an axis of either sign; gives it, from the front."""
        if rank + beyond < 1:
            raise Unfit
        given = self.draws.upto(rank - 1 + beyond, -rank - beyond)
        default = None
        if self.has(name):
            proto = self.schema.attributes[name].default_value
            default = proto.i if proto.type != onnx.AttributeProto.UNDEFINED else None
        if default is not None and not -rank - beyond <= default < rank + beyond:
            default = None
        chosen = self.attr(name, given, default)
        chosen = given if chosen is None else chosen
        return chosen + rank + beyond if chosen < 0 else chosen

    # The node.

    def node(self) -> onnx.NodeProto:
        """Gives the node; what its rule did not say is drawn by the schema."""
        self._fill_attributes()
        count = len(self.case.nodes)
        outputs = [f"v{count}_{i}" if i < self.outputs else "" for i in range(self.outputs)]
        node = helper.make_node(
            self.schema.name, self._names(), outputs, f"n{count}", domain=self.schema.domain
        )
        for name, value in self.attributes.items():
            kind = self.schema.attributes[name].type
            node.attribute.append(helper.make_attribute(name, value, attr_type=int(kind)))  # pyrefly: ignore[bad-argument-type]
        return node

    def _names(self) -> list[str]:
        names: list[str] = []
        for each in self.schema.inputs:
            taken = self._operands.get(each.name, [])
            names += taken if each.option == VARIADIC else (taken or [""])
        while names and not names[-1]:
            names.pop()
        return names

    def _fill_attributes(self) -> None:
        for name, attribute in self.schema.attributes.items():
            if name in self.attributes or name in self.left_out:
                continue
            value = drawn_attribute(self, attribute)
            if value is not None:
                self.attributes[name] = value


def drawn_attribute(draft: Draft, attribute: defs.OpSchema.Attribute) -> Any:
    """Gives a value for an attribute that no rule speaks of; None to leave it out."""
    if not attribute.required and draft.maybe(0.3):
        return None
    kind, draws = attribute.type, draft.draws
    if kind == defs.OpSchema.AttrType.FLOAT:
        return draws.one([0.1, 0.5, 0.75, 1.0, 1.25, 2.0])
    if kind == defs.OpSchema.AttrType.INT and attribute.default_value.i in (0, 1):
        return draws.upto(1, 0)
    raise NotImplementedError(f"{draft.schema.name}: nothing says what {attribute.name} may be")


def dtype_of(text: str) -> np.dtype | None:
    """Gives the dtype of a type as schemas write it: tensor(float); None for what is no tensor."""
    if not text.startswith("tensor("):
        return None
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    kind = onnx.TensorProto.DataType.Value(name)
    if kind == onnx.TensorProto.STRING:
        return np.dtype(object)
    return np.dtype(helper.tensor_dtype_to_np_dtype(kind))


def kind_of(dtype: np.dtype) -> str:
    """f, i, u, b, s for strings, c for complex."""
    if is_float(dtype):
        return "f"
    if dtype.name.startswith(("int", "uint")):
        return dtype.name[0]
    return {"O": "s"}.get(dtype.kind, dtype.kind)


__all__ = ["Draft", "Unfit", "dtype_of", "element_of", "kind_of"]
