"""Measures how far the integers of a rewritten net are from ONNX's, op by op.

Each quantize op of the imported net gets the values that the rewritten net computed before it. So
steps do not add up, and in a net that amplifies small differences it shows where they begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.graph import QuantizeOp
from byocir.dialects.locations import names
from byocir.dialects.types import shape_of
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate

BEFORE_INTEGERS = "fold-constants,clean-up,normalize-qdq,clean-up"
"""The passes behind which an imported net still quantises where the rewritten one does."""

Arrays = Mapping[str, np.ndarray]


@dataclass
class StepCounts:
    """Counts by how much quantised values differ from ONNX's, which rounds halves to even in float:
    the largest distance, how many values there are, how many differ, and how many quantize ops have
    no value to compare with.
    """

    largest: int = 0
    values: int = 0
    moved: int = 0
    unseen: int = 0

    def counted(self) -> str:
        """Words how many values differ; by how much follows behind it."""
        return f"given the same inputs, {self.moved} of {self.values} quantised values are"


def count_steps(plain: ModuleOp, rewritten: ModuleOp, feed: Arrays, found: StepCounts) -> None:
    """Compares an imported net, after `BEFORE_INTEGERS`, with the same net rewritten for targets,
    and adds up how many steps quantised values are apart.
    """
    _compare(plain, _computed(rewritten, feed), feed, found)


_Key = tuple[str, tuple[int, ...]]
_Seen = dict[_Key, list[np.ndarray]]


def _computed(module: ModuleOp, feed: Arrays) -> _Seen:
    """Runs a module and gives the bytes that it computes, by node and shape. Of several ops of one
    node that work one after the other on the same shape, the last one counts.
    """
    seen: _Seen = {}

    def observe(op: Operation, results: Sequence[np.ndarray]) -> None:
        if not op.operands or not op.results or _goes_on(op):
            return
        for array in results:
            if str(getattr(array, "dtype", "")) in ("int8", "uint8"):
                for node in names(op.location):
                    seen.setdefault((node, array.shape), []).append(array)

    evaluate(module, feed, interpreter=Interpreter(module, observe=observe))
    return seen


def _goes_on(op: Operation) -> bool:
    """Tells if an op of the same nodes uses its result and gives one of the same shape."""
    users = [use.operation for use in op.results[0].uses]
    return any(
        user.location == op.location
        and user.results
        and shape_of(user.results[0].type) == shape_of(op.results[0].type)
        for user in users
    )


def _compare(module: ModuleOp, seen: _Seen, feed: Arrays, found: StepCounts) -> None:
    """Runs a module, compares its quantised values with those of another, and goes on with the
    others' values. Where a node has several values of one shape, such as the parts of a join, in
    another order than the other module, each is compared with the closest of those that are left.
    """
    left = {key: list(arrays) for key, arrays in seen.items()}

    def observe(op: Operation, results: Sequence[np.ndarray]) -> None:
        if not isinstance(op, QuantizeOp):
            return
        (value,) = results
        others = left.get((names(op.location)[-1], value.shape), [])
        if not others:
            found.unseen += 1
            return
        distances = [np.abs(_as(value, other) - value.astype(np.int64)) for other in others]
        closest = min(range(len(others)), key=lambda i: int(distances[i].max(initial=0)))
        other, distance = others.pop(closest), distances[closest]
        found.largest = max(found.largest, int(distance.max(initial=0)))
        found.moved += int((distance > 0).sum())
        found.values += distance.size
        value[...] = _as(value, other)

    evaluate(module, feed, interpreter=Interpreter(module, observe=observe))


def _as(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Converts numbers of another array to the grid of a value: a target's bytes may be signed
    where the value's are not.
    """
    if other.dtype == value.dtype:
        return other.astype(np.int64)
    return other.astype(np.int64) + (128 if value.dtype == np.uint8 else -128)
