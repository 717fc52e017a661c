"""Finds the pass that changes what a module computes.

After each pass the module is evaluated on the same seeded inputs as before it, be it on tensors or
on memory. Every pass must keep every bit of integers, and floats within a tolerance. `fix-point`
alone may change quantised values, by one step: each op that computes one is given what its inputs
were before the pass. It begins a new reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.locations import names
from byocir.dialects.types import dtype_of, element_type_of, is_memref, shape_of
from byocir.errors import CheckFailed
from byocir.evaluate.interpreter import Interpreter, Observer
from byocir.evaluate.module import MAIN, bind, call_main, random_arguments
from byocir.evaluate.ports import port_names

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""Bound the distance that floats move: relative to the value, and to the largest value beside
it."""
STEPS = 8
"""The steps of their own that short floats may move."""

CHANGES_MEANING = ("fix-point",)
"""Passes whose purpose is to choose other numbers, each by at most one step."""

STEP_BYTES = 1
"""Integers of this width are quantised values: wider ones are sums of many."""

Arrays = dict[str, np.ndarray]
_Key = tuple[tuple[str, ...], Attribute]
_Seen = dict[_Key, np.ndarray]


@dataclass(frozen=True)
class ChangedElement:
    """Names the first element that changed: where it is, and both values (of arrays of different
    shapes: the shapes).
    """

    place: tuple[int, ...]
    before: str
    found: str


class PassChanged(CheckFailed):
    """Says that a pass changed what a module computes: which pass, and at which output, ops and
    element.
    """

    def __init__(
        self, pass_name: str, output: str, difference: ChangedElement, ops: str, seed: int
    ) -> None:
        self.pass_name, self.output, self.difference, self.ops = pass_name, output, difference, ops
        at = f" at {list(difference.place)}" if difference.place else ""
        super().__init__(
            "B224",
            f"expected pass {pass_name} to keep {output} ({difference.before}), "
            f"found {difference.found}{at}",
            where=ops,
            help=f"inputs are random with seed {seed}; --dump writes the stages around it",
        )


@dataclass
class CheckEach:
    """Raises PassChanged (B224), as an `after_pass` callback, at the first pass that changes a
    result; it names the pass, the op and the element. `begin` has to see the module before any
    pass.
    """

    seed: int = 0
    feeds: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    outputs: Arrays = field(default_factory=Arrays)
    """The arrays that the module computed last, by name; on memory all of its arguments."""
    _seen: _Seen = field(default_factory=_Seen)

    def begin(self, module: ModuleOp, feeds: Mapping[str, np.ndarray] | None = None) -> None:
        """Chooses inputs, unless they are given, and remembers what the module computes for
        them. Raises ByocirError B310 for those given that do not fit."""
        if feeds is not None:
            bind(Interpreter(module).function(MAIN), feeds)
        self.feeds = random_arguments(module, self.seed) if feeds is None else feeds
        self.outputs, self._seen = _observe(module, self.feeds)

    def __call__(self, pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        outputs, seen = _observe(module, self.feeds)
        if pass_.name in CHANGES_MEANING:
            self._check_steps(pass_, module)
        else:
            # In memory inputs are among what is there in the end.
            new = {n: a for n, a in outputs.items() if n in self.outputs or n not in self.feeds}
            for name, before, found in pairs(self.outputs, new):
                difference = first_difference(found, before)
                if difference is not None:
                    output = f"output '{name}'"
                    raise PassChanged(
                        pass_.name, output, difference, self._culprit(seen), self.seed
                    )
        self.outputs, self._seen = outputs, seen

    def value_of(self, key: _Key) -> np.ndarray | None:
        """Looks up what ops of some nodes computed before the pass, by nodes and type."""
        return self._seen.get(key)

    def _culprit(self, seen: _Seen) -> str:
        """Finds the first op whose nodes computed something else before the pass."""
        for (nodes, type_), array in seen.items():
            before = self._seen.get((nodes, type_))
            if before is not None and first_difference(array, before) is not None:
                return _described(nodes, type_)
        return ""

    def _check_steps(self, pass_: ModulePass, module: ModuleOp) -> None:
        """Raises PassChanged for a quantised value that moved by more than a step, though its ops
        were given the same values as before.
        """
        _run(module, self.feeds, _Steps(self, pass_, _last_ops(module)))


class _Steps:
    """Observes a run after a pass that may change values: compares quantised values with those
    before the pass, and puts the earlier ones in their place. A value without an earlier one may be
    a step off, so that nothing is concluded from values that are computed from it.
    """

    def __init__(self, check: CheckEach, pass_: ModulePass, keys: Mapping[Operation, _Key]) -> None:
        self._check, self._pass, self._keys = check, pass_, keys
        self._moved: set[SSAValue] = set()

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        says_nothing = any(value in self._moved for value in op.operands)
        before = self._check.value_of(self._keys[op]) if op in self._keys else None
        for result, value in zip(op.results, results, strict=True):
            if not isinstance(value, np.ndarray):
                continue
            array = cast(np.ndarray, value)
            is_quantised = _is_quantised(array) and bool(op.operands)
            if is_quantised and before is not None and before.shape == array.shape:
                if not says_nothing:
                    self._compare(op, array, before)
                if array.flags.writeable:
                    array[...] = before
                    continue
            if says_nothing or is_quantised:
                self._moved.add(result)

    def _compare(self, op: Operation, value: np.ndarray, before: np.ndarray) -> None:
        far = np.abs(value.astype(np.int64) - before.astype(np.int64)) > 1
        if far.any():
            at = tuple(int(i) for i in np.argwhere(far)[0])
            difference = ChangedElement(at, str(before[at]), str(value[at]))
            what, ops = "a quantised value within one step", _described(*self._keys[op])
            raise PassChanged(self._pass.name, what, difference, ops, self._check.seed)


def _described(nodes: Sequence[str], type_: Attribute) -> str:
    return f"the ops of {', '.join(nodes)}, of type {type_}"


def _is_quantised(array: np.ndarray) -> bool:
    return array.dtype.kind in "iu" and array.dtype.itemsize == STEP_BYTES


def _last_ops(module: ModuleOp) -> dict[Operation, _Key]:
    """Finds the last op of @main for each set of nodes and each type."""
    found: dict[_Key, Operation] = {}
    for op in Interpreter(module).function(MAIN).body.block.ops:
        if len(op.results) == 1 and names(op.location):
            found[names(op.location), op.results[0].type] = op
    return {op: key for key, op in found.items()}


def _observe(module: ModuleOp, feeds: Mapping[str, np.ndarray]) -> tuple[Arrays, _Seen]:
    """Runs a module; gives its outputs, and the last value of each type that the ops of each set of
    nodes computed.
    """
    seen: _Seen = {}

    def observe(op: Operation, results: Sequence[Any]) -> None:
        nodes = names(op.location)
        for result, value in zip(op.results, results, strict=True):
            if nodes and isinstance(value, np.ndarray):
                seen[nodes, result.type] = cast(np.ndarray, value)

    return _run(module, feeds, observe), seen


def _run(module: ModuleOp, feeds: Mapping[str, np.ndarray], observe: Observer) -> Arrays:
    """Runs a module; gives the results of @main by name and, on memory, what its arguments hold in
    the end.
    """
    interpreter = Interpreter(module, observe=observe)
    entry = interpreter.function(MAIN)
    types = list(entry.function_type.inputs)
    given: Arrays = {}
    for name, type_ in zip(port_names(entry.arg_attrs, len(types), "arg"), types, strict=True):
        array = feeds.get(name)
        given[name] = _fresh(type_, array) if is_memref(type_) else np.asarray(array)
    outputs = call_main(interpreter, list(given.values()))
    in_memory = {
        name: array
        for (name, array), type_ in zip(given.items(), types, strict=True)
        if is_memref(type_)
    }
    return in_memory | outputs


def _fresh(type_: Attribute, array: np.ndarray | None) -> np.ndarray:
    """Makes memory that holds what is given, else zeros."""
    if array is not None:
        return array.copy()
    return np.zeros(shape_of(type_), dtype_of(element_type_of(type_)))


def pairs(before: Arrays, after: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Pairs outputs of before and after a pass: by name, and of those without a partner the last
    ones of each side, in order, as outputs follow inputs where both are arguments.
    """
    found = [(name, array, after[name]) for name, array in before.items() if name in after]
    left = [(name, array) for name, array in before.items() if name not in after]
    new = [array for name, array in after.items() if name not in before]
    if not left:
        # A result that has no name yet was an argument, one of the last.
        left = list(before.items())
        new = new if len(new) <= len(left) else []
    elif not new:
        new = list(after.values())
    count = min(len(left), len(new))
    tail = zip(left[len(left) - count :], new[len(new) - count :], strict=True)
    return [*found, *((name, array, other) for (name, array), other in tail)]


def _relative(dtype: np.dtype[Any]) -> float:
    """Bounds the distance that floats move, relative to the value: for short ones a few of
    their steps."""
    return max(RELATIVE, STEPS * float(cast(Any, ml_dtypes.finfo(dtype)).eps))


def _is_far(array: np.ndarray, before: np.ndarray, relative: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        scale = float(np.abs(before[np.isfinite(before)]).max(initial=0.0))
        absolute = relative * ABSOLUTE / RELATIVE * scale
        return ~np.isclose(array, before, relative, absolute, equal_nan=True)


def first_difference(array: np.ndarray, before: np.ndarray) -> ChangedElement | None:
    """Finds the first element that changed; None when there is none."""
    if array.shape != before.shape:
        return ChangedElement((), str(before.shape), str(array.shape))
    if array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16:
        wrong = _is_far(array.astype(np.float64), before.astype(np.float64), _relative(array.dtype))
    else:
        wrong = array != before
    places = np.argwhere(wrong)
    if not len(places):
        return None
    at = tuple(int(index) for index in places[0])
    return ChangedElement(at, str(before[at]), str(array[at]))
