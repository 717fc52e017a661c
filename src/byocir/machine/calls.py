"""The calls of a program: what encoders, simulators and the passes that order them read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, IntrinsicOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine.cut_plans import cost_of
from byocir.machine.description import Machine
from byocir.machine.find_instruction import block_key, kind_of
from byocir.machine.instructions import Call, Fit, Instruction, Kind
from byocir.machine.operand_places import Place
from byocir.machine.parts import Unit


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of one instruction that an op of a program stands for. They come in the order of
    the block's iterators, the last one fastest, each for as many points as the op's cut says, or
    for those that are left."""

    machine: Machine
    op: IntrinsicOp
    block: BlockOp
    start: Attribute | None
    """The number that the result begins with in place of what it was, if it does: sums, in the
    calls that have their first points."""
    arrays: Mapping[SSAValue, int]
    """The numbers of arrays in main memory."""

    @cached_property
    def instruction(self) -> Instruction:
        return _called(self.machine, self.op)

    @property
    def unit(self) -> Unit:
        return self.instruction.unit

    @cached_property
    def cut(self) -> Shape:
        """The points of each iterator that one call does at most."""
        return self.op.cut_of(self.block)

    @property
    def is_beside(self) -> bool:
        """Tells whether they are issued by turns with those of the next op that is not."""
        return self.op.beside is not None

    @property
    def cycles(self) -> float:
        """The cycles of all calls together."""
        return cost_of(self._kind(self.cut, self.start).fit, self.cut, self.block.extents)

    @property
    def count(self) -> int:
        """The number of calls."""
        return prod(-(-size // n) for size, n in zip(self.block.extents, self.cut, strict=True))

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """The boxes that all calls together reach, by the operands' names."""
        boxes = self._boxes_over(self._kind(self.cut, self.start).fit, self.block.extents)
        return {name: each.first for name, each in boxes.items()}

    @property
    def result(self) -> Place:
        """The box that all calls together write."""
        return [*self.places.values()][-1]

    @property
    def read(self) -> list[Place]:
        """The boxes that calls read: operands and, unless the result begins anew, the result."""
        *inputs, result = self.places.values()
        return [*inputs, result] if self._kind(self.cut, self.start).reads_old else inputs

    def __iter__(self) -> Iterator[Call]:
        last = self.count - 1
        for number, box in enumerate(self.op.boxes_of(self.block)):
            offsets, extents = [at for at, _ in box], tuple([end - at for at, end in box])
            begins = self.start is not None and not any(offsets[i] for i in self._sums)
            kind = self._kind(extents, self.start if begins else None)
            places = self._places(kind, offsets)
            yield Call(self.op, kind, places, number == 0, number == last)

    @cached_property
    def _sums(self) -> Sequence[int]:
        return self.block.reductions

    @cached_property
    def _forms(self) -> list[list[Linear[int]]]:
        maps = (attr.data.results for attr in self.block.maps)
        return [[form for e in map_ if (form := linear(e)) is not None] for map_ in maps]

    @cached_property
    def _key(self) -> Hashable:
        return block_key(self.block)

    @cached_property
    def _known(self) -> dict[tuple[Shape, bool], Kind]:
        return {}

    def _kind(self, extents: Shape, start: Attribute | None) -> Kind:
        """Gives the calls that do so many points. Raises ByocirError B271 where there are none."""
        known = extents, start is None
        if known not in self._known:
            name = self.op.callee.data
            found = kind_of(self.machine, name, self.block, self._key, extents, start)
            if isinstance(found, str):
                told = f"expected what instruction {name} does, found another block: {found}"
                raise ByocirError("B271", told, where=place(self.op.location))
            self._known[known] = found
        return self._known[known]

    def _places(self, kind: Kind, offsets: Sequence[int]) -> dict[str, Place]:
        """Gives the places of operands, by name, in the call whose pieces begin here."""
        return {name: boxes.at(offsets) for name, boxes in self._boxes(kind).items()}

    def _boxes(self, kind: Kind) -> Mapping[str, _Boxes]:
        if kind not in self._reached:
            self._reached[kind] = self._boxes_over(kind.fit, kind.block.extents)
        return self._reached[kind]

    @cached_property
    def _reached(self) -> dict[Kind, Mapping[str, _Boxes]]:
        return {}

    def _boxes_over(self, fit: Fit, extents: Shape) -> dict[str, _Boxes]:
        """Gives the boxes that operands reach when iterators run over these extents."""
        values, reached = [*self.block.ins, *self.block.outs], spans(extents)
        found: dict[str, _Boxes] = {}
        for name, position in fit.operands.items():
            forms, value = self._forms[position], values[position]
            ends = [form.interval(reached.__getitem__) for form in forms]
            box = tuple((low, high + 1) for low, high in ends)
            steps = {each: _step(forms, at) for each, at in fit.iterators.items()}
            place_ = Place(fit.memories[position], value, box, steps, self.arrays.get(value, -1))
            found[name] = _Boxes(place_, tuple(form.terms for form in forms))
        return found


@dataclass(frozen=True, eq=False)
class _Boxes:
    """The boxes of one operand in calls of one kind: `first` where all iterators begin, and how
    each dimension moves with them."""

    first: Place
    moves: tuple[tuple[tuple[int, int], ...], ...]

    def at(self, offsets: Sequence[int]) -> Place:
        """Gives the place in the call whose pieces begin here: the same one in calls that share
        it."""
        own = tuple([offsets[iterator] for iterator in self._moving])
        if own not in self._known:
            by = dict(zip(self._moving, own, strict=True))
            sides = zip(self.first.box, self.moves, strict=True)
            moved = [(side, sum(step * by[i] for i, step in terms)) for side, terms in sides]
            self._known[own] = self.first.over(tuple([(a + n, b + n) for (a, b), n in moved]))
        return self._known[own]

    @cached_property
    def _moving(self) -> list[int]:
        """The iterators with which the box moves."""
        return sorted({i for terms in self.moves for i, _ in terms})

    @cached_property
    def _known(self) -> dict[Shape, Place]:
        return {}


def _step(forms: Sequence[Linear[int]], positions: Sequence[int]) -> Shape:
    if not positions:
        return (0,) * len(forms)
    return tuple(form.coefficient(positions[-1]) for form in forms)


def _parts_of(op: IntrinsicOp) -> tuple[BlockOp, Attribute | None]:
    """Gives the block of an instruction, and the number that its result begins with, if it does."""
    *before, work = op.body.block.ops
    assert isinstance(work, BlockOp)
    if not before or not isinstance(before[0], BlockOp):
        return work, None
    number = before[0].yielded[0].owner
    return work, number.properties["value"] if isinstance(number, Operation) else None


def ops_in(machine: Machine, body: Block) -> list[Calls]:
    """Gives the calls of a program, in order, as its ops have them together. Raises ByocirError
    B271 for an op that the machine has no instruction for."""
    arrays: dict[SSAValue, int] = {value: number for number, value in enumerate(body.args)}
    found: list[Calls] = []
    for op in body.ops:
        if isinstance(op, IntrinsicOp):
            found.append(Calls(machine, op, *_parts_of(op), arrays))
        elif isinstance(op, AllocOp | ConstantOp) and not scope_of(op.results[0].type):
            arrays[op.results[0]] = len(arrays)
    return found


def _called(machine: Machine, op: IntrinsicOp) -> Instruction:
    """Gives the instruction that an op names; raises ByocirError B271 where the machine has
    none."""
    for each in machine.instructions:
        if each.name == op.callee.data:
            return each
    told = f"expected an instruction of {machine.name}, found {op.callee.data}"
    raise ByocirError("B271", told, where=place(op.location))


def calls_in(machine: Machine, body: Block) -> list[Call]:
    """Gives the calls of a program one by one, as they are issued; raises as `ops_in`."""
    ops = ops_in(machine, body)
    calls = [iter(each) for each in ops]
    return list(_keeping(next(calls[number]) for number in issued(ops)))


def _keeping(calls: Iterable[Call]) -> Iterator[Call]:
    """Tells the calls whose unit still keeps the operand that they want."""
    held: dict[Unit, tuple[Instruction, Place]] = {}
    for call in calls:
        instruction, written = call.instruction, call.result.buffer
        for unit in [unit for unit, (_, kept) in held.items() if kept.buffer is written]:
            del held[unit]
        wanted = call.places.get(instruction.keeps)
        if wanted is None:
            yield call
            continue
        user, kept = held.get(instruction.unit, (None, wanted))
        same = kept is wanted or (kept.buffer is wanted.buffer and kept.box == wanted.box)
        yield call.kept() if user is instruction and same else call
        held[instruction.unit] = instruction, wanted


def issued(ops: Sequence[Calls]) -> Iterator[int]:
    """Gives for each call of a program, as they are issued, the number of the op that it is part
    of."""
    beside: list[int] = []
    for number, op in enumerate(ops):
        own = [number] * op.count
        if op.is_beside:
            beside += own
            continue
        yield from _by_turns(beside, own)
        beside = []
    yield from beside


def _by_turns(some: Sequence[int], others: Sequence[int]) -> Iterator[int]:
    """Gives both in one, each in its order and spread over all."""
    taken = 0
    for number, other in enumerate(others):
        due = -(-len(some) * (number + 1) // len(others))
        yield from some[taken:due]
        yield other
        taken = due


def buffers_in(machine: Machine, body: Block) -> list[AllocOp]:
    """Gives the buffers of a program that lie in the machine's memories, in order."""
    scopes = {memory.scope for memory in machine.memories}
    return [op for op in body.ops if isinstance(op, AllocOp) and scope_of(op.result.type) in scopes]
