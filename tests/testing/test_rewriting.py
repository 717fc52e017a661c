"""Every rewrite by a pattern is checked on programs made from it; so are mistakes in rewrites."""

from __future__ import annotations

from types import ModuleType

import pytest

from byocir.patterns import block, op, rank, wildcard
from byocir.rewrites import MatchedRewrite, clean_up, fold_batch_norm, normalize_qdq, rewrites
from byocir.testing import check_rewrite, find_match, unflipped
from byocir.testing.rewriting import near_misses

EXACT = (clean_up, normalize_qdq)
CLOSE = (fold_batch_norm,)  # rounds differently
# Those to integers ask for grids that fit each other, which no draw of constants finds: their tests
# make layers as quantisers write them.


def of(*modules: ModuleType) -> list[MatchedRewrite]:
    return [r for m in modules for r in vars(m).values() if isinstance(r, MatchedRewrite)]


ALL = [
    *((each, 0.0) for each in of(*EXACT)),
    *((each, 1e-3) for each in of(*CLOSE)),
]


@pytest.mark.parametrize(("rewrite", "tolerance"), ALL, ids=[each[0].name for each in ALL])
def test_a_rewrite_keeps_the_meaning_and_leaves_near_misses(
    rewrite: MatchedRewrite, tolerance: float
):
    check_rewrite(rewrite, examples=4, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rewrite", [each[0] for each in ALL], ids=lambda rewrite: rewrite.name)
def test_every_rule_of_a_rewrite_can_fail_alone(rewrite: MatchedRewrite):
    assert unflipped(rewrite) == []


# Mistakes.

RELUS = op("graph.relu", op("graph.relu", wildcard("x")) @ "inner")


@rewrites(RELUS)
def drops_both(x):
    return x


@rewrites(RELUS)
def does_nothing(inner):
    return None


def test_a_rewrite_that_changes_the_meaning_is_found():
    with pytest.raises(AssertionError, match=r"rewrite drops_both changed res0 from[\s\S]*after:"):
        check_rewrite(drops_both)


def test_a_rewrite_that_does_nothing_is_found():
    with pytest.raises(AssertionError, match="does_nothing left all of 3 matches alone"):
        check_rewrite(does_nothing, examples=3)


def test_programs_are_made_for_blocks_too():
    x = wildcard("x")

    @rewrites(block("*i", block("*i", x["*i"], lambda acc, v: v)["*i"], lambda acc, v: v))
    def drop_copies(x):
        return x

    check_rewrite(drop_copies)


def test_programs_of_rewrites_are_those_of_patterns():
    @rewrites(op("graph.relu", wildcard("x", where=rank(3))))
    def of_rank_3(x):
        return x

    assert find_match(of_rank_3.composite, 0) is not None
    assert [miss.flipped for miss in near_misses(of_rank_3)][-1].startswith("expected x of 3 dim")
