"""Programs that a composite takes, and programs that it just misses.

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
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult

from byocir.errors import ByocirError
from byocir.patterns import Attempt, Composite
from byocir.patterns.legality import describe
from byocir.patterns.match import constant_array
from byocir.patterns.nodes import ConstantPattern
from byocir.patterns.rules import Rule
from byocir.testing.choose import pick, seeded
from byocir.testing.draft import Unfit, wants_of
from byocir.testing.graphs import ANY, RARE, Drawn, draw_graph

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

DRAWS = 400
"""How many programs are tried for one that is asked for."""


@dataclass(frozen=True)
class Example:
    """A program and the op at which the composite is tried. `flipped` is why it must be declined:
    the sentence of the one rule that fails, or the reason of the edge that was changed; empty when
    it must be taken."""

    composite: Composite
    module: ModuleOp
    root: Operation
    flipped: str = ""

    def named_by(self, attempt: Attempt) -> bool:
        """Whether an attempt declines for the very reason, and no other."""
        failed = [rule.sentence for rule in attempt.rules if not rule.holds]
        return not attempt.fits and (attempt.reason == self.flipped or failed == [self.flipped])

    def __repr__(self) -> str:
        return f"{self.composite.name}, flipped: {self.flipped or 'nothing'}\n{self.module}"


def matching(composite: Composite) -> SearchStrategy[Example]:
    """Hypothesis strategy: programs that the composite takes. Drawing raises ByocirError B365 when
    none is found."""
    from hypothesis import strategies as st

    return st.integers(0, 2**32 - 1).map(lambda seed: _required(composite, seed))


def _required(composite: Composite, seed: int) -> Example:
    found = find_match(composite, seed)
    if found is None:
        raise ByocirError(
            "B365",
            f"expected a program that {composite.name} takes, found none in {DRAWS} draws",
            help="rules may say where to look: @pattern.rule(vary=…, holds=…, fails=…)",
        )
    return found


def near_miss(composite: Composite) -> SearchStrategy[Example]:
    """Hypothesis strategy: programs that the composite declines for one reason: a rule that fails
    where all others hold, an operand that is no constant, a value inside that is used outside.
    Raises ByocirError B365 when drawing finds none."""
    from hypothesis import strategies as st

    kinds: list[Rule | None] = [rule for rule in composite.rules if can_fail(composite, rule)]
    if not kinds or any(True for _ in _edges(_required(composite, 0))):
        kinds.append(None)
    drawn = st.tuples(st.sampled_from(kinds), st.integers(0, 2**32 - 1))
    found = drawn.map(lambda pair: _missed(composite, *pair))
    return found.filter(lambda example: example is not None).map(_there)


def _there(example: Example | None) -> Example:
    assert example is not None
    return example


def _missed(composite: Composite, rule: Rule | None, seed: int) -> Example | None:
    if rule is not None:
        return find_near_miss(composite, rule, seed)
    edges = list(_edges(_required(composite, seed)))
    return pick(Random(seed).randint, edges) if edges else None


def unflipped(composite: Composite) -> list[str]:
    """The sentences of rules for which no program was found that breaks them alone."""
    return [rule.sentence for rule in composite.rules if not can_fail(composite, rule)]


@lru_cache(maxsize=1024)
def can_fail(composite: Composite, rule: Rule) -> bool:
    """Whether a program is found in which this rule fails and all others hold."""
    return any(find_near_miss(composite, rule, seed) is not None for seed in range(4))


def find_match(composite: Composite, seed: int) -> Example | None:
    """A program that the composite takes, the same for the same seed; None when none is found."""
    for drawn in _drawn(composite, seed, composite.rules, None):
        if composite.attempt(drawn.root).fits:
            return Example(composite, drawn.module, drawn.root)
    return None


def find_near_miss(composite: Composite, rule: Rule, seed: int) -> Example | None:
    """A program in which this rule fails and nothing else is wrong; None when none is found."""
    others = [other for other in composite.rules if other is not rule]
    for drawn in _drawn(composite, seed, others, rule):
        example = Example(composite, drawn.module, drawn.root, rule.sentence)
        attempt = composite.attempt(drawn.root)
        one_fails = attempt.reason == f"1 of {len(composite.rules)} rules fail"
        if one_fails and example.named_by(attempt):
            return example
    return None


def _drawn(
    composite: Composite, seed: int, holding: Sequence[Rule], failing: Rule | None
) -> Iterator[Drawn]:
    choose = seeded(seed)
    for _ in range(DRAWS):
        hints = [(r.vary, pick(choose, r.vary.holds)) for r in holding if r.vary and r.vary.holds]
        if failing is not None and failing.vary is not None and failing.vary.fails:
            hints.append((failing.vary, pick(choose, failing.vary.fails)))
        wants = wants_of(hints if choose(0, 3) else [])
        try:
            pattern, rare = pick(choose, composite.patterns), RARE if failing is None else ANY
            yield draw_graph(choose, pattern, composite.level, wants, rare)
        except Unfit:
            continue


def _edges(example: Example) -> Iterator[Example]:
    """The example with one edge changed, for each that the composite then declines for."""
    composite = example.composite
    attempt = composite.attempt(example.root)
    assert attempt.match is not None
    constants = [
        pattern
        for pattern in composite.walk()
        if isinstance(pattern, ConstantPattern) and id(pattern) in attempt.match.state.nodes
    ]
    for change in (*constants, *range(1, len(attempt.matched))):
        module, ops = _copy(example.module, [example.root, *attempt.matched])
        if isinstance(change, int):
            reason = _leak(ops[1 + change])
        else:
            place = _place(example.module, attempt.match.state.nodes[id(change)])
            reason = _unfix(module, place, change)
        changed = Example(composite, module, ops[0], reason)
        if reason and changed.named_by(composite.attempt(ops[0])):
            yield changed


def _main(module: ModuleOp) -> FuncOp:
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return function


def _place(module: ModuleOp, value: object) -> int:
    """Which op of the program gives a value."""
    owner = value.owner if isinstance(value, OpResult) else None
    return next((i for i, op in enumerate(_main(module).body.block.ops) if op is owner), -1)


def _copy(module: ModuleOp, ops: Sequence[Operation]) -> tuple[ModuleOp, list[Operation]]:
    """A copy of a program, and these of its ops in it."""
    copy = module.clone()
    twins = dict(zip(module.walk(), copy.walk(), strict=True))
    return copy, [twins[op] for op in ops]


def _leak(op: Operation) -> str:
    """Returns a value from inside the match as well; gives the reason for which that is declined,
    empty when the value is returned already."""
    last = op.parent.last_op if op.parent is not None else None
    if last is None or any(use.operation is last for use in op.results[0].uses):
        return ""
    last.operands = [*last.operands, op.results[0]]
    _retype(op)
    return f"{describe(op)} is also used by func.return outside the match"


def _unfix(module: ModuleOp, place: int, pattern: ConstantPattern) -> str:
    """Makes an input of the function of a constant; gives the reason for which that is declined."""
    block = _main(module).body.block
    op = next((op for i, op in enumerate(block.ops) if i == place), None)
    if op is None or not op.results or constant_array(op.results[0]) is None:
        return ""
    argument = block.insert_arg(op.results[0].type, len(block.args))
    op.results[0].replace_all_uses_with(argument)
    _retype(op)
    op.detach()
    op.erase()
    return f"expected {pattern.shown}, found an input of the function"


def _retype(op: Operation) -> None:
    """Gives the function around an op the type that its body has now."""
    function, block = op.parent_op(), op.parent
    assert isinstance(function, FuncOp)
    assert block is not None
    assert block.last_op is not None
    function.update_function_type()
