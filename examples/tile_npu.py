"""A toy accelerator whose work is scheduled: products in tiles, through memories of its own, by one
instruction.

It keeps tiles of factors in `tile.factors` and of sums in `tile.sums`, and multiplies two tiles
with sides of at most 8 in one step. A script of primitives says how a product runs. What is
scheduled becomes a list of copies and steps, which a device of a few lines runs. In this folder:

    byocir explain digits/digits_f32.onnx --shape image=1,1,8,8 --target tile_npu.py \\
        --node /classifier/Gemm

`docs/tensor-level.md` tells what schedules are made of.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import AllocOp, CopyOp, FillOp, ForOp, IntrinsicOp
from byocir.dialects.types import f32, shape_of
from byocir.patterns import Match, Pattern, ScalarPattern, block, composite, wildcard

SIDE = 8

# 1. What the target takes, and what its device does in one step.


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x * w


@composite("tile.gemm")
def gemm() -> Pattern:
    """A product with a matrix, or with one that is turned."""
    a, b = wildcard("a", dtype=f32)["m k"], wildcard("b", dtype=f32)
    straight = block("m n | k", a, b["k n"], multiply_add) @ "gemm"
    return straight | block("m n | k", a, b["n k"], multiply_add) @ "gemm"


@composite("tile.mma")
def mma() -> Pattern:
    """Adds the product of two tiles to a tile of sums."""
    a, b, sums = wildcard("a")["m k"], wildcard("b"), wildcard("sums")
    straight = block("m n | k", a, b["k n"], multiply_add, init=sums)
    return straight | block("m n | k", a, b["n k"], multiply_add, init=sums)


@mma.rule
def tiles_are_small(m: Match) -> tuple[bool, Any]:
    """No side of a tile is longer than 8."""
    sides = (*m["a"].type.shape, *m["b"].type.shape)
    return max(sides) <= SIDE, sides


# 2. How a product runs: a tile of sums stays while tiles of factors come in.


def side(extent: int) -> int:
    """The longest side of tiles that fill an extent."""
    return next(size for size in range(SIDE, 0, -1) if extent % size == 0)


def schedule_of(extents: Mapping[str, int]) -> str:
    m, n, k = (side(extents[name]) for name in "mnk")
    return (
        f"m, n, k = tile(gemm, m={m}, n={n}, k={k}); stage(gemm, 2, tile.sums, at=n); "
        "stage(gemm, 0, tile.factors, at=k); stage(gemm, 1, tile.factors, at=k); "
        "tensorise(gemm, tile.mma)"
    )


# 3. Its code: what a scheduled function does, with loops counted out and arrays numbered.


class Code:
    """The steps of a function. Its arguments are the first arrays, buffers follow as they come."""

    def __init__(self, function: FuncOp) -> None:
        self.shapes = [shape_of(argument.type) for argument in function.body.block.args]
        self.arguments = len(self.shapes)
        self.steps: list[Sequence[Any]] = []
        self._arrays = {argument: i for i, argument in enumerate(function.body.block.args)}
        self._numbers: dict[SSAValue, int] = {}
        self._write_all(function.body.block)

    def _write_all(self, body: Block) -> None:
        for op in body.ops:
            self._write(op)

    def _write(self, op: Operation) -> None:
        if isinstance(op, CompositeOp):
            arrays = [self._arrays[value] for value in op.operands]
            self._arrays.update(zip(op.body.block.args, arrays, strict=True))
            self._write_all(op.body.block)
        elif isinstance(op, ForOp):
            for i in range(op.extent.value.data):
                self._numbers[op.index] = i
                self._write_all(op.body.block)
        elif isinstance(op, arith.ConstantOp):
            self._numbers[op.result] = op.value.value.data
        elif isinstance(op, arith.MuliOp):
            self._numbers[op.result] = self._numbers[op.lhs] * self._numbers[op.rhs]
        elif isinstance(op, AllocOp):
            self._arrays[op.result] = len(self.shapes)
            self.shapes.append(shape_of(op.result.type))
        elif isinstance(op, FillOp):
            self.steps.append(("fill", self._arrays[op.operands[0]], op.value.value.data))
        elif isinstance(op, CopyOp):
            source = self._box(op.source, op.source_bases, op.box)
            self.steps.append(
                ("copy", source, self._box(op.destination, op.destination_bases, op.box))
            )
        elif isinstance(op, IntrinsicOp):
            (tile,) = op.body.block.ops
            turned = tile.in_maps[1].results[1] == tile.in_maps[0].results[1]
            self.steps.append((op.callee.data, [self._arrays[v] for v in tile.operands], turned))

    def _box(self, array: SSAValue, bases: Sequence[SSAValue], sizes: Sequence[int]) -> Any:
        starts = [self._numbers[base] for base in bases] or [0] * len(sizes)
        return self._arrays[array], [(s, s + n) for s, n in zip(starts, sizes, strict=True)]


# 4. The device.


def run_steps(steps: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    def box(place: Any) -> np.ndarray:
        number, ranges = place
        return arrays[number][tuple(slice(*ends) for ends in ranges)]

    for what, first, second in steps:
        if what == "fill":
            arrays[first][...] = second
        elif what == "copy":
            box(second)[...] = box(first)
        else:
            a, b, sums = (arrays[number] for number in first)
            for k, row in enumerate(b.T if second else b):  # in order, as a schedule promises
                sums += a[:, k : k + 1] * row


@dataclass(frozen=True)
class Tile(byocir.Target):
    """A toy accelerator that multiplies tiles."""

    name = "tile"
    patterns, instructions = (gemm,), (mma,)

    def schedule(self, composite: CompositeOp) -> str | None:
        match = gemm.matched_in(composite)
        return schedule_of(match["gemm"].extents) if match is not None else None

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        functions = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data in symbols]
        codes = {function.sym_name.data: Code(function) for function in functions}
        return {
            name: json.dumps([c.arguments, c.shapes, c.steps]).encode() for name, c in codes.items()
        }

    def load(self, blobs: Mapping[str, bytes]) -> Callable[..., list[np.ndarray]]:
        codes = {name: json.loads(text) for name, text in blobs.items()}

        def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            arguments, shapes, steps = codes[symbol]
            arrays = [*inputs, *(np.zeros(s, np.float32) for s in shapes[len(inputs) :])]
            run_steps(steps, arrays)
            return arrays[len(inputs) : arguments]

        return run
