"""A second, slow reading of the VTA semantics: plain Python, loop by loop, no numpy arithmetic."""

from __future__ import annotations

from typing import Any

Row = tuple[str, dict[str, Any]]


def wrap(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Oracle:
    """Scratchpads as lists of lists of ints; ``run`` takes (mnemonic, fields) pairs."""

    def __init__(
        self, dram: bytes, batch: int = 1, block: int = 16, uop_widths: tuple[int, int] = (11, 11)
    ) -> None:
        self.dram = bytearray(dram)
        self.batch, self.block, self.uop_widths = batch, block, uop_widths
        self.uop: dict[int, list[int]] = {}
        self.inp: dict[int, list[int]] = {}
        self.wgt: dict[int, list[int]] = {}
        self.acc: dict[int, list[int]] = {}

    def run(self, rows: list[Row]) -> bytes:
        for name, fields in rows:
            getattr(self, name)(**fields)
        return bytes(self.dram)

    def finish(self, **fields: int) -> None:
        pass

    def load(
        self,
        memory_type: int,
        sram_base: int = 0,
        dram_base: int = 0,
        y_size: int = 0,
        x_size: int = 0,
        x_stride: int = 0,
        y_pad_0: int = 0,
        y_pad_1: int = 0,
        x_pad_0: int = 0,
        x_pad_1: int = 0,
        **tokens: int,
    ) -> None:
        if x_size == 0:
            return
        tile = self.batch * self.block
        memory, lanes, width = {
            0: (self.uop, 1, 4),
            1: (self.wgt, self.block * self.block, 1),
            2: (self.inp, tile, 1),
            3: (self.acc, tile, 4),
            5: (self.acc, tile, 1),
        }[memory_type]
        at = sram_base
        for y in range(-y_pad_0, y_size + y_pad_1):
            for x in range(-x_pad_0, x_size + x_pad_1):
                values = [0] * lanes
                if 0 <= y < y_size and 0 <= x < x_size:
                    start = (dram_base + y * x_stride + x) * lanes * width
                    for lane in range(lanes):
                        byte = start + lane * width
                        raw = int.from_bytes(self.dram[byte : byte + width], "little")
                        values[lane] = wrap(raw, 8 * width)
                memory[at] = values
                at += 1

    def store(
        self,
        memory_type: int = 4,
        sram_base: int = 0,
        dram_base: int = 0,
        y_size: int = 0,
        x_size: int = 0,
        x_stride: int = 0,
        **tokens: int,
    ) -> None:
        lanes = self.batch * self.block
        for y in range(y_size):
            for x in range(x_size):
                values = self.element(self.acc, sram_base + y * x_size + x, lanes)
                start = (dram_base + y * x_stride + x) * lanes
                self.dram[start : start + lanes] = bytes(value & 0xFF for value in values)

    def element(self, memory: dict[int, list[int]], index: int, lanes: int) -> list[int]:
        return memory.setdefault(index, [0] * lanes)

    def steps(self, f: dict[str, int]) -> Any:
        dst_bits, src_bits = self.uop_widths
        for i in range(f["iter_out"]):
            for j in range(f["iter_in"]):
                for u in range(f["uop_bgn"], f["uop_end"]):
                    word = self.element(self.uop, u, 1)[0] & 0xFFFFFFFF
                    yield tuple(
                        base
                        + i * f.get(f"{name}_factor_out", 0)
                        + j * f.get(f"{name}_factor_in", 0)
                        for name, base in (
                            ("dst", word & ((1 << dst_bits) - 1)),
                            ("src", word >> dst_bits & ((1 << src_bits) - 1)),
                            ("wgt", word >> dst_bits >> src_bits),
                        )
                    )

    def gemm(self, reset_reg: int = 0, **f: int) -> None:
        n, lanes = self.block, self.batch * self.block
        for d, s, w in self.steps(f):
            acc = self.element(self.acc, d, lanes)
            if reset_reg:
                acc[:] = [0] * lanes
                continue
            inp = self.element(self.inp, s, lanes)
            wgt = self.element(self.wgt, w, n * n)
            for b in range(self.batch):
                for oc in range(n):
                    total = sum(inp[b * n + ic] * wgt[oc * n + ic] for ic in range(n))
                    acc[b * n + oc] = wrap(acc[b * n + oc] + total)

    def alu(self, alu_opcode: int, use_imm: int = 0, imm: int = 0, **f: int) -> None:
        lanes = self.batch * self.block
        for d, s, _ in self.steps(f):
            acc = self.element(self.acc, d, lanes)
            src = self.element(self.acc, s, lanes)
            for lane in range(lanes):
                x, y = acc[lane], imm if use_imm else src[lane]
                acc[lane] = self.operate(alu_opcode, x, y)

    @staticmethod
    def operate(alu_opcode: int, x: int, y: int) -> int:
        if alu_opcode == 0:
            return min(x, y)
        if alu_opcode == 1:
            return max(x, y)
        if alu_opcode == 2:
            return wrap(x + y)
        if alu_opcode == 4:
            return wrap(x * y)
        if y >= 0:
            return x >> min(y, 31)
        return wrap(x << -y) if y > -32 else 0
