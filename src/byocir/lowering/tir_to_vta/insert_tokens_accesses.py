"""Lists the reads and writes of each instruction, element by element, on which its order
depends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from byocir.dialects.tir import ConstantOp
from byocir.dialects.types import nbytes
from byocir.dialects.vta import AluOp, FinishOp, GemmOp, InstructionOp, LoadOp, NestOp, TransferOp
from byocir.rewrites.unit_order import Effects, Elements, Touched, TouchedMemory
from byocir.vta_sim import Memory, VTAConfig, decode_uops


class AccessReader:
    """Reads the accesses of a function's instructions, in program order.

    Only DRAM buffers in `shared` are looked at: those that are stored to. The contents of the UOP
    memory are followed, since micro-ops say which accumulators are meant; it is used by one module
    only, so it is no space of its own.
    """

    def __init__(self, config: VTAConfig, shared: Collection[SSAValue]) -> None:
        self._config = config
        self._shared = shared
        self._spaces = {
            memory: TouchedMemory(memory, config.depth(memory))
            for memory in (Memory.INP, Memory.WGT, Memory.ACC)
        }
        self._uops = np.zeros(config.depth(Memory.UOP), np.uint32)
        self._uops_known = np.zeros(config.depth(Memory.UOP), np.bool_)
        self._sets: dict[tuple[object, ...], Elements] = {}

    def access(self, op: InstructionOp) -> Effects:
        """Gives the access of the next instruction."""
        if isinstance(op, TransferOp):
            return self._transfer(op)
        if isinstance(op, NestOp):
            return self._nest(op)
        return Effects(op.queue, last=isinstance(op, FinishOp))

    def _transfer(self, op: TransferOp) -> Effects:
        if op.is_nop:
            return Effects(op.queue)
        fields, memory = op.operation_fields(), op.memory_id
        first = fields["sram_base"]
        local = slice(first, first + op.sram_size)
        if memory == Memory.UOP:
            self._load_uops(cast(LoadOp, op), local)
            return Effects(op.queue, self._dram(op))
        pad = memory if memory in self._spaces else Memory.ACC
        scratchpad = ((self._spaces[pad], local),)
        if isinstance(op, LoadOp):
            return Effects(op.queue, self._dram(op), scratchpad)
        return Effects(op.queue, scratchpad, self._dram(op))

    def _dram(self, op: TransferOp) -> Touched:
        """Gives the window in DRAM, in units of the smallest element that is stored."""
        if op.dram is None or op.dram not in self._shared:
            return ()
        fields, unit = op.operation_fields(), self._config.element_bytes(Memory.OUT)
        scale = max(self._config.element_bytes(op.memory_id) // unit, 1)
        rows, columns = op.box
        starts = fields["dram_base"] + np.arange(rows) * fields["x_stride"]
        window = np.unique(starts[:, None] * scale + np.arange(columns * scale))
        return ((TouchedMemory(op.dram, nbytes(op.dram.type) // unit), compact(window)),)

    def _load_uops(self, op: LoadOp, local: slice) -> None:
        source = op.source.owner if op.source is not None else None
        rows, columns = op.box
        dense = (rows, *op.padding) == (1, 0, 0, 0, 0)
        self._uops_known[local] = False
        if isinstance(source, ConstantOp) and dense:
            table = source.value.data.values().reshape(-1).view(np.uint32)
            offset = op.operation_fields()["dram_base"]
            self._uops[local] = table[offset : offset + columns]
            self._uops_known[local] = True

    def _nest(self, op: NestOp) -> Effects:
        fields = op.operation_fields()
        acc = self._spaces[Memory.ACC]
        written = ((acc, self._set(fields, "dst")),)
        if isinstance(op, GemmOp):
            if op.reset is not None:
                return Effects(op.queue, writes=written)
            inp, wgt = self._spaces[Memory.INP], self._spaces[Memory.WGT]
            factors = ((inp, self._set(fields, "src")), (wgt, self._set(fields, "wgt")))
            return Effects(op.queue, (*written, *factors), written)
        if cast(AluOp, op).imm is not None:
            return Effects(op.queue, written, written)
        return Effects(op.queue, (*written, (acc, self._set(fields, "src"))), written)

    def _set(self, fields: dict[str, int], operand: str) -> Elements:
        """Gives the elements that an operand of a nest takes; all of them if its micro-ops are not
        known."""
        uops = slice(fields["uop_bgn"], fields["uop_end"])
        if not self._uops_known[uops].all():
            return slice(None)
        kernel = self._uops[uops]
        loops = (fields["iter_out"], fields["iter_in"])
        factors = (fields[f"{operand}_factor_out"], fields[f"{operand}_factor_in"])
        key = (operand, loops, factors, kernel.tobytes())
        if key not in self._sets:
            position = ("dst", "src", "wgt").index(operand)
            start = np.unique(decode_uops(kernel, self._config)[position])
            self._sets[key] = _spread(start, loops, factors)
        return self._sets[key]


def _spread(start: NDArray[np.int64], loops: Sequence[int], factors: Sequence[int]) -> Elements:
    """Gives all sums of a start and the steps of the loops."""
    for count, factor in zip(loops, factors, strict=True):
        if factor:
            start = np.unique(start[:, None] + np.arange(count) * factor)
    return compact(start)


def compact(index: NDArray[np.int64]) -> Elements:
    """Gives a range if the sorted, distinct indices are one."""
    if index.size and int(index[-1]) - int(index[0]) == index.size - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
