"""The words of examples/fused_npu.py, as a device decodes and runs them: on its memories, and on
the host's arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

INT32 = np.iinfo(np.int32)


class FusedNpu:
    """Runs words. Registers and commands are told by name."""

    def __init__(
        self, registers: Sequence[str], commands: Sequence[str], arrays: Sequence[np.ndarray]
    ) -> None:
        self.registers, self.commands = registers, commands
        self.arrays = [array.reshape(-1) for array in arrays]
        self.images = np.full((16384, 16), 77, np.int8)
        self.weights = np.full((32768, 16), 77, np.int8)
        self.params = np.full((1024, 16), 7777, np.int32)
        self.held: Mapping[str, int] = {}
        self.form = 0

    def run(self, words: Sequence[int]) -> None:
        """Sets registers; a command leaves 0 in all of them."""
        held = Counter[str]()
        for word in words:
            number, value = word >> 48, word & (1 << 48) - 1
            if number < 128:
                held[self.registers[number]] = value - (value >> 47 << 48)
                continue
            self.held, self.form = held, value >> 16
            getattr(self, self.commands[number - 128])()
            held = Counter()

    def index(self, over: str) -> list[np.ndarray]:
        """The indices of all points of some iterators; those without a size have one."""
        return list(np.indices([self.held[each] or 1 for each in over.split()]))

    def at(self, memory: np.ndarray, name: str, over: str) -> tuple[np.ndarray, ...]:
        """Where an operand lies at each point: elements of an array, or rows and lanes."""
        *others, last = zip(self.index(over), over.split(), strict=True)
        at = self.held[f"{name}.address"] + sum(i * self.held[f"{name}.{by}"] for i, by in others)
        step = self.held[f"{name}.{last[1]}"]
        if memory.ndim == 1:
            return (at + last[0] * step,)
        return at + last[0] // 16 * step, last[0] % 16

    def read(self, memory: np.ndarray, name: str, over: str) -> np.ndarray:
        return memory[self.at(memory, name, over)].astype(np.int32)

    def moved(self, source: np.ndarray | None, into: np.ndarray | None) -> None:
        source = self.arrays[self.held["x.array"] - 1] if source is None else source
        into = self.arrays[self.held["out.array"] - 1] if into is None else into
        values = source[self.at(source, "x", "rows lanes")]
        assert values.dtype == into.dtype
        into[self.at(into, "out", "rows lanes")] = values

    def load_image(self) -> None:
        self.moved(None, self.images)

    def load_weights(self) -> None:
        self.moved(None, self.weights)

    def load_params(self) -> None:
        self.moved(None, self.params)

    def store_image(self) -> None:
        self.moved(self.images, None)

    def window(self, channels: str) -> np.ndarray:
        """The pixels of windows, y x r s and channels, or the pad outside of the image."""
        held, (y, x, r, s, c) = self.held, self.index(f"y x r s {channels}")
        row, column = y * held["sh"] + r * held["dh"], x * held["sw"] + s * held["dw"]
        row, column = row - held["top"], column - held["left"]
        high, wide = (held[of] or 1 << 47 for of in ("height", "width"))
        inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
        pitch = held["a.y"] // (held["sh"] or 1) or held["a.r"] // (held["dh"] or 1)
        step = held["a.x"] // (held["sw"] or 1) or held["a.s"] // (held["dw"] or 1)
        at = held["a.address"] + row * pitch + column * step + c // 16 * held[f"a.{channels}"]
        return np.where(inside, self.images[np.where(inside, at, 0), c % 16], held["pad"]).astype(
            np.int32
        )

    def finish(self, sums: np.ndarray, channels: str) -> None:
        """Adds a bias, rectifies, and scales, as the form of a command says."""
        if self.form & 2:
            sums = sums + self.read(self.params, "bias", channels)
        sums = np.maximum(sums, 0) if self.form & 1 else sums
        factor = self.read(self.params, "factor", channels).astype(np.int64)
        wide = sums * factor + self.held["half"] >> self.held["shift"]
        self.images[self.at(self.images, "out", f"y x {channels}")] = np.clip(wide, -128, 127)

    def convolve(self) -> None:
        weights = self.read(self.weights, "w", "r s k n")
        self.finish(np.einsum("yxrsk,rskn->yxn", self.window("k"), weights), "n")

    def convolve_depthwise(self) -> None:
        weights = self.read(self.weights, "w", "r s c")
        self.finish(np.einsum("yxrsc,rsc->yxc", self.window("c"), weights), "c")

    def average_pool(self) -> None:
        self.finish(self.window("c").sum((2, 3), np.int32), "c")

    def max_pool(self) -> None:
        greatest = self.window("c").max((2, 3))
        self.images[self.at(self.images, "out", "y x c")] = greatest

    def add(self) -> None:
        terms = (
            self.read(self.images, name, "y x c").astype(np.int64)
            * self.read(self.params, f"{name}_factor", "c")
            + self.held[f"{name}_zero"]
            for name in "xz"
        )
        x, z = (np.clip(term, INT32.min, INT32.max) for term in terms)
        self.finish((x + z).astype(np.int32), "c")
