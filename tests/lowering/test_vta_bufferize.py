"""vta-bufferize: the same results, on memory."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import Net, Scale, apply, assert_same, evaluate
from xdsl.dialects.builtin import ModuleOp, TensorType

from byocir.dialects.byoc import composites_in
from byocir.dialects.tir import AllocOp, BlockOp, FillOp
from byocir.dialects.types import i32
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass

PASSES = (VtaLegalisePass, VtaPackPass, VtaBufferizePass)


def assert_on_memory(module: ModuleOp) -> None:
    for function in vta_functions(module):
        for op in function.walk():
            assert not any(isinstance(v.type, TensorType) for v in [*op.operands, *op.results])
        assert not function.function_type.outputs.data


def test_a_chain_works_in_place() -> None:
    net = Net((1, 4))
    scale = Scale(np.array(1, np.int32), 6)
    result = net.composite(
        "Dense_0",
        net.inputs,
        lambda body, x: body.requantise(body.dense(x, np.ones((4, 3), np.int8)), scale),
    )
    module = apply(net.module(result), *PASSES)
    (composite,) = [c for f in vta_functions(module) for c in composites_in(f)]
    (alloc,) = [op for op in composite.walk() if isinstance(op, AllocOp)]
    *steps, narrowing = [op for op in composite.walk() if isinstance(op, BlockOp)]
    assert all(op.outs[0] is alloc.result for op in steps)
    assert narrowing.outs[0] is composite.body.block.args[1]


def test_what_is_needed_again_is_copied() -> None:
    net = Net((1, 4))

    def make(body, x):
        wide = body.elementwise([x], lambda a: a.to(i32))
        square = body.elementwise([wide], lambda a: a * a)
        total = body.elementwise([square, wide], lambda a, b: (a + 5) * b + a)
        return body.requantise(total, Scale(np.array(3, np.int32), 14))

    module = net.module(net.composite("Chain_0", net.inputs, make))
    inputs = [np.array([[-128, 127, -3, 5]], np.int8)]
    expected = evaluate(module, inputs)
    apply(module, *PASSES)
    (function,) = vta_functions(module)
    copies = [op for op in function.walk() if isinstance(op, FillOp)]
    assert len(copies) == 2  # of the input, and of its square
    assert_same(evaluate(module, inputs), expected)


def test_values_between_composites_are_in_main_memory() -> None:
    net = Net((1, 4))
    first = net.composite("Relu_0", net.inputs, lambda body, x: body.relu(x))
    second = net.composite("Clip_1", [first], lambda body, x: body.clip(x, 1, 9))
    module = apply(net.module(second, first), *PASSES)
    (function,) = vta_functions(module)
    assert len(function.function_type.inputs.data) == 3
    assert not [op for op in function.body.block.ops if isinstance(op, AllocOp)]
    inputs = [np.array([[-128, 127, -3, 5]], np.int8)]
    found = evaluate(module, inputs)
    np.testing.assert_array_equal(found[0], [[1, 9, 1, 5]])
    np.testing.assert_array_equal(found[1], [[0, 127, 0, 5]])


def test_refuses_an_argument_as_a_result() -> None:
    net = Net((1, 4))
    net.composite("Relu_0", net.inputs, lambda body, x: body.relu(x))
    module = apply(net.module(net.inputs[0]), VtaLegalisePass, VtaPackPass)
    with pytest.raises(ByocirError, match="B325"):
        VtaBufferizePass().apply(None, module)


def test_refuses_a_result_twice() -> None:
    net = Net((1, 4))
    value = net.composite("Relu_0", net.inputs, lambda body, x: body.relu(x))
    module = apply(net.module(value, value), VtaLegalisePass, VtaPackPass)
    with pytest.raises(ByocirError, match="B325"):
        VtaBufferizePass().apply(None, module)
