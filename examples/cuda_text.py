"""A target that writes CUDA C: each block on f32 becomes a kernel, with a thread for each point of
its parallel iterators and a loop for each reduction. In this folder:

    byocir explain digits/digits_f32.onnx --shape image=1,1,8,8 --target cuda_text.py

`emit` gives the source, `kernels.cu`, and what is launched on what, `launches.json`. Where NVRTC is
installed (`pip install nvidia-cuda-nvrtc-cu12`), `load` has it compile the source; numbers come
from numpy, by the meaning of the blocks, so that no GPU is needed.
"""

import ctypes
import json
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.traits import SymbolTable

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32, shape_of
from byocir.evaluate.module import evaluate_function
from byocir.patterns import Match, supports
from byocir.patterns.match import python_value

SOURCE, LAUNCHES, MEANING = "kernels.cu", "launches.json", "meaning.mlir"

# 1. What it takes: any block whose body it can spell.

LARGER = "({0} > {1} || {0} != {0} ? {0} : {1})"
"""A maximum that gives a NaN where there is one, as blocks mean it."""
SPELLED = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.maximumf": LARGER,
    "arith.minimumf": LARGER.replace(">", "<"),
    "arith.negf": "-{0}",
    "math.absf": "fabsf({0})",
    "math.erf": "erff({0})",
    "math.exp": "expf({0})",
    "math.log": "logf({0})",
    "math.sqrt": "sqrtf({0})",
    "math.tanh": "tanhf({0})",
}


@supports("tir.block", fix="leave it on the host")
def kernel(m: Match) -> tuple[bool, Any]:
    """The body is of functions that CUDA C spells as one expression."""
    block = m["op"].op
    assert isinstance(block, BlockOp)
    known = {*SPELLED, "arith.constant", "tir.yield"}
    others = sorted({op.name for op in block.body.block.ops} - known)
    return not others, ", ".join(others)


@kernel.rule(fix="compute it in f32")
def numbers_are_floats(m: Match) -> tuple[bool, Any]:
    """All arrays are of f32."""
    block = m["op"].op
    types = {str(v.type): v.type.element_type for v in (*block.ins, *block.outs)}
    others = [text for text, element in types.items() if element != f32]
    return not others, ", ".join(others)


@kernel.rule(fix="leave it on the host")
def points_write_elements(m: Match) -> tuple[bool, Any]:
    """It reads by indices, has one result, and every point of it is computed."""
    block = m["op"].op
    plain = len(block.outs) == 1 and block.where is None and not block.whole and not block.bases
    return plain, f"{len(block.outs)} results"


# 2. How a block becomes a kernel.


def index_text(expr: AffineExpr, names: Sequence[str]) -> str:
    """An index in C, with a name for each iterator."""
    if isinstance(expr, AffineConstantExpr):
        return str(expr.value)
    if isinstance(expr, AffineDimExpr):
        return names[expr.position]
    assert isinstance(expr, AffineBinaryOpExpr)
    left, right = index_text(expr.lhs, names), index_text(expr.rhs, names)
    kind = expr.kind.name
    if kind in ("Add", "Mul"):
        return f"({left} {'+' if kind == 'Add' else '*'} {right})"
    return f"{'floor_div' if kind == 'FloorDiv' else 'floor_mod'}({left}, {right})"


def element(array: str, value: SSAValue, indices: Sequence[str]) -> str:
    """An element of a row-major array."""
    offset = "0"
    for size, index in zip(shape_of(value.type), indices, strict=True):
        offset = index if offset == "0" else f"({offset} * {size} + {index})"
    return f"{array}[{offset}]"


def number(value: float) -> str:
    """A float in C, without names of headers that NVRTC lacks."""
    if np.isfinite(value):
        return f"{float(np.float32(value)).hex()}f"
    return f"({'0' if np.isnan(value) else '1' if value > 0 else '-1'}.0f / 0.0f)"


def body_lines(block: BlockOp, values: dict[SSAValue, str]) -> list[str]:
    """The statements of a body; the last one gives `sum` its new number."""
    lines: list[str] = []
    for op in block.body.block.ops:
        if op.name == "tir.yield":
            lines.append(f"sum = {operand(op.operands[0], values)};")
            continue
        if op.name != "arith.constant":
            made = SPELLED[op.name].format(*(operand(v, values) for v in op.operands))
            values[op.results[0]] = f"v{len(values)}"
            lines.append(f"const float {values[op.results[0]]} = {made};")
    return lines


def operand(value: SSAValue, values: Mapping[SSAValue, str]) -> str:
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant":
        return number(python_value(owner.properties["value"]))
    return values[value]


def source_of(block: BlockOp, name: str) -> str:
    """The kernel of a block. The result begins as what its initial values are."""
    names = [f"{each}_{i}" for i, each in enumerate(block.names)]
    arguments = block.body.block.args
    values: dict[SSAValue, str] = {}
    reads: list[str] = []
    inputs = zip(block.ins, block.in_maps, block.pad_values, strict=True)
    for i, (value, map_, pad) in enumerate(inputs):
        indices = [index_text(expr, names) for expr in map_.results]
        read = element(f"x{i}", value, indices)
        if pad is not None:
            sizes = zip(indices, shape_of(value.type), strict=True)
            inside = " && ".join(f"{index} >= 0 && {index} < {size}" for index, size in sizes)
            read = f"{inside} ? {read} : {number(python_value(pad))}"
        values[arguments[i]] = f"r{i}"
        reads.append(f"const float r{i} = {read};")
    values[arguments[-1]] = "sum"
    place = [index_text(expr, names) for expr in block.out_maps[0].results]
    lines, left = [], 1
    for i in reversed(block.parallels):
        lines.append(f"const long {names[i]} = point / {left} % {block.extents[i]};")
        left *= block.extents[i]
    lines.append(f"float sum = {element('y', block.outs[0], place)};")
    for i in block.reductions:
        lines.append(f"for (long {names[i]} = 0; {names[i]} < {block.extents[i]}; {names[i]}++)")
    lines += ["{", *(f"    {line}" for line in (*reads, *body_lines(block, values))), "}"]
    lines.append(f"{element('y', block.outs[0], place)} = sum;")
    head = ", ".join([*(f"const float *x{i}" for i in range(len(block.ins))), "float *y"])
    text = "\n".join(f"    {line}" for line in lines)
    return f"""extern "C" __global__ void {name}({head})
{{
    const long point = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= {left}) return;
{text}
}}
"""


DIVISIONS = """static __device__ long floor_mod(long x, long y) { return (x % y + y) % y; }
static __device__ long floor_div(long x, long y) { return (x - floor_mod(x, y)) / y; }

"""

# 3. The target.


@dataclass(frozen=True)
class Cuda(byocir.Target):
    """CUDA C from blocks, with `threads` in each block of a grid."""

    name, patterns = "cuda", (kernel,)

    threads: int = 128

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= 1024:
            raise ValueError(f"expected 1 to 1024 threads, found {self.threads}")

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        parts, plans, kept = [DIVISIONS], {}, []
        for symbol in symbols:
            function = SymbolTable.lookup_symbol(module, symbol)
            assert isinstance(function, FuncOp)
            plans[symbol] = self.plan(function, symbol, parts)
            kept.append(function.clone())
        meaning = print_module(ModuleOp(kept), debuginfo=False)
        launches = json.dumps(plans, indent=1)
        return {
            SOURCE: "\n".join(parts).encode(),
            LAUNCHES: launches.encode(),
            MEANING: meaning.encode(),
        }

    def plan(self, function: FuncOp, symbol: str, parts: list[str]) -> dict[str, Any]:
        """Writes the kernels of a function; gives its arguments, launches in order and results."""
        names: dict[SSAValue, str] = {v: f"a{i}" for i, v in enumerate(function.body.block.args)}
        launches: list[dict[str, Any]] = []
        results: list[str] = []
        for op in function.body.block.ops:
            if not isinstance(op, CompositeOp):
                results = [names[value] for value in op.operands]
                continue
            body = op.body.block
            names |= {a: names[v] for a, v in zip(body.args, op.inputs, strict=True)}
            for block in [each for each in body.ops if isinstance(each, BlockOp)]:
                names[block.results[0]] = f"t{len(launches)}"
                launches.append(self.launch(block, f"{symbol}_{len(launches)}", names, parts))
            names[op.outputs[0]] = names[body.last_op.operands[0]]
        return {
            "arguments": len(function.body.block.args),
            "launches": launches,
            "results": results,
        }

    def launch(
        self, block: BlockOp, name: str, names: Mapping[SSAValue, str], parts: list[str]
    ) -> dict[str, Any]:
        parts.append(source_of(block, name))
        points = prod(block.extents[i] for i in block.parallels)
        return {
            "kernel": name,
            "grid": -(-points // self.threads),
            "block": self.threads,
            "inputs": [names[value] for value in block.ins],
            "result": names[block.results[0]],
            "begins_as": names[block.outs[0]],
        }

    def load(self, blobs: Mapping[str, bytes]) -> Any:
        compile_with_nvrtc(blobs[SOURCE])
        module = parse_module(blobs[MEANING].decode())
        return lambda symbol, inputs: evaluate_function(module, symbol, list(inputs))


# 4. NVRTC, where there is one.


def nvrtc() -> ctypes.CDLL | None:
    """NVIDIA's compiler at run time: from its wheel, or where the system has it."""
    found = find_spec("nvidia")
    for folder in (found and found.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    path = find_library("nvrtc")
    return ctypes.CDLL(path) if path else None


def compile_with_nvrtc(source: bytes) -> bool:
    """Has NVRTC compile a source, and raises RuntimeError with what it says of mistakes; tells if
    there is an NVRTC."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    if library is None:
        return False
    if library.nvrtcCreateProgram(ctypes.byref(program), source, SOURCE.encode(), 0, None, None):
        raise RuntimeError("NVRTC made no program")
    failed = library.nvrtcCompileProgram(program, 0, None)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(log.value.decode())
    return True
