"""Changes one test of a pattern, so that a program of the changed pattern is declined for a known
reason.

Of blocks the body, the indices, the number they start from and the pads are changed.

A program drawn from the changed pattern (`byocir.testing.graphs`) misses the one it was made of by
that test alone. The reason is told by the matcher's own functions, from what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature

from xdsl.ir import Operation, SSAValue

from byocir.dialects import tir
from byocir.patterns import Composite, Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.differences import body_differs
from byocir.patterns.index import Group
from byocir.patterns.legality import describe
from byocir.patterns.match import python_value
from byocir.patterns.nodes import (
    AlternativesPattern,
    AnyOperandsPattern,
    ConstantPattern,
    OpPattern,
    ValuePattern,
    WildcardPattern,
    attribute_fits,
)
from byocir.patterns.same_blocks import Facts, OutlineMisfit
from byocir.patterns.scalars import ScalarPattern
from byocir.patterns.structure import ParallelPattern, PathPattern, ResultPattern
from byocir.patterns.value_tests import PRESENT
from byocir.testing.blocks import Guarded
from byocir.testing.by_example import choices, graph_ops, operand_range
from byocir.testing.choose import Choose, pick
from byocir.testing.draft import Unfit
from byocir.testing.graphs import ELEMENTS, RARE, Drawn
from byocir.testing.rebuilding import Change, Rebuilt, Refusal, below, changed, leads_to, resolved

NUMBERS = (*ELEMENTS, *RARE)
Producing = OpPattern | AnyOperandsPattern | BlockPattern | ResultPattern
UNARY = ("graph.abs", "graph.relu", "graph.sigmoid", "graph.tanh")


Changed = tuple[Pattern, Callable[[Drawn], str]]
"""A whole pattern in which something is changed, and what tells the reason from what was drawn."""


@dataclass(frozen=True)
class Flip:
    """Describes one test of a pattern to be changed: `whole` is the alternative of the composite
    that has it, `part` the pattern.
    """

    whole: Pattern
    part: Pattern
    change: Change

    def draw(self, choose: Choose) -> Changed:
        """Draws the changed pattern; raises Unfit where a draw failed."""
        part, refusal = self.change(choose)
        whole = Rebuilt(self.part, part, None).pattern(self.whole)
        return whole, partial(_reason_of, part, refusal)


@dataclass(frozen=True)
class OtherNode:
    """Describes a pattern used twice, which is to be another value at one of the places, where the
    composite demands the same.
    """

    whole: Pattern
    part: Pattern

    def draw(self, choose: Choose) -> Changed:
        """Draws the changed pattern; raises Unfit where a draw failed."""
        known: dict[int, Pattern] = {}
        whole = resolved(choose, self.whole, known)
        part = known.get(id(self.part), self.part)
        uses = _uses(part, whole)
        if uses < 2:
            raise Unfit
        twin = changed(part, label=None)
        place = choose(1, uses - 1)
        refusal = f"expected {_same(part)} as before"
        return Rebuilt(part, twin, place).pattern(whole), partial(
            _reason_of, twin, lambda value: refusal
        )


def _reason_of(part: Pattern, refusal: Refusal, drawn: Drawn) -> str:
    value = drawn.nodes.get(part)
    return "" if value is None else refusal(value)


# What can be changed about each kind of pattern.


def flips_of(composite: Composite) -> list[Flip | OtherNode]:
    """Lists the tests of the composite's patterns that can be changed, in order."""
    return [flip for whole in composite.patterns for flip in _flips(whole)]


def _flips(whole: Pattern) -> Iterator[Flip | OtherNode]:
    for part in below(whole):
        for change in _changes(part, is_root=_is_root(part, whole)):
            yield Flip(whole, part, change)
        if not isinstance(part, AlternativesPattern) and _uses(part, whole) > 1:
            yield OtherNode(whole, part)
        if isinstance(part, OpPattern) and part.exposed:
            inputs = [p for p in below(whole) if isinstance(p, WildcardPattern)]
            for value in inputs:
                if not leads_to(part, value):
                    yield Flip(whole, value, _comes_back(part))


def _is_root(part: Pattern, whole: Pattern) -> bool:
    """Tells if a pattern stands for the last op."""
    roots, pending = set[int](), [whole]
    while pending:
        current = pending.pop()
        roots.add(id(current))
        if isinstance(current, AlternativesPattern | ResultPattern):
            pending.extend(current.children())
        if isinstance(current, ParallelPattern):
            pending.append(current.roots[0])
    return id(part) in roots


def _uses(part: Pattern, whole: Pattern) -> int:
    """Counts the patterns that use this one, except alternatives, of which only one takes part."""
    users = (p for p in below(whole) if not isinstance(p, AlternativesPattern))
    return sum(child is part for user in users for child in user.children())


def _changes(part: Pattern, *, is_root: bool) -> Iterator[Change]:
    match part:
        case OpPattern():
            yield from (_other_op(part), _other_operands(part))
            yield from [_other_attribute(part, name) for name in part.attrs]
        case AnyOperandsPattern():
            yield _other_op(part)
        case ValuePattern():
            yield from _other_values(part)
        case ResultPattern():
            yield _other_result(part)
        case PathPattern():
            yield from (_other_step(part), _second_start(part))
        case ParallelPattern():
            yield _alone(part)
        case BlockPattern():
            yield from block_changes(part)
        case _:
            pass
    if not is_root and isinstance(part, Producing):
        yield from _edges(part)


def _edges(part: Producing) -> Iterator[Change]:
    """Lists the changes that use another value in place of the result of an op."""
    yield _an_input(part)
    if isinstance(part, OpPattern):
        yield _second_result(part)


def _other_op(part: OpPattern | AnyOperandsPattern) -> Change:
    """Changes an op to another one with as many operands."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        name = pick(choose, sorted(set(graph_ops()) - {part.name}))
        refusal = f"expected {part.name}, found {name}"
        if isinstance(part, OpPattern):
            least, most = operand_range(name)
            if not least <= part.required <= len(part.operands) <= most or not part.operands:
                raise Unfit
            return changed(part, name=name, attrs={}), lambda value: refusal
        return changed(part, name=name), lambda value: refusal

    return change


def _other_attribute(part: OpPattern, name: str) -> Change:
    """Changes the value of an attribute."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        others = [
            value
            for value in choices(part.name, name)
            if not attribute_fits(part.attrs[name], value)
        ]
        rest = {key: value for key, value in part.attrs.items() if key != name}
        attrs = {**rest, name: pick(choose, others)} if others and choose(0, 1) else rest
        return changed(part, attrs=attrs), _refusal_of_op(part)

    return change


def _other_operands(part: OpPattern) -> Change:
    """Adds an operand, or removes one."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        more = (*part.operands, WildcardPattern(None, None, ()))
        operands = pick(choose, [more, part.operands[: part.required - 1]])
        least, most = operand_range(part.name)
        if not least <= len(operands) <= most or not operands:
            raise Unfit
        return changed(part, operands=operands, required=len(operands)), _refusal_of_op(part)

    return change


def _refusal_of_op(part: OpPattern) -> Refusal:
    def refusal(value: SSAValue) -> str:
        return part.refusal(value.owner) if isinstance(value.owner, Operation) else ""

    return refusal


def _second_result(part: OpPattern) -> Change:
    """Uses the second result of the op where the first is asked for."""
    refusal = f"expected the first result of {part.name}, found result 1"
    return lambda choose: (ResultPattern(part, 1), lambda value: refusal)


def _an_input(part: Producing) -> Change:
    """Uses an input of the function in place of the result of an op."""
    wanted = "a block" if isinstance(part, BlockPattern) else " or ".join(part.root_names())
    wanted = f"a result of {wanted}" if isinstance(part, ResultPattern) else wanted
    refusal = f"expected {wanted}, found an input of the function"
    return lambda choose: (WildcardPattern(None, None, ()), lambda value: refusal)


def _no_constant(part: ConstantPattern) -> Change:
    """Uses an input of the function in place of a constant."""
    refusal = f"expected {part.shown}, found an input of the function"
    return lambda choose: (
        WildcardPattern(part.label, part.dtype, ()),
        lambda value: refusal,
    )


def _other_values(part: ValuePattern) -> Iterator[Change]:
    """Lists the changes of a value: to one that is no constant, to one of another element type, and
    to one that fails each test.
    """

    def refusal(value: SSAValue) -> str:
        refused = part.refusal(value)
        return refused and f"expected {part.shown} {refused}"

    if isinstance(part, ConstantPattern):
        yield _no_constant(part)
    if part.dtype is not None:
        others = [element for element in NUMBERS if element != part.dtype]
        yield lambda choose: (changed(part, dtype=pick(choose, others)), refusal)
    for test in part.tests:
        if test is PRESENT:  # all constants of generated programs have numbers
            continue
        rest = tuple(other for other in part.tests if other is not test)
        yield lambda choose, rest=rest: (changed(part, tests=rest), refusal)


def _same(part: Pattern) -> str:
    """Words the demand that messages have where a pattern is used again."""
    if isinstance(part, OpPattern | AnyOperandsPattern):
        return f"the same {part.name}"
    if isinstance(part, BlockPattern):
        return "the same block"
    return f"the same value for {part.shown if isinstance(part, ValuePattern) else part.label}"


def _comes_back(part: OpPattern) -> Change:
    """Makes an input of the match depend on the match itself, through an op outside of it."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        outside = OpPattern("graph.abs", (part,), {}, exposed=False)

        def refusal(value: SSAValue) -> str:
            inner = value.owner.operands[0].owner if isinstance(value.owner, Operation) else None
            assert isinstance(inner, Operation)
            return f"a path leaves the match at {describe(inner)} and comes back"

        return outside, refusal

    return change


def _other_result(part: ResultPattern) -> Change:
    """Uses another result of the op."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        index = choose(0, 2)
        if part.index in (None, index):
            raise Unfit
        refusal = f"expected result {part.index}, found result {index}"
        return changed(part, index=index), lambda value: refusal

    return change


def _other_step(part: PathPattern) -> Change:
    """Puts an op on the path that the path does not allow."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        name = pick(choose, [op for op in UNARY if op not in part.through])
        start = part.start
        if not isinstance(start, OpPattern | AnyOperandsPattern | ConstantPattern):
            raise Unfit
        wanted = start.shown if isinstance(start, ConstantPattern) else start.name
        step = OpPattern(name, (start,), {}, exposed=False)
        return changed(part, start=step), lambda value: f"expected {wanted}, found {name}"

    return change


def _second_start(part: PathPattern) -> Change:
    """Lets the path also come from a second value."""
    refusal = "expected all paths to come from one value, found 2 values that lead there"

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        joining = [
            n for n in sorted(part.through) if operand_range(n)[0] <= 2 <= operand_range(n)[1]
        ]
        if not joining:
            raise Unfit
        operands = (part.start, WildcardPattern(None, None, ()))
        joined = OpPattern(pick(choose, joining), operands, {}, exposed=False)
        return changed(part, start=joined), lambda value: refusal

    return change


def _alone(part: ParallelPattern) -> Change:
    """Removes the last of the parallel roots."""

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        wanted = " or ".join(sorted(part.roots[-1].root_names()))
        refusal = f"expected {wanted} beside it on the same input, found none"
        return changed(part, roots=part.roots[:-1]), lambda value: refusal

    return change


def block_changes(part: BlockPattern) -> Iterator[Change]:
    """Lists the changes that a block pattern allows."""
    yield from (_other_body(part), _other_index(part), _one_input_more(part), _guarded(part))
    if part.init is not None and not isinstance(part.init, Pattern):
        yield _other_init(part, part.init)
    for i, read in enumerate(part.reads):
        if read.pad is not None and not isinstance(read.pad, str):
            yield _other_pad(part, i, read.pad)


def _block_of(value: SSAValue) -> tir.BlockOp:
    assert isinstance(value.owner, tir.BlockOp)
    return value.owner


def _other_body(part: BlockPattern) -> Change:
    """Makes a block that computes something else."""

    @wraps(part.body)  # messages show the names of its parameters
    def body(*arguments: ScalarPattern) -> ScalarPattern:
        return part.body(*arguments) + 1

    def refusal(value: SSAValue) -> str:
        return body_differs(_block_of(value), part.body)

    return lambda choose: (changed(part, body=body), refusal)


def _one_input_more(part: BlockPattern) -> Change:
    """Makes a block that reads one array more, in the way it reads its first."""
    first, names = part.reads[0], [*signature(part.body).parameters, "more"]

    def body(*arguments: ScalarPattern) -> ScalarPattern:
        return part.body(*arguments[:-1]) + arguments[-1]

    kind = Parameter.POSITIONAL_OR_KEYWORD
    vars(body)["__signature__"] = Signature([Parameter(name, kind) for name in names])

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        if first.whole:
            raise Unfit
        reads = (*part.reads, replace(first, pattern=WildcardPattern(None, None, ())))
        indices = (*part.indices, part.indices[0])
        more = changed(part, reads=reads, indices=indices, body=body)
        return more, lambda value: _refusal(part, value)

    return change


def _guarded(part: BlockPattern) -> Change:
    """Makes a block with a guard."""
    return lambda choose: (Guarded(part), lambda value: _refusal(part, value))


def _refusal(part: BlockPattern, value: SSAValue) -> str:
    block = _block_of(value)
    return OutlineMisfit(part.refusal(Facts.of(block)), 0, shaped=False).text_for(block)


def _other_index(part: BlockPattern) -> Change:
    """Makes a block that reads elsewhere: with two dimensions swapped, or broadcast."""

    def refusal(value: SSAValue) -> str:
        return part.indices_differ(_block_of(value))

    def change(choose: Choose) -> tuple[Pattern, Refusal]:
        i = choose(0, len(part.indices) - 1)
        if not part.indices[i]:
            raise Unfit
        index = list(part.indices[i])
        at = choose(0, len(index) - 1)
        kind = index[at]
        if isinstance(kind, Group) and not kind.broadcast:
            index[at] = replace(kind, broadcast=True)
        else:
            index.insert(choose(0, len(index) - 1), index.pop(at))
        if tuple(index) == part.indices[i]:
            raise Unfit
        indices = (*part.indices[:i], tuple(index), *part.indices[i + 1 :])
        return changed(part, indices=indices), refusal

    return change


def _other_init(part: BlockPattern, init: float) -> Change:
    """Makes the result start from another number."""

    def refusal(value: SSAValue) -> str:
        start = _block_of(value).outs[0].owner
        found = python_value(start.value) if isinstance(start, tir.FillOp) else None
        return f"expected the result to start from {init}, found {found}"

    return lambda choose: (changed(part, init=init + 1), refusal)


def _other_pad(part: BlockPattern, i: int, pad: float) -> Change:
    """Makes a block read another number outside of an input."""
    read = part.reads[i]
    others = (*part.reads[:i], replace(read, pad=pad + 1), *part.reads[i + 1 :])

    def refusal(value: SSAValue) -> str:
        found = [python_value(each) for each in _block_of(value).pad_values if each is not None]
        if pad + 1 not in found:  # no generated program reads outside there
            return ""
        return f"expected pad {pad} at [{read.index}], found {found[found.index(pad + 1)]}"

    return lambda choose: (changed(part, reads=others), refusal)
