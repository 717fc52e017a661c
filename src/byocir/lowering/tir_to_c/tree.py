"""Keeps the statements of a C function as a small tree, and prints it.

Loops, conditions, blocks and constants are nodes; any other statement is text, and so are
expressions and lines of the preprocessor. Passes take nodes and give nodes: `live` drops what is
declared and never read, `repeats` writes loops out, `openmp` shares loops among threads. Only
`definition` makes text of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_NAME = re.compile(r"\b[A-Za-z_]\w*")
TAB = "    "


@dataclass(frozen=True)
class Declare:
    """Declares a constant of the C block that it stands in; `live` drops it where nothing
    reads it."""

    kind: str
    name: str
    value: str


@dataclass(frozen=True)
class For:
    """Loops with a variable that counts from `start` up to `stop`, a number or an expression."""

    name: str
    stop: int | str
    body: Nodes
    start: int = 0
    step: int = 1
    kind: str = "ptrdiff_t"
    is_apart: bool = False
    """Tells if the loop must not be unrolled before vectors are made, as `conditions` explains."""

    @property
    def count(self) -> int | None:
        """Counts the iterations; gives None where only a run knows how many there are."""
        if isinstance(self.stop, str):
            return None
        return -(-(self.stop - self.start) // self.step)


@dataclass(frozen=True)
class If:
    """Runs statements where a condition holds, and others where it does not."""

    condition: str
    then: Nodes
    otherwise: Nodes = ()


@dataclass(frozen=True)
class Block:
    """Holds statements with declarations of their own, and a comment on them."""

    body: Nodes
    told: str = ""


Node = str | Declare | For | If | Block
Nodes = Sequence[Node]


def names_in(text: str) -> set[str]:
    """Finds the names in a C expression or statement."""
    return {*_NAME.findall(text)}


def live(nodes: Nodes) -> list[Node]:
    """Drops the declarations of names that nothing after them reads, such as an index where a
    comparison always holds.
    """
    return _live(nodes)[0]


def _live(nodes: Nodes) -> tuple[list[Node], set[str]]:
    """Gives the nodes that are left without unused declarations, and the names that they read."""
    kept: list[Node] = []
    read: set[str] = set()
    for node in reversed(nodes):
        if isinstance(node, Declare) and node.name not in read:
            continue
        left, names = _alive(node)
        kept.append(left)
        read |= names
    return kept[::-1], read


def _alive(node: Node) -> tuple[Node, set[str]]:
    match node:
        case str():
            return node, names_in(node)
        case Declare():
            return node, names_in(node.value)
        case If():
            then, read = _live(node.then)
            otherwise, others = _live(node.otherwise)
            return If(node.condition, then, otherwise), read | others | names_in(node.condition)
        case For() | Block():
            body, read = _live(node.body)
            ends = names_in(str(node.stop)) if isinstance(node, For) else set[str]()
            return replace(node, body=body), read | ends


def printed(nodes: Nodes, indent: str = "") -> Iterator[str]:
    """Yields the lines of nodes; those of the preprocessor begin at the margin."""
    inner = indent + TAB
    for node in nodes:
        match node:
            case str():
                yield node if node.startswith("#") else indent + node
            case Declare():
                yield f"{indent}const {node.kind} {node.name} = {node.value};"
            case Block():
                yield f"{indent}{{ /* {node.told} */" if node.told else f"{indent}{{"
                yield from printed(node.body, inner)
                yield f"{indent}}}"
            case For():
                yield f"{indent}{_head(node)} {{"
                yield from printed(node.body, inner)
                yield f"{indent}}}"
            case If():
                yield f"{indent}if ({node.condition}) {{"
                yield from printed(node.then, inner)
                if node.otherwise:
                    yield f"{indent}}} else {{"
                    yield from printed(node.otherwise, inner)
                yield f"{indent}}}"


def _head(loop: For) -> str:
    stop = f"apart({loop.stop})" if loop.is_apart else loop.stop
    step = "++" if loop.step == 1 else f" += {loop.step}"
    return f"for ({loop.kind} {loop.name} = {loop.start}; {loop.name} < {stop}; {loop.name}{step})"


def definition(head: str, body: Nodes) -> str:
    """Writes a function in C from its head and its body."""
    lines = "\n".join(printed(live(body), TAB))
    return f"{head}\n{{\n{lines}\n}}\n"
