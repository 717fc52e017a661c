"""Products: matrices, sums of products by equations, attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_fuzz.draft import OPTIONAL, Draft, kind_of
from onnx_fuzz.rules.registry import rule
from onnx_fuzz.rules.windows import scale

EQUATIONS = (
    "ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij->ji", "ij->i", "ii->i", "ii", "i,j->ij", "i,i->",
    "...ij,...jk->...ik", "bhid,bhjd->bhij", "ij,j", "ijk->kji", "abc,cd->abd", "i,i,i->i",
    "ab,bc,cd->ad", "...i->...", "ij, jk -> ik", "bi,bj->bij",
)  # fmt: skip


def matrix_sizes(d: Draft) -> tuple[int, int, int]:
    """Draws the numbers of rows, of products in a sum, and of columns."""
    rows, depth, columns = (d.draws.one([1, 2, 3, 4, 5, 8, 9, 16, 17]) for _ in range(3))
    return rows, depth, columns


def matrices(d: Draft) -> tuple[list[int], list[int]]:
    """Gives two shapes that can be multiplied."""
    rows, depth, columns = matrix_sizes(d)
    if d.draws.empty and d.maybe(0.3):
        depth = 0
    batch = list(d.draws.shape(0, 2, 6)) if d.maybe() else []
    left, right = [*batch, rows, depth], [*d.draws.broadcast(batch), depth, columns]
    if d.maybe(0.15):
        left = [depth]
    elif d.maybe(0.15):
        right = [depth]
    return left, right


@rule("MatMul")
def matmul(d: Draft) -> None:
    left, right = matrices(d)
    x = d.take("A", shape=left) if d.maybe() else d.take("A", rank=(1, 4))
    if list(x.shape) != left:
        right = [x.shape[-1], d.draws.upto(5)]
    d.take("B", shape=right)


@rule("MatMulInteger")
def matmul_integer(d: Draft) -> None:
    left, right = matrices(d)
    a, b = d.take("A", shape=left), d.take("B", shape=right)
    if d.maybe(0.7):
        rows = left[-2] if len(left) > 1 and d.maybe(0.3) else None
        d.put(
            "a_zero_point",
            d.draws.array(a.dtype, () if rows is None or len(left) > 2 else (rows,)),
            0.9,
        )
        if d.maybe(0.7):
            columns = right[-1] if len(right) == 2 and d.maybe(0.4) else None
            d.put(
                "b_zero_point", d.draws.array(b.dtype, () if columns is None else (columns,)), 0.9
            )


@rule("QLinearMatMul")
def qlinear_matmul(d: Draft) -> None:
    left, right = matrices(d)
    a, b = d.take("a", shape=left), d.take("b", shape=right)
    for name, operand in (("a", a), ("b", b)):
        scale(d, f"{name}_scale", ())
        d.put(f"{name}_zero_point", d.draws.array(operand.dtype, ()), 0.9)
    scale(d, "y_scale", (), 0.2, 4)
    d.put("y_zero_point", d.draws.array(d.bind("y_zero_point"), ()), 0.9)


@rule("Gemm")
def gemm(d: Draft) -> None:
    rows, depth, columns = matrix_sizes(d)
    trans_a, trans_b = (d.attr(name, d.draws.upto(1, 0), 0) for name in ("transA", "transB"))
    whole = kind_of(d.bind("A")) != "f"
    d.take("A", shape=[depth, rows] if trans_a else [rows, depth])
    d.take("B", shape=[columns, depth] if trans_b else [depth, columns])
    if d.schema.inputs[2].option != OPTIONAL or d.maybe(0.6):
        d.take(
            "C", shape=d.draws.one([(), (columns,), (1,), (rows, 1), (1, columns), (rows, columns)])
        )
    for name in ("alpha", "beta"):
        d.attr(name, d.draws.one([1.0, 2.0] if whole else [0.5, 1.0, 2.0, 0.0, -0.3]), 1.0)


@rule("Einsum")
def einsum(d: Draft) -> None:
    equation = d.draws.one(EQUATIONS)
    sizes = {letter: d.draws.one([1, 2, 3, 4, 5, 8]) for letter in "abcdhijk"}
    for part in equation.split("->")[0].split(","):
        lead = [2] if "..." in part else []
        shape = [*lead, *(sizes[letter] for letter in part.replace("...", "").replace(" ", ""))]
        d.take("Inputs", shape=shape)
    d.attributes["equation"] = equation


@rule("Attention")
def attention(d: Draft) -> None:
    batch, queries, keys, size, wide = (d.draws.upto(4) for _ in range(5))
    heads = d.draws.one([1, 2, 4])
    kv = d.draws.one([n for n in (1, 2, 4) if heads % n == 0])
    if d.maybe():
        shapes = ([batch, heads, queries, size], [batch, kv, keys, size], [batch, kv, keys, wide])
        d.left_out |= {"q_num_heads", "kv_num_heads"}
    else:
        shapes = (
            [batch, queries, heads * size],
            [batch, keys, kv * size],
            [batch, keys, kv * wide],
        )
        d.attributes |= {"q_num_heads": heads, "kv_num_heads": kv}
    dtype = d.bind("Q")
    for name, shape in zip(("Q", "K", "V"), shapes, strict=True):
        d.put(name, d.draws.array(dtype, shape))
    past = d.draws.upto(2) if d.maybe(0.3) else 0
    if past:
        d.put("past_key", d.draws.array(dtype, [batch, kv, past, size]))
        d.put("past_value", d.draws.array(dtype, [batch, kv, past, wide]))
    total = past + keys
    if d.maybe():
        shape = d.draws.one(
            [[queries, total], [1, 1, queries, total], [batch, heads, queries, total]]
        )
        kind = d.draws.one([np.dtype(np.bool_), dtype])
        d.put(
            "attn_mask",
            d.draws.array(kind, shape) if kind == np.bool_ else d.draws.array(dtype, shape, -2, 2),
        )
    _attention_details(d)
    d.outputs = d.draws.one([1, 3, 3, 4]) if past else 1


def _attention_details(d: Draft) -> None:
    d.attr("is_causal", d.draws.upto(1, 0), 0)
    d.attr("scale", 0.4, 0.0)
    if d.attributes.get("scale") is None:
        d.left_out.add("scale")
    d.attr("softcap", d.draws.one([0.0, 2.0]), 0.0)
    d.attr("softmax_precision", 1, 0)
    d.attr("qk_matmul_output_mode", d.draws.upto(3, 0), 0)
    d.attr("left_window_size", d.draws.upto(2, 0), -1)
    d.attr("right_window_size", d.draws.upto(2, 0), -1)


@rule("LinearAttention")
def linear_attention(d: Draft) -> None:
    batch, length, size, wide = (d.draws.upto(3) for _ in range(4))
    heads = d.draws.one([1, 2])
    d.attributes |= {"q_num_heads": heads, "kv_num_heads": heads}
    kind = d.attr(
        "update_rule", d.draws.one(["linear", "gated", "delta", "gated_delta"]), "gated_delta"
    )
    dtype = d.bind("query")
    d.put("query", d.draws.array(dtype, [batch, length, heads * size], -1, 1))
    d.put("key", d.draws.array(dtype, [batch, length, heads * size], -1, 1))
    d.put("value", d.draws.array(dtype, [batch, length, heads * wide], -1, 1))
    if d.maybe():
        d.put("past_state", d.draws.array(d.bind("past_state"), [batch, heads, size, wide], -1, 1))
    if "gated" in kind:
        d.put("decay", d.draws.array(dtype, [batch, length, heads], -1, 0))
    if "delta" in kind:
        d.put("beta", d.draws.array(dtype, [batch, length, heads], 0, 1))
    d.attr("chunk_size", 2, 64)
    d.attr("scale", 0.5, 0.0)
    d.outputs = 2


@rule("RotaryEmbedding")
def rotary(d: Draft) -> None:
    batch, heads, length, half = (d.draws.upto(3) for _ in range(4))
    size = 2 * half
    part = d.attr("rotary_embedding_dim", size, 0)
    del part
    if d.maybe():
        x = d.take("X", shape=[batch, heads, length, size])
        d.attr("num_heads", heads, 0)
    else:
        x = d.take("X", shape=[batch, length, heads * size])
        d.attributes["num_heads"] = heads
    positions = d.maybe()
    shape: Sequence[int] = [length + 2, half] if positions else [batch, length, half]
    for name in ("cos_cache", "sin_cache"):
        d.put(name, d.draws.array(x.dtype, shape, -1, 1))
    if positions:
        d.put("position_ids", d.draws.array(np.dtype(np.int64), [batch, length], 0, length + 1))
    d.attr("interleaved", d.draws.upto(1, 0), 0)
