"""A target of one pattern: products of matrices as blocks."""

from byocir import Target
from byocir.dialects.types import i32
from byocir.patterns import block, composite, wildcard


@composite("toy.gemm")
def gemm():
    """A product of matrices."""
    a, b = wildcard("a"), wildcard("b")
    return block("m n | k", a["m k"], b["k n"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))


class Toy(Target):
    """Takes products of matrices."""

    name = "toy"
    patterns = (gemm,)
