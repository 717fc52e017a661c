"""Guards the rules by which others evaluate ops of their own: their mistakes are told as theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.ir import Operation

from byocir.dialects.locations import place
from byocir.errors import FAILURES, ByocirError
from byocir.evaluate.mismatch import mismatch
from byocir.vendor.places import failed, place_of

Rule = Callable[[Any, Any, Sequence[Any]], Sequence[Any]]


def guarded(rule: Rule) -> Rule:
    """Gives a rule that raises ByocirError B316, with the line of the rule, where this one fails,
    and B313 for results that are not those of the op's types.
    """

    def run(interpreter: Any, op: Operation, arguments: Sequence[Any]) -> Sequence[Any]:
        try:
            made: Any = rule(interpreter, op, arguments)
        except ByocirError:
            raise
        except FAILURES as error:
            help = "a rule takes the interpreter, the op and its operands, and gives its results"
            raise failed("B316", f"the rule of {op.name}", rule, error, help) from error
        found = _difference(op, made)
        if found:
            told = f"expected the rule of {op.name} to give {found}"
            raise ByocirError("B313", told, where=f"{place_of(rule)}, {place(op.location)}")
        return made

    return run


def _difference(op: Operation, made: object) -> str:
    """Tells in what results are not those of an op; nothing where they are."""
    count = len(op.results)
    if not isinstance(made, (list, tuple)):
        return f"a list of {count} results, found {type(made).__name__}"
    values = cast("Sequence[Any]", made)
    if len(values) != count:
        return f"{count} results, found {len(values)}"
    pairs = zip(values, op.results, strict=True)
    return next((f"{r.type}, found {told}" for v, r in pairs if (told := mismatch(v, r.type))), "")
