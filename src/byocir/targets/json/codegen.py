"""Writes region functions as JSON: typed, versioned, and with the same bytes for the same module.

`program.json` holds every function of a target as numbered values and steps over them, as
`program.schema.json` describes it; `constants.safetensors` holds all arrays by digest, each once.
No number of a weight is in the JSON.

| code | what is wrong |
| --- | --- |
| B360 | a function holds what has no form in JSON |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.arg_spec import ArgSpec

from byocir.dialects.array import Array
from byocir.dialects.byoc import CompositeOp, YieldOp, stored
from byocir.dialects.graph import ConstantOp, GraphOp
from byocir.dialects.locations import names
from byocir.dialects.types import Shape, element_of, element_type_of, shape_of
from byocir.dialects.weights import dump_arrays
from byocir.errors import ByocirError
from byocir.targets.json.attributes import attribute_to_json

FORMAT, VERSION = "byocir-json", 1
PROGRAM, CONSTANTS = "program.json", "constants.safetensors"

LINE_LENGTH = 100

Json = dict[str, Any]


def json_blobs(module: ModuleOp, symbols: Sequence[str], target: ArgSpec) -> dict[str, bytes]:
    """Writes the functions of these names as two blobs, `program.json` and `constants.safetensors`.

    `target` is the target with all its options, for the record. Raises ByocirError B360 for a
    function that holds other than graph ops, B107 for a constant whose values are absent.
    """
    constants: dict[str, Array] = {}
    functions = {
        op.sym_name.data: op
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.sym_name.data in symbols
    }
    program = {
        "format": FORMAT,
        "version": VERSION,
        "target": {
            "name": target.name,
            "options": {name: list(values) for name, values in target.parameters.items()},
        },
        "functions": [_Function(functions[s], constants).to_json() for s in symbols],
        "constants": {d: _typed(a.shape, element_of(a.dtype)) for d, a in constants.items()},
    }
    for array in constants.values():
        array.values()  # raises for absent numbers, with their digest
    return {PROGRAM: f"{_text(program)}\n".encode(), CONSTANTS: dump_arrays(constants)}


def _text(data: Any, indent: str = "") -> str:
    """Writes JSON that people can read, too: what fits into a line is on one line."""
    line = json.dumps(data, sort_keys=True, allow_nan=False)
    if len(indent) + len(line) <= LINE_LENGTH or not isinstance(data, (dict, list)):
        return line
    deeper = f"{indent} "
    if isinstance(data, list):
        parts = [_text(part, deeper) for part in cast("list[Any]", data)]
    else:
        items = sorted(cast(Json, data).items())
        parts = [f"{json.dumps(key)}: {_text(value, deeper)}" for key, value in items]
    begin, end = "[]" if isinstance(data, list) else "{}"
    return f"{begin}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{end}"


def _typed(shape: Shape, element: Attribute) -> Json:
    return {"shape": list(shape), "type": str(element)}


class _Function:
    """Numbers the values of one function and writes its steps."""

    def __init__(self, function: FuncOp, constants: dict[str, Array]) -> None:
        self.function = function
        self.constants = constants
        self.values: list[Json] = []
        self._numbers: dict[SSAValue, int] = {}
        self._known: dict[str, int] = {}

    def to_json(self) -> Json:
        body = self.function.body.block
        inputs = [self._define(arg) for arg in body.args]
        steps = self._steps(body)
        last = body.last_op
        assert isinstance(last, ReturnOp)
        return {
            "symbol": self.function.sym_name.data,
            "inputs": inputs,
            "outputs": self._of(last.operands),
            "values": self.values,
            "steps": steps,
        }

    def _define(
        self,
        value: SSAValue,
        constant: Mapping[str, str] | None = None,
        stored_as: Attribute | None = None,
    ) -> int:
        type_ = stored_as or value.type
        if type_.name != TensorType.name:
            raise self._refused(f"expected tensors, found a value of type {type_}")
        typed = _typed(shape_of(type_), element_type_of(type_))
        self._numbers[value] = len(self.values)
        self.values.append({**typed, **(constant or {})})
        return self._numbers[value]

    def _of(self, values: Iterable[SSAValue]) -> list[int]:
        return [self._numbers[value] for value in values]

    def _steps(self, block: Block) -> list[Json]:
        steps: list[Json] = []
        for op in block.ops:
            if isinstance(op, ConstantOp):
                self._constant(op)
            elif isinstance(op, CompositeOp):
                steps.append(self._composite(op))
            elif isinstance(op, GraphOp) and not op.regions:
                steps.append(self._op(op))
            elif not isinstance(op, ReturnOp | YieldOp):
                raise self._refused(f"expected graph ops, found {op.name}", op)
        return steps

    def _constant(self, op: ConstantOp) -> None:
        array = stored(op)
        self.constants[array.digest] = array
        if array.digest not in self._known:
            constant = {"constant": array.digest}
            self._known[array.digest] = self._define(op.result, constant, array.type)
        self._numbers[op.result] = self._known[array.digest]

    def _composite(self, op: CompositeOp) -> Json:
        body = op.body.block
        inputs = self._of(op.inputs)
        self._numbers.update(zip(body.args, inputs, strict=True))
        steps = self._steps(body)
        last = body.last_op
        assert isinstance(last, YieldOp)
        outputs = self._of(last.values)
        self._numbers.update(zip(op.outputs, outputs, strict=True))
        own = {o.result for o in body.ops if isinstance(o, ConstantOp)}
        captured = self._of(v for o in body.ops for v in o.operands if v in own)
        return {
            "composite": op.pattern.data,
            "level": op.level.data,
            "nodes": list(names(op.location)),
            "inputs": inputs,
            "constants": list(dict.fromkeys(captured)),
            "outputs": outputs,
            "steps": steps,
        }

    def _op(self, op: GraphOp) -> Json:
        attributes: Json = {}
        for name, attribute in sorted(op.properties.items()):
            try:
                attributes[name] = attribute_to_json(attribute, self.constants)
            except TypeError as error:
                raise self._refused(
                    f"expected attributes that JSON can hold, found {name} = {error}", op
                ) from error
        inputs = self._of(op.operands)
        return {
            "op": op.name,
            "nodes": list(names(op.location)),
            "inputs": inputs,
            "outputs": [self._define(result) for result in op.results],
            "attributes": attributes,
        }

    def _refused(self, message: str, op: Operation | None = None) -> ByocirError:
        symbol = self.function.sym_name.data
        nodes = ", ".join(names(op.location)) if op is not None else ""
        return ByocirError(
            "B360",
            f"{message} in function @{symbol}",
            where=nodes or f"@{symbol}",
            help='JSON is made of the graph level: codegen_level = "graph", levels = graph',
        )
