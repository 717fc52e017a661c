"""Finds calls that a simulator can do at once, for numpy takes long for each array, not for each
element: those of one kind that write boxes apart from each other, and those that write one box one
after the other, which are as one reduction with a further iterator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod

import numpy as np
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.memos import Memo
from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind, buffer
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.evaluate.tir_block import BlockPlan
from byocir.machine.block_keys import pads_in_memory
from byocir.machine.calls import Calls, Course, Index, IssuedCalls
from byocir.machine.description import Machine
from byocir.machine.instructions import Call, Kind
from byocir.machine.local_blocks import Rank, local_form, on_its_own
from byocir.machine.operand_places import Place, Span

_MOST = 2**18
"""Elements of an operand that are held at once."""


@dataclass(frozen=True, eq=False)
class Step:
    """Describes calls of one kind that are done at once. All arrays have the axes of `numbers`
    first: one call, or boxes that are written, or these and the calls that write each of them one
    after the other.
    """

    kind: Kind
    plan: BlockPlan
    places: Sequence[Place]
    """By the positions of operands, the result last, the places of one call."""
    cells: Sequence[Index]
    """The elements of their memories that the calls reach."""
    is_kept: np.ndarray
    """Tells which calls use what is in the unit before this step."""
    ends: int | None = None
    """The call that comes last of its op, if it is one of these."""


def step_of(machine: Machine, call: Call) -> Step:
    """Makes a step of one call, or of what one does of a block."""
    pairs = zip(call.kind.fit.operands.values(), call.own.values(), strict=True)
    places = [place for _, place in sorted(pairs, key=lambda pair: pair[0])]
    cells = [place.cells for place in places]
    plan = _plan_of(machine, call.kind, ())
    return Step(call.kind, plan, places, cells, np.array(call.is_kept), 0)


def steps_in(machine: Machine, calls: IssuedCalls) -> Iterator[Step]:
    """Yields steps that do all calls of a program. What comes of them is the same as if the calls
    were done as they are issued, one by one.
    """
    begin, cells = 0, _Cells(_MOST_KNOWN)
    for group in _groups(calls.ops):
        ops = [calls.ops[number] for number in group]
        end = begin + sum(op.count for op in ops)
        if all(_can_split(op) for op in ops) and _are_apart(ops):
            for number in group:
                yield from _steps_of(machine, calls, number, cells)
        else:
            parts = (part for call in calls[begin:end] for part in call.parts)
            yield from (step_of(machine, part) for part in parts)
        begin = end


def _groups(ops: Sequence[Calls]) -> Iterator[list[int]]:
    """Groups the ops whose calls take turns."""
    group: list[int] = []
    for number, op in enumerate(ops):
        group.append(number)
        if not op.is_beside or number == len(ops) - 1:
            yield group
            group = []


def _are_apart(ops: Sequence[Calls]) -> bool:
    """Tells whether the ops of a group can be done one after the other: all but the last of them,
    which takes turns with the others, are in order anyway.
    """
    keeping = [op.unit for op in ops if op.keeping is not None]
    if len(set(keeping)) < len(keeping):
        return False
    *beside, last = ops
    return not any(
        one.result.overlaps(place)
        for op in beside
        for one, other in ((op, last), (last, op))
        for place in other.places.values()
    )


def _can_split(op: Calls) -> bool:
    """Tells whether calls of an op can be done at once: none reads what another one writes, but for
    its own result, and rows do not leave a FIFO one after the other."""
    *inputs, result = op.places.values()
    if any(place.memory.fifo for place in op.places.values()):
        return False
    if op.count > 1 and any(result.overlaps(place) for place in inputs):
        return False
    return all(_batches_of(part) is not None for part in op.parts)


def _steps_of(machine: Machine, calls: IssuedCalls, number: int, known: _Cells) -> Iterator[Step]:
    """Yields steps that do the calls of an op that can be split."""
    # later calls find in the unit what memory still holds: nothing is written there meanwhile
    is_kept = np.logical_and.accumulate(calls.is_kept[calls.turns_of(number)])
    batches = (
        (each, found) for each in calls.ops[number].parts for found in _batches_of(each) or ()
    )
    for part, batch in batches:
        places, cells = list[Place](), list[Index]()
        for position, (whole, starts) in enumerate(part.arrays):
            key = batch, position, starts, whole.first
            places.append(whole)
            cells.append(known.of(key, partial(_reached, part, batch, position)))
        plan = _plan_of(machine, batch.kind, batch.numbers.shape)
        yield Step(batch.kind, plan, places, cells, is_kept[batch.numbers], batch.ends)


def _reached(op: Calls, batch: _Batch, position: int) -> Index:
    """Numbers the elements that the calls of a batch reach in an operand."""
    (whole, starts), pads = op.arrays[position], pads_in_memory(op.block)
    boxes = batch.boxes[position] + np.array(starts, np.int64)[:, None]
    if position < len(pads) and pads[position] is not None:
        boxes = np.clip(boxes, 0, np.array(whole.shape)[:, None])
    return whole.cells_of(boxes)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Describes calls of one kind that can be done at once, for ops whose blocks are alike."""

    kind: Kind
    numbers: Index
    """Numbers the calls among those of the op; with the axes of a step."""
    boxes: Sequence[Index]
    """By the positions of operands, the boxes that calls reach: for each of them and each
    dimension from where to where, without the constants of indices. The result comes last, with one
    box for all calls that write it."""
    ends: int | None
    """The place of the op's last call among these numbers, in a row, if it is one of them."""


_Cells = Memo[tuple[_Batch, int, tuple[int, ...], int], Index]
"""The elements that batches reach, by the position of the operand, the constants of its indices and
the first row of the buffer: tiles often lie in the same rows."""
_MOST_KNOWN = 32


def _batches_of(op: Calls) -> Sequence[_Batch] | None:
    """Lists batches that do the calls of an op one after the other; None where calls write boxes
    that share elements but are not the same."""
    return op.machine.answer(("batches", op.alike), lambda: _found(op.course))


def _found(course: Course) -> Sequence[_Batch] | None:
    runs: dict[tuple[Span, ...], list[list[int]]] = {}
    for number, (kind, own) in enumerate(zip(course.kinds, course.own, strict=True)):
        of_box = runs.setdefault(course.boxes[own[-1]].sides, [])
        if not of_box or kind.start is not None or course.kinds[of_box[-1][0]] is not kind:
            of_box.append([])
        of_box[-1].append(number)
    if not _share_nothing(list(runs)):
        return None
    alike: dict[tuple[int, Kind, int], list[list[int]]] = {}
    for of_box in runs.values():
        for turn, run in enumerate(of_box):
            alike.setdefault((turn, course.kinds[run[0]], len(run)), []).append(run)
    ordered = sorted(alike.items(), key=lambda item: item[0][0])
    return [batch for (_, kind, _), found in ordered for batch in _cut(course, kind, found)]


def _share_nothing(boxes: Sequence[tuple[Span, ...]]) -> bool:
    """Tells whether different boxes share no elements, as tiles do: their sides along a dimension
    are the same or apart."""
    for sides in zip(*boxes, strict=True):
        apart = sorted(set(sides))
        if any(one[1] > other[0] for one, other in pairwise(apart)):
            return False
    return True


def _cut(course: Course, kind: Kind, runs: Sequence[Sequence[int]]) -> Iterator[_Batch]:
    """Cuts runs of calls, each of which writes a box of its own, to batches of limited size."""
    sizes = [[high - low for low, high in course.boxes[i].sides] for i in course.own[runs[0][0]]]
    most = max(1, _MOST // max(map(prod, sizes)))
    numbers = np.array(runs, np.int64)
    turns = min(most, numbers.shape[1])
    for first in range(0, len(runs), most // turns):
        for turn in range(0, numbers.shape[1], turns):
            part = numbers[first : first + most // turns, turn : turn + turns]
            part = part[:, 0] if part.shape[1] == 1 else part
            ends = np.flatnonzero(part == len(course.kinds) - 1).tolist()
            yield _Batch(kind, part, _boxes(course, kind, part), *ends or [None])


def _boxes(course: Course, kind: Kind, numbers: Index) -> list[Index]:
    """Lists the boxes that calls reach, by the positions of operands."""
    columns = np.array([course.own[number] for number in numbers.flat])
    found: list[Index] = []
    for column in np.argsort([*kind.fit.operands.values()]):
        sides = [course.boxes[at].sides for at in columns[:, column]]
        shape = (*numbers.shape, len(sides[0]), 2)
        found.append(np.array(sides, np.int64).reshape(shape))
    found[-1] = found[-1][:, 0] if numbers.ndim > 1 else found[-1]
    return found


def _plan_of(machine: Machine, kind: Kind, shape: Shape) -> BlockPlan:
    return machine.answer(("plan", kind, shape), lambda: BlockPlan(_several(kind, shape)))


def _several(kind: Kind, shape: Shape) -> BlockOp:
    """Makes the program of one block that does calls with the axes of a step."""
    values = [*kind.block.ins, *kind.block.outs]
    one = local_form(kind.block, [Rank(len(shape_of(value.type)), 0, False) for value in values])
    assert one is not None
    axes = [*zip(("boxes", "calls"), IteratorKind, shape, strict=False)]
    iterators = [*(IteratorAttr.of(*axis) for axis in axes), *one.iterators]
    dims = [AffineExpr.dimension(i) for i in range(len(iterators))]
    maps, types = list[AffineMap](), list[Attribute]()
    for value, map_ in zip([*one.ins, *one.outs], [*one.in_maps, *one.out_maps], strict=True):
        own = 1 if value is one.outs[0] else len(shape)
        moved = map_.replace_dims_and_symbols(dims[len(shape) :], [], len(dims), 0)
        maps.append(AffineMap(len(dims), 0, (*dims[: min(own, len(shape))], *moved.results)))
        sizes = (*shape[:own], *shape_of(value.type))
        types.append(buffer(element_type_of(value.type), sizes))
    return on_its_own(one, iterators, types, maps, pads=one.pad_values)
