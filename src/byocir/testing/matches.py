"""Finds programs that a composite takes, and programs that it just misses.

```python
from hypothesis import given
from byocir.testing import matching, near_miss, unflipped

@given(matching(conv))
def test_it_is_taken(example):
    assert conv.attempt(example.root).fits

@given(near_miss(conv))
def test_it_is_declined_and_why(example):
    attempt = conv.attempt(example.root)
    assert example.named_by(attempt)

def test_every_rule_can_fail():
    assert unflipped(conv) == []
```

Programs are made from the pattern itself and kept where the composite's own verdict is the one that
is asked for, so nothing here decides anything a second time. A rule's `vary` says where to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from byocir.errors import ByocirError
from byocir.patterns import Attempt, Composite, Pattern
from byocir.patterns.legality import describe
from byocir.patterns.rules import Rule, Vary
from byocir.patterns.same_blocks import Rewalked
from byocir.rewrites.matching import MatchedRewrite
from byocir.testing.choose import Choose, pick, seeded
from byocir.testing.draft import NARROW, Breadth, Unfit, wants_of
from byocir.testing.flips import Flip, OtherNode, flips_of
from byocir.testing.graphs import ANY, RARE, Drawn, draw_graph

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

DRAWS = 400
"""The programs that are tried for one that is asked for."""
STARTS = 4
"""The programs which a composite takes in which values are looked for that may be used outside."""
FLIP_DRAWS = 60
"""The programs that are tried for each test of a pattern that is changed."""
SEEDS = 6
"""The rounds of draws after which a rule counts as one that nothing breaks."""


@dataclass(frozen=True)
class Example:
    """Holds a program and the op at which the composite is tried. `flipped` is why it must be
    declined: the sentence of the one rule that fails, or the reason of the one test of the pattern,
    or edge of the program, that was changed; it is empty when the program must be taken.
    """

    composite: Composite
    module: ModuleOp
    root: Operation
    flipped: str = ""

    def named_by(self, attempt: Attempt) -> bool:
        """Tells if an attempt declines for this very reason, and no other."""
        failed = [rule.sentence for rule in attempt.rules if not rule.holds]
        by_rule = f"1 of {len(attempt.rules)} rules fail"
        if attempt.fits:
            return False
        return (attempt.reason, failed) in ((self.flipped, []), (by_rule, [self.flipped]))

    def __repr__(self) -> str:
        return f"{self.composite.name}, flipped: {self.flipped or 'nothing'}\n{self.module}"


@dataclass(frozen=True)
class Leak:
    """Stands for a change that uses a value inside the match outside of it, too."""


Miss = Rule | Flip | OtherNode | Leak
"""A reason for a program to miss: a rule that fails, or a test of the pattern or an edge that is
changed."""


Matcher = Composite | MatchedRewrite
"""A thing that has a pattern and rules: a composite, or a rewrite."""


def _composite_of(matcher: Matcher) -> Composite:
    return matcher.composite if isinstance(matcher, MatchedRewrite) else matcher


def matching(matcher: Matcher) -> SearchStrategy[Example]:
    """Makes a Hypothesis strategy of programs that the composite, or the rewrite, takes. Drawing
    raises ByocirError B365 when none is found.
    """
    from hypothesis import strategies as st

    composite = _composite_of(matcher)
    seeds = st.integers(0, 2**32 - 1)
    return seeds.map(lambda seed: required(composite, find_match(composite, seed), "takes"))


def near_miss(matcher: Matcher) -> SearchStrategy[Example]:
    """Makes a Hypothesis strategy of programs that the composite, or the rewrite, declines for one
    reason. Either one rule fails and all others hold, or one test of the pattern does: the kind of
    an op, an attribute, the number of operands, an element type, a test of a value, a constant, the
    same value twice, an index, body or pad of a block; or a value inside the match is used outside,
    or comes back to it. Drawing raises ByocirError B365 when none is found.
    """
    from hypothesis import strategies as st

    composite = _composite_of(matcher)
    seeds = st.integers(0, 2**32 - 1)
    return seeds.map(lambda seed: required(composite, any_miss(composite, seed), "just misses"))


def required(composite: Composite, found: Example | None, does: str) -> Example:
    """Gives the example back; raises ByocirError B365 where none was found."""
    if found is None:
        raise ByocirError(
            "B365",
            f"expected a program that {composite.name} {does}, found none in {DRAWS} draws",
            help="rules may say where to look: @pattern.rule(vary=…, holds=…, fails=…)",
        )
    return found


def unflipped(matcher: Matcher) -> list[str]:
    """Lists the sentences of rules for which no program was found that breaks them alone."""
    composite = _composite_of(matcher)
    return [rule.sentence for rule in composite.rules if first_miss(composite, rule) is None]


def misses_of(composite: Composite) -> list[Miss]:
    """Lists all that may make a program miss, in order; see `first_miss` for those that can."""
    return [*composite.rules, *_flips(composite), Leak()]


@lru_cache(maxsize=256)
def _flips(composite: Composite) -> tuple[Flip | OtherNode, ...]:
    return tuple(flips_of(composite))


@lru_cache(maxsize=4096)
def first_miss(composite: Composite, miss: Miss) -> Example | None:
    """Finds a program that misses for this reason alone, always the same; None when none is found:
    the rule always holds, or another alternative takes what the changed one does not.
    """
    seeds = range(1 if isinstance(miss, Flip | OtherNode) else SEEDS)
    found = (find_near_miss(composite, miss, seed) for seed in seeds)
    return next((example for example in found if example is not None), None)


def any_miss(composite: Composite, seed: int) -> Example | None:
    """Finds a program that misses for one reason, the same for the same seed; None if there is
    none.
    """
    misses = misses_of(composite)
    Random(seed).shuffle(misses)
    for miss in misses:
        first = first_miss(composite, miss)
        if first is not None:
            return find_near_miss(composite, miss, seed) or first
    return None


def find_match(composite: Composite, seed: int, breadth: Breadth = NARROW) -> Example | None:
    """Finds a program that the composite takes, the same for the same seed; None when none is
    found.
    """
    for drawn in _drawn(composite, seed, _hints(composite.rules), None, RARE, DRAWS, breadth):
        if composite.attempt(drawn.root).fits:
            return Example(composite, drawn.module, drawn.root)
    return None


@lru_cache(maxsize=256)
def _match_of(composite: Composite, rules: tuple[Rule, ...], seed: int) -> Example | None:
    """Runs `find_match` once for all rules that the composite has."""
    return find_match(composite, seed)


def find_near_miss(composite: Composite, miss: Miss, seed: int) -> Example | None:
    """Finds a program that misses for this reason alone; None when none is found."""
    if isinstance(miss, Rule):
        return _rule_missed(composite, miss, seed)
    if isinstance(miss, Flip | OtherNode):
        return _flipped(composite, miss, seed)
    found = find_match(composite, seed)
    leaks = [] if found is None else list(_leaks(found))
    return pick(seeded(seed), leaks) if leaks else None


def _rule_missed(composite: Composite, rule: Rule, seed: int) -> Example | None:
    others = [other for other in composite.rules if other is not rule]
    taken = _match_of(composite, tuple(composite.rules), seed % STARTS)
    # Some rules are about uses of values.
    used = [] if taken is None else list(_leaks(taken, rule.sentence))
    if used:
        return pick(seeded(seed), used)
    rules = tuple(composite.rules)
    misses = _rules_missed(composite, rules, _hints(others), rule.vary, seed, DRAWS)
    return next((each for each in misses if each.flipped == rule.sentence), None)


@lru_cache(maxsize=64)
def _rules_missed(
    composite: Composite,
    rules: tuple[Rule, ...],
    holding: tuple[Vary, ...],
    failing: Vary | None,
    seed: int,
    draws: int,
) -> Rewalked[Example]:
    """Gives, for each rule that a program drawn with these hints breaks alone, the first such
    program. Rules without a hint of their own are looked for among the same programs, which are
    drawn once.
    """

    def found() -> Iterator[Example]:
        pending = {rule.sentence for rule in rules}
        for drawn in _drawn(composite, seed, holding, failing, ANY, draws):
            attempt = composite.attempt(drawn.root)
            failed = [result.sentence for result in attempt.rules if not result.holds]
            flipped = failed[0] if failed else attempt.reason
            example = Example(composite, drawn.module, drawn.root, flipped)
            if flipped in pending and example.named_by(attempt):
                pending.remove(flipped)
                yield example

    return Rewalked(found())


def _hints(rules: Sequence[Rule]) -> tuple[Vary, ...]:
    """Lists the hints of rules that say with what they hold."""
    return tuple(rule.vary for rule in rules if rule.vary and rule.vary.holds)


def _drawn(
    composite: Composite,
    seed: int,
    holding: Sequence[Vary],
    failing: Vary | None,
    rare: Sequence[Attribute],
    draws: int,
    breadth: Breadth = NARROW,
) -> Iterator[Drawn]:
    choose = seeded(seed)
    for _ in range(draws):
        wants = _wants(choose, holding, failing, breadth)
        pattern = pick(choose, composite.patterns)
        try:
            yield draw_graph(choose, pattern, composite.level, wants, rare, breadth)
        except Unfit:
            continue


def _wants(
    choose: Choose, holding: Sequence[Vary], failing: Vary | None, breadth: Breadth = NARROW
) -> dict[tuple[str, int | str], Any]:
    """Draws wanted values from the hints of rules, most of the time."""
    hints = [(vary, _beyond(choose, pick(choose, vary.holds), breadth)) for vary in holding]
    if failing is not None and failing.fails:
        hints.append((failing, pick(choose, failing.fails)))
    return wants_of(hints if choose(0, 3) else [])


def _beyond(choose: Choose, value: Any, breadth: Breadth) -> Any:
    """Gives a value for which a rule holds or, where draws are broad, a multiple of it."""
    return choose(1, breadth.steps) * value if breadth.steps and type(value) is int else value


def _flipped(composite: Composite, flip: Flip | OtherNode, seed: int) -> Example | None:
    """Draws a program of the changed pattern, if possible one that keeps all rules."""
    choose, last = seeded(seed), None
    for _ in range(FLIP_DRAWS):
        try:
            whole, reason = flip.draw(choose)
            wants = _wants(choose, _hints(composite.rules), None)
            drawn = draw_graph(choose, whole, composite.level, wants)
        except Unfit:
            continue
        example = Example(composite, drawn.module, drawn.root, reason(drawn))
        if example.flipped and example.named_by(composite.attempt(drawn.root)):
            last = example
            if _fits(composite, whole, drawn.root):
                break
    return last


def _fits(composite: Composite, whole: Pattern, root: Operation) -> bool:
    """Tells if the changed pattern, with the same rules, takes the program."""
    try:
        changed = Composite(composite.name, (whole,))
        changed.rules = composite.rules
        return changed.attempt(root).fits
    except ByocirError:  # a rule looks at the changed part, or no op is left
        return False


def _leaks(example: Example, why: str = "") -> Iterator[Example]:
    """Yields the example with a value inside the match as a further result, for each that is then
    declined for that, or for the rule whose sentence is `why`.
    """
    composite = example.composite
    matched = composite.attempt(example.root).matched
    for i in range(1, len(matched)):
        module, ops = _copy(example.module, [example.root, *matched])
        leaked = _leak(ops[1 + i])
        changed = Example(composite, module, ops[0], leaked and (why or leaked))
        if changed.flipped and changed.named_by(composite.attempt(ops[0])):
            yield changed


def _copy(module: ModuleOp, ops: Sequence[Operation]) -> tuple[ModuleOp, list[Operation]]:
    """Copies a program, and finds these of its ops in the copy."""
    copy = module.clone()
    twins = dict(zip(module.walk(), copy.walk(), strict=True))
    return copy, [twins[op] for op in ops]


def _leak(op: Operation) -> str:
    """Returns a value from inside the match as well; gives the reason for which that is declined,
    empty when the value is returned already.
    """
    last = op.parent.last_op if op.parent is not None else None
    if last is None or any(use.operation is last for use in op.results[0].uses):
        return ""
    last.operands = [*last.operands, op.results[0]]
    _retype(op)
    return f"{describe(op)} is also used by func.return outside the match"


def _retype(op: Operation) -> None:
    """Updates the type of the function around an op to that of its body."""
    function, block = op.parent_op(), op.parent
    assert isinstance(function, FuncOp)
    assert block is not None
    assert block.last_op is not None
    function.update_function_type()
