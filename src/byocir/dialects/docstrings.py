"""Reads what the docstrings of op classes say: the meaning of an op, its fields, and an example.

The example follows "e.g.", in backquotes or in a fence of three, and is whole: it parses and
verifies once the names that it leaves open are arguments. References and tests read it there.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from types import ModuleType

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser

from byocir.dialects.traits import is_terminator

_EXAMPLE = re.compile(
    r",?\s+e\.g\.\s+(?:```mlir\n(?P<fenced>.*?)```|`(?P<inline>[^`]*)`)", re.DOTALL
)
"""Matches the example of a docstring with the words that lead to it."""


def meaning_of(kind: type[Operation]) -> str:
    """Gives the paragraphs that tell what an op means, without its example."""
    text = cleandoc(kind.__doc__ or "")
    return _EXAMPLE.sub(lambda found: "." if found["fenced"] else "", text, count=1).strip()


def example_of(kind: type[Operation]) -> str:
    """Gives the example of an op; empty if its docstring has none."""
    found = _EXAMPLE.search(cleandoc(kind.__doc__ or ""))
    if found is None:
        return ""
    return found["fenced"].rstrip() if found["fenced"] else " ".join(found["inline"].split())


def module_of_example(text: str, context: Context) -> ModuleOp:
    """Parses and verifies an example. Gives a module with one function of its ops: names that it
    leaves open are the arguments, and what the last op gives is returned. Raises ParseError or
    VerifyException."""
    parser = Parser(context, text)
    block = Block()
    while (op := parser.parse_optional_operation()) is not None:
        block.add_op(op)
    for name, values in parser.forward_ssa_references.items():
        for value in values.values():
            argument = block.insert_arg(value.type, len(block.args))
            argument.name_hint = name
            value.replace_all_uses_with(argument)
    last = block.last_op
    results = list[SSAValue]([] if last is None else last.results)
    if last is None or not is_terminator(last):
        block.add_op(ReturnOp(*results))
    type_ = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    module = ModuleOp([FuncOp("main", type_, Region(block))])
    module.verify()
    return module


def fields_of(kind: type) -> dict[str, str]:
    """Gives the sentences below the fields of a class, by name; those of its bases, too."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("byocir."):
            found.update(_by_class(sys.modules[each.__module__]).get(each.__name__, {}))
    return found


def fields_of_module(module: ModuleType) -> dict[str, str]:
    """Gives the sentences below the names that a module defines, other than functions and
    classes.
    """
    return _field_docs(ast.parse(getsource(module)).body)


@cache
def _by_class(module: ModuleType) -> dict[str, dict[str, str]]:
    body = ast.parse(getsource(module)).body
    return {each.name: _field_docs(each.body) for each in body if isinstance(each, ast.ClassDef)}


def _field_docs(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, text in pairwise(body):
        target = field.target if isinstance(field, ast.AnnAssign) else None
        if isinstance(field, ast.Assign):
            target = field.targets[0]
        told = text.value if isinstance(text, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(told, ast.Constant):
            found[target.id] = " ".join(str(told.value).split())
    return found
