"""Rewrites ops on tensors greedily.

Applies patterns until none fits any more. Requires pure ops inside single-block regions (graphs).
Guarantees: no location is lost (a new op without one gets the fused locations of all ops that its
rewrite made superfluous, in order; where every new op has one, or there is none, names left over
go to the op that computes the result); superfluous ops are erased; results keep their name hints;
the order of rewrites depends on the module alone. A set of patterns that never ends is stopped with
an error that names the pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects import tir
from byocir.dialects.array import Array
from byocir.dialects.graph import ConstantOp, GraphOp
from byocir.dialects.locations import flat, join, named, names
from byocir.dialects.traits import is_constant, is_pure
from byocir.dialects.uses import replace_uses
from byocir.dialects.walk import blocks_of, ops_in
from byocir.errors import ByocirError
from byocir.patterns.match import Bound

REWRITES_PER_OP = 64
"""The times that patterns may apply, for each op of a block, before the driver gives up. Moving a
quantize past a long chain of shape ops takes one rewrite per op passed; nothing here needs more
than a few such journeys."""

NEAR = 32
"""The users of a value that a rewrite beside it looks at, besides those whose operand it replaced:
next to a value with thousands of users that all change it would take as long as all of them."""

_OpT = TypeVar("_OpT", bound=Operation)


class NewOps:
    """Collects the ops that a rewrite makes, in order; they are inserted before its root."""

    def __init__(self, at_tensor_level: bool = False) -> None:
        self.ops: list[Operation] = []
        self._constant = tir.ConstantOp if at_tensor_level else ConstantOp

    def add(self, op: _OpT) -> _OpT:
        """Adds an op to the rewrite. Without a location it gets those of all replaced ops."""
        self.ops.append(op)
        return op

    def constant(self, values: np.ndarray | Array) -> SSAValue:
        """Adds a constant with these values, at the level of the op that is rewritten."""
        array = values if isinstance(values, Array) else Array.of(values)
        return self.add(self._constant.of(array)).result

    def again(
        self,
        op: GraphOp | Bound,
        *operands: SSAValue | Bound,
        location: LocationAttr | None = None,
    ) -> SSAValue:
        """Adds an op like `op`, with one result and the same properties, on other operands. Raises
        ValueError for a name that is bound to a value alone.
        """
        made = cast(GraphOp, op.op if isinstance(op, Bound) else op)
        if not isinstance(cast(Any, made), GraphOp):
            raise ValueError("expected an op to make again, found a value without one")
        values = [each.value if isinstance(each, Bound) else each for each in operands]
        properties = cast(dict[str, Any], made.properties)
        return self.add(type(made).make(*values, location=location, **properties)).results[0]


class Pattern(ABC):
    """Rewrites one root op and the ops that feed it."""

    roots: tuple[type[Operation], ...] = ()
    """The op classes that can be the root; subclasses of these are not tried."""

    @property
    def root_names(self) -> frozenset[str]:
        """Lists the names of the ops that can be the root."""
        return frozenset(root.name for root in self.roots)

    @property
    def name(self) -> str:
        """Gives the name of the rewrite in messages."""
        return type(self).__name__

    @abstractmethod
    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        """Gives the values that replace the results of `op`, made from ops added to `new`; None
        when the pattern does not fit (the ops in `new` are then dropped).
        """


def rewrite_module(module: ModuleOp, patterns: Sequence[Pattern]) -> bool:
    """Applies patterns to every block of a module until none fits; tells if any did.

    Patterns for one root are tried in the order given. Raises ByocirError B290 when they do not
    come to an end.
    """
    return rewrite_blocks(blocks_of(module), patterns)


def rewrite_blocks(blocks: Iterable[Block], patterns: Sequence[Pattern]) -> bool:
    """Applies patterns to these blocks until none fits; tells if any did."""
    by_root: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        for root in pattern.root_names:
            by_root.setdefault(root, []).append(pattern)
    changed = [block for block in blocks if _rewrite_block(block, by_root)]
    for op in (op for block in changed for op in block.walk()):
        op.location = flat(op.location)
    return bool(changed)


def _rewrite_block(block: Block, by_root: Mapping[str, Sequence[Pattern]]) -> bool:
    queue = deque([op for op in ops_in(block) if op.name in by_root])
    if not queue:
        return False
    limit = REWRITES_PER_OP * (len(queue) + 1)
    applied = Counter[str]()
    while queue:
        op = queue.popleft()
        if op.parent is not block:
            continue  # erased since it was queued
        for pattern in by_root[op.name]:
            touched = _apply(pattern, op)
            if touched is None:
                continue
            applied[pattern.name] += 1
            if applied.total() > limit:
                raise _endless(applied)
            queue.extend(other for other in touched if other.name in by_root)
            break
    return bool(applied)


def _endless(applied: Counter[str]) -> ByocirError:
    name, count = applied.most_common(1)[0]
    return ByocirError(
        "B290",
        f"expected rewrites to come to an end, found pattern {name} still applying after {count} "
        "times",
        help=f"the result of {name} must not match {name} again, nor may another pattern undo it",
    )


def _apply(pattern: Pattern, op: Operation) -> list[Operation] | None:
    """Tries one pattern; gives the ops whose surroundings changed, None if it does not fit."""
    new = NewOps(type(op) is tir.BlockOp)
    results = pattern.rewrite(op, new)
    if results is None:
        for made in reversed(new.ops):
            made.erase()
        return None
    Rewriter.insert_op(new.ops, InsertPoint.before(op))
    producers = [value.op for value in op.operands if isinstance(value, OpResult)]
    moved = [use.operation for old in op.results for use in old.uses]
    for old, replacement in zip(op.results, results, strict=True):
        if replacement.name_hint is None:
            replacement.name_hint = old.name_hint
        replace_uses(old, replacement)
    gone = erase_dead(op)
    near = [use.operation for value in results for use in islice(value.uses, NEAR)]
    users = [*dict.fromkeys([*near, *moved])]
    _keep_location(gone, new.ops, results, users)
    return [*new.ops, *users, *(p for p in producers if p.parent is not None)]


def _keep_location(
    gone: Sequence[LocationAttr],
    made: Sequence[Operation],
    results: Sequence[SSAValue],
    users: Sequence[Operation],
) -> None:
    """Gives the locations of erased ops to new ops without one. Names that no new op and no user of
    the results would have then go to the ops that compute the results.
    """
    unlocated = [op for op in made if op.location == UNKNOWN_LOC]
    if unlocated:
        location = join(gone)
        for op in unlocated:
            op.location = location
        return
    kept = {id(op.location) for op in made}
    homeless = [named(name) for name in _without_home(gone, kept, [*made, *users])]
    for value in results:
        if homeless and isinstance(value, OpResult):
            value.op.location = join([value.op.location, *homeless])


def _without_home(
    gone: Sequence[LocationAttr],
    kept: Container[int],
    homes: Sequence[Operation],
) -> list[str]:
    """Lists the names of erased ops that none of these ops has. Locations that were kept as they
    are, by identity, need not be read.
    """
    lost = [location for location in gone if id(location) not in kept]
    left = dict.fromkeys(name for location in lost for name in names(location))
    for op in homes:
        if not left:
            break
        for name in names(op.location):
            left.pop(name, None)
    return [*left]


def erase_dead(op: Operation) -> list[LocationAttr]:
    """Erases an op whose results are unused, and the pure ops that only fed it. Gives their
    locations, producers first, without those of constants: a constant is located where it is used,
    and one that many ops share would bring all their names along.
    """
    locations = [op.location]
    stack = [op]
    while stack:
        dead = stack.pop()
        producers = dict.fromkeys(v.op for v in dead.operands if isinstance(v, OpResult))
        dead.detach()
        dead.erase()
        unused = [producer for producer in reversed(producers) if is_dead(producer)]
        locations += [each.location for each in unused if not is_constant(each)]
        stack += unused
    return locations[::-1]


def is_dead(op: Operation) -> bool:
    """Tells if an op can go: it is pure and in a block, and nothing uses its results."""
    if op.parent is None or not op.results:
        return False
    for result in op.results:  # a generator takes twice the time, and each op is asked
        if result.first_use is not None:
            return False
    return is_pure(op)
