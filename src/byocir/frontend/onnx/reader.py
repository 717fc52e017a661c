"""Shows an entry of the op table the ONNX node that it imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.graph import ConstantOp, GraphOp
from byocir.dialects.graph.base import PropertyValue
from byocir.dialects.locations import named
from byocir.dialects.types import Shape, shape_of
from byocir.frontend.onnx.tensors import Unsupported

Value = SSAValue | Array
"""The thing behind an ONNX name: a value of the program, or an array known at import."""


@dataclass
class NodeReader:
    """Reads one ONNX node: its inputs and attributes by name, and `emit` for the ops it becomes.

    A node must not have what the entry does not read: `check_all_read` refuses attributes and
    inputs whose meaning would be lost.
    """

    node: onnx.NodeProto
    sources: Sequence[Value | None]
    insert: Callable[[Operation], None]
    emitted: list[Operation] = field(default_factory=list[Operation])

    def __post_init__(self) -> None:
        self._attributes: dict[str, Any] = {
            a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute
        }
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()

    # -- inputs

    def source(self, index: int) -> Value | None:
        """Gives input `index` as it is; None if it is absent."""
        self._read_inputs.add(index)
        return self.sources[index] if index < len(self.sources) else None

    def optional(self, index: int) -> SSAValue | None:
        """Gives input `index` as a value of the program; None if it is absent."""
        source = self.source(index)
        return self.constant(source) if isinstance(source, Array) else source

    def operand(self, index: int) -> SSAValue:
        """Gives input `index` as a value of the program; raises Unsupported if it is absent."""
        value = self.optional(index)
        if value is None:
            raise Unsupported(f"expected input {index}, found none")
        return value

    def known(self, index: int) -> np.ndarray | None:
        """Reads the values of input `index`, which must be known at import; None if it is
        absent.
        """
        source = self.source(index)
        if source is None:
            return None
        if not isinstance(source, Array):
            raise Unsupported(
                f"expected input {index} ({self.node.input[index]}) to be a constant, found a "
                "computed value"
            )
        return source.values()

    def shape(self, index: int) -> Shape:
        """Gives the shape of input `index`."""
        source = self.source(index)
        if source is None:
            raise Unsupported(f"expected input {index}, found none")
        return source.shape if isinstance(source, Array) else shape_of(source.type)

    @property
    def rank(self) -> int:
        """Gives the rank of the first input."""
        return len(self.shape(0))

    # -- attributes

    def attribute(self, name: str, default: Any) -> Any:
        """Reads an attribute in onnx's form (strings are bytes), or gives the default."""
        self._read_attributes.add(name)
        return self._attributes.get(name, default)

    def integer(self, name: str, default: int) -> int:
        """Reads an attribute that holds an integer."""
        return int(self.attribute(name, default))

    def number(self, name: str, default: float) -> float:
        """Reads an attribute that holds a number."""
        return float(self.attribute(name, default))

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """Reads an attribute that holds integers."""
        return [int(value) for value in self.attribute(name, default)]

    def text(self, name: str, default: str) -> str:
        """Reads an attribute that holds a string."""
        return self.attribute(name, default.encode()).decode()

    def ignore(self, *names: str) -> None:
        """Allows these attributes, which have no effect on the values."""
        self._read_attributes.update(names)

    def check_all_read(self) -> None:
        """Raises Unsupported for attributes and inputs that the entry did not read."""
        for name in self._attributes:
            if name not in self._read_attributes:
                raise Unsupported(f"expected no attribute {name}, found {self._attributes[name]!r}")
        for index, source in enumerate(self.sources):
            if source is not None and index not in self._read_inputs:
                raise Unsupported(
                    f"expected no input {index}, found {self.node.input[index] or 'a value'}"
                )

    # -- results

    @property
    def location(self) -> LocationAttr:
        return named(self.node.name)

    def emit(
        self,
        op: type[GraphOp],
        *operands: SSAValue | None,
        **properties: PropertyValue,
    ) -> SSAValue:
        """Emits an op of this class, located at the node, and gives its only result."""
        (result,) = self.emit_all(op, *operands, **properties)
        return result

    def emit_all(
        self,
        op: type[GraphOp],
        *operands: SSAValue | None,
        **properties: PropertyValue,
    ) -> Sequence[SSAValue]:
        """Emits an op of this class, located at the node, and gives its results."""
        new = op.make(*operands, location=self.location, **properties)
        self.insert(new)
        self.emitted.append(new)
        return new.results

    def constant(self, values: np.ndarray | Array) -> SSAValue:
        """Makes a constant of the program, located at the node that uses it."""
        new = ConstantOp.of(values, self.location)
        self.insert(new)
        return new.result
