"""Settles the shapes of a model's inputs: the file's own, completed by the pins of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, cast

import onnx

from byocir.errors import ByocirError, did_you_mean

UNNAMED = "?"

Declared = list[int | str] | None
"""A shape as the file has it: sizes or their names ("?" without one); None if it has no shape."""


def input_shapes(
    inputs: Sequence[onnx.ValueInfoProto], pins: Mapping[str, Sequence[int]]
) -> dict[str, Declared]:
    """Settles the shape of each of these inputs. A symbolic size pinned for one input holds for all
    inputs that name it. Raises ByocirError B106.
    """
    declared = {value.name: _declared(value) for value in inputs}
    pins = _sizes(pins)
    for name in pins:
        if name not in declared:
            raise ByocirError(
                "B106",
                f"expected shapes of the model's inputs, found one for '{name}'",
                help=did_you_mean(name, list(declared)),
            )
    symbols: dict[str, int] = {}
    for name, pin in pins.items():
        _check_pin(name, declared[name], pin, symbols)
    found: dict[str, Declared] = {}
    for name, shape in declared.items():
        if name in pins:
            found[name] = [*pins[name]]
        elif shape is not None:
            found[name] = [symbols.get(d, d) if isinstance(d, str) else d for d in shape]
        else:
            found[name] = None
    return found


def _sizes(pins: object) -> dict[str, list[int]]:
    """Converts pins to lists of integers; raises ByocirError B106 for anything else, with what was
    expected.
    """
    if not isinstance(pins, Mapping):
        raise _not_shapes("a mapping of names to shapes", pins)
    found: dict[str, list[int]] = {}
    for name, pin in cast(Mapping[Any, Any], pins).items():
        try:
            found[name] = [index(size) for size in pin]
        except TypeError as error:
            raise _not_shapes(f"integers as the shape of input '{name}'", pin) from error
    return found


def _not_shapes(expected: str, found: object) -> ByocirError:
    return ByocirError(
        "B106", f"expected {expected}, found {found!r}", help='e.g. shapes={"x": (1, 3, 8, 8)}'
    )


def _declared(value: onnx.ValueInfoProto) -> Declared:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [
        size.dim_value if size.HasField("dim_value") else size.dim_param or UNNAMED
        for size in tensor.shape.dim
    ]


def _check_pin(name: str, declared: Declared, pin: Sequence[int], symbols: dict[str, int]) -> None:
    """Refuses a pin that the declared shape contradicts; collects the sizes that it gives to
    names.
    """
    wrong = ByocirError(
        "B106", f"expected shape {_text(declared)} for input '{name}', found {_text(list(pin))}"
    )
    if any(not 1 <= size < 2**63 for size in pin):
        wrong.help = (
            "a size is 1 or more, of 64 bits; leave the input out to keep its sizes symbolic"
        )
        raise wrong
    if declared is None:
        return
    if len(pin) != len(declared):
        raise wrong
    for size, pinned in zip(declared, pin, strict=True):
        expected = symbols.setdefault(size, pinned) if isinstance(size, str) else size
        if expected == pinned or size == UNNAMED:
            continue
        if isinstance(size, str):
            wrong.help = f"'{size}' is {expected} in another dimension"
        raise ByocirError(wrong.code, wrong.message, help=wrong.help)


def _text(shape: Declared) -> str:
    return "of any rank" if shape is None else f"[{', '.join(map(str, shape))}]"
