"""Stores modules as members of a package, as text with weights beside it, and reads them back."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, parse_type, print_module
from byocir.dialects.weights import dump_weights, read_weights
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.evaluate.ports import names_of, ports_of
from byocir.patterns.match import python_value
from byocir.patterns.target_classes import find_installed
from byocir.patterns.targets import targets_of
from byocir.runtime.interface import Interface, SavedTarget
from byocir.runtime.package_file import MODULE, WEIGHTS, as_written


def texts_of(module: ModuleOp) -> dict[str, bytes]:
    """Makes the members that hold a module."""
    return {MODULE: print_module(module).encode(), WEIGHTS: dump_weights(module)}


def parsed(texts: Mapping[str, bytes], interface: Interface, where: str) -> ModuleOp:
    """Reads the module that `texts_of` wrote. Raises ByocirError B135 for one with another
    interface, B120 to B122 for texts that cannot be read.
    """
    find_installed(target.name for target in interface.targets)
    context = load_context()
    read_weights(texts[WEIGHTS], context.arrays, where)
    with as_written(where):
        module = parse_module(texts[MODULE].decode(), context)
        if not _is_of(module, interface):
            raise ValueError("a module with another interface than the manifest tells")
    return module


def interface_of(module: ModuleOp) -> Interface:
    """Describes the interface of a module. Raises ByocirError B302 where it has no `@main`, B211
    where it names no targets.
    """
    inputs, outputs = module_types(module)
    return Interface(
        {name: str(type_) for name, type_ in inputs.items()},
        {name: str(type_) for name, type_ in outputs.items()},
        [
            SavedTarget(
                target.target_name.data,
                {k: python_value(v) for k, v in target.options.data.items()},
            )
            for target in targets_of(module)
        ],
    )


def _is_of(module: ModuleOp, interface: Interface) -> bool:
    ports = [attributes_of(each) for each in (interface.inputs, interface.outputs)]
    same_ports = [[*each.items()] for each in ports] == [
        [*each.items()] for each in module_types(module)
    ]
    return same_ports and interface.target_attributes() == targets_of(module)


def module_types(module: ModuleOp) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Gives names and types of the inputs and outputs of `@main`. Raises ByocirError B302 where
    there is none.
    """
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    entry = next((op for op in functions if op.sym_name.data == MAIN), None)
    if entry is None:
        raise ByocirError("B302", f"expected a function @{MAIN}, found none")
    (inputs, outputs), (ins, outs) = names_of(entry), ports_of(entry)
    return dict(zip(inputs, ins, strict=True)), dict(zip(outputs, outs, strict=True))


def attributes_of(texts: Mapping[str, str]) -> dict[str, Attribute]:
    """Converts types by name to MLIR's objects. Raises ByocirError B120 for a text that is no
    type.
    """
    context = load_context()
    known = {text: parse_type(text, context) for text in dict.fromkeys(texts.values())}
    return {name: known[text] for name, text in texts.items()}
