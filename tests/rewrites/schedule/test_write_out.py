"""Guards that are written out: boxes of the points that they leave, and nothing else."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.schedule.write_out import PaddedBox, write_out

sides = st.integers(1, 5)


@given(size=sides, count=sides, window=sides, step=st.integers(1, 3), before=st.integers(-2, 3))
def test_windows_over_borders_become_boxes_inside(size, count, window, step, before) -> None:
    """In two dimensions: corners, borders, and what is inside."""
    index = [f"{step} * {i} + {r} - {before}" for i, r in (("h", "r"), ("w", "s"))]
    guards = [text for i in index for text in (f"{i} >= 0", f"-1 * ({i}) + {size - 1} >= 0")]
    module = parse_module(f"""
    func.func @main(%x: memref<{size}x{size}xi8>, %y: memref<{count}x{count}xi8>) {{
      tir.block [h: {count}, w: {count} | r: {window}, s: {window}]
          ins(%x[{index[0]}, {index[1]}] : memref<{size}x{size}xi8>)
          outs(%y[h, w] : memref<{count}x{count}xi8>) where({", ".join(guards)}) {{
      ^bb0(%p: i8, %old: i8):
        %0 = arith.maxsi %old, %p : i8
        tir.yield %0 : i8
      }}
      func.return
    }}""")
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    write_out(function.body.block)
    verify_module(module)
    blocks = [op for op in function.body.block.ops if isinstance(op, BlockOp)]
    assert all(op.where is None for op in blocks)
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])


guards = st.builds(
    lambda steps, constant: " + ".join(f"{c} * {i}" for i, c in steps.items()) + f" + {constant}",
    st.dictionaries(st.sampled_from("mnrs"), st.integers(-2, 2), min_size=1),
    st.integers(-3, 5),
)


@given(
    extents=st.tuples(sides, sides, st.integers(1, 3), st.integers(1, 3)),
    guards=st.lists(guards, max_size=3),
    apart=st.sampled_from([None, (2, 3), (3, 0)]),
)
def test_boxes_hold_the_points_that_guards_leave(extents, guards, apart) -> None:
    """Whatever iterators decide about a guard, each point is in one box."""
    m, n, r, s = extents
    where = f"where({', '.join(f'{guard} >= 0' for guard in guards)})" if guards else ""
    module = parse_module(f"""
    func.func @main(%y: memref<{m}x{n}xi32>) {{
      tir.block [m: {m}, n: {n} | r: {r}, s: {s}]
          ins() outs(%y[m, n] : memref<{m}x{n}xi32>) {where} {{
      ^bb0(%old: i32):
        tir.yield %old : i32
      }}
      func.return
    }}""")
    (op,) = (op for op in module.walk() if isinstance(op, BlockOp))
    boxes = PaddedBox.of(op).guarded(apart)
    found = [point for box in boxes for point in product(*(range(*side) for side in box.sides))]
    left = [] if op.where is None else op.where.data.results
    points = product(*map(range, extents))
    assert sorted(found) == [p for p in points if all(g.eval(list(p), []) >= 0 for g in left)]


def test_a_guard_that_sums_alone_decide_about_is_taken_point_by_point() -> None:
    module = parse_module(
        """
    func.func @main(%x: memref<4xi8>, %y: memref<1xi8>) {
      tir.block [i: 1 | r: 3, s: 3]
          ins(%x[r + s] : memref<4xi8>) outs(%y[i] : memref<1xi8>) where(-1 * r - s + 3 >= 0) {
      ^bb0(%p: i8, %old: i8):
        %0 = arith.maxsi %old, %p : i8
        tir.yield %0 : i8
      }
      func.return
    }""",
        load_context(),
    )
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    write_out(function.body.block)
    assert all(op.where is None for op in function.body.block.ops if isinstance(op, BlockOp))
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])


def test_a_pad_that_several_iterators_decide_about_is_refused() -> None:
    module = parse_module(
        """
    func.func @main(%x: memref<4xi8>, %y: memref<3x3xi8>) {
      tir.block [m: 3, n: 3]
          ins(%x[m + n] pad 0 : i8 : memref<4xi8>) outs(%y[m, n] : memref<3x3xi8>) {
      ^bb0(%p: i8, %old: i8):
        tir.yield %p : i8
      }
      func.return
    }""",
        load_context(),
    )
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    with pytest.raises(ByocirError, match="expected one iterator to lead out of an array"):
        write_out(function.body.block)
