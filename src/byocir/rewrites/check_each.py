"""Finds the pass that changes what a module computes.

After each pass the module is evaluated on the same seeded inputs as before it. Every pass must keep
every bit of integers, and floats within a tolerance; `fix-point` alone may change quantised values
and begins a new reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from byocir.dialects.locations import names
from byocir.errors import CheckFailed
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate, random_feeds

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""How far floats may move: relative to the value, and to the largest value beside it."""

CHANGES_MEANING = ("fix-point",)
"""Passes whose purpose is to choose other numbers."""

_Seen = dict[tuple[tuple[str, ...], Attribute], np.ndarray]


@dataclass
class CheckEach:
    """An `after_pass` callback that raises CheckFailed (B224), naming the pass, the op and the
    element, at the first pass that changes a result. `begin` is told the module before any pass."""

    seed: int = 0
    _feeds: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    _outputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    _seen: _Seen = field(default_factory=_Seen)

    def begin(self, module: ModuleOp) -> None:
        """Chooses inputs and remembers what the module computes for them."""
        self._feeds = random_feeds(module, self.seed)
        self._outputs, self._seen = _observe(module, self._feeds)

    def __call__(self, pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        outputs, seen = _observe(module, self._feeds)
        if pass_.name not in CHANGES_MEANING:
            for name, array in outputs.items():
                at = _first_difference(array, self._outputs[name])
                if at is not None:
                    raise self._failed(pass_, name, at, array, seen)
        self._outputs, self._seen = outputs, seen

    def _failed(
        self, pass_: ModulePass, name: str, at: tuple[int, ...], array: np.ndarray, seen: _Seen
    ) -> CheckFailed:
        before = self._outputs[name]
        found = f"{array[at]} at {list(at)}" if array.shape == before.shape else str(array.shape)
        return CheckFailed(
            "B224",
            f"expected pass {pass_.name} to keep output '{name}' "
            f"({before[at] if array.shape == before.shape else before.shape}), found {found}",
            where=self._culprit(seen),
            help=f"inputs are random with seed {self.seed}; --dump writes the stages around it",
        )

    def _culprit(self, seen: _Seen) -> str:
        """The first op whose nodes computed something else before the pass."""
        for (nodes, type_), array in seen.items():
            before = self._seen.get((nodes, type_))
            if before is not None and _first_difference(array, before) is not None:
                return f"the ops of {', '.join(nodes)}, of type {type_}"
        return ""


def _observe(
    module: ModuleOp, feeds: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], _Seen]:
    """The outputs, and the last value of each type that the ops of each set of nodes computed."""
    seen: _Seen = {}

    def observe(op: Operation, results: Sequence[Any]) -> None:
        nodes = names(op.location)
        for result, value in zip(op.results, results, strict=True):
            if nodes and isinstance(value, np.ndarray):
                seen[nodes, result.type] = cast(np.ndarray, value)

    interpreter = Interpreter(module, observe=observe)
    return evaluate(module, feeds, interpreter=interpreter), seen


def _first_difference(array: np.ndarray, before: np.ndarray) -> tuple[int, ...] | None:
    """The first element that is not what it was; None when there is none."""
    if array.shape != before.shape:
        return ()
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            finite = np.abs(before[np.isfinite(before)])
            scale = float(finite.max(initial=0.0))
            wrong = ~np.isclose(array, before, RELATIVE, ABSOLUTE * scale, equal_nan=True)
    else:
        wrong = array != before
    places = np.argwhere(wrong)
    return tuple(int(index) for index in places[0]) if len(places) else None
