"""Every rewrite by a pattern is checked on programs made from it; so are mistakes in rewrites."""

from __future__ import annotations

import pytest

from byocir.rewrites import MatchedRewrite, clean_up, fold_batch_norm, normalize_qdq
from byocir.testing import check_rewrite, unflipped

MODULES = (clean_up, fold_batch_norm, normalize_qdq)
SHIPPED = [each for m in MODULES for each in vars(m).values() if isinstance(each, MatchedRewrite)]
CLOSE = {name: 1e-3 for name in ("fold_batch_norm_into_conv", "fold_batch_norm_into_matmul")}


@pytest.mark.parametrize("rewrite", SHIPPED, ids=lambda rewrite: rewrite.name)
def test_a_rewrite_changes_no_meaning_and_no_near_miss(rewrite: MatchedRewrite):
    close = CLOSE.get(rewrite.name, 0.0)
    check_rewrite(rewrite, examples=6, rtol=close, atol=close)


@pytest.mark.parametrize("rewrite", SHIPPED, ids=lambda rewrite: rewrite.name)
def test_every_rule_of_a_rewrite_can_fail(rewrite: MatchedRewrite):
    assert unflipped(rewrite) == []
