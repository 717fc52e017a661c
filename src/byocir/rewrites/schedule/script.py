"""Reads schedules as text: calls of `Schedule`'s primitives, one after the other.

```
m, n = tile(gemm, m=16, n=32); reorder(n, m); parallel(n)
```

The text is read as Python is, but only calls of primitives, and names for what they give, are
understood; nothing is evaluated. A name that stands for nothing yet is a word, as text in quotes
is: first in a call that of a block, second in `tensorise` that of a target's pattern. A block keeps
its name in the rest of the text.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.arg_spec import ArgSpec

from byocir.dialects.tir import BlockOp, ForOp
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Composite, targets
from byocir.rewrites.schedule.handles import OPTIONS, PRIMITIVES, WORDS, Schedule


def run_script(schedule: Schedule, text: str) -> None:
    """Runs a script. Raises ByocirError B260 for text that cannot be read, and what primitives
    raise.
    """
    for _, run in steps_of(schedule, text):
        run()


def steps_of(
    schedule: Schedule,
    text: str,
    blocks: Mapping[str, BlockOp] | None = None,
    patterns: Mapping[str, Composite] | None = None,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields the calls of a script as text, each with a function that makes it. `blocks` have names
    beside those of their nodes, `patterns` are known by name beside those of all targets. Raises
    ByocirError B260 for text that cannot be read; the functions raise what primitives raise.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        help = "what is a word of Python, too, stands in quotes: stage(gemm, 0, 'npu.in')"
        raise _unread(text, f"{error.msg} in column {error.offset}", help) from error
    run = _Statement(schedule, dict(blocks or {}), text, patterns or {}).run
    for statement in tree.body:
        yield ast.unparse(statement), partial(run, statement)


def _unread(text: str, found: str, help: str = "") -> ByocirError:
    return ByocirError(
        "B260",
        f"expected calls of primitives such as m, n = tile(gemm, m=16, n=32), found {found}",
        where=f"schedule '{text}'",
        help=help,
    )


def _other_count(node: ast.Call, kinds: Sequence[type]) -> str:
    """Says how the arguments of a call differ from those that its primitive takes, by name."""
    method = getattr(Schedule, ast.unparse(node.func))
    names = list(signature(method).parameters)[1 : len(kinds) + 1]
    wanted = [f"{name}, {WORDS[kind]}" for name, kind in zip(names, kinds, strict=True)]
    missing = wanted[len(node.args) :]
    return f" without {' and '.join(missing)}" if missing else f", which takes {', '.join(names)}"


class _Statement:
    """Runs calls, and keeps what they give under names."""

    def __init__(
        self,
        schedule: Schedule,
        names: dict[str, Any],
        text: str,
        patterns: Mapping[str, Composite],
    ) -> None:
        self.schedule = schedule
        self.names = names
        self.text = text
        self.patterns = patterns

    def run(self, statement: ast.stmt) -> None:
        """Runs a statement, and keeps what it gives."""
        if isinstance(statement, ast.Expr):
            self._value(statement.value)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._bind(statement.targets[0], self._value(statement.value))
        else:
            raise self._unread(statement)

    def _unread(self, node: ast.AST) -> ByocirError:
        return _unread(self.text, f"'{ast.unparse(node)}'")

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(value, (list, tuple)):
            raise self._unread(target)
        given = list(cast("Sequence[Any]", value))
        if len(given) != len(target.elts):
            names = f"{len(target.elts)} names ({ast.unparse(target)})"
            raise _unread(self.text, f"{names} for {len(given)} things")
        for element, thing in zip(target.elts, given, strict=True):
            self._bind(element, thing)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):  # names of scopes and patterns have dots
            return ast.unparse(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._element(node, node.slice.value)
        return self._plain(node)

    def _arguments(self, node: ast.Call, kinds: Sequence[type]) -> list[Any]:
        """Resolves the arguments of a call: names of blocks, loops and patterns to these."""
        kinds = kinds or [ForOp] * len(node.args)
        if len(node.args) != len(kinds) and ast.unparse(node.func) != "blocks":
            raise _unread(self.text, f"'{ast.unparse(node)}'{_other_count(node, kinds)}")
        pairs = zip(node.args, kinds, strict=False)
        return [self._argument(argument, kind) for argument, kind in pairs]

    def _argument(self, node: ast.expr, kind: type) -> Any:
        value = self._value(node)
        if isinstance(value, str) and kind is BlockOp:
            called = [name for name, thing in self.names.items() if isinstance(thing, BlockOp)]
            return self.names.setdefault(value, self.schedule.block(value, called))
        if isinstance(value, str) and kind is Composite:
            return self.patterns.get(value) or _pattern(value)
        if not isinstance(value, kind):
            found = f"'{ast.unparse(node)}' where {WORDS[kind]} belongs"
            raise _unread(self.text, found, self._known_loops() if kind is ForOp else "")
        return value

    def _known_loops(self) -> str:
        """Words the help line with the names of loops that the script has so far."""
        loops = [name for name, thing in self.names.items() if isinstance(thing, ForOp)]
        if loops:
            return f"the loops are {', '.join(loops)}"
        return "there are no names for loops yet: m, n = tile(gemm, m=4, n=4) gives some"

    def _element(self, node: ast.Subscript, position: object) -> Any:
        found = self._value(node.value)
        if not isinstance(found, (list, tuple)) or not isinstance(position, int):
            raise self._unread(node)
        given = list(cast("Sequence[Any]", found))
        if not 0 <= position < len(given):
            raise _unread(self.text, f"'{ast.unparse(node)}' of {len(given)} things")
        return given[position]

    def _plain(self, node: ast.expr) -> Any:
        """Reads a whole number, a truth value or a text, or lists and dictionaries of these."""
        if isinstance(node, ast.List | ast.Tuple):
            return [self._plain(element) for element in node.elts]
        if isinstance(node, ast.Dict) and None not in node.keys:
            keys = [self._plain(key) for key in node.keys if key is not None]
            return dict(zip(keys, map(self._plain, node.values), strict=True))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | str):
            return node.value
        raise self._unread(node)

    def _call(self, node: ast.Call) -> Any:
        primitive = self._primitive(node.func)
        arguments = self._arguments(node, PRIMITIVES[primitive])
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._unread(node)
            kind = OPTIONS.get(keyword.arg, int)
            options[keyword.arg] = self._argument(keyword.value, kind)
        method: Callable[..., Any] = getattr(self.schedule, primitive)
        try:
            return method(*arguments, **options)
        except TypeError as error:
            said = str(error).removeprefix("Schedule.")
            raise _unread(self.text, f"'{ast.unparse(node)}': {said}") from error

    def _primitive(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name) or node.id not in PRIMITIVES:
            name = ast.unparse(node)
            raise ByocirError(
                "B260",
                f"expected a primitive, found '{name}'",
                where=f"schedule '{self.text}'",
                help=did_you_mean(name, list(PRIMITIVES)),
            )
        return node.id


def _pattern(name: str) -> Composite:
    """Finds the pattern "target.what" of a known target; raises ByocirError B210, B250."""
    target = targets.instantiate(ArgSpec(name.split(".")[0], {}))
    attribute = targets.attr_of(target)
    known = (*targets.composites_of(attribute), *targets.instructions_of(attribute))
    found = {each.name: each for each in known}
    if name not in found:
        raise ByocirError(
            "B250",
            f"expected a pattern of target {target.name}, found '{name}'",
            help=did_you_mean(name, list(found)),
        )
    return found[name]


def function_of(module: ModuleOp, name: str) -> FuncOp:
    """Finds the function of this name, or without a name the only one; raises ByocirError B250."""
    found = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    chosen = [op for op in found if name in ("", op.sym_name.data)]
    if len(chosen) == 1:
        return chosen[0]
    known = [op.sym_name.data for op in found]
    raise ByocirError(
        "B250",
        f"expected one function{f' @{name}' if name else ''}, found {len(chosen) or 'none'}",
        help=did_you_mean(name, known) if name else 'name it: function="main"',
    )
