"""A target with one instruction: what the tests of `tensorise` ask for."""

from byocir import Target
from byocir.dialects.types import i32
from byocir.patterns import block, composite, wildcard


@composite("npu.gemm")
def gemm():
    a, b, acc = wildcard("a"), wildcard("b"), wildcard("acc")
    step = lambda acc, x, w: acc + x.to(i32) * w.to(i32)  # noqa: E731
    return block("m n | k", a["m k"], b["k n"], step, init=acc)


@gemm.rule
def four_rows(m):
    """Tiles have four rows."""
    seen = m["a"].type.shape[0]
    return seen == 4, seen


class Npu(Target):
    name = "npu"
    patterns = (gemm,)
