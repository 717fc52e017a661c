"""The part of a package's manifest that describes its module, so that nobody has to read that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.byoc import TargetAttr
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_type
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.evaluate.ports import names_of, ports_of
from byocir.patterns.match import python_value
from byocir.patterns.targets import saved_target, targets_of
from byocir.runtime.records import read_as


@dataclass(frozen=True)
class _Target:
    """A target as the manifest names it."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class _Manifest:
    """The part of a manifest that tells of the module: types as MLIR writes them."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    targets: list[_Target]


@dataclass(frozen=True)
class Interface:
    """Names and types of a model's inputs and outputs, in order, and the targets that it was
    compiled for, in order of preference, with their options."""

    inputs: Mapping[str, Attribute]
    outputs: Mapping[str, Attribute]
    targets: list[TargetAttr]

    @staticmethod
    def of(module: ModuleOp) -> Interface:
        """The interface of a module. Raises ByocirError B302 where it has no `@main`, B211 where it
        names no targets."""
        functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
        entry = next((op for op in functions if op.sym_name.data == MAIN), None)
        if entry is None:
            raise ByocirError("B302", f"expected a function @{MAIN}, found none")
        (inputs, outputs), (ins, outs) = names_of(entry), ports_of(entry)
        return Interface(
            dict(zip(inputs, ins, strict=True)),
            dict(zip(outputs, outs, strict=True)),
            targets_of(module),
        )

    @staticmethod
    def read(manifest: Mapping[str, Any]) -> Interface:
        """The interface that `to_dict` wrote. Raises ValueError for what is none, ByocirError B120
        for a type that cannot be read."""
        found = read_as(_Manifest, manifest, "manifest")
        context = load_context()
        texts = dict.fromkeys([*found.inputs.values(), *found.outputs.values()])
        types = {text: parse_type(text, context) for text in texts}
        return Interface(
            {name: types[text] for name, text in found.inputs.items()},
            {name: types[text] for name, text in found.outputs.items()},
            [saved_target(target.name, target.options) for target in found.targets],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "inputs": {name: str(type_) for name, type_ in self.inputs.items()},
            "outputs": {name: str(type_) for name, type_ in self.outputs.items()},
            "targets": [
                {
                    "name": target.target_name.data,
                    "options": {k: python_value(v) for k, v in target.options.data.items()},
                }
                for target in self.targets
            ],
        }
