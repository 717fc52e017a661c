"""Makes a program that shows a problem smaller while it still shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from byocir.dialects.locations import named
from byocir.dialects.traits import is_constant
from byocir.dialects.types import shape_of
from byocir.evaluate.module import random_feeds
from byocir.testing.conformance.cases import Case
from byocir.testing.conformance.nets import main_of, ops_of
from byocir.testing.conformance.trial import TimeOver

ATTEMPTS = 60
"""The smaller programs that are tried in place of one."""
SECONDS, MOST_SECONDS = 10.0, 120.0
"""The seconds that it may take to make a program smaller, in sessions of some time, and in those
that are the same each time: there it ends what hangs, however slow the machine is."""

Shows = Callable[[Case, float], bool]
"""Tells if a case shows the problem, by a moment at which it raises TimeOver."""


def _limited(shows: Shows, seconds: float) -> Callable[[Case], bool]:
    """Limits a test: it raises TimeOver at one attempt too many, and in an attempt that takes too
    long.
    """
    end, left = time.monotonic() + seconds, [ATTEMPTS]

    def limited(case: Case) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise TimeOver
        return shows(case, end)

    return limited


def size_of(module: ModuleOp) -> int:
    """Measures a program for its reader: counts ops and, with far less weight, elements."""
    counts = elements_of(module)
    return 1000 * len(counts) + sum(counts)


def elements_of(module: ModuleOp) -> list[int]:
    """Counts the elements of each array in a program."""
    types = [value.type for op in ops_of(module) for value in op.results]
    types += [argument.type for argument in main_of(module).body.block.args]
    return [int(np.prod(shape_of(type_))) for type_ in types]


def shrink(case: Case, shows: Shows, others: Iterator[Case], seconds: float = SECONDS) -> Case:
    """Finds the smallest case that still shows the problem: among `others` made of the same
    pattern, then parts of it, then simpler inputs. It takes at most about so many seconds.
    """
    is_shown = _limited(shows, seconds)
    with suppress(TimeOver):
        for other in others:
            if size_of(other.module) < size_of(case.module) and is_shown(other):
                case = other
                break
        found: Case | None = case
        while found is not None:
            case = found
            smaller = (*_parts(case), *_simpler(case))
            found = next((each for each in smaller if is_shown(each)), None)
    return case


def _parts(case: Case) -> Iterator[Case]:
    """Yields the program without one of its results, or with an input in place of an op."""
    count = len(_returned(case.module).operands)
    for i in range(count) if count > 1 else ():
        module = case.module.clone()
        last = _returned(module)
        last.operands = [v for j, v in enumerate(last.operands) if j != i]
        yield _cleaned(case, module)
    for i, op in enumerate(ops_of(case.module)):
        if op.operands and len(op.results) == 1 and not _is_returned(op):
            yield _cut(case, i)


def _returned(module: ModuleOp) -> Operation:
    last = main_of(module).body.block.last_op
    assert isinstance(last, ReturnOp)
    return last


def _is_returned(op: Operation) -> bool:
    return any(isinstance(use.operation, ReturnOp) for use in op.results[0].uses)


def _cut(case: Case, index: int) -> Case:
    """Copies the program with an input in place of one of its ops."""
    module = case.module.clone()
    op = [*ops_of(module)][index]
    block = main_of(module).body.block
    op.results[0].replace_all_uses_with(block.insert_arg(op.results[0].type, len(block.args)))
    return _cleaned(case, module)


def _cleaned(case: Case, module: ModuleOp) -> Case:
    """Removes what nothing uses from the program; feeds of removed inputs go, too."""
    main = main_of(module)
    for op in reversed([*ops_of(module)]):
        if all(not value.uses for value in op.results):
            op.detach()
            op.erase()
    kept: list[int] = []
    for i, argument in reversed([*enumerate(main.body.block.args)]):
        if argument.uses:
            kept.insert(0, i)
        else:
            main.body.block.erase_arg(argument)
    main.update_function_type()
    feeds, known = random_feeds(module), [*case.feeds.values()]
    arrays = [known[i] if i < len(known) else None for i in kept]
    given = {
        name: ordinary if array is None else array
        for (name, ordinary), array in zip(feeds.items(), arrays, strict=True)
    }
    for i, op in enumerate(op for op in ops_of(module) if not is_constant(op)):
        op.location = named(f"n{i}")
    return replace(case, module=module, feeds=given)


def _simpler(case: Case) -> Iterator[Case]:
    """Yields the case with an input that is all zero, all one, or whole numbers."""
    for name, array in case.feeds.items():
        if array.dtype.kind == "b" or not array.size:
            continue
        with np.errstate(all="ignore"):
            simple = [np.zeros_like(array), np.ones_like(array), np.round(array)]
        if not (array == 0).all():
            kept = simple if not (array == 1).all() else simple[:1]
            for each in kept:
                if not np.array_equal(each, array):
                    yield replace(case, feeds={**case.feeds, name: each.astype(array.dtype)})
