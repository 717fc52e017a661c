"""Makes a case that shows a difference as small as it can while it still shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from byocir.isolation import Died, Limits, isolated
from byocir.memory import MOST
from onnx_fuzz.cases import Case, Value, names_read
from onnx_fuzz.draws import Unfit
from onnx_fuzz.reference import compute, is_float

Fails = Callable[[Case], bool]

ATTEMPTS = 200
LIMITS = Limits(120, MOST)
"""The time and the memory that one attempt has."""


class _Shrinker:
    def __init__(self, case: Case, fails: Fails) -> None:
        self.case, self._fails, self.left = case, fails, ATTEMPTS

    def take(self, candidate: Case) -> bool:
        """Goes on with a candidate if it shows the difference, too. References crash on some."""
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            if not isolated(lambda: self._is_smaller(candidate), LIMITS):
                return False
        except Died:
            return False
        self.case = computed(candidate)
        return True

    def _is_smaller(self, candidate: Case) -> bool:
        try:
            made = computed(candidate)
        except (Unfit, ValueError, TypeError):
            return False
        return bool(made.nodes) and self._fails(made)

    def run(self) -> Case:
        self._fewer_nodes()
        changed = True
        while changed and self.left > 0:
            changed = False
            for candidates in (fewer_attributes, fewer_operands, smaller_shapes, simpler_values):
                changed |= self._each(candidates)
        return self.case

    def _each(self, candidates: Callable[[Case], Iterator[Case]]) -> bool:
        """Takes candidates for as long as one of them fails."""
        changed = False
        while any(self.take(candidate) for candidate in candidates(self.case)):
            changed = True
        return changed

    def _fewer_nodes(self) -> None:
        whole = self.case
        if any(self.take(part(whole, [node])) for node in whole.nodes if len(whole.nodes) > 1):
            return
        while any(
            self.take(part(self.case, [n for n in self.case.nodes if n is not node]))
            for node in reversed(self.case.nodes)
        ):
            pass


def shrink(case: Case, fails: Fails) -> Case:
    """Gives the smallest case found that fails, too; what it tries is valid for a reference."""
    return _Shrinker(case, fails).run()


def part(case: Case, nodes: Sequence[onnx.NodeProto]) -> Case:
    """Gives some nodes of a case; what others made is given to them."""
    made = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in names_read(node)} - made
    given = {name: value for name, value in case.given.items() if name in read}
    for name in read & case.made.keys():
        given[name] = replace(case.made[name], slack=None)
    constants = {name: value for name, value in case.constants.items() if name in read}
    return Case(case.opset, list(nodes), given, constants, {}, set(case.shown) & made, case.shaped)


def computed(case: Case) -> Case:
    """Gives a case with what references make of its nodes. Raises Unfit if they do not take it."""
    fresh = replace(case, nodes=[], made={})
    for node in case.nodes:
        values = compute(fresh, node)
        fresh.nodes.append(node)
        fresh.made.update(zip([name for name in node.output if name], values, strict=True))
    return fresh.without_unused()


def _fed(case: Case, arrays: Mapping[str, np.ndarray]) -> Case:
    """Gives a case with other arrays of the same types."""
    given, constants = dict(case.given), dict(case.constants)
    for name, array in arrays.items():
        held = given if name in given else constants
        held[name] = Value(array, held[name].dtype)
    return replace(case, given=given, constants=constants)


def _changed(case: Case, index: int, change: Callable[[onnx.NodeProto], object]) -> Case:
    nodes: list[onnx.NodeProto] = []
    for i, node in enumerate(case.nodes):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if i == index:
            change(copy)
        nodes.append(copy)
    return replace(case, nodes=nodes)


def fewer_attributes(case: Case) -> Iterator[Case]:
    """Gives cases without one of the attributes."""
    for index, node in enumerate(case.nodes):
        for position in range(len(node.attribute)):
            yield _changed(case, index, lambda copy, p=position: copy.attribute.pop(p))


def fewer_operands(case: Case) -> Iterator[Case]:
    """Gives cases without the last operand, or with one left out; without the last output."""
    for index, node in enumerate(case.nodes):
        if len(node.input) > 1:
            yield _changed(case, index, lambda copy: copy.input.pop())
        for position, name in enumerate(node.input[1:-1], 1):
            if name:
                yield _changed(case, index, lambda copy, p=position: copy.input.__setitem__(p, ""))
        if len(node.output) > 1:
            yield _changed(case, index, lambda copy: copy.output.pop())


def _arrays(case: Case) -> dict[str, np.ndarray]:
    values = {**case.given, **case.constants}
    return {name: value.data for name, value in values.items() if not value.is_sequence}


def smaller_shapes(case: Case) -> Iterator[Case]:
    """Gives cases with one size, wherever it stands, or at one place, made smaller."""
    arrays = _arrays(case)
    sizes = sorted(
        {size for array in arrays.values() for size in array.shape if size > 1}, reverse=True
    )
    for size in sizes:
        for less in sorted({1, 2, size // 2, size - 1} - {size}):
            yield _fed(case, {n: _cut(a, size, less) for n, a in arrays.items() if size in a.shape})
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            for less in sorted({1, size // 2, size - 1} - {size, 0}):
                if size > 1:
                    yield _fed(case, {name: np.take(array, range(less), axis)})


def _cut(array: np.ndarray, size: int, less: int) -> np.ndarray:
    for axis in range(array.ndim):
        if array.shape[axis] == size:
            array = np.take(array, range(less), axis)
    return array


def simpler_values(case: Case) -> Iterator[Case]:
    """Gives cases with the values of one array all the same, or rounded."""
    for name, array in _arrays(case).items():
        if array.dtype == object or not array.size:
            continue
        for simple in _simple(array):
            if not np.array_equal(simple, array, equal_nan=array.dtype.kind == "f"):
                yield _fed(case, {name: simple})


def _simple(array: np.ndarray) -> Iterator[np.ndarray]:
    if not is_float(array.dtype):
        yield np.full_like(array, array.flat[0])
        return
    yield np.zeros_like(array)
    if (array == 0).all():
        return
    yield np.ones_like(array)
    if not (array == 1).all():
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
            yield np.where(np.isfinite(wide), np.round(wide), wide).astype(array.dtype)
