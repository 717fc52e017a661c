"""Multi-buffered convolutions on VTA, with the tokens of the scheme that upstream's schedules use.

Tiles of an image are loaded into buffers that take turns, while the tile before is computed and the
one before that is stored. Load step n waits until the GEMM that read its buffer is done; the first
instruction on an accumulator buffer waits for the store that drained it. Tokens follow from the
scheme alone and from no analysis, so that analyses can be tested with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from vta_kernel_layers import Kernel, Layer, random_kernel
from vta_streams import COMPUTE_NOP, Row, Stream, encode_rows, queue_of

from byocir.testing.choose import Choose
from byocir.vta_sim import AluOp, Memory, VTAConfig, encode_uops
from byocir.vta_sim.isa import Queue

NOPS: dict[Queue, Row] = {
    Queue.LOAD: ("load", {"memory_type": int(Memory.INP)}),
    Queue.COMPUTE: COMPUTE_NOP,
    Queue.STORE: ("store", {"memory_type": 0}),
}


def kernel_stream(kernel: Kernel) -> Stream:
    """The encoded program of a kernel, and an image that ends where its last buffer ends."""
    rows, dram = _Writer(kernel).written()
    return Stream(encode_rows(rows, kernel.config), dram, kernel.config)


def random_stream(choose: Choose) -> Stream:
    """The program of a random kernel: no hazards under any interleaving."""
    return kernel_stream(random_kernel(choose))


@dataclass
class _Image:
    """DRAM, handed out in order, each buffer aligned to the largest element."""

    config: VTAConfig
    rng: np.random.Generator
    data: bytearray = field(default_factory=lambda: bytearray(4096))

    def place(self, memory: Memory, count: int, values: bytes | None = None) -> int:
        """The address of a buffer, in elements of its memory; random bytes if none are given."""
        align = max(self.config.element_bytes(m) for m in Memory)
        self.data += bytes(-len(self.data) % align)
        size = self.config.element_bytes(memory)
        address = len(self.data) // size
        self.data += self.rng.bytes(count * size) if values is None else values
        return address


class _Writer:
    """Writes the rows of a kernel, and its image along the way."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._rows: list[Row] = []
        self._image = _Image(kernel.config, np.random.default_rng(kernel.seed))

    def written(self) -> tuple[list[Row], NDArray[np.uint8]]:
        """Rows and image."""
        layers = self._kernel.layers
        height, width = layers[0].image
        source = self._image.place(Memory.INP, layers[0].depth * height * width)
        for number, layer in enumerate(layers):
            plan = _Plan(self._kernel, layer, self._image, source)
            self._layer(plan, first=number == 0, last=number == len(layers) - 1)
            source = plan.output
        self._emit([("finish", {})])
        return self._rows, np.frombuffer(bytes(self._image.data), np.uint8)

    def _layer(self, plan: _Plan, *, first: bool, last: bool) -> None:
        """Writes a layer. Between layers, compute waits for all stores, and load for compute."""
        loads = plan.loads(barrier=not first)
        self._emit(plan.early_uops())
        for tile in range(plan.tiles):
            self._emit(plan.opening(tile))
            for step in range(plan.layer.depth):
                self._emit(next(loads))
                self._emit(plan.product(tile, step))
            self._emit(plan.closing(tile))
            self._emit(plan.stores(tile))
        stored = min(plan.tiles, self._kernel.accumulators)
        for number in range(stored):
            barrier = {"push_prev": 1} if number == stored - 1 and not last else {}
            self._emit([(COMPUTE_NOP[0], COMPUTE_NOP[1] | {"pop_next": 1} | barrier)])

    def _emit(self, rows: Sequence[Row]) -> None:
        for kind, fields in rows:
            tokens = sorted(name for name in fields if name.startswith(("pop", "push")))
            if not self._kernel.carriers or not tokens:
                self._rows.append((kind, fields))
                continue
            nop = NOPS[queue_of((kind, fields))]
            carried = {t: (nop[0], nop[1] | {t: 1}) for t in tokens}
            self._rows += [carried[t] for t in tokens if t.startswith("pop")]
            self._rows.append((kind, {n: v for n, v in fields.items() if n not in tokens}))
            self._rows += [carried[t] for t in tokens if t.startswith("push")]


class _Plan:
    """Addresses of one layer, and the rows of each of its steps."""

    def __init__(self, kernel: Kernel, layer: Layer, image: _Image, source: int) -> None:
        self.layer, self._kernel, self._source = layer, kernel, source
        self.tiles = layer.down * layer.across
        height, width = layer.image
        self._weights = image.place(Memory.WGT, layer.depth * layer.weights)
        if layer.bias is not None:
            self._bias = image.place(layer.bias, layer.points)
        if layer.residual:
            self._other = image.place(Memory.ACC_8BIT, self.tiles * layer.points)
        self.output = image.place(Memory.OUT, layer.blocks * height * width)
        self._table: dict[tuple[int, ...], tuple[int, int]] = {}
        words = np.concatenate([self._micro_ops(key) for key in self._keys()])
        self._uops = image.place(Memory.UOP, len(words), words.tobytes())
        room = kernel.config.depth(Memory.UOP)
        self._early = kernel.early_uops and len(words) <= room

    def _accumulator(self, tile: int) -> int:
        return tile % self._kernel.accumulators * self.layer.points

    def _operands(self, tile: int, step: int) -> tuple[int, int, int]:
        """Gives the first entries of the accumulators, the input and the weights of a step."""
        buffer = (tile * self.layer.depth + step) % self._kernel.inputs
        rows, columns = self.layer.window
        weights = step if self._kernel.resident else buffer
        return self._accumulator(tile), buffer * rows * columns, weights * self.layer.weights

    def _keys(self) -> Iterator[tuple[int, ...]]:
        """The first elements that each group of micro-ops is for: three for GEMM, two for ALU."""
        residual = self._kernel.accumulators * self.layer.points
        for tile in range(self.tiles):
            yield self._accumulator(tile), self._accumulator(tile)
            yield self._accumulator(tile), residual
            for step in range(self.layer.depth):
                yield self._operands(tile, step)

    def _micro_ops(self, key: tuple[int, ...]) -> NDArray[np.uint32]:
        """The micro-ops of a group that is new, noted in the table."""
        if key in self._table:
            return np.zeros(0, np.uint32)
        layer, area = self.layer, self.layer.height * self.layer.width
        if len(key) == 2:
            block = np.arange(layer.blocks) * area
            words = encode_uops(key[0] + block, key[1] + block, 0, self._kernel.config)
        else:
            block, y, x = np.indices((layer.blocks, layer.kernel, layer.kernel)).reshape(3, -1)
            source = key[1] + y * layer.window[1] + x
            weight = key[2] + np.arange(layer.weights)
            words = encode_uops(key[0] + block * area, source, weight, self._kernel.config)
        begin = sum(count for _, count in self._table.values())
        self._table[key] = (begin, len(words))
        return words

    def early_uops(self) -> list[Row]:
        """All micro-ops at once, if so chosen."""
        count = sum(count for _, count in self._table.values())
        return [_load(Memory.UOP, 0, self._uops, (1, count), count)] if self._early else []

    def _nest(self, key: tuple[int, ...], columns: int) -> tuple[list[Row], dict[str, int]]:
        """LOAD UOP if needed, and the fields of a loop over a tile whose source is ``columns``
        wide."""
        begin, count = self._table[key]
        fields = {
            "iter_out": self.layer.height,
            "iter_in": self.layer.width,
            "dst_factor_out": self.layer.width,
            "dst_factor_in": 1,
            "src_factor_out": columns,
            "src_factor_in": 1,
        }
        if self._early:
            return [], fields | {"uop_bgn": begin, "uop_end": begin + count}
        load = _load(Memory.UOP, 0, self._uops + begin, (1, count), count)
        return [load], fields | {"uop_bgn": 0, "uop_end": count}

    def loads(self, *, barrier: bool) -> Iterator[list[Row]]:
        """The loads of each step; those before the first step come with it."""
        layer, pending = self.layer, {"pop_next": 1} if barrier else {}
        ahead: list[Row] = []
        if self._kernel.resident:
            count = layer.depth * layer.weights
            ahead = [_load(Memory.WGT, 0, self._weights, (1, count), count, pending)]
            pending = {}
        for number in range(self.tiles * layer.depth):
            tile, step = divmod(number, layer.depth)
            if number >= self._kernel.inputs:
                pending = {"pop_next": 1}
            _, inputs, weights = self._operands(tile, step)
            if not self._kernel.resident:
                start = self._weights + step * layer.weights
                size = (1, layer.weights)
                ahead.append(_load(Memory.WGT, weights, start, size, layer.weights, pending))
                pending = {}
            yield [*ahead, self._input(tile, step, inputs, pending | {"push_next": 1})]
            ahead, pending = [], {}

    def _input(self, tile: int, step: int, sram: int, tokens: dict[str, int]) -> Row:
        """Loads the window of a tile, zeros where it leaves the image."""
        layer, sizes = self.layer, self.layer.image
        corner = divmod(tile, layer.across)
        before = (layer.kernel - 1) // 2
        first = [c * s - before for c, s in zip(corner, (layer.height, layer.width), strict=True)]
        last = [f + w for f, w in zip(first, layer.window, strict=True)]
        low = [max(f, 0) for f in first]
        high = [min(e, s) for e, s in zip(last, sizes, strict=True)]
        pads = {
            f"{axis}_pad_{side}": pad
            for n, axis in enumerate("yx")
            for side, pad in enumerate((low[n] - first[n], last[n] - high[n]))
        }
        start = self._source + (step * sizes[0] + low[0]) * sizes[1] + low[1]
        extent = (high[0] - low[0], high[1] - low[1])
        return _load(Memory.INP, sram, start, extent, sizes[1], pads | tokens)

    def opening(self, tile: int) -> list[Row]:
        """Rows that set the accumulators of a tile; the first waits until they are free."""
        layer, start = self.layer, self._accumulator(tile)
        tokens = {"pop_next": 1} if tile >= self._kernel.accumulators else {}
        if layer.bias is None:
            rows, fields = self._nest((start, start), layer.width)
            return [*rows, ("gemm", fields | {"reset_reg": 1} | tokens)]
        return [_load(layer.bias, start, self._bias, (1, layer.points), layer.points, tokens)]

    def product(self, tile: int, step: int) -> list[Row]:
        """The GEMM of a step; it frees the buffers for the load that needs them next."""
        layer = self.layer
        rows, fields = self._nest(self._operands(tile, step), layer.window[1])
        tokens = {"pop_prev": 1}
        if tile * layer.depth + step + self._kernel.inputs < self.tiles * layer.depth:
            tokens["push_prev"] = 1
        if step == layer.depth - 1 and not self.closing(tile):
            tokens["push_next"] = 1
        return [*rows, ("gemm", fields | tokens)]

    def closing(self, tile: int) -> list[Row]:
        """The element-wise end of a tile; its last instruction lets the store go."""
        layer, start = self.layer, self._accumulator(tile)
        rows: list[Row] = []
        if layer.residual:
            sram, count = self._kernel.accumulators * layer.points, layer.points
            other = self._other + tile * count
            rows.append(_load(Memory.ACC_8BIT, sram, other, (1, count), count))
            loads, fields = self._nest((start, sram), layer.width)
            rows += [*loads, ("alu", fields | {"alu_opcode": int(AluOp.ADD)})]
        loads, fields = self._nest((start, start), layer.width)
        rows += loads if layer.activation else []
        for operation, value in layer.activation:
            operand = {"alu_opcode": int(operation), "use_imm": 1, "imm": value}
            rows.append(("alu", fields | operand))
        if rows:
            rows[-1] = (rows[-1][0], rows[-1][1] | {"push_next": 1})
        return rows

    def stores(self, tile: int) -> list[Row]:
        """One store per output block."""
        layer, (height, width) = self.layer, self.layer.image
        down, across = divmod(tile, layer.across)
        corner = self.output + down * layer.height * width + across * layer.width
        rows: list[Row] = []
        for block in range(layer.blocks):
            tokens = {"pop_prev": 1} if block == 0 else {}
            tokens |= {"push_prev": 1} if block == layer.blocks - 1 else {}
            sram = self._accumulator(tile) + block * layer.height * layer.width
            address, size = corner + block * height * width, (layer.height, layer.width)
            rows.append(("store", _transfer(Memory.OUT, sram, address, size, width, tokens)))
        return rows


def _load(
    memory: Memory,
    sram: int,
    dram: int,
    size: tuple[int, int],
    stride: int,
    others: dict[str, int] | None = None,
) -> Row:
    return "load", _transfer(memory, sram, dram, size, stride, others or {})


def _transfer(
    memory: Memory,
    sram: int,
    dram: int,
    size: tuple[int, int],
    stride: int,
    others: dict[str, int],
) -> dict[str, int]:
    """The fields of a transfer of ``size`` (rows, columns); ``others`` are further fields."""
    fields = {"memory_type": int(memory), "sram_base": sram, "dram_base": dram}
    return fields | {"y_size": size[0], "x_size": size[1], "x_stride": stride} | others
