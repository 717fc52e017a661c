"""Writes patterns and rules as a document for users, from the very objects that match.

A pattern is written as lines, inputs first, one for each of its ops:

```
conv = graph.conv(x: i8, constant w: i8, [constant b])
%1 = graph.relu(conv) | conv
```

`[…]` is an operand that may be missing, `|` separates alternatives in the order in which they are
tried. A block shows its iterators, how it reads, and what its body makes of that:

```
%0 = block [m n | k] reads a[m k] as x, constant b[n k] as y, computes acc + (x * y)
```
"""

from __future__ import annotations

from collections.abc import Iterable

from byocir.patterns.blocks import BlockPattern
from byocir.patterns.composite import Composite
from byocir.patterns.differences import without_outer_parentheses
from byocir.patterns.nodes import (
    AlternativesPattern,
    AnyOperandsPattern,
    ConstantPattern,
    OpPattern,
    Pattern,
    WildcardPattern,
    wanted,
)
from byocir.patterns.scalars import body_text
from byocir.patterns.structure import ParallelPattern, PathPattern, ResultPattern

WIDTH = 100
"""The letters of alternatives up to which they share a line."""


def document(target: str, composites: Iterable[Composite]) -> str:
    """Lists the composites of a target in order, with their patterns and rules, as markdown."""
    lines = [
        f"# What {target} takes",
        "",
        "In order of priority; the first that fits is taken.",
        "",
    ]
    for composite in composites:
        lines += [f"## {composite.name}", "", f"At the {composite.level} level.", ""]
        if composite.glue:
            lines[-2] += " Only beside other work."
        for pattern in composite.patterns:
            lines += ["```", *pattern_lines(pattern), "```", ""]
        lines += [f"- {rule.sentence}." for rule in composite.rules]
        lines += [""] if composite.rules else []
    return "\n".join(lines).rstrip() + "\n"


def pattern_lines(pattern: Pattern) -> list[str]:
    """Gives a pattern as lines, inputs first."""
    writer = _Writer()
    last = writer.name(pattern)
    return writer.lines or [last]


class _Writer:
    """Writes each pattern object once, and gives it a name where it is used again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[int, str] = {}
        self._unnamed = 0

    def name(self, pattern: Pattern) -> str:
        """Names a pattern where it is used, and adds the line that defines it once."""
        if isinstance(pattern, WildcardPattern | ConstantPattern):
            return _leaf(pattern)
        if id(pattern) not in self._names:
            text = self._text(pattern)
            name = pattern.label
            if name is None or name in self._names.values():
                name, self._unnamed = f"%{self._unnamed}", self._unnamed + 1
            self._names[id(pattern)] = name
            self.lines.append(f"{name} = {text}")
        return self._names[id(pattern)]

    def _text(self, pattern: Pattern) -> str:
        """Writes what a pattern matches, with its operands by their names."""
        if isinstance(pattern, AlternativesPattern):
            texts = [self._alternative(each) for each in pattern.alternatives]
            fits = sum(map(len, texts)) <= WIDTH
            return (" | " if fits else "\n   | ").join(texts)
        if isinstance(pattern, OpPattern):
            names = [self.name(operand) for operand in pattern.operands]
            shown = [f"[{n}]" if i >= pattern.required else n for i, n in enumerate(names)]
            attrs = ", ".join(f"{name} = {wanted(value)}" for name, value in pattern.attrs.items())
            return f"{pattern.name}({', '.join(shown)})" + (f" {{{attrs}}}" if attrs else "")
        if isinstance(pattern, BlockPattern):
            (_, *inputs), body = body_text(pattern.body, len(pattern.reads))
            reads = [
                f"{self.name(read.pattern)}{'' if read.whole else f'[{read.index}]'} as {name}, "
                for read, name in zip(pattern.reads, inputs, strict=True)
            ]
            what = f"reads {''.join(reads)}" if reads else ""
            return f"block [{pattern.iterators}] {what}computes {without_outer_parentheses(body)}"
        if isinstance(pattern, AnyOperandsPattern):
            return f"{pattern.name}(…)"
        if isinstance(pattern, ResultPattern):
            index = "any result" if pattern.index is None else f"result {pattern.index}"
            return f"{index} of {self.name(pattern.inner)}"
        if isinstance(pattern, PathPattern):
            return f"{self.name(pattern.start)} through {', '.join(sorted(pattern.through))}"
        if isinstance(pattern, ParallelPattern):
            return f"all of {', '.join(self.name(root) for root in pattern.roots)}"
        return type(pattern).__name__

    def _alternative(self, pattern: Pattern) -> str:
        """Writes an alternative in place, unless it is a leaf or has a name."""
        leaf = isinstance(pattern, WildcardPattern | ConstantPattern)
        if leaf or id(pattern) in self._names or pattern.label is not None:
            return self.name(pattern)
        if isinstance(pattern, AlternativesPattern):
            return self._text(pattern)
        text = self._text(pattern)
        self._names[id(pattern)] = text
        return text


def _leaf(pattern: WildcardPattern | ConstantPattern) -> str:
    kind = "constant " if isinstance(pattern, ConstantPattern) else ""
    type_ = f": {pattern.dtype}" if pattern.dtype is not None else ""
    type_ += "".join(f" ({test.sentence})" for test in pattern.tests)
    return f"{kind}{pattern.label or '_'}{type_}"
