"""Shares the loops of C among the threads of a team, by OpenMP's directives.

A team begins once for all steps in a row that neither leave the C code nor branch nor may end the
run, so threads are woken once and not for every loop. All of a team call the kernels whose loops
they share, one of them does what is between, and they meet before anybody reads what others wrote.
A loop is cut into as many even pieces as there are threads, in order: of two loops over the rows of
an image each thread has the same rows, which are then in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from byocir.dialects.tir import LoopKind
from byocir.lowering.tir_to_c.conditions import KEPT_APART
from byocir.lowering.tir_to_c.repeats import repeated
from byocir.lowering.tir_to_c.steps import Compute, Copy, Fill, Repeat, Step
from byocir.lowering.tir_to_c.tree import Block, For, Node, Nodes

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


def shared_for(counts: Sequence[int], threads: int, *, waits: bool = True) -> str:
    """Writes the directive before a loop that threads share, with as many of the loops directly
    inside it (`counts` tells the iterations of each) as even pieces need. Without `waits`, threads
    go on as soon as they are done.
    """
    wastes: list[float] = []
    for depth in range(1, len(counts) + 1):
        count = prod(counts[:depth])
        wastes.append(-(-count // threads) * threads / count - 1)
        if wastes[-1] <= UNEVEN:
            break
    depth = wastes.index(min(wastes)) + 1
    collapse = f" collapse({depth})" if depth > 1 else ""
    return f"OMP(for schedule(static){collapse}{'' if waits else ' nowait'})"


def alone(nodes: Nodes, *, waits: bool = True) -> Nodes:
    """Makes one thread of a team run these statements."""
    body = nodes if len(nodes) == 1 else [Block(nodes)]
    return ["OMP(single)" if waits else "OMP(single nowait)", *body]


def shared_loops(nodes: Nodes, threads: int) -> Nodes | None:
    """Shares plain loops among a team's threads, from the outermost on; None where there is no loop
    to share. The innermost of several loops is left to vectors.
    """
    if not all(isinstance(node, For | Block) for node in nodes):
        return None
    made: list[Node] = []
    shares = False
    for node in nodes:
        counts = _counts(node)
        shares = shares or bool(counts)
        if counts:
            made += [shared_for(counts[: max(len(counts) - 1, 1)], threads), node]
        else:
            made += alone([node])
    return made if shares else None


def _counts(node: Node) -> list[int]:
    """Gives the number of iterations of each loop in a nest, outermost first."""
    counts: list[int] = []
    while isinstance(node, For) and node.count is not None:
        counts.append(node.count)
        inner = [each for each in node.body if each != KEPT_APART]
        if len(inner) != 1:
            break
        (node,) = inner
    return counts


# -- steps


def teamed(steps: Sequence[Step], threads: int, write: Callable[[Step], Nodes]) -> Nodes:
    """Makes a team of threads run steps; `write` gives the statements of one step."""
    nodes: list[Node] = []
    pending: list[Step] = []
    for step in [*steps, None]:
        if step is not None and _stays(step):
            pending.append(step)
            continue
        if sum(map(_work, pending)) >= WORTH_TEAM:
            nodes += [f"OMP(parallel num_threads({threads}))", Block(_inside(pending, write))]
        else:
            nodes += [node for each in pending for node in write(each)]
        pending = []
        nodes += [] if step is None else write(step)
    return nodes


def _stays(step: Step) -> bool:
    """Tells if a step neither leaves the function nor calls anything outside of it: a thread of a
    team must not return alone, nor run what others wrote for one thread.
    """
    match step:
        case Compute():
            return not step.kernel.can_fail
        case Repeat():  # a schedule has already shared the loops of other kinds
            plain = step.kind is LoopKind.SERIAL and step.condition is None
            return plain and all(map(_stays, step.steps))
        case _:
            return isinstance(step, Fill | Copy)


def _work(step: Step) -> int:
    """Measures the work of a step that threads can share."""
    match step:
        case Compute():
            return step.kernel.shared
        case Repeat():
            return step.extent * sum(map(_work, step.steps))
        case _:
            return 0


def _inside(steps: Sequence[Step], write: Callable[[Step], Nodes]) -> Nodes:
    """Writes the statements of steps that all threads of a team run."""
    nodes: list[Node] = []
    serial: list[Node] = []
    for step in steps:
        if not _work(step) and not _is_partial(step):
            serial += write(step)
            continue
        if serial:
            nodes += alone(serial)
            serial = []
        if isinstance(step, Repeat):
            nodes += repeated(step, _inside(step.steps, write))
        elif isinstance(step, Fill):
            # The step that follows writes all else of the buffer, and reads none of it.
            nodes += alone(write(step), waits=False)
        else:
            nodes += write(step)
    return [*nodes, *(alone(serial) if serial else [])]


def _is_partial(step: Step) -> bool:
    return isinstance(step, Fill) and step.is_partial
