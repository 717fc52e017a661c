"""Every rewrite by a pattern is checked on programs made from it; so are mistakes in rewrites."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import block, constant, op, rank, wildcard
from byocir.rewrites import (
    MatchedRewrite,
    average_pools,
    clean_up,
    fold_batch_norm,
    normalize_qdq,
    qdq_to_integer,
    rewrite_module,
    rewrites,
)
from byocir.rewrites.grid import grid_at
from byocir.testing import check_rewrite, find_match, unflipped
from byocir.testing.matches import required
from byocir.testing.rewriting import near_misses

EXACT = (clean_up, normalize_qdq)
CLOSE = (fold_batch_norm,)  # rounds differently
# Those to integers have rules that nothing breaks alone, such as that sums fit in i32, and looking
# for what might takes long: only what they take is tried here.
INTEGERS = (qdq_to_integer, average_pools)


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


def quantised(name):
    return op("graph.dequantize", wildcard(name), constant(), constant()) @ f"of_{name}"


@rewrites(
    op("graph.quantize", op("graph.add", quantised("x"), quantised("y")), constant(), constant())
)
def residual(m):
    return m.root.results[0]


@residual.where
def _one_grid(of_x, of_y):
    """Both have the same grid, with zero point 0."""
    grids = [grid_at(of_x), grid_at(of_y)]
    same = str(grids[0]) == str(grids[1])
    plain = all(g is not None and g.is_8_bit and g.symmetric for g in grids)
    return plain and same, [str(g) for g in grids]


@pytest.mark.parametrize("rewrite", [*of(*INTEGERS), residual], ids=lambda rewrite: rewrite.name)
def test_programs_of_quantised_layers_are_found(rewrite: MatchedRewrite):
    for seed in range(4):
        example = required(rewrite.composite, find_match(rewrite.composite, seed), "takes")
        if rewrite is residual:
            continue
        module, feeds = example.module.clone(), random_feeds(example.module, seed)
        assert rewrite_module(module, [rewrite])
        expected, found = evaluate(example.module, feeds), evaluate(module, feeds)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1)


def test_a_rule_about_uses_is_broken_by_another_use():
    @rewrites(op("graph.relu", op("graph.abs", wildcard("x")) @ "inner"))
    def drop_relu(inner):
        return inner

    @drop_relu.where
    def one_use(inner):
        """Nothing else uses what has no sign."""
        return len(list(inner.value.uses)) == 1, len(list(inner.value.uses))

    assert unflipped(drop_relu) == []
    check_rewrite(drop_relu, examples=2)


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
