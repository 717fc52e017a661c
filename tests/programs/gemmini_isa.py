"""Gemmini's instructions as its own functional model has them (weight-stationary products, moves in
and out, with scales): runs words on a scratchpad, an accumulator and the host's arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DIM = 16
_BITS = (1 << 29) - 1


def _operand(word: int) -> tuple[int, int, int, int]:
    """Row, flags, columns and rows of an operand word."""
    address = word & 0xFFFFFFFF
    return address & _BITS, address >> 29, word >> 32 & 0xFFFF, word >> 48


def _float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _scaled(values: np.ndarray, scale: np.float32) -> np.ndarray:
    return np.clip(np.rint(values.astype(np.float32) * scale), -128, 127).astype(np.int8)


class Gemmini:
    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = [array.reshape(-1).view(np.uint8) for array in arrays]
        self.scratchpad = np.full((16384, DIM), 77, np.int8)
        self.accumulator = np.full((1024, DIM), 7777, np.int32)
        self.load: tuple[int, int, int, np.float32] | None = None
        self.store: tuple[int, int, np.float32] | None = None
        self.pool = 0
        self.strides: tuple[int, int] | None = None
        self.preloaded: tuple[int, int] | None = None
        self.array: np.ndarray | None = None

    def run(self, words: Sequence[tuple[int, int, int]]) -> None:
        for funct, rs1, rs2 in words:
            if funct >= 0:
                _INSTRUCTIONS[funct](self, rs1, rs2)

    def _host(self, address: int, rows: int, stride: int, size: int) -> np.ndarray:
        """Rows of bytes of one of the host's arrays; numpy raises for what lies outside it."""
        array = self.arrays[(address >> 32) - 1]
        return np.ndarray((rows, size), np.uint8, array, address & 0xFFFFFFFF, (stride, 1))

    def config(self, rs1: int, rs2: int) -> None:
        kind = rs1 & 3
        if kind == 0:
            assert rs1 >> 2 & 1, "expected weight-stationary products"
            self.strides = rs1 >> 16 & 0xFFFF, rs2 >> 48
        elif kind == 1:
            assert (rs1 >> 8 & 0xFF) == 1, "expected one pixel at a time"
            self.load = rs2, rs1 >> 16 & 0xFFFF, rs1 >> 2 & 1, _float(rs1 >> 32)
        else:
            self.pool = rs1 >> 4
            self.store = rs2 & 0xFFFFFFFF, rs1 >> 2 & 3, _float(rs2 >> 32)

    def mvin(self, rs1: int, rs2: int) -> None:
        row, flags, columns, rows = _operand(rs2)
        assert flags in (0b000, 0b100, 0b110)
        assert self.load is not None
        assert rows <= DIM
        memory = self.accumulator if flags else self.scratchpad
        stride, block, narrow, scale = self.load
        assert flags or not narrow
        given = np.dtype(np.int32) if flags and not narrow else np.dtype(np.int8)
        assert columns <= 4 * DIM // given.itemsize
        assert columns <= DIM or block >= rows
        found = self._host(rs1, rows, stride, columns * given.itemsize)
        values = np.ascontiguousarray(found).view(given)
        values = values if given == np.int32 else _scaled(values, scale)
        for c in range(0, columns, DIM):
            part, at = values[:, c : c + DIM], row + c // DIM * block
            old = memory[at : at + rows, : part.shape[1]] if flags == 0b110 else 0
            memory[at : at + rows, : part.shape[1]] = old + part

    def mvout(self, rs1: int, rs2: int) -> None:
        row, flags, columns, rows = _operand(rs2)
        assert flags in (0b101, 0b100), "expected rows of the accumulator"
        assert self.store is not None
        assert columns <= DIM
        stride, act, scale = self.store
        if self.pool:
            assert flags == 0b100
            self._pooled(rs1, row, columns)
            return
        values = self.accumulator[row : row + rows, :columns]
        if flags == 0b100:
            values = _scaled(values, scale)
            values = np.maximum(values, 0) if act else values
        bytes_ = np.ascontiguousarray(values).view(np.uint8)
        self._host(rs1, rows, stride, bytes_.shape[1])[:] = bytes_

    def _pooled(self, host: int, row: int, channels: int) -> None:
        """Stores the greatest values of windows; pixels outside count as 0."""
        assert self.store is not None
        stride, act, scale = self.store
        fields = [(0, 3), (2, 3), (4, 3), (6, 3), (20, 255), (28, 255), (36, 255)]
        fields += [(44, 255), (52, 255)]
        step, size, up, left, length, rows, columns, height, width = (
            self.pool >> at & mask for at, mask in fields
        )
        image = self.accumulator[row : row + height * width, :channels]
        image = _scaled(image.reshape(height, width, channels), scale)
        image = np.maximum(image, 0) if act else image
        for y, x in np.ndindex(rows, columns):
            top, side = y * step - up, x * step - left
            window = image[max(top, 0) : top + size, max(side, 0) : side + size].max((0, 1))
            outside = min(top, side, height - top - size, width - side - size) < 0
            window = np.maximum(window, 0) if outside else window
            at = host + (y * length + x) * stride
            self._host(at, 1, stride, channels)[0] = window.view(np.uint8)

    def preload(self, rs1: int, rs2: int) -> None:
        self.preloaded = rs1, rs2

    def compute_preloaded(self, rs1: int, rs2: int) -> None:
        assert self.preloaded is not None
        b, flags, n, k = _operand(self.preloaded[0])
        assert not flags, "expected weights in the scratchpad"
        self.array = self.scratchpad[b : b + k, :n].astype(np.int32)
        self.compute(rs1, rs2)

    def compute_accumulated(self, rs1: int, rs2: int) -> None:
        assert self.preloaded is not None
        assert self.preloaded[0] & 0xFFFFFFFF == 0xFFFFFFFF, "expected no B"
        self.compute(rs1, rs2)

    def compute(self, rs1: int, rs2: int) -> None:
        assert self.preloaded is not None
        assert self.array is not None
        assert self.strides is not None
        assert rs2 & 0xFFFFFFFF == 0xFFFFFFFF, "expected no D"
        c, flags, columns, m = _operand(self.preloaded[1])
        a, _, depth, rows = _operand(rs1)
        step, out = self.strides
        assert flags >> 2, "expected sums in the accumulator"
        assert (*self.array.shape, m) == (depth, columns, rows)
        left = self.scratchpad[[a + step * i for i in range(rows)], :depth].astype(np.int32)
        made = left @ self.array
        at = [c + out * i for i in range(rows)]
        old = self.accumulator[at, :columns] if flags >> 1 & 1 else 0
        self.accumulator[at, :columns] = old + made


_INSTRUCTIONS = {
    0: Gemmini.config,
    2: Gemmini.mvin,
    3: Gemmini.mvout,
    4: Gemmini.compute_preloaded,
    5: Gemmini.compute_accumulated,
    6: Gemmini.preload,
}
