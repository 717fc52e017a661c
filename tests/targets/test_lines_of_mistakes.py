"""Mistakes in the class of a target are told with the line of the class that makes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import byocir
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.patterns import block, composite, op, wildcard
from byocir.targets.check_class import check_target
from byocir.targets.hand_off_passes import rewrites_pipeline

F = "tensor<4xf32>"
RELU = f"""func.func @main(%x: {F}) -> {F} {{
  %y = graph.relu %x : ({F}) -> {F}
  func.return %y : {F}
}}"""


@composite("npu.relu")
def relu() -> Any:
    return op("graph.relu", wildcard())


class Rounding(byocir.Target):
    name = "npu"
    fixed_point = "half_down"  # here


class Property(byocir.Target):
    name = "npu"

    @property  # here
    def fixed_point(self) -> Any:
        return 3


class Cached(byocir.Target):
    name = "npu"

    @cached_property  # here
    def channel_multiple(self) -> Any:
        return "16"


class Halves(byocir.Target):
    name = "npu"
    signed_bytes, rounds_operands = True, "f8"  # here


class Inherited(Halves):
    pass


class Costs(byocir.Target):
    name = "npu"
    patterns = (relu,)

    def cost(self, composite: str, ops: Any) -> Any:  # here
        return [1.0]


class Alone(byocir.Target):
    name = "npu"
    patterns: Any = relu  # here


class Spelt(byocir.Target):
    name = "npu"
    chanels_last = True  # here


class Machineless(byocir.Target):
    name = "npu"

    @property  # here
    def machine(self) -> Any:
        return 16


class Nameless(byocir.Target):  # here
    patterns = (relu,)


class Options(byocir.Target):  # here
    name = "npu"
    lanes: int = 16


def line_of(kind: type) -> str:
    """The first line behind the head of a class that is marked."""
    lines = Path(__file__).read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"class {kind.__name__}("))
    at = next(n for n in range(begin, len(lines)) if "# here" in lines[n])
    return f"{__file__}:{at + 1}"


def bid(target: byocir.Target) -> None:
    byocir.partition(parse_module(RELU), [target, "ort"], objective="latency")


def passes(target: byocir.Target) -> None:
    rewrites_pipeline(parse_module(RELU), [target])


def refuse(target: byocir.Target) -> None:
    target.refusal(())


def load(target: byocir.Target) -> None:
    check_target(type(target))


@pytest.mark.parametrize(
    ("kind", "asked", "code"),
    [
        (Rounding, passes, "B291"),
        (Property, passes, "B228"),
        (Cached, passes, "B228"),
        (Halves, passes, "B228"),
        (Inherited, passes, "B228"),
        (Costs, bid, "B228"),
        (Machineless, refuse, "B270"),
        (Alone, load, "B216"),
        (Spelt, load, "B216"),
        (Nameless, load, "B216"),
        (Options, load, "B216"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_mistake_is_told_with_its_line(
    kind: type[byocir.Target], asked: Callable[[byocir.Target], None], code: str
) -> None:
    with pytest.raises(ByocirError) as caught:
        asked(kind())
    assert caught.value.code == code
    assert caught.value.where == line_of(Halves if kind is Inherited else kind)


def test_a_block_that_cannot_be_read_is_told_with_its_line() -> None:
    made: Any = block
    with pytest.raises(ByocirError) as caught:
        made("m n", wildcard()["m n"])
    assert caught.value.code == "B206"
    assert caught.value.where.startswith(f"{__file__}:")
