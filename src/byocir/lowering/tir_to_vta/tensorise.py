"""vta-tensorise: turns staged loops into a straight line of VTA instructions.

Requires: functions for VTA in buffer form after `vta-stage`: composites of loops with static
extents around copies, fills and blocks on scoped buffers in local coordinates, with index
arithmetic on loop indices only.
Guarantees: in each such function the composites are replaced by `vta` ops in program order, with
the locations of the ops they come from at the tile they are for, ending in `vta.finish`; constants
and DRAM buffers stay values; micro-ops are one constant table. No dependency flag is set yet: run
in order, the instructions give what the loops gave.

The loops run here, with concrete indices. A buffer in a scratchpad gets an address each time its
`tir.alloc` is met and gives it back after its last use (`place`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, YieldOp, composites_in
from byocir.dialects.locations import at_tile, names
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    ConstantOp,
    CopyOp,
    FillOp,
    ForOp,
    IntrinsicOp,
    scope_of,
)
from byocir.dialects.uses import erase
from byocir.dialects.vta import config_of
from byocir.lowering.tir_to_vta.composites import unsupported, vta_functions
from byocir.lowering.tir_to_vta.place import Placer
from byocir.lowering.tir_to_vta.tensorise_blocks import Work, elements_of, work_of
from byocir.lowering.tir_to_vta.tensorise_copies import movement
from byocir.lowering.tir_to_vta.tensorise_emit import InstructionEmitter
from byocir.rewrites.schedule.index import INDEX_ARITHMETIC
from byocir.vta_sim import VTAConfig


@dataclass(frozen=True)
class VtaTensorisePass(ModulePass):
    """Runs the loops of functions for VTA and writes down the instructions."""

    name = "vta-tensorise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises ByocirError B331 to B335 for what VTA cannot do."""
        for function in vta_functions(op):
            if composites_in(function):
                _tensorise(function)


def _tensorise(function: FuncOp) -> None:
    body = function.body.block
    walker = _Walker(config_of(function))
    for composite in composites_in(function):
        _hoist(composite, body)
        walker.composite(composite)
        erase(composite)
    constants, instructions = walker.emitter.finish(function.location)
    last = body.last_op
    assert last is not None
    body.insert_ops_before([*constants, *instructions], last)


def _hoist(composite: CompositeOp, body: Block) -> None:
    """Moves constants and DRAM buffers in front of the composite."""
    for op in list(composite.walk()):
        if isinstance(op, ConstantOp) or (isinstance(op, AllocOp) and not scope_of(op.result.type)):
            op.detach()
            body.insert_op_before(op, composite)


class _Walker:
    """Runs composites and writes down instructions. Each value stands for an index, the first
    element of a buffer in a scratchpad, or a DRAM memref.
    """

    def __init__(self, config: VTAConfig) -> None:
        self.emitter = InstructionEmitter(config)
        self._config = config
        self._placer = Placer(config)
        self._values: dict[SSAValue, int | SSAValue] = {}
        self._addresses: dict[AllocOp, Iterator[int]] = {}
        self._works: dict[BlockOp, Work] = {}
        self._tile: list[int] = []
        self._rules: dict[type[Operation], Callable[..., None]] = {
            AllocOp: self._alloc,
            BlockOp: self._block,
            CopyOp: self._copy,
            FillOp: self._fill,
            ForOp: self._for,
            IntrinsicOp: self._intrinsic,
            YieldOp: self._yield,
            arith.ConstantOp: self._constant,
            **dict.fromkeys(INDEX_ARITHMETIC, self._index),
        }

    def composite(self, op: CompositeOp) -> None:
        """Runs a composite."""
        for arg, value in zip(op.body.block.args, op.inputs, strict=True):
            self._values[arg] = value
        places = self._placer.places(op.body.block)
        self._addresses = {alloc: iter(starts) for alloc, starts in places.items()}
        self._run(op.body.block)

    def _run(self, block: Block) -> None:
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise unsupported(
                    "B335", f"expected staged loops, copies, fills and blocks, found {op.name}", op
                )
            rule(op)

    def _yield(self, op: YieldOp) -> None:
        """Does nothing: on buffers a composite has no results."""

    def _for(self, op: ForOp) -> None:
        for i in range(op.extent.value.data):
            self._values[op.index] = i
            self._tile.append(i)
            self._run(op.body.block)
            self._tile.pop()

    def _intrinsic(self, op: IntrinsicOp) -> None:
        """Runs an instruction of a schedule by what it does, whatever its name."""
        self._run(op.body.block)

    def _constant(self, op: arith.ConstantOp) -> None:
        assert isinstance(op.value, IntegerAttr)
        self._values[op.result] = op.value.value.data

    def _index(self, op: Operation) -> None:
        left, right = self._indices(op.operands)
        self._values[op.results[0]] = INDEX_ARITHMETIC[type(op)](left, right)

    def _alloc(self, op: AllocOp) -> None:
        self._values[op.result] = next(self._addresses[op])

    def _copy(self, op: CopyOp) -> None:
        moved = movement(
            op,
            self._bases(op.source_bases, op),
            self._bases(op.destination_bases, op),
            self._config,
        )
        local, dram = (
            (op.source, op.destination) if moved.memory is None else (op.destination, op.source)
        )
        dram_value = self._values.get(dram, dram)
        assert isinstance(dram_value, SSAValue)
        self.emitter.move(moved, self._local(local), dram_value, self._place(op))

    def _fill(self, op: FillOp) -> None:
        destination, value = op.destination, op.value
        if destination is None or scope_of(destination.type) != "vta.acc":
            raise unsupported("B335", f"expected a fill of vta.acc, found {op.array_type}", op)
        assert isinstance(value, IntegerAttr)
        number = value.value.data
        start, count = self._local(destination), elements_of(destination, self._config)
        if not self.emitter.fill(start, count, number, self._place(op)):
            raise unsupported(
                "B334", f"expected a fill with 16 bits shifted left, found {number}", op
            )

    def _block(self, op: BlockOp) -> None:
        work = self._works.get(op)
        if work is None:
            work = self._works[op] = work_of(op, self._config)
        dst = self._local(work.dst)
        src = dst if work.src is None else self._local(work.src)
        wgt = 0 if work.wgt is None else self._local(work.wgt)
        bases, location = (dst, src, wgt), self._place(op)
        if work.kind is None:
            self.emitter.gemm(work.nests, bases, location)
        else:
            self.emitter.alu(work.kind, work.immediate, work.nests, bases, location)

    def _place(self, op: Operation) -> LocationAttr:
        return at_tile(_location(op), self._tile)

    def _bases(self, values: Sequence[SSAValue], op: CopyOp) -> Sequence[int]:
        return self._indices(values) if values else [0] * len(op.box)

    def _indices(self, values: Sequence[SSAValue]) -> list[int]:
        return [cast(int, self._values[value]) for value in values]

    def _local(self, value: SSAValue) -> int:
        return cast(int, self._values[value])


def _location(op: Operation) -> LocationAttr:
    """Finds the location of an op: its own if it has names, else that of its composite."""
    found: Operation | None = op
    while found is not None and not isinstance(found, FuncOp):
        if names(found.location):
            return found.location
        found = found.parent_op()
    return op.location
