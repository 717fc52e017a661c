"""Splits a reduction of computed terms into a block that computes the terms and one that combines
them, where instructions combine elements as they are.

```
[i | k]  old + (x[i, k] - m[i]) ** 2   →   [i, k]  (x[i, k] - m[i]) ** 2
                                           [i | k]  old + y[i, k]
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from byocir.dialects.tir import BlockOp, EmptyOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.scalar import BINARY_FLOAT, BINARY_INT, Emitted, emit_body
from byocir.dialects.types import tensor
from byocir.dialects.uses import erase, replace_op
from byocir.machine import Machine
from byocir.patterns.scalars import COMMUTATIVE
from byocir.rewrites.machine.whole_blocks import plans_for

NAMES: Mapping[type[Operation], str] = {
    table[name]: name for table in (BINARY_INT, BINARY_FLOAT) for name in COMMUTATIVE & {*table}
}
"""The name of each operator that may combine elements."""


def split_reductions(machine: Machine, body: Block) -> None:
    """Splits those reductions of a body on tensors that no instruction does, and one does of what
    was computed before.
    """
    for op in list(body.ops):
        found = _Reduction.of(op) if isinstance(op, BlockOp) and op.in_value_form else None
        if found is not None and not plans_for(machine, found.op, found.op.extents):
            found.split(machine)


@dataclass(frozen=True)
class _Reduction:
    """Describes a block whose result is combined, by an op of its body, with a `term` that it
    computes. One of its inputs has an element for each of its points, at `index`.
    """

    op: BlockOp
    combining: Operation
    term: OpResult
    index: AffineMap

    @staticmethod
    def of(op: BlockOp) -> _Reduction | None:
        """Describes a block; None for one that does something else."""
        plain = len(op.outs) == 1 and not op.whole and op.where is None and not op.bases
        combining, old = op.yielded[0].owner, op.body.block.args[-1]
        if not plain or not op.reductions or type(combining) not in NAMES:
            return None
        assert isinstance(combining, Operation)
        terms = [each for each in combining.operands if each is not old]
        index = next((map_ for map_ in op.in_maps if _reads_each_once(op, map_)), None)
        if index is None or len(terms) != 1 or len(list(old.uses)) != 1:
            return None
        term = terms[0]
        if not isinstance(term, OpResult):
            return None
        return _Reduction(op, combining, term, index)

    def split(self, machine: Machine) -> None:
        """Puts two blocks in the place of this one, if an instruction does the second."""
        extents = self.op.extents
        shape = [extents[expr.position] for expr in _dims(self.index)]
        type_ = tensor(self.term.type, shape)
        outside = Block(arg_types=[type_])
        combined = self._combined(outside.args[0])
        outside.add_op(combined)
        if not plans_for(machine, combined, extents):
            erase(combined)
            return
        combined.detach()
        out = EmptyOp.of(type_, location=self.op.location)
        terms = self._terms(out.result)
        combined.operands[0] = terms.results[0]
        replace_op(self.op, [out, terms, combined])

    def _terms(self, out: SSAValue) -> BlockOp:
        """Makes the block that computes the term at all points."""
        region = self.op.body.clone()
        end = region.block.last_op
        assert end is not None
        combining = end.operands[0].owner
        assert isinstance(combining, Operation)
        old = region.block.args[-1]
        end.operands = [next(each for each in combining.operands if each is not old)]
        erase(combining)
        iterators = [
            IteratorAttr.of(name, IteratorKind.PARALLEL, extent)
            for name, extent in zip(self.op.names, self.op.extents, strict=True)
        ]
        maps = [*self.op.in_maps, self.index]
        return self.op.like(iterators=iterators, outs=[out], maps=maps, body=region)

    def _combined(self, terms: SSAValue) -> BlockOp:
        """Makes the block that combines what was computed."""
        maps, type_ = [self.index, self.op.out_maps[0]], self.term.type
        body = emit_body([type_, type_], self._step)
        made = self.op.like(ins=[terms], maps=maps, body=body, pads=[None])
        step = made.yielded[0].owner
        assert isinstance(step, Operation)
        step.properties = dict(self.combining.properties)  # as whether sums have an order
        return made

    def _step(self, term: Emitted, old: Emitted) -> Emitted:
        return old.binary(NAMES[type(self.combining)], term)


def _dims(index: AffineMap) -> list[AffineDimExpr]:
    return [expr for expr in index.results if isinstance(expr, AffineDimExpr)]


def _reads_each_once(op: BlockOp, index: AffineMap) -> bool:
    """Tells if each dimension of an array follows an iterator of its own, and all have one."""
    dims = [expr.position for expr in _dims(index)]
    return len(dims) == len(index.results) and sorted(dims) == list(range(len(op.iterators)))
