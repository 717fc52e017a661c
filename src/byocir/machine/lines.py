"""Finds iterators of a block that an instruction may take as one iterator. They run over lines of
which each begins where the one before ends, in all operands, as rows of an image do: [h: 4, w: 8]
over whole rows of 8 → [hw: 32].
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.tir import BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import Shape, shape_of
from byocir.machine.description import Machine
from byocir.machine.parts import Memory

Chain = tuple[int, ...]
"""Positions of iterators, the outermost first: those behind the first one are done in whole."""


def chains_of(machine: Machine, block: BlockOp, extents: Sequence[int]) -> tuple[Chain, ...]:
    """Lists the chains of parallel iterators of a block in memory that run over lines, each behind
    the one before, if the iterators have these extents. Those of one point are left out.
    """
    if block.in_value_form:
        return ()
    key = "chains", machine.keys.boxes(block), tuple(extents)
    return machine.answer(key, lambda: _chains(machine, block, extents))


def _chains(machine: Machine, block: BlockOp, extents: Sequence[int]) -> tuple[Chain, ...]:
    live = [i for i in block.parallels if extents[i] > 1]
    pairs = {i: j for i in live for j in live if _follow(machine, block, extents, i, j)}
    found: list[Chain] = []
    for head in pairs.keys() - pairs.values():
        chain = [head]
        while chain[-1] in pairs:
            chain.append(pairs[chain[-1]])
        found.append(tuple(chain))
    return tuple(sorted(found))


def _follow(machine: Machine, block: BlockOp, extents: Sequence[int], i: int, j: int) -> bool:
    """Tells whether one step of iterator i leads in all operands where one more step of iterator j
    would.
    """
    values = zip([*block.ins, *block.outs], [*block.in_maps, *block.out_maps], strict=True)
    return i != j and all(
        _are_one(machine, value, map_, (i, j), extents[j]) for value, map_ in values
    )


def _are_one(
    machine: Machine, value: SSAValue, map_: AffineMap, pair: tuple[int, int], extent: int
) -> bool:
    forms = [linear(expr) for expr in map_.results]
    used = [(d, f) for d, f in enumerate(forms) if f is None or {i for i, _ in f.terms} & {*pair}]
    if not used:
        return True
    memory, shape = machine.memory_of(scope_of(value.type)), shape_of(value.type)
    dims = [d for d, _ in used]
    if len(used) != 2 or dims[1] != dims[0] + 1 or _is_inside_rows(memory, shape, dims[1]):
        return False
    alone = all(
        f is not None and f.terms == ((i, 1),) for (_, f), i in zip(used, pair, strict=True)
    )
    inner = used[1][1]
    return alone and shape[dims[1]] == extent and inner is not None and inner.constant == 0


def _is_inside_rows(memory: Memory | None, shape: Shape, d: int) -> bool:
    """Tells whether one step of the dimension before this one does not lead to where one more step
    of this one would: rows of a memory are cut out of the last dimensions."""
    if memory is None or memory.is_main or d < len(shape) - len(memory.row):
        return False
    (*_, lanes) = memory.row
    return not memory.interleaved or len(memory.row) > 1 or shape[d] % lanes > 0
