"""Runs streams in numpy: readable, exact, and the oracle for faster engines.

``Machine`` holds the scratchpads and executes one decoded instruction per ``step``, with the
values of tvm-vta's functional simulator (``src/sim/sim_driver.cc``). What that one leaves
undefined is an error here (ranges) or has a fixed meaning: scratchpads start as zeros, a shift by
more than 31 gives what an unbounded shift would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.asm import describe
from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig, computes
from byocir.vta_sim.engine_numpy_plans import (
    MAX_STEPS,
    AluSegment,
    GemmBlock,
    Span,
    StepNest,
    plan_alu,
    plan_gemm,
    plan_reset,
)
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import LAYOUT, AluOp, Instruction, Opcode, decode, decode_uops
from byocir.vta_sim.token_order import check_form


class InitCheck:
    """Records which elements of UOP, INP, WGT and ACC were written, by one flag each; ACC_8BIT and
    OUT stand for ACC.
    """

    def __init__(self, config: VTAConfig) -> None:
        pads = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)
        self._flags = {memory: np.zeros(config.depth(memory), np.bool_) for memory in pads}

    def mark(self, memory: Memory, index: NDArray[np.int64] | slice) -> None:
        """Records a write of the elements at ``index``."""
        self._flags[Memory.ACC if memory == Memory.ACC_8BIT else memory][index] = True

    def require(self, insn: Instruction, memory: Memory, index: NDArray[np.int64] | slice) -> None:
        """Raises VTAError V205 if an element at ``index`` (1-D) was never written."""
        flags = self._flags[memory]
        seen = flags[index]
        if seen.all():
            return
        element = int(np.arange(len(flags))[index][~seen][0])
        expected = f"{memory.name} elements written before they are read"
        raise VTAError("V205", expected, f"element {element} unwritten", describe(insn))


Ints = NDArray[np.int32]
Part = TypeVar("Part", GemmBlock, AluSegment, Span)
Parts = Sequence[GemmBlock | AluSegment | Span]
GARBAGE = 0xA5  # each byte of the scratchpads at the start of a checked run
GEMM_MEMORIES = {"dst": Memory.ACC, "src": Memory.INP, "wgt": Memory.WGT}
ALU_MEMORIES = {"dst": Memory.ACC, "src": Memory.ACC}
# All that a plan depends on besides the micro-ops themselves.
PLAN_FIELDS = {
    opcode: tuple(
        field.name
        for field in LAYOUT[opcode]
        if field.text in ("out", "in", "dst", "src", "wgt", ".reset", ".imm")
    )
    for opcode in (Opcode.GEMM, Opcode.ALU)
}


class Plans:
    """Keeps plans by instruction fields and micro-ops, for all runs of one program.

    Holds at most ``limit`` bytes of index arrays; beyond that, plans are made anew each time.
    """

    def __init__(self, limit: int = 1 << 28) -> None:
        self._plans: dict[tuple[object, ...], Parts] = {}
        self._room = limit

    def get(self, key: tuple[object, ...]) -> Parts | None:
        """Gives the plan kept under ``key``."""
        return self._plans.get(key)

    def keep(self, key: tuple[object, ...], plan: Parts) -> None:
        """Keeps ``plan`` if there is room."""
        size = sum(0 if isinstance(part, slice) else part.nbytes for part in plan)
        if size <= self._room:
            self._plans[key] = plan
            self._room -= size


def as_dram(dram: object) -> NDArray[np.uint8]:
    """Checks a DRAM image and returns it; raises VTAError V002 unless it is uint8 [B]."""
    if not isinstance(dram, np.ndarray):
        raise VTAError("V002", "a numpy array as dram", type(dram).__name__)
    image = cast("NDArray[np.uint8]", dram)
    if image.dtype != np.uint8 or image.ndim != 1:
        found = f"{image.dtype} of shape {list(image.shape)}"
        raise VTAError("V002", "dram as uint8 of shape [B]", found)
    return image


def check_widths(config: VTAConfig) -> None:
    """Raises VTAError V207 for a config whose numbers the engines do not compute."""
    if not computes(config):
        raise VTAError("V207", "8-bit inputs and weights, 32-bit accumulators", config.name)


class Machine:
    """Executes instructions on scratchpads and DRAM: this defines what each of them means.

    ``dram`` (uint8 [B]) is copied; read the result from ``machine.dram``. ``inp`` and ``wgt`` hold
    int8 values as float32, for BLAS; WGT elements are stored transposed, [block_in, block_out].
    With ``check``, scratchpads start with garbage, and reading an element that was never written
    is an error.
    """

    def __init__(
        self,
        dram: NDArray[np.uint8],
        config: VTAConfig = DEFAULT_CONFIG,
        *,
        check: bool = False,
        plans: Plans | None = None,
    ) -> None:
        check_widths(config)
        self.config = config
        self.dram = np.array(as_dram(dram), order="C")
        depth, batch, block = config.depth, config.batch, config.block_in
        start = np.full(4, GARBAGE if check else 0, np.uint8)
        byte = start.view(np.int8)[0]
        self.uop = np.full(depth(Memory.UOP), start.view(np.uint32)[0])
        self.inp = np.full((depth(Memory.INP), batch, block), byte, np.float32)
        self.wgt = np.full((depth(Memory.WGT), block, block), byte, np.float32)
        self.acc = np.full((depth(Memory.ACC), batch, block), start.view(np.int32)[0])
        self._written = InitCheck(config) if check else None
        self._plans = Plans() if plans is None else plans
        self._execute: dict[Opcode, Callable[[Instruction], None]] = {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.GEMM: self._gemm,
            Opcode.ALU: self._alu,
            Opcode.FINISH: lambda insn: None,
        }

    def step(self, insn: Instruction) -> None:
        """Executes one instruction, which ``check_form`` accepts; tokens are ignored.

        Raises VTAError V2xx when an access leaves a memory, before anything is changed.
        """
        self._execute[insn.opcode](insn)

    def run(self, insns: Iterable[Instruction]) -> None:
        """Executes instructions in the order given."""
        for insn in insns:
            self._execute[insn.opcode](insn)

    def run_in_order(self, insns: NDArray[np.uint8]) -> None:
        """Executes a stream (uint8 [N, 16]) in program order, ignoring tokens and FINISH."""
        decoded = decode(insns, self.config)
        check_form(decoded)
        self.run(decoded.instructions())

    def write(self, memory: Memory, index: Span, elements: NDArray[Any]) -> None:
        """Sets the elements at ``index`` of UOP, INP, WGT or ACC, given in the layout of DRAM."""
        target = self.elements(memory)
        target[index] = elements.swapaxes(-1, -2) if memory == Memory.WGT else elements
        if self._written is not None:
            self._written.mark(memory, index)

    def elements(self, memory: Memory) -> NDArray[Any]:
        """Gives the scratchpad behind a memory id, as [depth, ...]."""
        if memory == Memory.UOP:
            return self.uop
        if memory == Memory.INP:
            return self.inp
        return self.wgt if memory == Memory.WGT else self.acc

    def _window(self, insn: Instruction, memory: Memory) -> NDArray[Any]:
        """Gives a view of the DRAM elements of a LOAD or STORE, [y_size, x_size, ...]; checks the
        range.
        """
        f, config = insn.fields, self.config
        size = config.element_bytes(memory)
        start, stride = f["dram_base"] * size, f["x_stride"] * size
        end = start + (f["y_size"] - 1) * stride + f["x_size"] * size
        if end > len(self.dram):
            expected = f"DRAM bytes within 0..{len(self.dram)}"
            raise VTAError("V202", expected, f"{start}..{end}", describe(insn))
        shape = (f["y_size"], f["x_size"])
        if memory == Memory.UOP:
            return np.ndarray(shape, "<u4", self.dram, start, (stride, size))
        tile = config.block_out if memory == Memory.WGT else config.batch
        lane = size // (tile * config.block_in)
        dtype = "<i4" if memory == Memory.ACC else np.int8
        strides = (stride, size, config.block_in * lane, lane)
        return np.ndarray((*shape, tile, config.block_in), dtype, self.dram, start, strides)

    def _sram_range(self, insn: Instruction, memory: Memory, count: int) -> slice:
        start, depth = insn.fields["sram_base"], self.config.depth(memory)
        if start + count > depth:
            expected = f"{memory.name} elements within 0..{depth}"
            raise VTAError("V201", expected, f"{start}..{start + count}", describe(insn))
        return slice(start, start + count)

    def _load(self, insn: Instruction) -> None:
        f, memory = insn.fields, Memory(insn.fields["memory_type"])
        if f["x_size"] == 0:
            return
        top, left = f["y_pad_0"], f["x_pad_0"]
        rows = top + f["y_size"] + f["y_pad_1"]
        columns = left + f["x_size"] + f["x_pad_1"]
        span = self._sram_range(insn, memory, rows * columns)
        window = self._window(insn, memory) if f["y_size"] else None
        target = self.elements(memory)[span]
        if self._written is not None:
            self._written.mark(memory, span)
        if rows != f["y_size"] or columns != f["x_size"]:
            target[...] = 0
        if window is None:
            return
        if memory == Memory.WGT:
            window = window.swapaxes(2, 3)
        image = target.reshape(rows, columns, *target.shape[1:])
        image[top : top + f["y_size"], left : left + f["x_size"]] = window

    def _store(self, insn: Instruction) -> None:
        f = insn.fields
        if f["x_size"] == 0 or f["y_size"] == 0:
            return
        span = self._sram_range(insn, Memory.OUT, f["x_size"] * f["y_size"])
        window = self._window(insn, Memory.OUT)
        if self._written is not None:
            self._written.require(insn, Memory.ACC, span)
        narrow = self.acc[span].astype(np.int8).reshape(window.shape)
        if f["x_stride"] >= f["x_size"]:
            window[...] = narrow
            return
        # Rows overlap in DRAM: the later row wins, which one strided copy would not promise.
        for row, values in zip(window, narrow, strict=True):
            row[...] = values

    def _uops(self, insn: Instruction) -> NDArray[np.uint32] | None:
        """Reads the micro-ops of a loop nest; None if the nest is empty. Checks their range."""
        f = insn.fields
        begin, end = f["uop_bgn"], f["uop_end"]
        if end <= begin or not f["iter_out"] or not f["iter_in"]:
            return None
        if end > len(self.uop):
            expected = f"micro-ops within 0..{len(self.uop)}"
            raise VTAError("V203", expected, f"{begin}..{end}", describe(insn))
        if self._written is not None:
            self._written.require(insn, Memory.UOP, slice(begin, end))
        return self.uop[begin:end]

    def _nest(
        self, insn: Instruction, uops: NDArray[np.uint32], memories: dict[str, Memory]
    ) -> StepNest:
        """Makes the loop nest of an instruction and checks its indices against the depths of
        ``memories`` (by operand).
        """
        f = insn.fields
        dst, src, wgt = decode_uops(uops, self.config)
        columns = {"dst": dst, "src": src, "wgt": wgt}
        factors = {name: (f[f"{name}_factor_out"], f[f"{name}_factor_in"]) for name in memories}
        nest = StepNest((f["iter_out"], f["iter_in"]), factors, columns)
        for operand, memory in memories.items():
            highest, depth = nest.highest(operand), self.config.depth(memory)
            if highest >= depth:
                expected = f"{operand} index into {memory.name} below {depth}"
                raise VTAError("V204", expected, str(highest), describe(insn))
        return nest

    def _planned(
        self,
        insn: Instruction,
        memories: dict[str, Memory],
        plan: Callable[[StepNest], Iterator[Part]],
    ) -> Iterable[Part]:
        """Gives the parts of an instruction's plan, which are kept for the next time if they fit
        one chunk.
        """
        uops = self._uops(insn)
        if uops is None:
            return ()
        key = (insn.opcode, *(insn.fields[name] for name in PLAN_FIELDS[insn.opcode]))
        kept = self._plans.get((key, uops.tobytes()))
        if kept is not None:
            return cast("list[Part]", kept)
        nest = self._nest(insn, uops, memories)
        parts = plan(nest)
        if nest.steps > MAX_STEPS:
            return parts
        made = list(parts)
        self._plans.keep((key, uops.tobytes()), made)
        return made

    def _gemm(self, insn: Instruction) -> None:
        if insn.fields["reset_reg"]:
            for span in self._planned(insn, {"dst": Memory.ACC}, plan_reset):
                self.acc[span] = 0
                if self._written is not None:
                    self._written.mark(Memory.ACC, span)
            return
        width = self.config.block_in
        inp, acc = self.inp.reshape(-1, width), self.acc.reshape(-1, width)
        for block in self._planned(insn, GEMM_MEMORIES, lambda n: plan_gemm(n, self.config)):
            if self._written is not None:
                self._require_block(insn, block, self._written)
            classes, _, k = block.src.shape
            a = inp.take(block.src, axis=0).reshape(classes, -1, k * width)
            w = self.wgt.take(block.wgt, axis=0).reshape(-1, k * width, width)
            product = np.matmul(a, w).astype(np.int32)
            acc[block.dst] += product.reshape((-1, width) if block.flat else product.shape)

    def _require_block(self, insn: Instruction, block: GemmBlock, written: InitCheck) -> None:
        batch = self.config.batch
        rows = np.arange(len(self.acc) * batch)[block.dst]
        written.require(insn, Memory.ACC, rows.ravel() // batch)
        written.require(insn, Memory.INP, block.src.ravel() // batch)
        written.require(insn, Memory.WGT, block.wgt.ravel())

    def _alu(self, insn: Instruction) -> None:
        f, acc = insn.fields, self.acc
        immediate = bool(f["use_imm"])
        operation = AluOp(f["alu_opcode"])
        for part in self._planned(
            insn, ALU_MEMORIES, lambda n: plan_alu(n, self.config, immediate)
        ):
            if self._written is not None:
                self._written.require(insn, Memory.ACC, part.dst)
                if part.src is not None:
                    self._written.require(insn, Memory.ACC, part.src)
            y = np.int32(f["imm"]) if part.src is None else acc[part.src]
            if operation == AluOp.SHR and self._written is not None:
                _check_shift(insn, y)
            acc[part.dst] = ALU_FUNCTIONS[operation](acc[part.dst], y)


def _shift(x: Ints, y: Ints | np.int32) -> Ints:
    """Shifts to the right by y, with the sign, or to the left by -y where y is negative; any
    distance will do.
    """
    if not isinstance(y, np.ndarray):
        return x >> y if y >= 0 else x << -y
    return np.where(y >= 0, x >> np.maximum(y, 0), x << np.maximum(-np.maximum(y, -32), 0))


def _check_shift(insn: Instruction, y: Ints | np.int32) -> None:
    distance = int(np.abs(np.asarray(y, dtype=np.int64)).max())
    if distance > 31:
        raise VTAError("V206", "a shift distance in -31..31", str(distance), describe(insn))


ALU_FUNCTIONS: dict[AluOp, Callable[[Ints, Any], Ints]] = {
    AluOp.MIN: np.minimum,
    AluOp.MAX: np.maximum,
    AluOp.ADD: np.add,
    AluOp.SHR: _shift,
    AluOp.MUL: np.multiply,
}
