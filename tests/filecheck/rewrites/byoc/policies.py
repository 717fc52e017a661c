"""Targets of one pattern, that want constants in different places."""

from typing import ClassVar

import numpy as np

from byocir import Target
from byocir.patterns import block, composite, constant, op, wildcard


@composite("product")
def product():
    """A product by known weights."""
    return op("graph.matmul", wildcard("x"), constant("w"))


@composite("sum")
def sum_():
    """A sum of any two values."""
    return op("graph.add", wildcard("x"), wildcard("y"))


class Bound(Target):
    """Takes constants into its composites."""

    name = "bound"
    constants: ClassVar = "bind"
    patterns = (product, sum_)


class Given(Target):
    """Is given constants as arguments."""

    name = "given"
    constants: ClassVar = "argument"
    patterns = (product, sum_)


class Matched(Target):
    """Has constants where its patterns have them."""

    name = "matched"
    constants: ClassVar = "match"
    patterns = (product, sum_)


class Packed(Target):
    """Stores the weights of products transposed."""

    name = "packed"
    constants: ClassVar = "transform"
    patterns = (product, sum_)

    def transform(self, pattern, uses, values):
        return np.ascontiguousarray(values.T) if pattern == "packed.product" else None


@composite("floor")
def floor():
    """Values that are at least 0, of tensors or of memory."""
    return block("n i", wildcard("x")["n i"], lambda _, x: x.max(0))


class Rectifier(Target):
    """Takes programs in memory, too."""

    name = "rectifier"
    codegen_level: ClassVar = "tensor"
    patterns = (floor,)
