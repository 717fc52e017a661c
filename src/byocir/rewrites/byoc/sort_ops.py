"""Finds what an op of a block needs before it, and sorts ops by that."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.traits import is_isolated
from byocir.patterns.dataflow import read, written


def free_values(op: Operation) -> Iterator[SSAValue]:
    """Lists the values from outside that an op uses: its operands and those that its regions
    capture.
    """
    yield from op.operands
    if not op.regions or is_isolated(op):
        return
    for inner in op.walk():
        if inner is not op:
            yield from (value for value in inner.operands if not op.is_ancestor(value.owner))


def dependencies(ops: Sequence[Operation]) -> list[list[int]]:
    """Lists, for each op of a block, the positions of the ops that must come before it: they make
    its values or, in buffer form, touch the same memory before it, and one of the two writes it.
    """
    position = _positions(ops)
    needed: list[list[int]] = []
    last_write = dict[SSAValue, int]()
    reads_since = dict[SSAValue, list[int]]()
    for i, op in enumerate(ops):
        values = dict.fromkeys(free_values(op))
        before = [position[v.owner] for v in values if v.owner in position]
        if any(isinstance(value.type, MemRefType) for value in values):
            reads, writes = set(read(op)), set(written(op))
            before += [last_write[v] for v in reads | writes if v in last_write]
            before += [j for v in writes for j in reads_since.pop(v, ())]
            last_write.update(dict.fromkeys(writes, i))
            for value in reads:
                reads_since.setdefault(value, []).append(i)
        needed.append(sorted({j for j in before if j != i}))
    return needed


def _positions(ops: Sequence[Operation]) -> dict[Operation | Block, int]:
    return {op: i for i, op in enumerate(ops)}


def topological(needed: Sequence[Collection[int]]) -> list[int]:
    """Sorts nodes so that each comes after those that it needs; among several orders, low numbers
    come first.
    """
    waiting = [len(before) for before in needed]
    dependents: list[list[int]] = [[] for _ in needed]
    for node, before in enumerate(needed):
        for other in before:
            dependents[other].append(node)
    ready = [node for node, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for dependent in dependents[order[-1]]:
            waiting[dependent] -= 1
            if not waiting[dependent]:
                heapq.heappush(ready, dependent)
    assert len(order) == len(needed), "expected an acyclic graph"
    return order


def sort_block(block: Block) -> None:
    """Puts every op after the ops whose results it uses, changing the order as little as possible.
    The block must be acyclic."""
    ops = list(block.ops)
    position = _positions(ops)
    needed = [{position[v.owner] for v in free_values(op) if v.owner in position} for op in ops]
    needed[-1] = set(range(len(ops) - 1))
    place(block, [ops[i] for i in topological(needed)])


def place(block: Block, ops: Sequence[Operation]) -> None:
    """Puts the ops of a block into this order."""
    for op in ops:
        op.detach()
        block.add_op(op)
