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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import LocationAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.array import Array
from byocir.dialects.locations import place as where
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import i8, i32, shape_of
from byocir.dialects.vta import AluKind, LoadMemory, ProgramOp, config_of
from byocir.dialects.vta.assemble import Word, assembled_words, program_of
from byocir.dialects.vta.transfer import MEMORIES
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.copies import Dimension, Transfer, transfers
from byocir.lowering.tir_to_vta.described_transfers import joined
from byocir.lowering.tir_to_vta.insert_tokens import tokens_of
from byocir.lowering.tir_to_vta.micro_ops import Axis, MicroOpNest, Offsets, kernel_of, nests
from byocir.lowering.tir_to_vta.micro_ops_memory import MicroOpMemory
from byocir.machine import Call, Place
from byocir.machine.block_keys import reaches_beyond
from byocir.machine.instructions import Kind
from byocir.machine.operand_places import Box
from byocir.rewrites.unit_order import OrderedStep
from byocir.vta_sim import AluOp, Memory, Opcode
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
                limits = self.call.instruction.limits
                lanes = max(limit.step for limit in limits.values())
                across = (name for name, limit in limits.items() if limit.step == 1)
                return not any(n % lanes for n in (outside.address, *map(outside.stride, across)))
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


def program_of_steps(function: FuncOp, steps: Sequence[Step]) -> ProgramOp:
    """Makes VTA's program of the calls of a described machine's function, which are all laid out.
    Raises ByocirError B271 for a call on another unit than VTA has for it.
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
        self._words: list[Word] = []
        self._micro_ops = MicroOpMemory(self._config)
        self._weights = _Weights(steps, self._config.block_in, function.location)
        self._arrays: dict[SSAValue, None] = {}
        """The arrays in main memory that words reach, in order."""
        self._transfers: dict[Kind, Sequence[Transfer]] = {}
        self._nests: dict[Kind, Sequence[MicroOpNest]] = {}

    def step(self, step: Step) -> None:
        """Writes the words of a call, with its tokens."""
        call, kind = step.call, step.kind
        places = list(call.places.values())
        if kind is LoadMemory.WGT:
            written = self._load_weights(call, step.first)
        elif isinstance(kind, LoadMemory):
            written = self._move(call, Opcode.LOAD, MEMORIES[kind], *places)
        elif kind == "store":
            written = self._move(call, Opcode.STORE, Memory.OUT, *reversed(places))
        else:
            written = self._compute(call, kind, step.first)
        _check_unit(written[0], call)
        _set_tokens(written[0], call.pops, ())
        _set_tokens(written[-1], (), call.pushes)

    def _move(
        self, call: Call, opcode: Opcode, memory: Memory, outside: Place, inside: Place
    ) -> list[Word]:
        parts = self._transfers.get(call.kind)
        if parts is None:
            parts = self._transfers[call.kind] = self._parts(call, outside, inside)
        self._arrays.setdefault(outside.buffer)
        at, location = outside.address // self._config.block_in, call.op.location
        made = [
            _transfer(opcode, memory, part, inside.address, at, outside.buffer, location)
            for part in parts
        ]
        self._words += made
        return made

    def _parts(self, call: Call, outside: Place, inside: Place) -> Sequence[Transfer]:
        """Splits a call into transfers of vectors. Each iterator of its block is a dimension."""
        block, lanes = call.kind.block, self._config.block_in
        maps = [attr.data for attr in block.maps]
        far, near = maps if call.kind.fit.memories[0].is_main else reversed(maps)
        dims: list[Dimension] = []
        for i, extent in enumerate(block.extents):
            by = lanes if i in near.results[-1].used_dims() else 1
            before, after = _around(block, i)
            size = (extent - before - after) // by
            dram, sram = _moved(outside, far, i, by) // lanes, _moved(inside, near, i, by)
            dims.append(Dimension(size, dram, sram, before, after))
        return transfers(sorted(dims, key=lambda d: -d.sram))

    def _load_weights(self, call: Call, first: int) -> list[Word]:
        source, into = call.places.values()
        offset, array = self._weights.offsets[_key(source, into)], self._weights.array
        made: list[Word] = []
        for low, high in into.rows():
            run = Transfer(0, 0, 1, high - low, high - low)
            at, location = first + low, call.op.location
            made.append(_transfer(Opcode.LOAD, Memory.WGT, run, at, offset, array, location))
            offset += high - low
        self._words += made
        return made

    def _compute(self, call: Call, kind: AluKind | str, first: int) -> list[Word]:
        *read, into = call.places.values()
        operands = [into, *(read or [into])]
        nests = self._nests.get(call.kind)
        if nests is None:
            nests = self._nests[call.kind] = self._nests_of(call, operands)
        start = [place.address for place in operands]
        bases = (start[0], start[1], first + sum(start[2:]))
        if isinstance(kind, AluKind):
            imm = call.numbers.get("imm")
            told = {"alu_opcode": int(AluOp[kind.name]), "use_imm": int(imm is not None)}
            opcode, told = Opcode.ALU, told | {"imm": imm or 0}
        else:
            opcode, told = Opcode.GEMM, {"reset_reg": int(kind == "reset")}
        return [self._nest(opcode, nest, bases, told, call.op.location) for nest in nests]

    def _nests_of(self, call: Call, operands: Sequence[Place]) -> Sequence[MicroOpNest]:
        """Makes loops and micro-ops of a call's iterators; those over lanes go by blocks."""
        axes: list[Axis] = []
        for name, size in call.sizes.items():
            by = call.instruction.limits[name].step
            moved = [place.stride(name, by) for place in operands]
            axes.append(Axis(size // by, (moved[0], moved[1], sum(moved[2:]))))
        return nests(tuple(axes), (0, 0, 0), self._config, gemm=len(operands) == 3)

    def _nest(
        self,
        opcode: Opcode,
        nest: MicroOpNest,
        bases: Offsets,
        told: Mapping[str, int],
        location: LocationAttr,
    ) -> Word:
        """Writes an instruction over a nest, and a load of its micro-ops where it needs one."""
        kernel = kernel_of(nest, bases, self._config)
        (start, missing), count = self._micro_ops.hold(kernel), len(kernel)
        if missing is not None:
            offset, run = self._micro_ops.offset(missing), Transfer(0, 0, 1, count, count)
            load = _transfer(Opcode.LOAD, Memory.UOP, run, start, offset, None, location)
            self._words.append(load)
        outer, inner = nest.outer, nest.inner
        fields = {"uop_bgn": start, "uop_end": start + count, **told}
        fields |= {"iter_out": outer.extent, "iter_in": inner.extent}
        operands = ("dst", "src", "wgt") if opcode is Opcode.GEMM else ("dst", "src")
        for name, out, own in zip(operands, outer.steps, inner.steps, strict=False):
            fields |= {f"{name}_factor_out": out, f"{name}_factor_in": own}
        self._words.append(Word(opcode, fields, location))
        return self._words[-1]

    def finish(self) -> ProgramOp:
        """Gives the program, which ends when all its instructions have ended."""
        function, location = self._function, self._function.location
        words = [*joined(self._words, self._config), Word(Opcode.FINISH, {}, location)]
        _end_last(words)
        owners = [value.owner for value in self._arrays]
        known = [op for op in owners if isinstance(op, ConstantOp)]
        table = self._micro_ops.table()
        if table.size:
            type_ = MemRefType(i32, table.shape)
            known.append(ConstantOp.of(Array.of(table), type_, location))
            for word in words:
                if word.opcode is Opcode.LOAD and word.memory is Memory.UOP:
                    word.array = known[-1].result
        known = [*self._weights.constants, *known]
        buffers = [op.result for op in owners if isinstance(op, AllocOp)]
        return program_of(function, assembled_words(function, words, known, buffers))


def _moved(place: Place, map_: AffineMap, i: int, by: int) -> int:
    """Counts the rows, or elements of main memory, by which iterator i of a block moves a place."""
    forms = [linear(expr) for expr in map_.results]
    steps = {"": tuple(0 if form is None else form.coefficient(i) for form in forms)}
    return place.over(place.box, steps).stride("", by)


def _around(block: BlockOp, i: int) -> tuple[int, int]:
    """Counts the first and the last points of iterator i that are outside of the array that a block
    reads."""
    if not reaches_beyond(block):
        return 0, 0
    for expr, size in zip(block.in_maps[0].results, shape_of(block.ins[0].type), strict=True):
        form = linear(expr)
        if form is not None and [*form.atoms] == [i]:
            return max(-form.constant, 0), max(form.constant + block.extents[i] - size, 0)
    return 0, 0


def _transfer(
    opcode: Opcode,
    memory: Memory,
    part: Transfer,
    sram: int,
    dram: int,
    array: SSAValue | None,
    location: LocationAttr,
) -> Word:
    """Writes a LOAD or STORE; `sram` and `dram` are where the box begins of which it is a part."""
    fields = {
        "memory_type": int(memory),
        "sram_base": sram + part.sram,
        "dram_base": dram + part.dram,
        "y_size": part.rows,
        "x_size": part.columns,
        "x_stride": part.stride,
    }
    if any(part.pads):
        fields |= zip(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"), part.pads, strict=True)
    return Word(opcode, fields, location, array)


class _Weights:
    """Packs the constant weights of a program in blocks, in the order in which it first loads them;
    `offsets` are those of what each load brings.
    """

    def __init__(self, steps: Sequence[Step], side: int, location: LocationAttr) -> None:
        self.offsets: dict[_Key, int] = {}
        packed: list[np.ndarray] = []
        count = 0
        for step in steps:
            if step.kind is not LoadMemory.WGT:
                continue
            source, into = step.call.places.values()
            key = _key(source, into)
            if key not in self.offsets:
                values = source.values()[tuple(slice(*side) for side in source.box)]
                row = [high - low for low, high in into.box[-len(into.memory.row) :]]
                packed.append(blocks_of(values.reshape(-1, *row), side))
                self.offsets[key] = count
                count += len(packed[-1])
        self.constants: list[ConstantOp] = []
        if packed:
            blocks = np.concatenate(packed)
            type_ = MemRefType(i8, blocks.shape)
            self.constants.append(ConstantOp.of(Array.of(blocks), type_, location))

    @property
    def array(self) -> SSAValue:
        """Gives all blocks."""
        return self.constants[0].result


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


def _check_unit(word: Word, call: Call) -> None:
    unit = UNITS[word.queue]
    if call.unit.name != unit:
        told = f"expected {call.instruction.name} on unit {unit}, found it on {call.unit.name}"
        raise ByocirError("B271", told, where=where(call.op.location))


UNITS = {queue: queue.name.lower() for queue in Queue}
"""The names of the units that a description has for VTA's modules."""


def _set_tokens(word: Word, pops: Sequence[str], pushes: Sequence[str]) -> None:
    if pops or pushes:
        before, after = (list[int](map(_queue, names)) for names in (pops, pushes))
        tokens = tokens_of(OrderedStep(word.queue, None, before, after))
        word.fields |= dict.fromkeys(tokens, 1)


def _queue(unit: str) -> Queue:
    return Queue[unit.upper()]


def _end_last(words: Sequence[Word]) -> None:
    """Makes FINISH wait for the last load and the last store, unless a computation does."""
    for queue, push, pop in (
        (Queue.LOAD, "push_next", "pop_prev"),
        (Queue.STORE, "push_prev", "pop_next"),
    ):
        last = next((word for word in reversed(words) if word.queue is queue), None)
        if last is not None and push not in last.fields:
            last.fields[push] = words[-1].fields[pop] = 1
