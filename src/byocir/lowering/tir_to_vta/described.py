"""Writes the programs of machines that describe VTA in its instructions.

A description says by its `encode` hooks which of VTA's instructions a call is:

```python
vta.copy("load_inp", MAIN, inp, unit=load, encode=instructions.load("inp"), …)

@vta.instruction(compute, into=acc, encode=instructions.gemm(), …)
def gemm(): …
```

Rows of its memories are those of VTA's scratchpads, and places of operands tell the rest: how far
they move with each iterator becomes loops and micro-ops, and tokens are the dependency flags. What
a whole program shares is found here: micro-ops and their loads, weights as VTA reads them, blocks
of [outputs, inputs], transfers that are one, and the end, which waits for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.dialects.builtin import LocationAttr, MemRefType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.locations import place as where
from byocir.dialects.new_ops import clone_op
from byocir.dialects.tir import ConstantOp
from byocir.dialects.types import i8
from byocir.dialects.vta import AluKind, InstructionOp, LoadMemory, config_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.copies import Dimension, transfers
from byocir.lowering.tir_to_vta.described_transfers import joined
from byocir.lowering.tir_to_vta.insert_tokens import tokens_of
from byocir.lowering.tir_to_vta.micro_ops import Axis, MicroOpNest, nests
from byocir.lowering.tir_to_vta.tensorise_copies import Movement
from byocir.lowering.tir_to_vta.tensorise_emit import InstructionEmitter
from byocir.machine import Call, Place
from byocir.machine.operand_places import Box
from byocir.rewrites.unit_order import OrderedStep
from byocir.vta_sim.isa import Queue


@dataclass(frozen=True, eq=False)
class Step:
    """Says which of VTA's instructions a call is. Row 0 of the memory of its weights, if it has
    any, is row `first` of VTA's."""

    call: Call
    kind: LoadMemory | AluKind | Literal["store", "gemm", "reset"]
    first: int = 0

    @property
    def is_laid_out(self) -> bool:
        """Tells whether what it moves lies in main memory as VTA needs it: weights are constants,
        which can be packed, and vectors begin at multiples of their lanes."""
        for outside in self.call.places.values():
            if outside.memory.is_main and self.kind is LoadMemory.WGT:
                return isinstance(outside.buffer.owner, ConstantOp)
            if outside.memory.is_main:
                lanes = self.call.instruction.limits["lanes"].step
                return not outside.address % lanes and not outside.stride("rows") % lanes
        return True


Encode = Callable[[Call], Step]


def load(memory: str, first: int = 0) -> Encode:
    """Makes the hook of calls that load vectors into "inp" or "acc", or into accumulators from
    bytes, "acc8"; or constants into "wgt": blocks [inputs, outputs] of weights, or vectors that are
    diagonals of blocks. Row 0 of the memory of weights is row `first` of VTA's.
    """
    return lambda call: Step(call, LoadMemory(memory), first)


def store(call: Call) -> Step:
    """Says that a call stores accumulators as bytes."""
    return Step(call, "store")


def gemm(first: int = 0) -> Encode:
    """Makes the hook of calls that add products of vectors and weights, in this order, to
    accumulators. Row 0 of the memory of weights is row `first` of VTA's.
    """
    return lambda call: Step(call, "gemm", first)


def reset(call: Call) -> Step:
    """Says that a call sets accumulators to 0."""
    return Step(call, "reset")


def alu(kind: str) -> Encode:
    """Makes the hook of calls that change accumulators by an operation of the ALU: "add", "mul",
    "max", "min" or "shr", with the number `imm` of their pattern or with other accumulators.
    """
    return lambda call: Step(call, AluKind(kind))


def vta_function(function: FuncOp, steps: Sequence[Step]) -> FuncOp:
    """Makes the function of VTA's instructions for the calls of a described machine's function,
    which are all laid out. Raises ByocirError B271 for a call on another unit than VTA has for it.
    """
    writer = _Writer(function, steps)
    for step in steps:
        writer.step(step)
    return writer.finish()


class _Writer:
    """Writes the steps of a function, one after the other."""

    def __init__(self, function: FuncOp, steps: Sequence[Step]) -> None:
        self._function = function
        self._config = config_of(function)
        self._emitter = InstructionEmitter(self._config)
        old = function.body.block
        self._body = Block(arg_types=old.arg_types)
        self._arrays: dict[SSAValue, SSAValue] = dict(zip(old.args, self._body.args, strict=True))
        self._weights = _Weights(steps, self._config.block_in)
        self._constants: list[Operation] = []
        """The constants and buffers in main memory."""
        if self._weights.offsets:
            self._constants.append(self._weights.constant(function.location))

    def step(self, step: Step) -> None:
        """Writes the instructions of a call, with its tokens."""
        call, kind, before = step.call, step.kind, self._emitter.count
        places = list(call.places.values())
        if kind is LoadMemory.WGT:
            self._load_weights(call, step.first)
        elif isinstance(kind, LoadMemory):
            self._move(call, kind, *places)
        elif kind == "store":
            self._move(call, None, *reversed(places))
        else:
            self._compute(call, kind, step.first)
        written = self._emitter.since(before)
        _set_tokens(written[0], call, call.pops, ())
        _set_tokens(written[-1], call, (), call.pushes)

    def _move(self, call: Call, memory: LoadMemory | None, outside: Place, inside: Place) -> None:
        lanes, sizes = self._config.block_in, call.sizes
        rows = Dimension(sizes["rows"], outside.stride("rows") // lanes, inside.stride("rows"))
        blocks = Dimension(sizes["lanes"] // lanes, 1, inside.stride("lanes", lanes))
        moved = Movement(memory, 0, outside.address // lanes, tuple(transfers([blocks, rows])))
        self._emitter.move(moved, inside.address, self._array(outside), call.op.location)

    def _load_weights(self, call: Call, first: int) -> None:
        source, into = call.places.values()
        offset = self._weights.offsets[_key(source, into)]
        for low, high in into.rows():
            run = Dimension(high - low, 1, 1)
            moved = Movement(LoadMemory.WGT, first + low, offset, tuple(transfers([run])))
            self._emitter.move(moved, 0, self._constants[0].results[0], call.op.location)
            offset += high - low

    def _compute(self, call: Call, kind: AluKind | str, first: int) -> None:
        *read, into = call.places.values()
        operands = [into, *(read or [into])]
        steps, start = self._nests(call, operands), [place.address for place in operands]
        bases, location = (start[0], start[1], first + sum(start[2:])), call.op.location
        if isinstance(kind, AluKind):
            self._emitter.alu(kind, call.numbers.get("imm"), steps, bases, location)
        else:
            self._emitter.gemm(steps, bases, location, reset=kind == "reset")

    def _nests(self, call: Call, operands: Sequence[Place]) -> Sequence[MicroOpNest]:
        """Makes loops and micro-ops of a call's iterators; those over lanes go by blocks."""
        axes: list[Axis] = []
        for name, size in call.sizes.items():
            by = call.instruction.limits[name].step
            moved = [place.stride(name, by) for place in operands]
            axes.append(Axis(size // by, (moved[0], moved[1], sum(moved[2:]))))
        return nests(tuple(axes), (0, 0, 0), self._config, gemm=len(operands) == 3)

    def _array(self, place: Place) -> SSAValue:
        """Gives the new function's value for an array in main memory."""
        found = self._arrays.get(place.buffer)
        if found is None:
            made = clone_op(cast(Operation, place.buffer.owner))
            self._constants.append(made)
            found = self._arrays[place.buffer] = made.results[0]
        return found

    def finish(self) -> FuncOp:
        """Gives the function, which ends when all its instructions have ended."""
        function = self._function
        tables, instructions = self._emitter.finish(function.location)
        instructions = joined(instructions, self._config)
        _end_last(instructions)
        self._body.add_ops([*self._constants, *tables, *instructions, ReturnOp()])
        made = FuncOp(function.sym_name.data, function.function_type, Region(self._body))
        made.attributes.update(function.attributes)
        made.location = function.location
        return made


class _Weights:
    """Packs the constant weights of a program in blocks, in the order in which it first loads them;
    `offsets` are those of what each load brings.
    """

    def __init__(self, steps: Sequence[Step], side: int) -> None:
        self.offsets: dict[_Key, int] = {}
        self._blocks: list[np.ndarray] = []
        count = 0
        for step in steps:
            if step.kind is not LoadMemory.WGT:
                continue
            source, into = step.call.places.values()
            key = _key(source, into)
            if key not in self.offsets:
                values = source.values()[tuple(slice(*side) for side in source.box)]
                row = [high - low for low, high in into.box[-len(into.memory.row) :]]
                self._blocks.append(blocks_of(values.reshape(-1, *row), side))
                self.offsets[key] = count
                count += len(self._blocks[-1])

    def constant(self, location: LocationAttr) -> ConstantOp:
        blocks = np.concatenate(self._blocks)
        return ConstantOp.of(Array.of(blocks), MemRefType(i8, blocks.shape), location)


_Key = tuple[SSAValue, Box, str]


def _key(source: Place, into: Place) -> _Key:
    """Gives what weights are told apart by: which they are, and the memory that has their rows."""
    return source.buffer, source.box, into.memory.scope


def blocks_of(weights: np.ndarray, side: int) -> np.ndarray:
    """Packs weights [points, inputs, outputs], or vectors [points, lanes] that are diagonals of
    blocks, as VTA's blocks [blocks, side of outputs, side of inputs]: those of the first inputs
    come first, and of these those of the first outputs.
    """
    if weights.ndim == 2:
        vectors = weights.reshape(len(weights), -1, side).swapaxes(0, 1)
        return (vectors[..., None] * np.eye(side, dtype=weights.dtype)).reshape(-1, side, side)
    points, inputs, outputs = weights.shape
    cut = weights.reshape(points, inputs // side, side, outputs // side, side)
    return cut.transpose(1, 3, 0, 4, 2).reshape(-1, side, side)


def _set_tokens(op: InstructionOp, call: Call, pops: Sequence[str], pushes: Sequence[str]) -> None:
    unit = op.queue.name.lower()
    if call.unit.name != unit:
        told = f"expected {call.instruction.name} on unit {unit}, found it on {call.unit.name}"
        raise ByocirError("B271", told, where=where(call.op.location))
    before, after = (list[int](map(_queue, names)) for names in (pops, pushes))
    for token in tokens_of(OrderedStep(op.queue, None, before, after)):
        op.set_token(token)


def _queue(unit: str) -> Queue:
    return Queue[unit.upper()]


def _end_last(instructions: Sequence[InstructionOp]) -> None:
    """Makes FINISH wait for the last load and the last store, unless a computation does."""
    for queue, push, pop in (
        (Queue.LOAD, "push_next", "pop_prev"),
        (Queue.STORE, "push_prev", "pop_next"),
    ):
        last = next((op for op in reversed(instructions) if op.queue is queue), None)
        if last is not None and push not in last.tokens:
            last.set_token(push)
            instructions[-1].set_token(pop)
