"""Lists the settings of a target's options that are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from byocir.errors import FAILURES
from byocir.targets.base import Target


def settings_of(target: Target) -> list[Target]:
    """Lists the target unchanged, and with one option changed: a flag negated, another word of a
    `Literal`, half, twice and one more of a number. Settings that the target refuses are left out.
    """
    return [target, *(each for each in _changed(target) if _takes(each))]


def _changed(target: Target) -> Iterator[Target]:
    types = get_type_hints(type(target))
    for option in fields(target):
        value = getattr(target, option.name)
        for other in _others(types[option.name], value):
            try:
                yield replace(target, **{option.name: other})
            except FAILURES:  # the target refuses this value
                continue


def _others(type_: Any, value: Any) -> Sequence[Any]:
    if get_origin(type_) is Literal:
        return [each for each in get_args(type_) if each != value]
    if type(value) is bool:
        return [not value]
    if type(value) is int:
        return [each for each in dict.fromkeys((value // 2, 2 * value)) if each > 0]
    return []


def _takes(target: Target) -> bool:
    try:
        return bool(target.composites())
    except FAILURES:
        return False
