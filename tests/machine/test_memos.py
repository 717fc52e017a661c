"""What machines remember is what they would find, and no more than they say."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.memos import Memo
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.machine import Machine
from byocir.machine.block_keys import BlockKeys

BLOCKS = """
func.func @f(%x: memref<8x4xi8>, %y: memref<8x4xi8>, %near: memref<8x4xi8, "m.near">) {{
  {first}
  {second}
  func.return
}}
"""
BLOCK = """tir.block [{i}: {extent}{kind}] ins(%x[{i}{start}, {lane}]{pad} : memref<8x4xi8>)
      outs(%{out}[{i}, 0] : memref<8x4xi8{scope}>) {{
  ^bb0(%a: i8, %b: i8):
    %c = arith.{op} %a, %b : i8
    tir.yield %c : i8
  }}"""
PLAIN = dict(i="i", extent=4, kind="", start="", lane=0, out="y", scope="", op="addi", pad="")


@given(st.lists(st.integers(0, 12)), st.integers(1, 4))
def test_values_are_found_once_while_they_are_asked_for_and_few_are_kept(keys, most):
    memo, found = Memo[int, int](most), list[int]()

    def find(key: int) -> int:
        found.append(key)
        return key * key

    for at, key in enumerate(keys):
        before = len(found)
        assert memo.of(key, lambda key=key: find(key)) == key * key
        if key in keys[max(0, at - most) : at]:
            assert len(found) == before
        assert len(memo) <= 2 * most


def test_machines_forget_what_nobody_asks_for_again():
    machine = Machine("m")
    machine._answers = Memo(2)
    assert [machine.answer(("double", n), lambda n=n: 2 * n) for n in range(9)] == [
        *range(0, 18, 2)
    ]
    assert len(machine._answers) <= 4
    assert machine.turns


def blocks(**changes: object) -> Iterator[BlockOp]:
    texts = [BLOCK.format(**{**PLAIN, **each}) for each in ({}, changes)]
    module = parse_module(BLOCKS.format(first=texts[0], second=texts[1]))
    return (op for op in module.walk() if isinstance(op, BlockOp))


def test_blocks_have_the_number_of_what_decides_about_them():
    keys = BlockKeys()
    alike = {
        "start": (" + 4", True, True),
        "i": ("j", True, True),
        "extent": (3, True, False),
        "op": ("subi", False, False),
        "lane": ("i", False, False),
    }
    for name, (value, same_pattern, same_block) in alike.items():
        one, other = blocks(**{name: value})
        assert (keys.pattern(one) == keys.pattern(other)) == same_pattern, name
        assert (keys.block(one) == keys.block(other)) == same_block, name
    one, other = blocks(out="near", scope=', "m.near"')
    assert keys.pattern(one) != keys.pattern(other)
    one, other = blocks()
    other.body.block.first_op.operands = other.body.block.first_op.operands[::-1]
    assert keys.body(one.body.block) != keys.body(other.body.block)


def test_padded_blocks_are_told_apart_by_how_far_they_lead_out_of_arrays():
    keys, numbers = BlockKeys(), dict[str, set[int]]()
    for start in range(-2, 7):
        at = f" {start:+}".replace("+", "+ ").replace("-", "- ") if start else ""
        _, block = blocks(start=at, pad=" pad 0 : i8")
        beyond = f"{max(-start, 0)} in front, {max(start - 4, 0)} behind"
        numbers.setdefault(beyond, set()).add(keys.block(block))
    assert [len(each) for each in numbers.values()] == [1] * 5
    assert len({number for each in numbers.values() for number in each}) == 5
