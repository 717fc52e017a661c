"""Makes random programs in buffer form, and random schedules for them.

```python
@given(buffer_programs(), st.data())
def test_keeps_results(program, data):
    expected = program.run()
    Schedule(program.function)...
    np.testing.assert_array_equal(program.run(), expected)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from byocir.dialects.text import parse_module
from byocir.dialects.types import Shape, dtype_of, element_type_of, is_float, shape_of
from byocir.evaluate.interpreter import Interpreter

_INTEGER_STEPS = (
    "%r = arith.addi %x, %two : i32",
    "%r = arith.maxsi %x, %two : i32",
    "%r = arith.muli %x, %x : i32",
)
_FLOAT_STEPS = (
    "%r = arith.addf %x, %two : f32",
    "%r = arith.maximumf %x, %two : f32",
    "%r = arith.mulf %x, %x : f32",
)


@dataclass
class Program:
    """Describes a function `@main` of memrefs, the last of which it writes."""

    text: str
    module: ModuleOp = field(init=False)

    def __post_init__(self) -> None:
        self.module = parse_module(self.text)

    def __repr__(self) -> str:
        return self.text

    @property
    def function(self) -> FuncOp:
        (function,) = (op for op in self.module.ops if isinstance(op, FuncOp))
        return function

    @property
    def arguments(self) -> Sequence[SSAValue]:
        """Gives the memrefs that the program reads, and last the one that it writes."""
        return self.function.body.block.args

    def run(self, module: ModuleOp | None = None, seed: int = 0) -> np.ndarray:
        """Runs the program, or another form of it, on `inputs`."""
        arrays = self.inputs(seed)
        interpreter = Interpreter(module or self.module)
        interpreter.call(interpreter.function("main"), arrays)
        return arrays[-1]

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Draws random small numbers for each argument; sums of floats among them depend on their
        order.
        """
        rng = np.random.default_rng(seed)
        scale = 1 / 7 if any(is_float(element_type_of(a.type)) for a in self.arguments) else 1
        return [
            (rng.integers(-9, 9, shape_of(arg.type)) * scale).astype(
                dtype_of(element_type_of(arg.type))
            )
            for arg in self.arguments
        ]


class _Writer:
    """Writes the text of a program, in stages that read the buffer before them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.element = draw(st.sampled_from(["i32", "f32"]))
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.blocks = 0
        shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
        self.now, self.shape = self.argument(shape), shape

    def type(self, shape: Shape) -> str:
        return f"memref<{''.join(f'{n}x' for n in shape)}{self.element}>"

    def argument(self, shape: Shape) -> str:
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: {self.type(shape)}")
        return name

    def buffer(self, shape: Shape) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f'{name} = tir.alloc : {self.type(shape)} loc("b{self.blocks}")')
        return name

    def number(self, value: int) -> str:
        return f"{value} : i32" if self.element == "i32" else f"{value}.0 : f32"

    def fill(self, buffer: str, shape: Shape, value: int) -> None:
        number, location = self.number(value), f'loc("b{self.blocks}")'
        self.lines.append(f"tir.fill {number} into {buffer} : {self.type(shape)} {location}")

    def block(self, head: str, arguments: str, *body: str) -> None:
        args = ", ".join(f"%{name}: {self.element}" for name in arguments)
        lines = "\n".join("    " + line for line in body)
        location = f'loc("b{self.blocks}")'
        self.blocks += 1
        self.lines.append(
            f"tir.block {head} {{\n  ^bb0({args}):\n"
            f"    %two = arith.constant {self.number(2)}\n{lines}\n"
            f"    tir.yield %r : {self.element}\n  }} {location}"
        )

    def suffix(self) -> str:
        return "i" if self.element == "i32" else "f"

    # Stages.

    def map(self) -> None:
        """Maps every element, with dimensions in another order."""
        order = self.draw(st.permutations(range(len(self.shape))))
        names = [f"i{d}" for d in range(len(self.shape))]
        shape = tuple(self.shape[d] for d in order)
        out = self.buffer(shape)
        space = ", ".join(f"{name}: {n}" for name, n in zip(names, self.shape, strict=True))
        steps = _INTEGER_STEPS if self.element == "i32" else _FLOAT_STEPS
        self.block(
            f"[{space}] ins({self.now}[{', '.join(names)}] : {self.type(self.shape)}) "
            f"outs({out}[{', '.join(names[d] for d in order)}] : {self.type(shape)})",
            "xo",
            self.draw(st.sampled_from(steps)),
        )
        self.now, self.shape = out, shape

    def update(self) -> None:
        """Updates an array in place, from what was there."""
        names = [f"i{d}" for d in range(len(self.shape))]
        space = ", ".join(f"{name}: {n}" for name, n in zip(names, self.shape, strict=True))
        other = self.argument(self.shape)
        at = f"[{', '.join(names)}] : {self.type(self.shape)}"
        sub = f"arith.sub{self.suffix()}"
        self.block(
            f"[{space}] ins({other}{at}) outs({self.now}{at})",
            "xo",
            f"%r = {sub} %o, %x : {self.element}",
        )

    def contract(self) -> None:
        """Contracts the last dimension with weights."""
        n, k = self.draw(st.integers(1, 6)), self.shape[-1]
        shape = (*self.shape[:-1], n)
        names = [f"i{d}" for d in range(len(shape) - 1)]
        weights, out = self.argument((n, k)), self.buffer(shape)
        self.fill(out, shape, 0)
        space = ", ".join(
            f"{name}: {size}" for name, size in zip([*names, "n"], shape, strict=True)
        )
        self.block(
            f"[{space} | k: {k}] ins({self.now}[{', '.join([*names, 'k'])}] : "
            f"{self.type(self.shape)}, {weights}[n, k] : {self.type((n, k))}) "
            f"outs({out}[{', '.join([*names, 'n'])}] : {self.type(shape)})",
            "xwo",
            f"%p = arith.mul{self.suffix()} %x, %w : {self.element}",
            f"%r = arith.add{self.suffix()} %o, %p : {self.element}",
        )
        self.now, self.shape = out, shape

    def window(self) -> None:
        """Writes windows along one or two dimensions, padded."""
        along = self.draw(st.sampled_from([(0,), (len(self.shape) - 1,), (0, len(self.shape) - 1)]))
        shape, indices, reduced, padded = list(self.shape), list[str](), list[str](), False
        for d, size in enumerate(self.shape):
            if d not in along:
                indices.append(f"i{d}")
                continue
            kernel, stride = self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2))
            before, after = self.draw(st.integers(0, 1)), self.draw(st.integers(0, 1))
            if size + before + after < kernel:
                before = after = 1
            shape[d] = (size + before + after - kernel) // stride + 1
            padded |= before + after > 0
            indices.append(f"i{d} * {stride} + r{d} - {before}")
            reduced.append(f"r{d}: {kernel}")
        out = self.buffer(tuple(shape))
        self.fill(out, tuple(shape), self.draw(st.sampled_from([0, -3])))
        space = ", ".join(f"i{d}: {n}" for d, n in enumerate(shape))
        op = self.draw(st.sampled_from(["add", "max"]))
        name = {"addi": "addi", "addf": "addf", "maxi": "maxsi", "maxf": "maximumf"}
        pad = f" pad {self.number(1)}" if padded else ""
        self.block(
            f"[{space} | {', '.join(reduced)}] ins({self.now}[{', '.join(indices)}]{pad} : "
            f"{self.type(self.shape)}) "
            f"outs({out}[{', '.join(f'i{d}' for d in range(len(shape)))}] : "
            f"{self.type(tuple(shape))})",
            "xo",
            f"%r = arith.{name[op + self.suffix()]} %o, %x : {self.element}",
        )
        self.now, self.shape = out, tuple(shape)

    def finish(self) -> str:
        """Copies the last buffer into the last argument."""
        out = self.argument(self.shape)
        names = [f"i{d}" for d in range(len(self.shape))]
        space = ", ".join(f"{name}: {n}" for name, n in zip(names, self.shape, strict=True))
        at = f"[{', '.join(names)}] : {self.type(self.shape)}"
        self.block(f"[{space}] ins({self.now}{at}) outs({out}{at})", "xo", self._last())
        body = "\n".join(f"  {line}" for line in self.lines)
        return f"func.func @main({', '.join(self.arguments)}) {{\n{body}\n  func.return\n}}\n"

    def _last(self) -> str:
        return f"%r = arith.add{self.suffix()} %x, %two : {self.element}"


@st.composite
def buffer_programs(draw: st.DrawFn) -> Program:
    """Draws programs of one to four stages (maps, updates in place, contractions and padded
    windows), then a block that writes the result. Blocks are named b0, b1, …
    """
    writer = _Writer(draw)
    stages = (writer.map, writer.contract, writer.window, writer.update)
    writer.map()
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from(stages))()
        if prod(writer.shape) > 2000:
            break
    return Program(writer.finish())
