"""Defines the iterators of a block."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum


class IteratorKind(StrEnum):
    """Says whether the points of an iterator are independent, or combined into one value."""

    PARALLEL = "parallel"
    REDUCTION = "reduction"


@irdl_attr_definition
class IteratorKindAttr(EnumAttribute[IteratorKind], SpacedOpaqueSyntaxAttribute):
    """Names the kind of an iterator, parallel or reduction, as an attribute."""

    name = "tir.kind"


@irdl_attr_definition
class IteratorAttr(ParametrizedAttribute):
    """Describes a named iterator with a static extent."""

    name = "tir.iterator"

    iterator_name: StringAttr
    kind: IteratorKindAttr
    extent: IntAttr

    @staticmethod
    @lru_cache(maxsize=1024)  # most blocks share their iterators with others
    def of(name: str, kind: IteratorKind, extent: int) -> IteratorAttr:
        return IteratorAttr(StringAttr(name), IteratorKindAttr(kind), IntAttr(extent))

    @property
    def is_reduction(self) -> bool:
        return self.kind.data is IteratorKind.REDUCTION

    def resized(self, extent: int) -> IteratorAttr:
        """Gives the same iterator over another extent."""
        return IteratorAttr(self.iterator_name, self.kind, IntAttr(extent))
