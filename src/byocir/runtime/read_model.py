"""Reads models as modules: given by the caller, or saved as text with large constants beside it.

| code | what is wrong |
| --- | --- |
| B101 | there is no such file |
| B114 | an argument has no meaning for a module, or for one that is partitioned |
| B120 | the text cannot be read |
| B121 | the text can be read, but an op in it breaks a rule |
| B302 | the module has no function `@main`, functions that call themselves, or regions as code |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CallOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.weights import load_weights, weights_beside
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.files import expect_file, read_whole
from byocir.patterns.target_classes import find_installed
from byocir.patterns.targets import targets_of
from byocir.targets.resolve_targets import Targets, check_options, listed, make_known, operators_of

if TYPE_CHECKING:
    from onnx import ModelProto

TEXT = ".mlir"

_TARGET = re.compile(r'#byoc\.target<"(\w+)"')
"""The targets that the line of a module names, as it is printed."""


def is_saved_module(model: object) -> bool:
    """Tells if a model is given as the path of a module's text."""
    return isinstance(model, str | Path) and Path(model).suffix == TEXT


def read_model(
    model: str | Path | bytes | ModelProto | ModuleOp,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    targets: Targets | None = None,
) -> ModuleOp:
    """Reads the module of an ONNX model, of the file of a module, or a copy of a module.

    `shapes` pins symbolic dimensions of an ONNX model; `targets` are those whose own dialects and
    ONNX operators it may have. Raises ByocirError B101 to B106, B114,
    B120 to B122 or B302.
    """
    operators = operators_of(targets)
    if isinstance(model, ModuleOp):
        module, where = model.clone(), ""
    elif isinstance(model, str | Path) and is_saved_module(model):
        module, where = load_module(model), str(model)
    else:
        from byocir.frontend.onnx import import_onnx

        return import_onnx(model, shapes=shapes, operators=operators)
    if shapes:
        raise _refused("shapes", "a module, whose shapes are known", where)
    _check_functions(module, where)
    return module


def load_module(path: str | Path) -> ModuleOp:
    """Loads the module of a text, with the large constants of the file beside it:
    `weights_beside`."""
    path = Path(path)
    expect_file(path)
    try:
        text = read_whole(path).decode()
    except UnicodeDecodeError as error:
        message = f"expected UTF-8 text: {error.reason}"
        raise ByocirError("B120", message, where=str(path)) from error
    find_installed(_TARGET.findall(text.partition("\n")[0]))
    context = load_context()
    weights = weights_beside(path)
    if weights is not None:
        load_weights(weights, context.arrays)
    return parse_module(text, context, file=str(path))


def take_up(module: ModuleOp, targets: Targets | None, given: Sequence[str]) -> None:
    """Registers the targets that a partitioned module names. Raises ByocirError B114 for a target
    that the module does not name and for arguments `given` that come too late, B210 for a target
    that is not known, B213 for options, which the module has already, and for an instance with
    others.
    """
    what = "a module that is partitioned"
    if given:
        raise _refused(given[0], what)
    saved = targets_of(module)
    known = [attribute.target_name.data for attribute in saved]
    given_targets = [] if targets is None else listed(targets)
    for target in given_targets:
        name = make_known(target, what, "")
        if name not in known:
            raise ByocirError(
                "B114",
                f"expected targets that the module was partitioned for, {', '.join(known)}, "
                f"found {name}",
                help="for another target compile the model itself",
            )
    check_options(given_targets, saved, what, "")


def _refused(name: str, what: str, where: str = "") -> ByocirError:
    return ByocirError(
        "B114",
        f"expected no {name} with {what}, found it",
        where=where,
        help="give it where the model is imported and partitioned",
    )


MOST_CALLS = 10_000
"""The calls of functions that a module may make outside of loops."""


def _check_functions(module: ModuleOp, where: str) -> None:
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    if not any(f.sym_name.data == MAIN and not f.is_declaration for f in functions):
        raise ByocirError("B302", f"expected a function @{MAIN}, found none", where=where)
    _check_calls(functions, where)
    declared = {f.sym_name.data for f in functions if f.is_declaration}
    symbols = {getattr(op.properties.get("sym_name"), "data", "") for op in module.body.block.ops}
    known = symbols - declared  # these include programs that functions have become
    called = dict.fromkeys(o.callee.string_value() for o in module.walk() if isinstance(o, CallOp))
    for symbol in called:
        if symbol not in known:
            raise ByocirError(
                "B302",
                f"expected regions before code generation, found @{symbol} as code",
                where=where,
                help="save the module before: --emit partitioned",
            )


def _check_calls(functions: Sequence[FuncOp], where: str) -> None:
    """Raises ByocirError B302 for functions that call themselves, which no value would end, and for
    more than `MOST_CALLS` calls in a run: 30 functions that call the next one twice make a billion.
    """
    made = {
        f.sym_name.data: Counter(
            c.callee.string_value() for c in f.walk() if isinstance(c, func.CallOp)
        )
        for f in functions
    }
    calls = {name: set(callees) for name, callees in made.items()}
    left = set(calls)
    while left != (inside := {n for n in left if calls[n] & left} & _all(calls, left)):
        left = inside
    if left:
        raise ByocirError(
            "B302",
            f"expected calls that end, found @{min(left)} in a circle of calls",
            where=where,
        )
    count = dict.fromkeys(calls, 0)
    for name in TopologicalSorter(calls).static_order():
        called = made.get(name, Counter[str]())
        found = sum(n * (1 + count.get(callee, 0)) for callee, n in called.items())
        count[name] = min(found, MOST_CALLS + 1)
    if count[MAIN] > MOST_CALLS:
        raise ByocirError(
            "B302",
            f"expected at most {MOST_CALLS:,} calls of functions, found more from @{MAIN}",
            where=where,
            help="a loop repeats work without functions that call others twice",
        )


def _all(calls: Mapping[str, set[str]], callers: set[str]) -> set[str]:
    return set[str]().union(*(calls[name] for name in callers))
