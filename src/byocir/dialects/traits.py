"""Looks up traits of ops that passes ask for again and again, once for each class."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import (
    ConstantLike,
    IsolatedFromAbove,
    IsTerminator,
    MemoryEffect,
    NoMemoryEffect,
    is_side_effect_free,
)


def is_constant(op: Operation) -> bool:
    """Tells if an op gives a constant."""
    return _is_constant_like(type(op))


def is_constant_value(value: SSAValue) -> bool:
    """Tells if a value is a constant."""
    return _is_constant_like(type(value.owner))


def is_terminator(op: Operation) -> bool:
    """Tells if an op ends its block."""
    return _ends_blocks(type(op))


def is_isolated(op: Operation) -> bool:
    """Tells if what is inside an op uses no values from outside."""
    return _isolates(type(op))


def is_pure(op: Operation) -> bool:
    """Tells if executing an op has no effect but its results."""
    return _never_has_effects(type(op)) or is_side_effect_free(op)


@cache
def _is_constant_like(kind: type[Operation | Block]) -> bool:
    return issubclass(kind, Operation) and kind.has_trait(ConstantLike)


@cache
def _ends_blocks(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator)


@cache
def _isolates(kind: type[Operation]) -> bool:
    return kind.has_trait(IsolatedFromAbove)


@cache
def _never_has_effects(kind: type[Operation]) -> bool:
    effects = [trait for trait in kind.traits if isinstance(trait, MemoryEffect)]
    return bool(effects) and all(isinstance(effect, NoMemoryEffect) for effect in effects)
