"""Models as modules: given by the caller, or saved as text with large constants beside it.

| code | what is wrong |
| --- | --- |
| B101 | there is no such file |
| B114 | an argument has no meaning for a module, or for one that is partitioned |
| B120 | the text cannot be read |
| B121 | the text can be read, but an op in it breaks a rule |
| B302 | the module has no function `@main`, or its regions are code already |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import TARGET, TARGETS, CallOp, TargetAttr
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.weights import SUFFIX, load_weights
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.patterns.targets import targets_of
from byocir.targets.base import Target
from byocir.targets.given import Targets, make_known

if TYPE_CHECKING:
    from onnx import ModelProto

TEXT = ".mlir"


def is_saved_module(model: object) -> bool:
    """Whether a model is given as the path of a module's text."""
    return isinstance(model, str | Path) and Path(model).suffix == TEXT


def read_model(
    model: str | Path | bytes | ModelProto | ModuleOp,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> ModuleOp:
    """The module of an ONNX model, of the file of a module, or a copy of a module.

    `shapes` pins symbolic dimensions of an ONNX model. Raises ByocirError B101 to B106, B114,
    B120 to B122 or B302.
    """
    if isinstance(model, ModuleOp):
        module, where = model.clone(), ""
    elif isinstance(model, str | Path) and is_saved_module(model):
        module, where = load_module(model), str(model)
    else:
        from byocir.frontend.onnx import import_onnx

        return import_onnx(model, shapes=shapes)
    if shapes:
        raise _refused("shapes", "a module, whose shapes are known", where)
    _check_functions(module, where)
    return module


def load_module(path: str | Path) -> ModuleOp:
    """The module of a text, with the large constants of the `.safetensors` file beside it."""
    path = Path(path)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "none"
        raise ByocirError("B101", f"expected a file, found {found}", where=str(path))
    context = load_context()
    weights = path.with_suffix(SUFFIX)
    if weights.is_file():
        load_weights(weights, context.arrays)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"expected UTF-8 text: {error.reason}"
        raise ByocirError("B120", message, where=str(path)) from error
    return parse_module(text, context, file=str(path))


def is_handed_over(module: ModuleOp) -> bool:
    """Whether a module was partitioned: it names targets, and its work went to them, or is at the
    tensor level, where what is left goes to the host."""
    return TARGETS in module.attributes and any(
        isinstance(op, CallOp) or op.name.startswith("tir.") for op in module.walk()
    )


def take_up(module: ModuleOp, targets: Targets | None, given: Mapping[str, object]) -> None:
    """Makes the targets known that a partitioned module names; raises ByocirError B114 for a target
    that it does not name and for arguments `given` that come too late, B210 for a target that
    nobody knows, B213 for options, which the module has."""
    what = "a module that is partitioned"
    for name, value in given.items():
        if value:
            raise _refused(name, what)
    known = [attribute.target_name.data for attribute in targets_of(module)]
    for target in [targets] if isinstance(targets, str | Target) else targets or ():
        name = make_known(target, what, "")
        if name not in known:
            raise ByocirError(
                "B114",
                f"expected targets that the module was partitioned for, {', '.join(known)}, "
                f"found {name}",
                help="for another target compile the model itself",
            )


def _refused(name: str, what: str, where: str = "") -> ByocirError:
    return ByocirError(
        "B114",
        f"expected no {name} with {what}, found it",
        where=where,
        help="give it where the model is imported and partitioned",
    )


def _check_functions(module: ModuleOp, where: str) -> None:
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    if not any(f.sym_name.data == MAIN and not f.is_declaration for f in functions):
        raise ByocirError("B302", f"expected a function @{MAIN}, found none", where=where)
    for function in functions:
        target = function.attributes.get(TARGET)
        if isinstance(target, TargetAttr) and _is_code(function, target.target_name.data):
            raise ByocirError(
                "B302",
                f"expected regions before code generation, found @{function.sym_name.data} as code",
                where=where,
                help="save the module before: --emit partitioned",
            )


def _is_code(function: FuncOp, target: str) -> bool:
    """Whether a region is code already: its body is gone, or of the target's own dialect."""
    return function.is_declaration or any(
        op.name.partition(".")[0] == target for op in function.walk()
    )
