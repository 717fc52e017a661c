"""Checks the arguments of the public API before any work is done.

An argument of another type gives ByocirError B142, which names the argument, what it is to be and
what was found. What the values mean is checked where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from byocir.errors import ByocirError

SHORT = 40
"""The most letters of a value that are shown."""


class ArgumentKind(NamedTuple):
    """Names the kind of an argument in words, and tests values for it."""

    words: str
    holds: Callable[[Any], bool]
    example: str = ""

    def or_none(self) -> ArgumentKind:
        """Gives the kind that also accepts None."""

        def holds(value: Any) -> bool:
            return value is None or self.holds(value)

        return self._replace(holds=holds)


def check(**given: tuple[Any, ArgumentKind]) -> None:
    """Raises ByocirError B142 for the first argument that is of another kind."""
    for name, (value, kind) in given.items():
        if kind.holds(value):
            continue
        raise ByocirError(
            "B142",
            f"expected {kind.words} as argument '{name}', found {shown(value)}",
            help=f"e.g. {name}={kind.example}" if kind.example else "",
        )


def shown(value: Any) -> str:
    """Words a value for a message: plain ones as they are, others by their type."""
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= SHORT else f"{text[: SHORT - 4]}…'"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    found = f"a {type(value).__name__}"
    if isinstance(value, (list, tuple)):
        elements = list(cast("Iterable[Any]", value))
        wrong = next((each for each in elements if not isinstance(each, str)), None)
        return found if wrong is None else f"{found} with {shown(wrong)} in it"
    return found


def instance_of(words: str, *types: type) -> ArgumentKind:
    """Makes the kind of instances of one of these classes."""

    def holds(value: Any) -> bool:
        return isinstance(value, types)

    return ArgumentKind(words, holds)


def list_of(words: str, kind: type, example: str = "") -> ArgumentKind:
    """Makes the kind of lists, tuples and sets that hold nothing but these; a string is none of
    them.
    """

    def holds(value: Any) -> bool:
        is_list = isinstance(value, (list, tuple, set, frozenset))
        return is_list and all(isinstance(each, kind) for each in cast("Iterable[Any]", value))

    return ArgumentKind(words, holds, example)


def names_to(words: str, example: str, *types: type) -> ArgumentKind:
    """Makes the kind of mappings from strings to values of these classes."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        pairs = cast("Mapping[Any, Any]", value).items()
        return all(isinstance(key, str) and isinstance(each, types) for key, each in pairs)

    return ArgumentKind(words, holds, example)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e6  # timers hold no more than that


TEXT = instance_of("a string", str)
TEXTS = list_of("a list of strings", str, '["Conv", "Relu"]')
LEVEL_NAMES = list_of("a list of levels", str, '["graph", "tensor"]')
FLAG = instance_of("True or False", bool)
SECONDS = ArgumentKind("a number of seconds above 0", _is_time, "60")
COUNT = ArgumentKind("a whole number from 1 on", _is_count, "30")
CALL = ArgumentKind("a function", callable)
PLACEMENT = names_to("a mapping of names to targets", '{"Conv_3": "host"}', str)
SHAPES = names_to("a mapping of names to shapes", '{"x": (1, 3, 32, 32)}', object)
