"""Says in a help line what a user can do about an error that Python found in the user's code."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, signature
from types import FrameType
from typing import Any

from byocir.errors import did_you_mean

KNOWN = {
    "cannot inherit non-frozen dataclass from a frozen one": "write @dataclass(frozen=True): the "
    "options of a target do not change",
}
"""The help for errors whose own text misleads."""


def advice(error: BaseException) -> str:
    """Gives the help line for an error: the nearest name for one that does not exist, and the
    parameters of what was called with wrong ones; empty where there is nothing to say.
    """
    text = str(error)
    if isinstance(error, NameError) and error.name:
        return _nearest(error.name, [*_seen(error)])
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        return _nearest(error.name, _public(error.obj))
    if isinstance(error, KeyError) and error.args:
        return _known_keys(error)
    if isinstance(error, ImportError) and (missing := re.match("cannot import name '(.+?)'", text)):
        return _nearest(missing[1], _public(sys.modules.get(error.name or "")))
    if isinstance(error, TypeError) and (called := re.match(r"([\w.]+)\(\) ", text)):
        return _parameters(called[1].removesuffix(".__init__").split("."), _seen(error))
    if isinstance(error, TypeError) and text.endswith("object is not callable"):
        return _called(error)
    return KNOWN.get(text, "")


def _nearest(name: str, choices: Sequence[str]) -> str:
    """Names the choice that is nearest to a name; empty if none is near."""
    return "".join(f"did you mean '{each}'?" for each in get_close_matches(name, choices, n=1))


def _public(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def _seen(error: BaseException) -> Mapping[str, Any]:
    """Gives the names that the line which failed could use, with their values."""
    frame = _frame(error)
    return {} if frame is None else {**frame.f_globals, **frame.f_locals}


def _frame(error: BaseException) -> FrameType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


def _parameters(path: Sequence[str], seen: Mapping[str, Any]) -> str:
    """Lists the parameters of a function or class, as in "Transfer takes channel, lead=0"; empty
    if it is not found by its name.
    """
    found = seen.get(path[0])
    for name in path[1:]:
        found = getattr(found, name, None)
    try:
        given = signature(found).parameters.values() if callable(found) else ()
    except ValueError:  # a class of Python's own
        return ""
    texts = [_parameter(each) for each in given if each.name != "self" and each.name[0] != "_"]
    return f"{path[-1]} takes {', '.join(texts)}" if texts and path[-1][0] != "_" else ""


_STARS: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def _parameter(parameter: Parameter) -> str:
    stars = _STARS.get(parameter.kind, "")
    default = "" if parameter.default is Parameter.empty else f"={parameter.default!r}"
    return f"{stars}{parameter.name}{default.removesuffix('=<factory>')}"


def _known_keys(error: KeyError) -> str:
    """Names the key that is nearest to one which a mapping does not have, as `w` in
    `call.places["v"]`, or those that it has; empty if the mapping has no name."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    for node in _nodes(at):
        if isinstance(node, ast.Subscript) and node.end_col_offset == at.end_colno:
            found = _named(node.value, _seen(error))
            if isinstance(found, Mapping):
                return did_you_mean(str(error.args[0]), [str(key) for key in found])
    return ""


def _named(node: ast.expr, seen: Mapping[str, Any]) -> object:
    """Gives the value of a name, or of an attribute of one; None for other expressions."""
    match node:
        case ast.Name(name):
            return seen.get(name)
        case ast.Attribute(owner, name):
            return getattr(_named(owner, seen), name, None)
        case _:
            return None


def _nodes(at: traceback.FrameSummary) -> Iterator[ast.expr]:
    """Yields the expressions that begin where the code of a frame failed."""
    for node in ast.walk(ast.parse("".join(linecache.getlines(at.filename)))):
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset) == (at.lineno, at.colno):
            yield node


def _called(error: BaseException) -> str:
    """Names the method that is nearest to the attribute which was called but is no function, as
    `unit` is to `npu.units(…)`; empty if there is none.
    """
    for node in _nodes(traceback.extract_tb(error.__traceback__)[-1]):
        match node:
            case ast.Call(ast.Attribute(ast.Name(owner), name)):
                thing = _seen(error).get(owner)
                methods = [each for each in _public(thing) if callable(getattr(thing, each))]
                return _nearest(name, methods)
            case _:
                pass
    return ""
