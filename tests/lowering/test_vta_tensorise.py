"""What VTA cannot do is said in one sentence, with the node."""

from __future__ import annotations

import pytest
from vta_staged import Conv, Text, activation, function, memref, parse

from byocir.dialects.context import load_context
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.tensorise import VtaTensorisePass

SHAPE = (1, 2, 2)


def tensorise(body: Text) -> None:
    """Lowers one composite with this body, from %in to %out of [1, 1, 2, 2, 16]."""
    type_ = activation(SHAPE)
    attributes = '{byoc.target = #byoc.target<"vta", {}>}'
    text = [
        f"func.func @vta_0(%arg: {type_}, %res: {type_}) attributes {attributes} {{",
        f'byoc.composite "vta.x" at "tensor" (%in = %arg : {type_}, %out = %res : {type_}) {{',
        *body.lines,
        'byoc.yield } loc("Node_7")',
        "func.return }",
    ]
    VtaTensorisePass().apply(load_context(), parse("\n".join(text)))


def refused(body: Text, message: str) -> None:
    with pytest.raises(ByocirError) as error:
        tensorise(body)
    assert message in error.value.render()
    assert "at    node Node_7, composite vta.x, function @vta_0" in error.value.render()


def test_tiles_larger_than_a_scratchpad() -> None:
    layer = Conv((1, 50, 50), 1, (1, 1), 1, 0, 1, (1, 50, 1), ())
    with pytest.raises(ByocirError, match=r"B331.*expected vta.inp to hold .*found 2500"):
        VtaTensorisePass().apply(load_context(), parse(function([layer])))


def test_a_number_larger_than_an_immediate() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    body.alu("addi", acc, SHAPE, number=32768)
    refused(body, "error[B334]: expected a constant that fits 16 bits, found 32768")


def test_a_shift_that_is_no_shift() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    body.alu("shrsi", acc, SHAPE, number=32)
    refused(body, "error[B334]: expected a shift by 0 to 31, found 32")


def test_a_fill_with_too_many_bits() -> None:
    body = Text()
    name, type_ = body.alloc(1, *SHAPE, 16)
    body.add(f"tir.fill 65537 : i32 into {name} : {type_}")
    refused(body, "error[B334]: expected a fill with 16 bits shifted left, found 65537")


def test_a_pad_other_than_zero() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    zero, base = body.index(0), body.index(-1)
    body.copy(
        ("%in", activation(SHAPE)),
        acc,
        (1, *SHAPE, 16),
        (zero, zero, base, zero, zero),
        pad="pad -128 : i8",
    )
    refused(body, "error[B332]: expected a pad of 0, found -128 : i8")


def test_a_copy_that_leaves_its_array() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    zero, base = body.index(0), body.index(1)
    bases = (zero, zero, base, zero, zero)
    body.copy(("%in", activation(SHAPE)), acc, (1, *SHAPE, 16), bases)
    refused(body, "error[B332]: expected a copy without pad to stay inside [1, 1, 2, 2], found")


def test_part_of_an_element() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    body.copy(("%in", activation(SHAPE)), acc, (1, *SHAPE, 8))
    refused(body, "error[B332]: expected innermost dimensions [16], moved as a whole, found a copy")


def test_a_copy_that_no_instruction_makes() -> None:
    body = Text()
    inp = body.alloc(1, *SHAPE, 16, element="i8", scope="vta.inp")
    body.copy(inp, ("%out", activation(SHAPE)), (1, *SHAPE, 16))
    refused(body, "error[B332]: expected a load into vta.inp, vta.wgt or vta.acc or a store of")


def test_an_operation_that_the_alu_has_not() -> None:
    body = Text()
    acc = body.alloc(1, *SHAPE, 16)
    body.alu("subi", acc, SHAPE, number=1)
    refused(body, "error[B333]: expected a multiply-accumulate or one ALU operation on the dest")


def test_lanes_that_do_not_agree() -> None:
    body = Text()
    acc, other = body.alloc(1, *SHAPE, 16), body.alloc(16, 16)
    body.alu("addi", acc, SHAPE, other, "l, 15 - l")
    refused(body, "error[B333]: expected an iterator over all lanes of an element")


def test_an_op_that_is_no_part_of_staged_loops() -> None:
    body = Text()
    body.add(f"%m = tir.alloc : {memref(4, 16, scope='host.cache')}")
    refused(body, "error[B335]: expected a buffer in vta.inp, vta.wgt, vta.acc, found host.cache")
    body = Text()
    body.add("%z = arith.constant 1 : index")
    body.add("%m = arith.divsi %z, %z : index")
    refused(body, "error[B335]: expected staged loops, copies, fills and blocks, found arith.divsi")
