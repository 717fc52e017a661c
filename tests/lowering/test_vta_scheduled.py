"""A matrix product for VTA that is written as a schedule: tiled, staged, tensorised, in virtual
threads; then the passes that follow make instructions of it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, CopyOp, FillOp, IntrinsicOp, LoopKind, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import i8, i32
from byocir.dialects.verify import verify_module
from byocir.dialects.vta import ProgramOp
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate_function
from byocir.evaluate.vta import run_program
from byocir.lowering.tir_to_vta.encode import VtaEncodePass
from byocir.lowering.tir_to_vta.insert_tokens import VtaInsertTokensPass
from byocir.lowering.tir_to_vta.tensorise import VtaTensorisePass
from byocir.patterns import Match, block, composite, wildcard
from byocir.rewrites.schedule import Schedule
from byocir.vta_sim import sanitize

M, N, K = 24, 4, 6
"""Rows, and blocks of 16 columns of the result and of the sum."""

TEXT = f"""
func.func @vta_0(%x: memref<{M}x{K}x16xi8>, %w: memref<{N}x{K}x16x16xi8>, %y: memref<{M}x{N}x16xi8>)
    attributes {{byoc.target = #byoc.target<"vta", {{}}>}} {{
  byoc.composite "vta.dense" at "tensor" (%a = %x : memref<{M}x{K}x16xi8>,
      %b = %w : memref<{N}x{K}x16x16xi8>, %c = %y : memref<{M}x{N}x16xi8>) {{
    %t = tir.alloc : memref<{M}x{N}x16xi32>
    tir.fill 0 : i32 into %t : memref<{M}x{N}x16xi32> loc("gemm")
    tir.block [m: {M}, n: {N}, l: 16 | k: {K}, j: 16]
        ins(%a[m, k, j] : memref<{M}x{K}x16xi8>, %b[n, k, l, j] : memref<{N}x{K}x16x16xi8>)
        outs(%t[m, n, l] : memref<{M}x{N}x16xi32>) {{
    ^bb0(%p: i8, %q: i8, %acc: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      tir.yield %3 : i32
    }} loc("gemm")
    tir.block [m: {M}, n: {N}, l: 16] outs(%t[m, n, l] : memref<{M}x{N}x16xi32>) {{
    ^bb0(%acc: i32):
      %0 = arith.constant 9 : i32
      %1 = arith.shrsi %acc, %0 : i32
      tir.yield %1 : i32
    }} loc("scale")
    tir.block [m: {M}, n: {N}, l: 16] ins(%t[m, n, l] : memref<{M}x{N}x16xi32>)
        outs(%c[m, n, l] : memref<{M}x{N}x16xi8>) {{
    ^bb0(%p: i32, %old: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }} loc("store")
    byoc.yield
  }}
  func.return
}}
"""


@composite("vta.gemm")
def gemm():
    x, w, acc = wildcard("x"), wildcard("w"), wildcard("acc")
    product = lambda acc, x, w: acc + x.to(i32) * w.to(i32)  # noqa: E731
    return block("m n l | k j", x["m k j"], w["n k l j"], product, init=acc)


@gemm.rule
def one_block_of_lanes(m):
    """An element of INP is 16 bytes, one of WGT 16 by 16."""
    shape = m["w"].type.shape
    return shape[2:] == (16, 16), shape


@composite("vta.store")
def store():
    return block("m n l", wildcard("x")["m n l"], lambda acc, x: x.to(i8))


def copy_out(match: Match, op: BlockOp) -> list[Operation]:
    """A store keeps the low 8 bits as it copies."""
    begins = [linear(e) for e in op.out_maps[0].results]
    bases = [op.bases[form.terms[0][0]] for form in begins if form is not None]
    box = match.result.type.shape
    return [CopyOp.of(op.ins[0], op.outs[0], box, destination_bases=bases)]


def scheduled(module: ModuleOp, rows: int, columns: int, depth: int) -> None:
    (target,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    s = Schedule(target)
    mul, out, scale = s.blocks("gemm")[0], s.block("store"), s.block("scale")
    n, m = s.tile(out, n=columns, m=rows)
    s.compute_at(scale, m)
    s.stage(out, 0, "vta.acc", at=m)
    (k,) = s.tile(mul, k=depth)
    s.stage(mul, 0, "vta.inp", at=k)
    s.stage(mul, 1, "vta.wgt", at=k)
    s.tensorise(mul, gemm)
    s.tensorise(out, store, copy_out)
    s.vthread(n)
    verify_module(module)


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((M, K, 16), (N, K, 16, 16))
    return [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    product = np.einsum("mkj,nklj->mnl", x.astype(np.int32), w.astype(np.int32))
    return (product >> 9).astype(np.int8)


@pytest.mark.parametrize("tiles", [(8, 2, 3), (24, 1, 1), (1, 4, 6)])
def test_a_scheduled_product_runs_on_vta(tiles: tuple[int, int, int]) -> None:
    module, inputs = parse_module(TEXT), arrays()
    scheduled(module, *tiles)
    expected = reference(*inputs)
    (found,) = evaluate_function(module, "vta_0", inputs)
    np.testing.assert_array_equal(found, expected, "the schedule")
    context = load_context()
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass()):
        lowering.apply(context, module)
        verify_module(module)
        (found,) = evaluate_function(module, "vta_0", inputs)
        np.testing.assert_array_equal(found, expected, lowering.name)
    VtaEncodePass().apply(context, module)
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    ((found,), _) = run_program(program, inputs)
    np.testing.assert_array_equal(found, expected, "the bytes")
    dram = np.zeros(program.dram.value.data, np.uint8)
    dram[: program.image.data.size] = program.image.data.values()
    assert not sanitize(program.insns.data.values(), dram)


def test_the_schedule_is_legal_for_vta() -> None:
    """Copies and fills move data, instructions work on scratchpads alone, in their coordinates."""
    module = parse_module(TEXT)
    scheduled(module, 8, 2, 3)
    ops = [op for op in module.walk() if isinstance(op, BlockOp | CopyOp | FillOp)]
    kinds = [type(op) for op in ops if not isinstance(op.parent_op(), IntrinsicOp)]
    assert kinds == [FillOp, CopyOp, CopyOp, BlockOp, CopyOp]
    for op in ops:
        if isinstance(op, BlockOp):
            assert not op.bases
            assert all(scope_of(v.type).startswith("vta.") for v in [*op.ins, *op.outs])
    (intrinsic,) = (op for op in module.walk() if isinstance(op, IntrinsicOp))
    assert intrinsic.callee.data == "vta.gemm"
    (target,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    (block_,) = Schedule(target).blocks("gemm")
    kinds = [loop.kind.data for loop in Schedule(target).loops(Schedule(target).block("scale"))]
    assert kinds == [LoopKind.VTHREAD, LoopKind.SERIAL]
    assert isinstance(block_.parent_op(), IntrinsicOp)


def test_refuses_what_the_instruction_does_not_do() -> None:
    module = parse_module(TEXT)
    (target,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    s = Schedule(target)
    mul = s.blocks("gemm")[0]
    with pytest.raises(ByocirError, match="B259") as caught:
        s.tensorise(s.block("scale"), gemm)
    assert "expected a block of 2 inputs, found 0" in caught.value.message
    s.tile(mul, l=8)
    with pytest.raises(ByocirError, match="B259") as caught:
        s.tensorise(mul, gemm)
    assert "16 by 16, found (4, 6, 8, 16)" in caught.value.help
