"""vta-tensorise: from staged loops to a straight line of VTA instructions.

Requires: functions for VTA in buffer form after `vta-stage`: composites of loops with static
extents around copies, fills and blocks on scoped buffers in local coordinates, with index
arithmetic on loop indices only.
Guarantees: in each such function the composites are replaced by `vta` ops in program order, with
the locations of the ops they come from at the tile they are for, ending in `vta.finish`; constants
and DRAM buffers stay values; micro-ops are one constant table. No dependency flag is set yet: run
in order, the instructions give what the loops gave.

The loops run here, with concrete indices. A buffer in a scratchpad gets an address each time its
`tir.alloc` is met and gives it back after its last use; in a loop it alternates between addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, YieldOp
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
from byocir.dialects.types import shape_of
from byocir.dialects.vta import config_of
from byocir.lowering.tir_to_vta.allocate import Scratchpad
from byocir.lowering.tir_to_vta.composites import composites_of, unsupported, vta_functions
from byocir.lowering.tir_to_vta.tensorise_blocks import MEMORIES, Work, element_shape, work_of
from byocir.lowering.tir_to_vta.tensorise_copies import movement
from byocir.lowering.tir_to_vta.tensorise_emit import Emitter
from byocir.rewrites.liveness import last_uses
from byocir.rewrites.schedule.index import INDEX_ARITHMETIC
from byocir.vta_sim import Memory, VTAConfig

SLOTS = 2
"""Over how many addresses the instances of one buffer alternate. Two let loads overlap
computation; more would need the same micro-ops for more addresses, so that loops would keep loading
micro-ops, which the compute module waits for."""


@dataclass(frozen=True)
class VtaTensorisePass(ModulePass):
    """Runs the loops of functions for VTA and writes down the instructions."""

    name = "vta-tensorise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises ByocirError B331 to B335 for what VTA cannot do."""
        for function in vta_functions(op):
            if composites_of(function):
                _tensorise(function)


def _tensorise(function: FuncOp) -> None:
    body = function.body.block
    walker = _Walker(config_of(function))
    for composite in composites_of(function):
        _hoist(composite, body)
        walker.composite(composite)
        composite.detach()
        composite.erase()
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


@dataclass(frozen=True)
class _Local:
    """A buffer in a scratchpad: its first element."""

    memory: Memory
    start: int


class _Walker:
    """Runs composites; each value stands for an index, a scratchpad buffer or a DRAM memref."""

    def __init__(self, config: VTAConfig) -> None:
        self.emitter = Emitter(config)
        self._config = config
        self._scratchpads = {m: Scratchpad(config.depth(m)) for m in MEMORIES.values()}
        self._values: dict[SSAValue, int | _Local | SSAValue] = {}
        self._addresses: dict[AllocOp, list[int]] = {}
        self._ends: dict[Block, dict[Operation, list[AllocOp]]] = {}
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
        self._run(op.body.block)

    def _run(self, block: Block) -> None:
        if block not in self._ends:
            self._ends[block] = last_uses(block)
        ends = self._ends[block]
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise unsupported(
                    "B335", f"expected staged loops, copies, fills and blocks, found {op.name}", op
                )
            rule(op)
            for alloc in ends.get(op, ()):
                local = self._local(alloc.result)
                self._scratchpads[local.memory].free(local.start)

    def _yield(self, op: YieldOp) -> None:
        """A composite on buffers has no results."""

    def _for(self, op: ForOp) -> None:
        for i in range(op.extent.value.data):
            self._values[op.index] = i
            self._tile.append(i)
            self._run(op.body.block)
            self._tile.pop()

    def _intrinsic(self, op: IntrinsicOp) -> None:
        """An instruction is chosen by what it does, whatever a schedule called it."""
        self._run(op.body.block)

    def _constant(self, op: arith.ConstantOp) -> None:
        assert isinstance(op.value, IntegerAttr)
        self._values[op.result] = op.value.value.data

    def _index(self, op: Operation) -> None:
        left, right = self._indices(op.operands)
        self._values[op.results[0]] = INDEX_ARITHMETIC[type(op)](left, right)

    def _alloc(self, op: AllocOp) -> None:
        scope = scope_of(op.result.type)
        if scope not in MEMORIES:
            choices = ", ".join(MEMORIES)
            raise unsupported("B335", f"expected a buffer in {choices}, found {scope}", op)
        memory, size = MEMORIES[scope], self._elements(op.result)
        scratchpad = self._scratchpads[memory]
        used = self._addresses.setdefault(op, [])
        start = used[-SLOTS] if len(used) >= SLOTS else None
        if start is None or not scratchpad.allocate_at(start, size):
            start = scratchpad.allocate(size)
        if start is None:
            raise unsupported(
                "B331",
                f"expected {size} free elements in a row in {memory.name}, found {scratchpad.used} "
                f"of {scratchpad.depth} in use",
                op,
                help="the tiles are too large for the scratchpads of this configuration",
            )
        used.append(start)
        self._values[op.result] = _Local(memory, start)

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
        self.emitter.move(moved, self._local(local).start, dram_value, self._place(op))

    def _fill(self, op: FillOp) -> None:
        destination, value = op.destination, op.value
        if destination is None or scope_of(destination.type) != "vta.acc":
            raise unsupported("B335", f"expected a fill of vta.acc, found {op.array_type}", op)
        assert isinstance(value, IntegerAttr)
        number = value.value.data
        start, count = self._local(destination).start, self._elements(destination)
        if not self.emitter.fill(start, count, number, self._place(op)):
            raise unsupported(
                "B334", f"expected a fill with 16 bits shifted left, found {number}", op
            )

    def _block(self, op: BlockOp) -> None:
        work = self._works.get(op)
        if work is None:
            work = self._works[op] = work_of(op, self._config)
        dst = self._local(work.dst).start
        src = dst if work.src is None else self._local(work.src).start
        wgt = 0 if work.wgt is None else self._local(work.wgt).start
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

    def _elements(self, value: SSAValue) -> int:
        """Counts the SRAM elements that a buffer takes."""
        rank = len(element_shape(scope_of(value.type), self._config))
        return math.prod(shape_of(value.type)[:-rank])

    def _local(self, value: SSAValue) -> _Local:
        local = self._values[value]
        assert isinstance(local, _Local)
        return local


def _location(op: Operation) -> LocationAttr:
    """Finds the location of an op: its own if it has names, else that of its composite."""
    found: Operation | None = op
    while found is not None and not isinstance(found, FuncOp):
        if names(found.location):
            return found.location
        found = found.parent_op()
    return op.location
