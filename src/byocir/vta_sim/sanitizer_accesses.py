"""Finds exactly which scratchpad elements each instruction reads and writes: through micro-ops and
loop factors, not as bounding boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import Memory, VTAConfig
from byocir.vta_sim.isa import LAYOUT, Instruction, Opcode, decode_uops

Index = NDArray[np.int64]
Elements = Index | slice
Touched = tuple[Memory, Elements]
# Bytes of index arrays kept for instructions that come again with the same micro-ops.
KEPT_BYTES = 1 << 26
# All that the accesses of a nest depend on, besides the micro-ops themselves.
NEST_FIELDS = {
    opcode: tuple(f.name for f in LAYOUT[opcode] if f.text not in ("", ".op", "imm"))
    for opcode in (Opcode.GEMM, Opcode.ALU)
}


@dataclass(frozen=True)
class Beyond:
    """Describes scratchpad elements [first, end) some of which are past the memory's depth."""

    memory: Memory
    first: int
    end: int


@dataclass(frozen=True)
class Accesses:
    """Lists the elements that an instruction reads and writes; ACC_8BIT and OUT stand for ACC.
    Those past the end of a memory are in ``beyond`` and not among the others."""

    reads: tuple[Touched, ...] = ()
    writes: tuple[Touched, ...] = ()
    beyond: tuple[Beyond, ...] = ()


NOTHING = Accesses()


class StreamAccessReader:
    """Reads the accesses of instructions in the order in which compute runs them.

    The micro-op memory is followed: ``dram`` (uint8 [B]) is what micro-ops are loaded from, unless
    ``loaded_uops`` has the elements that a load (by instruction index) gives.
    """

    def __init__(
        self,
        config: VTAConfig,
        dram: NDArray[np.uint8],
        loaded_uops: Mapping[int, NDArray[np.uint32]],
    ) -> None:
        self._config, self._loaded_uops = config, loaded_uops
        whole = dram[: len(dram) // 4 * 4]
        self._words = np.ascontiguousarray(whole).view("<u4")
        self._uops = np.zeros(config.depth(Memory.UOP), np.uint32)
        self._kept: dict[tuple[object, ...], Accesses] = {}
        self._room = KEPT_BYTES

    def read(self, insn: Instruction) -> Accesses:
        """Gives the accesses of an instruction; they must be asked for in order."""
        if insn.opcode == Opcode.LOAD:
            return self._load(insn)
        if insn.opcode == Opcode.STORE:
            return self._store(insn)
        if insn.opcode == Opcode.FINISH:
            return NOTHING
        return self._nest(insn)

    def _span(self, memory: Memory, start: int, count: int) -> tuple[slice, tuple[Beyond, ...]]:
        depth = self._config.depth(memory)
        past = (Beyond(memory, start, start + count),) if start + count > depth else ()
        return slice(start, min(start + count, depth)), past

    def _load(self, insn: Instruction) -> Accesses:
        f, memory = insn.fields, Memory(insn.fields["memory_type"])
        if not f["x_size"]:
            return NOTHING
        memory = Memory.ACC if memory == Memory.ACC_8BIT else memory
        rows = f["y_pad_0"] + f["y_size"] + f["y_pad_1"]
        columns = f["x_pad_0"] + f["x_size"] + f["x_pad_1"]
        span, past = self._span(memory, f["sram_base"], rows * columns)
        if memory == Memory.UOP:
            self._uops[span] = self._loaded(insn, columns, len(self._uops[span]))
        return Accesses((), ((memory, span),), past)

    def _loaded(self, insn: Instruction, columns: int, count: int) -> NDArray[np.uint32]:
        """Gives the first ``count`` elements that a LOAD UOP loads; zeros where it leaves the
        image.
        """
        if insn.index in self._loaded_uops:
            return self._loaded_uops[insn.index]
        f = insn.fields
        row, column = np.divmod(np.arange(count), columns)
        y, x = row - f["y_pad_0"], column - f["x_pad_0"]
        words = f["dram_base"] + y * f["x_stride"] + x
        copied = (y >= 0) & (y < f["y_size"]) & (x >= 0) & (x < f["x_size"])
        copied &= words < len(self._words)
        result = np.zeros(count, np.uint32)
        result[copied] = self._words[words[copied]]
        return result

    def _store(self, insn: Instruction) -> Accesses:
        f = insn.fields
        count = f["x_size"] * f["y_size"]
        if not count:
            return NOTHING
        span, past = self._span(Memory.ACC, f["sram_base"], count)
        return Accesses(((Memory.ACC, span),), (), past)

    def _nest(self, insn: Instruction) -> Accesses:
        f = insn.fields
        begin, end = f["uop_bgn"], f["uop_end"]
        if end <= begin or not f["iter_out"] or not f["iter_in"]:
            return NOTHING
        span, past = self._span(Memory.UOP, begin, end - begin)
        uops = self._uops[span]
        key = (insn.opcode, *(f[name] for name in NEST_FIELDS[insn.opcode]), uops.tobytes())
        kept = self._kept.get(key)
        if kept is None:
            kept = self._operands(insn, uops, (Memory.UOP, span), past)
            indices = (i for _, i in kept.reads + kept.writes if isinstance(i, np.ndarray))
            size = sum(index.nbytes for index in indices)
            if size <= self._room:
                self._kept[key] = kept
                self._room -= size
        return kept

    def _operands(
        self,
        insn: Instruction,
        uops: NDArray[np.uint32],
        read_uops: Touched,
        past: tuple[Beyond, ...],
    ) -> Accesses:
        """Gives the accesses of a nest that is not empty. Operands that are not used are in range,
        too.
        """
        f = insn.fields
        gemm = insn.opcode == Opcode.GEMM
        dst, src, wgt = decode_uops(uops, self._config)
        used = {"dst": Memory.ACC}
        if gemm and not f["reset_reg"]:
            used |= {"src": Memory.INP, "wgt": Memory.WGT}
        elif not gemm:
            used |= {"src": Memory.ACC}
        columns = {"dst": dst, "src": src, "wgt": wgt}
        touched: dict[str, Touched] = {}
        for name, memory in used.items():
            loops = [(f[f"{name}_factor_{x}"], f[f"iter_{x}"]) for x in ("out", "in")]
            indices, highest = reached(columns[name], loops, self._config.depth(memory))
            touched[name] = (memory, indices)
            if highest >= self._config.depth(memory):
                past = (*past, Beyond(memory, int(columns[name].min()), highest + 1))
        reads = () if gemm and f["reset_reg"] else tuple(touched.values())
        if not gemm:
            reads = (touched["dst"] if f["use_imm"] else _joined(*reads),)
        return Accesses((read_uops, *reads), (touched["dst"],), past)


def _joined(first: Touched, second: Touched) -> Touched:
    """Joins the elements of two accesses to one memory."""
    indices = [
        np.arange(int(e.start), int(e.stop)) if isinstance(e, slice) else e
        for _, e in (first, second)
    ]
    return first[0], np.union1d(*indices)


def reached(column: Index, loops: list[tuple[int, int]], depth: int) -> tuple[Elements, int]:
    """Gives the distinct sums of a value of ``column`` and a multiple of each loop's factor, below
    ``depth``, as a slice where they count up by one; and the largest sum, which may be above.

    ``loops`` has (factor, extent) pairs, extents positive and factors not negative.
    """
    highest = int(column.max()) + sum(factor * (extent - 1) for factor, extent in loops)
    seen = np.zeros(depth, np.bool_)
    seen[column[column < depth]] = True
    for factor, extent in loops:
        # Doubling: with the multiples below `done` covered, one shift covers up to as many again.
        done = 1
        while done < extent:
            more = min(done, extent - done)
            shift = more * factor
            if not 0 < shift < depth:
                break
            seen[shift:] |= seen[:-shift]
            done += more
    values = np.flatnonzero(seen)
    if values.size and int(values[-1] - values[0]) == values.size - 1:
        return slice(int(values[0]), int(values[-1]) + 1), highest
    return values, highest
