"""Reads the equation of an Einsum: the letters of the dimensions of its operands and its result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from byocir.frontend.onnx.tensors import Unsupported

Letters = tuple[str, ...]
"""A letter for each dimension; those that an ellipsis stands for are numbered."""

TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")
"""The terms of an equation, one for each operand."""


def read_equation(equation: str, ranks: Sequence[int]) -> tuple[list[Letters], Letters]:
    """Reads the letters of operands of these ranks and those of the result; raises Unsupported.

    Without an arrow the result has the dimensions of the ellipsis, and then all letters that occur
    once, in the order of ASCII.
    """
    inputs, arrow, output = "".join(equation.split()).partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise Unsupported(f"expected a term for each of {len(ranks)} inputs, found {len(terms)}")
    counts = {r - _letters_in(t) for t, r in zip(terms, ranks, strict=True) if "..." in t}
    if len(counts) > 1:
        raise Unsupported("expected an ellipsis of one number of dimensions, found several")
    hidden = tuple(map(str, range(max(counts, default=0))))
    operands = [_letters(term, hidden) for term in terms]
    for term, letters, rank in zip(terms, operands, ranks, strict=True):
        if len(letters) != rank:
            raise Unsupported(f"expected a letter for each of {rank} dimensions, found '{term}'")
    given = list(chain.from_iterable(operands))
    if not arrow:
        once = sorted(letter for letter in given if given.count(letter) == 1)
        return operands, (*hidden, *(letter for letter in once if letter not in hidden))
    result = _letters(output, hidden)
    if len(set(result)) != len(result) or not set(hidden) <= set(result) <= set(given):
        raise Unsupported(
            f"expected a result of letters of the inputs, each once, and all that an ellipsis "
            f"stands for, found '{output}'"
        )
    return operands, result


def _letters_in(term: str) -> int:
    return len(term) - len("...")


def _letters(term: str, hidden: Letters) -> Letters:
    found = TERM.fullmatch(term)
    if found is None:
        raise Unsupported(f"expected letters and at most one ellipsis, found '{term}'")
    before, ellipsis, after = found.groups()
    return (*before, *(hidden if ellipsis else ()), *after)
