"""Takes instructions of two blocks apart: the second goes on with what the first makes, which stays
inside of a unit, as sums do that leave an array scaled and rounded.

Such an instruction is declared as two, with a hidden memory between them. Their blocks are found,
tiled and cut as those of others are; in a program both are one op, and calls do of the first block
what they do of the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from byocir.dialects.tir import BlockOp, IntrinsicOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import Shape
from byocir.machine.parts import Memory, Operand
from byocir.patterns import Composite, Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.nodes import Access, AlternativesPattern

FIRST = "first"
"""The end of the names of first blocks and of the memories that these write, and the name by which
second blocks read what lies there."""


def _forms(patterns: Sequence[Pattern]) -> Iterator[Pattern]:
    """Yields alternatives, those of alternatives included."""
    for each in patterns:
        if isinstance(each, AlternativesPattern):
            yield from _forms(each.alternatives)
        else:
            yield each


def _blocks(*patterns: Pattern) -> list[BlockPattern]:
    return [each for each in _forms(patterns) if isinstance(each, BlockPattern)]


def first_of(pattern: Composite) -> tuple[Pattern | None, str]:
    """Gives the pattern whose result the blocks of an instruction go on with, or None and what is
    there instead.
    """
    seconds = _blocks(*pattern.patterns)
    reads = [_made(each) for each in seconds]
    made = {id(read.pattern): read.pattern for own in reads for read in own}
    if not made:
        return None, "one block"
    if len(made) > 1 or any(len(own) != 1 for own in reads):
        return None, "blocks that read the results of several others, or not always of one"
    first = next(iter(made.values()))
    indices = {each.result for each in (*_blocks(first), *seconds)}
    indices |= {" ".join(own[0].index.split()) for own in reads}
    if len(indices) > 1:
        return None, f"results at {', then '.join(sorted(indices))}"
    return first, ""


def _made(form: BlockPattern) -> list[Access]:
    return [read for read in form.reads if _blocks(read.pattern)]


def names_in(pattern: Composite) -> tuple[set[str], set[str]]:
    """Lists the names of the operands in memories, and those of the iterators, of a pattern."""
    parts = [*pattern.walk()]
    forms = [each.iterators for each in parts if isinstance(each, BlockPattern)]
    looped = {name for it in forms for name in (*it.parallel, *it.reduction, *it.groups)}
    return {each.label or "" for each in parts if isinstance(each, Operand)}, looped


def names_twice(first: Pattern, pattern: Composite) -> list[str]:
    """Lists the names that operands, numbers or sums have in both blocks of a pattern: a call could
    tell them of one block alone.
    """
    one = {FIRST}.union(*map(_names, _blocks(first)))
    other = set[str]().union(*map(_names, _blocks(*pattern.patterns)))
    return sorted(one & other)


def _names(form: BlockPattern) -> set[str]:
    reads = [read.pattern for read in form.reads if not _blocks(read.pattern)]
    labels = {each.label or "wildcard()" for each in reads}
    return labels.union(form.numbers, form.iterators.reduction, form.iterators.reduction_groups)


def second_of(pattern: Composite, memory: Memory) -> Composite:
    """Makes the pattern of second blocks, which read in a memory what first blocks made."""
    value, found = memory(FIRST), list[Pattern]()
    for form in _blocks(*pattern.patterns):
        own = _made(form)
        reads = [Access(value, read.index) if read in own else read for read in form.reads]
        found.append(BlockPattern(form.iterators, reads, form.body, form.init, form.result))
    return Composite(pattern.name, tuple(found))


def iterator_pairs(first: BlockOp, second: BlockOp) -> Mapping[int, int]:
    """Pairs the iterators of two blocks that move along the same dimension of what the first one
    makes and the second one reads.
    """
    value = next(iter(first.results or first.outs))
    read = second.in_maps[list(second.ins).index(value)]
    found: dict[int, int] = {}
    for made, used in zip(first.out_maps[0].results, read.results, strict=True):
        atoms = [form.atoms if form is not None else () for form in map(linear, (made, used))]
        for one, other in zip(*atoms, strict=False):
            found[one] = other
    return found


def calls_of_first(op: IntrinsicOp, first: BlockOp, second: BlockOp) -> IntrinsicOp:
    """Makes an op that stands for what the calls of an instruction do of the first of its blocks:
    all sums of the points that they do of the second.
    """
    pairs, cut = iterator_pairs(first, second), op.cut_of(second)
    ranks = {i: n for n, i in enumerate(op.order.get_values())} if op.order is not None else {}
    sizes = [cut[pairs[i]] if i in pairs else n for i, n in enumerate(first.extents)]
    turns = [ranks.get(pairs[i], pairs[i]) if i in pairs else len(cut) for i in range(len(sizes))]
    order = sorted(range(len(sizes)), key=turns.__getitem__)
    return IntrinsicOp.of(f"{op.callee.data}_{FIRST}", cut=sizes, order=order)


def cut_as(
    first: BlockOp, cut: Sequence[int], order: Sequence[int], second: BlockOp
) -> tuple[Shape, Shape]:
    """Gives the cut and the order of calls of the second block that do what calls of this cut, in
    this order, do of the first.
    """
    pairs = iterator_pairs(first, second)
    sizes = {j: cut[i] for i, j in pairs.items()}
    turns = [*dict.fromkeys(pairs[i] for i in order if i in pairs)]
    turns += [j for j in range(len(second.extents)) if j not in turns]
    return tuple(sizes.get(j, n) for j, n in enumerate(second.extents)), tuple(turns)
