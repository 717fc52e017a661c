"""Threads: a team of them runs many steps, and shares the loops that are worth it.

A team begins once for all steps in a row that neither leave the C code nor branch nor may end the
run, so threads are woken once and not for every loop. All of a team call the kernels whose loops
they share, one of them does what is between, and they meet before anybody reads what others wrote.
A loop is cut into as many even pieces as there are threads, in order: of two loops over the rows of
an image each thread has the same rows, which are then in its cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

from byocir.dialects.tir import LoopKind
from byocir.lowering.tir_to_c.conditions import KEPT_APART
from byocir.lowering.tir_to_c.loops import TAB, indented
from byocir.lowering.tir_to_c.steps import Compute, Copy, Fill, Repeat, Step

DIRECTIVES = """/* What threads share, where there is OpenMP. */
#ifdef _OPENMP
#define PRAGMA(text) _Pragma(#text)
#define OMP(directive) PRAGMA(omp directive)
#else
#define OMP(directive)
#endif
"""
WORTH_SHARING = 2**12
"""Work from which a loop is shared: points of a block, those of one vector as one. Less is done
before the other threads have seen that there is something to do."""
WORTH_TEAM = 2**15
"""The same for all that a team shares, which must be worth waking its threads."""
UNEVEN = 1 / 32
"""The work beyond its share that a thread may have, if loops can be cut so evenly."""

_HEAD = re.compile(
    r"( *)for \(ptrdiff_t \w+ = (\d+); \w+ < (?:apart\()?(\d+)\)?; \w+ ?\+[+=] ?(\d*)\) \{"
)


def shared_for(counts: Sequence[int], threads: int, *, waits: bool = True) -> str:
    """The directive before a loop that threads share, with as many of the loops directly inside it
    (`counts` tells the iterations of each) as even pieces need. Without `waits` threads go on when
    they are done."""
    wastes: list[float] = []
    for depth in range(1, len(counts) + 1):
        count = prod(counts[:depth])
        wastes.append(-(-count // threads) * threads / count - 1)
        if wastes[-1] <= UNEVEN:
            break
    depth = wastes.index(min(wastes)) + 1
    collapse = f" collapse({depth})" if depth > 1 else ""
    return f"OMP(for schedule(static){collapse}{'' if waits else ' nowait'})"


def alone(lines: Sequence[str], *, waits: bool = True) -> list[str]:
    """Statements for one thread of a team."""
    head = "OMP(single)" if waits else "OMP(single nowait)"
    if len(lines) == 1 or _is_one_statement(lines):
        return [head, *lines]
    return [head, "{", *map(indented, lines), "}"]


def shared_loops(lines: Sequence[str], threads: int) -> list[str] | None:
    """Plain loops as a team runs them, of which threads share the outermost ones; None where there
    is no loop to share. The innermost of several loops is left to vectors."""
    statements = _statements(lines)
    if not all(statement[0].startswith(("for (", "{")) for statement in statements):
        return None
    made: list[str] = []
    shares = False
    for statement in statements:
        counts = _counts(statement)
        if counts:
            shares = True
            made += [shared_for(counts[: max(len(counts) - 1, 1)], threads), *statement]
        else:
            made += alone(statement)
    return made if shares else None


def _statements(lines: Sequence[str]) -> list[list[str]]:
    """Lines by the statement at their outermost level that they belong to."""
    statements: list[list[str]] = []
    for line in lines:
        if line.startswith((TAB, "}", "#")) and statements:
            statements[-1].append(line)
        else:
            statements.append([line])
    return statements


def _is_one_statement(lines: Sequence[str]) -> bool:
    return lines[0].startswith(("{", "for (")) and len(_statements(lines)) == 1


def _counts(statement: Sequence[str]) -> list[int]:
    """Counts the iterations of each loop in the nest that begins a statement, outermost first."""
    counts: list[int] = []
    statement = [line for line in statement if line.strip() != KEPT_APART]
    for depth, line in enumerate(statement):
        head, indent = _HEAD.fullmatch(line), TAB * depth
        if head is None or head[1] != indent:
            break
        there = [x for x in statement if x.startswith(indent) and x[len(indent)] != " "]
        if len(there) != 2:
            break
        start, stop, step = int(head[2]), int(head[3]), int(head[4] or 1)
        counts.append(-(-(stop - start) // step))
    return counts


# -- steps


def teamed(steps: Sequence[Step], threads: int, write: Callable[[Step], list[str]]) -> list[str]:
    """The lines of steps as threads run them; `write` gives those of one step."""
    lines: list[str] = []
    pending: list[Step] = []
    for step in [*steps, None]:
        if step is not None and _stays(step):
            pending.append(step)
            continue
        if sum(map(_work, pending)) >= WORTH_TEAM:
            inner = _inside(pending, write)
            lines += [f"OMP(parallel num_threads({threads}))", "{", *map(indented, inner), "}"]
        else:
            lines += [line for each in pending for line in write(each)]
        pending = []
        lines += [] if step is None else write(step)
    return lines


def _stays(step: Step) -> bool:
    """Tells if a step neither leaves the function nor calls anything outside of it: threads of a
    team must not return alone, nor run what others wrote for one thread."""
    match step:
        case Compute():
            return not step.kernel.can_fail
        case Repeat():  # of other kinds are those that a schedule has shared already
            plain = step.kind is LoopKind.SERIAL and step.condition is None
            return plain and all(map(_stays, step.steps))
        case _:
            return isinstance(step, Fill | Copy)


def _work(step: Step) -> int:
    """Measures the work of a step that threads share."""
    match step:
        case Compute():
            return step.kernel.shared
        case Repeat():
            return step.extent * sum(map(_work, step.steps))
        case _:
            return 0


def _inside(steps: Sequence[Step], write: Callable[[Step], list[str]]) -> list[str]:
    """The lines of steps that all threads of a team reach."""
    lines: list[str] = []
    serial: list[str] = []
    for step in steps:
        if not _work(step) and not _is_margin(step):
            serial += write(step)
            continue
        if serial:
            lines += alone(serial)
            serial = []
        if isinstance(step, Repeat):
            head = f"for (ptrdiff_t {step.name} = 0; {step.name} < {step.extent}; {step.name}++) {{"
            lines += [head, *map(indented, _inside(step.steps, write)), "}"]
        elif isinstance(step, Fill):
            # The step that follows writes all else of the buffer, and reads none of it.
            lines += alone(write(step), waits=False)
        else:
            lines += write(step)
    return [*lines, *(alone(serial) if serial else [])]


def _is_margin(step: Step) -> bool:
    return isinstance(step, Fill) and step.is_margin
