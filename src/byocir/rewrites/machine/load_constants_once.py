"""load-constants-once: loads constants in whole before the first tile, where a unit that computes
does it.

Does: an array of constants of which a unit that computes loads a part for each tile, such as
factors of channels, becomes one buffer, which is filled behind the stores of earlier composites,
while other units bring in the first tile.
Between tiles each load would hold up the work, and wait for memory as long as other units use it.

Requires: functions whose ops are instructions, as `select-instructions` leaves them.

Guarantees: the same results, bit for bit; no more elements are loaded. The function can be
allocated if it could be before. What instructions cannot do on whole arrays stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.locations import fuse
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, IntrinsicOp, scope_of
from byocir.dialects.tir.moves import axes, moving
from byocir.dialects.types import element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.machine import Calls, InOrder, Machine, Memory
from byocir.machine.calls import ops_in
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.keep_on_chip import Offset, moved_by, redirect, users_of
from byocir.rewrites.machine.lifetimes import Lives, full_memories
from byocir.rewrites.machine.select_instructions import select_for
from byocir.rewrites.machine.steps import computing_units, loads_of
from byocir.rewrites.schedule.blocks import Parts


@dataclass(frozen=True)
class LoadConstantsOncePass(ModulePass):
    """Loads constants in whole where tiles would load parts of them between their work."""

    name = "load-constants-once"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            load_once(machine, function.body.block)


def load_once(machine: Machine, body: Block) -> None:
    """Loads the constants of a body in whole, if the machine can."""
    if isinstance(machine.ordered, InOrder):
        return
    constants = list(_constants(ops_in(machine, body)))
    if not constants:
        return
    trial = _Trial(constants)
    if trial.holds(machine, body):
        trial.keep()
    else:
        trial.undo()


@dataclass(eq=False)
class _Constant:
    """Names an array of constants, and the calls that load parts of it into a memory, each with the
    buffer that it fills and where in the array that begins."""

    array: SSAValue
    memory: Memory
    loads: list[Calls] = field(default_factory=list[Calls])
    parts: list[tuple[SSAValue, Offset]] = field(default_factory=list[tuple[SSAValue, Offset]])

    @property
    def is_whole(self) -> bool:
        """Tells whether loads bring all of the array, or more, in parts that begin with rows."""
        lanes, size = self.memory.row, prod(shape_of(self.array.type))
        begins = all(
            start % count == 0
            for _, offset in self.parts
            for start, count in zip(offset[::-1], lanes[::-1], strict=False)
        )
        return begins and sum(prod(shape_of(part.type)) for part, _ in self.parts) >= size


def _constants(calls: Sequence[Calls]) -> Iterator[_Constant]:
    """Yields the constants that units which compute load, several parts of each."""
    loads = loads_of(calls)
    computing = computing_units(calls, loads)
    found: dict[tuple[SSAValue, Memory], _Constant] = {}
    unfit: set[tuple[SSAValue, Memory]] = set()
    for call in calls:
        if call not in loads or call.unit not in computing or len(call.block.ins) != 1:
            continue
        (source,), (buffer, memory) = call.block.ins, call.into
        if not isinstance(source.owner, ConstantOp) or not shape_of(source.type):
            continue
        if memory.fifo:  # each part leaves it once, in its turn
            continue
        key, by = (source, memory), moved_by(call.block)
        if by is None or not _is_filled_by(call, buffer):
            unfit.add(key)
            continue
        constant = found.setdefault(key, _Constant(*key))
        constant.loads.append(call)
        constant.parts.append((buffer, by))
    for key, constant in found.items():
        if key not in unfit and len(constant.loads) > 1 and constant.is_whole:
            yield constant


def _is_filled_by(call: Calls, buffer: SSAValue) -> bool:
    """Tells whether a call alone writes a buffer, all of it."""
    writers = [op for op in _users_in_program(buffer) if buffer in op.outs]
    return writers == [call.block] and call.block.extents == shape_of(buffer.type)


def _users_in_program(buffer: SSAValue) -> list[BlockOp]:
    """Lists the blocks that use a buffer, without those with which instructions were tried."""
    return [op for op in users_of(buffer) if op.parent is not None]


def _places(body: Block, parts: Collection[Operation]) -> list[Operation]:
    """Gives the ops in front of which to load arrays in whole, of which these load the first parts:
    for each the first op behind the work of earlier composites, which end with stores.
    """
    found: Operation | None = None
    places = dict[Operation, Operation]()
    wanted = set(parts)
    for op in body.ops:
        if op in wanted:
            places[op] = found or op
        if isinstance(op, IntrinsicOp):
            blocks = (each for each in op.body.block.ops if isinstance(each, BlockOp))
            stores = any(not scope_of(value.type) for each in blocks for value in each.outs)
            found = None if stores else found or op
    return [places[part] for part in parts]


class _Trial:
    """Puts whole buffers in the place of parts, so that it can be undone."""

    def __init__(self, constants: Sequence[_Constant]) -> None:
        self._constants = constants
        self._parts = [part for each in constants for part, _ in each.parts]
        self._loads = [load.op for each in constants for load in each.loads]
        filled = {load.block for each in constants for load in each.loads}
        readers = dict.fromkeys(op for part in self._parts for op in _users_in_program(part))
        self._before = [(op, Parts.of(op)) for op in readers if op not in filled]
        self._made: list[Operation] = []

    def holds(self, machine: Machine, body: Block) -> bool:
        """Loads arrays in whole; tells whether the machine can do the program then."""
        before = set(body.ops)
        places = _places(body, [constant.loads[0].op for constant in self._constants])
        try:
            for constant, place in zip(self._constants, places, strict=True):
                self._load(machine, constant, place)
            calls = ops_in(machine, body)
        except ByocirError:
            return False
        finally:
            self._made = [op for op in body.ops if op not in before]
        kept = [call for call in calls if call.op not in self._loads]
        return not full_memories(Lives(kept).of)

    def _load(self, machine: Machine, constant: _Constant, first: Operation) -> None:
        """Loads an array in front of an op, and lets all blocks read that."""
        array, location = constant.array, fuse(*(load.op for load in constant.loads))
        shape, element = shape_of(array.type), element_type_of(array.type)
        buffer = AllocOp.of(element, shape, constant.memory.scope, location)
        load = moving(array, buffer.result, axes(len(shape)), location)
        home = first.parent
        assert home is not None
        assert isinstance(array.owner, ConstantOp)
        array.owner.detach()  # that of a later composite stands behind the work of earlier ones
        home.insert_ops_before([array.owner, buffer, load], first)
        select_for(machine, load)
        for part, offset in constant.parts:
            for op in _users_in_program(part):
                if part in op.ins:
                    redirect(op, part, buffer.result, offset)

    def keep(self) -> None:
        """Takes away the loads of parts, and their buffers."""
        for op in self._loads:
            op.detach()
        for part in self._parts:
            assert isinstance(part.owner, AllocOp)
            part.owner.detach()

    def undo(self) -> None:
        """Puts everything back as it was."""
        for op, parts in self._before:
            parts.put(op)
        for op in self._made:
            op.detach()
