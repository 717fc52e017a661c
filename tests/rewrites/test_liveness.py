"""When values are needed last, and moves that happen as if all at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.text import parse_module
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, ForOp
from byocir.rewrites.liveness import Liveness, hand_on, last_uses, starts_block


def adds(left, right):
    """A block that adds to what it starts from."""
    return f"""tir.block [i: 4] ins({left}[i] : tensor<4xf32>) outs({right}[i] : tensor<4xf32>) {{
    ^bb0(%x: f32, %y: f32):
      %s = arith.addf %x, %y : f32
      tir.yield %s : f32
    }}"""


UPDATES = f"""
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  %0 = {adds("%a", "%b")}
  %1 = {adds("%a", "%0")}
  %2 = {adds("%1", "%1")}
  %3 = tir.for %i = 0 to 3 serial carry(%c = %2 : tensor<4xf32>) {{
    %4 = {adds("%a", "%c")}
    %5 = {adds("%4", "%b")}
    tir.yield %5 : tensor<4xf32>
  }}
  func.return %3, %0 : tensor<4xf32>, tensor<4xf32>
}}
"""


@pytest.fixture(scope="module")
def main():
    (function,) = parse_module(UPDATES).body.block.ops
    return function


def blocks_of(main):
    return [op for op in main.walk() if isinstance(op, BlockOp)]


def test_what_is_used_again_is_needed(main):
    liveness, (first, second, third, *_) = Liveness(main.body.block), blocks_of(main)
    assert liveness.needed_after(first.results[0], second)  # the function returns it
    assert not liveness.needed_after(second.results[0], third)
    assert not liveness.may_overwrite(second, first.results[0])


def test_what_an_op_also_reads_is_not_overwritten(main):
    liveness, (_, second, third, *_) = Liveness(main.body.block), blocks_of(main)
    assert not liveness.may_overwrite(third, second.results[0])
    assert liveness.may_overwrite(third, second.results[0], third.outs)


def test_a_loop_needs_what_is_outside_in_each_iteration(main):
    liveness, (*_, third, fourth, fifth) = Liveness(main.body.block), blocks_of(main)
    a, b = main.body.block.args
    (loop,) = (op for op in main.walk() if isinstance(op, ForOp))
    assert liveness.may_overwrite(loop, third.results[0])
    assert liveness.may_overwrite(fourth, loop.carried[0])
    assert not liveness.may_overwrite(fifth, b)
    assert liveness.needed_after(a, fourth)


def test_a_postponed_op_reads_where_it_runs(main):
    first, second, third, *_ = blocks_of(main)
    a = main.body.block.args[0]
    late = Liveness(main.body.block, postponed={first: third})
    assert not late.needed_after(second.results[0], third)
    assert Liveness(main.body.block).needed_after(a, second)  # by the loop
    assert late.needed_after(first.outs[0], second)


def test_starts_of_blocks(main):
    first = blocks_of(main)[0]
    a, b = main.body.block.args
    assert [starts_block(use) for use in b.uses if use.operation is first] == [True]
    assert not any(starts_block(use) for use in a.uses)


BUFFERS = """
func.func @main(%a: memref<4xi8>) {
  %0 = tir.alloc : memref<4xi8>
  %1 = tir.alloc : memref<4xi8>
  %2 = tir.alloc : memref<4xi8>
  tir.copy %a to %0 sizes [4] : memref<4xi8> to memref<4xi8>
  tir.for %i = 0 to 2 serial {
    %3 = tir.alloc : memref<4xi8>
    tir.copy %0 to %3 sizes [4] : memref<4xi8> to memref<4xi8>
    tir.copy %3 to %1 sizes [4] : memref<4xi8> to memref<4xi8>
  }
  tir.copy %1 to %a sizes [4] : memref<4xi8> to memref<4xi8>
  func.return
}
"""


def test_last_uses_of_buffers():
    (function,) = parse_module(BUFFERS).body.block.ops
    block = function.body.block
    a, b, unused = (op for op in block.ops if isinstance(op, AllocOp))
    (loop,) = (op for op in block.ops if isinstance(op, ForOp))
    last = [op for op in block.ops if isinstance(op, CopyOp)][-1]
    assert last_uses(block) == {loop: [a], last: [b], unused: [unused]}
    (inner,) = (op for op in loop.body.block.ops if isinstance(op, AllocOp))
    (out,) = (op for op in loop.body.block.ops if getattr(op, "source", None) is inner.result)
    assert last_uses(loop.body.block) == {out: [inner]}


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_values_are_handed_on_as_if_at_once(sources):
    """Place i takes what place sources[i] holds; places past the targets are only read."""
    places = [f"place {i}" for i in range(8)]
    memory = {place: f"held in {place}" for place in places}
    expected = [memory[places[i]] for i in sources]
    saved = []

    def move(source, target):
        memory[target] = memory[source]

    def save(source):
        saved.append(source)
        made = f"copy {len(saved)}"
        move(source, made)
        return made

    targets = places[: len(sources)]
    hand_on([places[i] for i in sources], targets, save, move)
    assert [memory[target] for target in targets] == expected
    assert set(saved) <= {target for i, target in enumerate(targets) if sources[i] != i}
