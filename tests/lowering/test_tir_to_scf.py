"""bufferize and convert-tir-to-scf: the same numbers at each step, and in upstream MLIR."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from family_checks import check_few, each_family, lowered
from graph_families import FAMILIES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mlir_tools import lower, mismatches
from pass_checks import LOOPS, run_on, same
from schedule_requests import REQUESTS, granted, tile
from test_vta_tile import conv_net
from vta_programs import apply

from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import AllocOp, CopyOp, ExternOp, ForOp, LoopKind, scope_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass
from byocir.lowering.tir_to_vta.stage import VtaStagePass
from byocir.lowering.tir_to_vta.tile import VtaTilePass
from byocir.rewrites.schedule import Schedule
from byocir.testing.buffers import buffer_programs


@pytest.mark.hypothesis
@each_family
def test_every_step_keeps_every_bit(cases):
    def check(module, arrays, expected):
        for step in LOOPS.split(","):
            run_on(module, step)
            same(evaluate_function(module, "main", arrays), expected)
        again = parse_module(print_module(module))
        same(evaluate_function(again, "main", arrays), expected)

    check_few(cases, check)


@pytest.mark.hypothesis
def test_upstream_tools_lower_and_run_it():
    found = []
    for cases in FAMILIES:

        @settings(
            max_examples=max(1, settings.default.max_examples // 50),
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(cases())
        def collect(case):
            module = lowered(case)
            is_half = any(a.dtype.itemsize == 2 and a.dtype.kind == "f" for a in case.arrays)
            if is_half or any(isinstance(op, ExternOp) for op in module.walk()):
                return  # the JIT lacks these functions
            found.append((module, case.arrays, evaluate_function(module, "main", case.arrays)))

        collect()
    assert len(found) > 20
    assert mismatches(found) == 0


@pytest.mark.hypothesis
def test_upstream_tools_run_what_is_scheduled():
    """Parallel, unrolled and vectorised loops among others, in any order."""
    found, kinds = [], Counter()

    @settings(
        max_examples=settings.default.max_examples // 2,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(
        buffer_programs(),
        st.lists(st.sampled_from(REQUESTS), max_size=3),
        st.data(),
    )
    def collect(program, asked, data):
        expected = program.run()
        for ask in [tile, *asked]:
            granted(program, ask, data.draw)
        schedule = Schedule(program.function)
        make = (schedule.parallel, schedule.unroll, schedule.vectorise, None)[len(found) % 4]
        for loop in [op for op in program.module.walk() if isinstance(op, ForOp) and make]:
            with suppress(ByocirError):  # iterations that wait for each other stay in order
                make(loop)
        kinds.update(op.kind.data for op in program.module.walk() if isinstance(op, ForOp))
        found.append((program.module, program.inputs()[:-1], [expected]))

    collect()
    assert min(kinds[kind] for kind in LoopKind if kind is not LoopKind.VTHREAD) > 1, kinds
    assert mismatches(found) == 0


SPECIAL = """
func.func public @main() -> (tensor<3xf32>, tensor<2xi1>, tensor<2xf16>, tensor<1xui8>) {
  %a = tir.constant <[inf, nan, 1.5] : tensor<3xf32>> : tensor<3xf32>
  %b = tir.constant <[1, 0] : tensor<2xi1>> : tensor<2xi1>
  %c = tir.constant <[-inf, 0.5] : tensor<2xf16>> : tensor<2xf16>
  %d = tir.constant <[200] : tensor<1xui8>> : tensor<1xui8>
  func.return %a, %b, %c, %d : tensor<3xf32>, tensor<2xi1>, tensor<2xf16>, tensor<1xui8>
}"""


def test_constants_that_dense_text_does_not_keep():
    module = parse_module(SPECIAL)
    expected = evaluate_function(module, "main", [])
    again = parse_module(print_module(run_on(module, LOOPS)))
    same(evaluate_function(again, "main", []), expected)
    assert mismatches([(parse_module(SPECIAL), [], expected)]) == 0


CALLS = """
func.func private @elsewhere(tensor<2xi8>) -> tensor<2xi8>
func.func @inner(%x: tensor<2xi8>) -> tensor<2xi8> {
  %y = byoc.composite "a.b" at "tensor" (%a = %x : tensor<2xi8>) -> tensor<2xi8> {
    %e = tir.empty : tensor<2xi8>
    %r = tir.block [i: 2] ins(%a[i] : tensor<2xi8>) outs(%e[i] : tensor<2xi8>) {
    ^bb0(%s: i8, %d: i8):
      %t = arith.addi %s, %s : i8
      tir.yield %t : i8
    }
    byoc.yield %r : tensor<2xi8>
  }
  func.return %y : tensor<2xi8>
}
func.func public @main(%x: tensor<2xi8> {byoc.name = "x"}) -> (
    tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) {
  %0 = byoc.call @inner(%x) : (tensor<2xi8>) -> tensor<2xi8>
  %1 = func.call @inner(%0) : (tensor<2xi8>) -> tensor<2xi8>
  func.return %1, %1, %x : tensor<2xi8>, tensor<2xi8>, tensor<2xi8>
}"""


def test_calls_and_results_that_are_inputs_or_come_up_twice():
    module = parse_module(CALLS)
    x = np.array([3, -4], np.int8)
    expected = evaluate_function(module, "main", [x])
    text = print_module(run_on(module, LOOPS))
    assert "byoc" not in text
    assert "func.func private @elsewhere(memref<2xi8>, memref<2xi8>)" in text
    assert "func.call @inner(%x, " in text
    same(evaluate_function(parse_module(text), "main", [x]), expected)
    lower(text)


UPDATES = """
func.func public @main(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {{
  %z = tir.fill 1 : i32 : tensor<4xi32>
  %0 = {add} ins(%x[i] : tensor<4xi32>) outs(%z[i] : tensor<4xi32>) {body}
  %1 = {add} ins(%0[3 - i] : tensor<4xi32>) outs(%0[i] : tensor<4xi32>) {body}
  %2 = {add} ins(%z[i] : tensor<4xi32>) outs(%0[i] : tensor<4xi32>) {body}
  %3 = {add} ins(%z[i] : tensor<4xi32>) outs(%x[i] : tensor<4xi32>) {body}
  func.return %1, %2, %3 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}}""".format(
    add="tir.block [i: 4]",
    body="""{
  ^bb0(%s: i32, %d: i32):
    %r = arith.addi %s, %d : i32
    tir.yield %r : i32
  }""",
)


def test_what_is_read_again_is_not_updated_in_place():
    module = parse_module(UPDATES)
    x = np.arange(4, dtype=np.int32)
    expected = evaluate_function(module, "main", [x])
    module = run_on(module, "bufferize")
    same(evaluate_function(module, "main", [x]), expected)
    # %0 is read by %2, which is its last use and works in place; %1 and %3 need copies.
    assert sum(isinstance(op, CopyOp) for op in module.walk()) == 2


def test_what_has_no_form_is_told():
    text = """func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = graph.relu %x : (tensor<2xf32>) -> tensor<2xf32> loc("Relu_3")
      func.return %0 : tensor<2xf32>
    }"""
    with pytest.raises(ByocirError, match=r"B340.*expected blocks.*graph.relu\n.*Relu_3"):
        run_on(parse_module(text), "bufferize")
    with pytest.raises(ByocirError, match=r"B341.*graph.relu"):
        run_on(parse_module(text), "convert-tir-to-scf")
    loop = """func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = tir.for %i = 0 to 3 serial carry(%c = %x : tensor<2xf32>) {
        tir.yield %c : tensor<2xf32>
      } loc("RNN_1")
      func.return %y : tensor<2xf32>
    }"""
    with pytest.raises(ByocirError, match=r"B341.*tir.for\n.*RNN_1\n.*bufferize before"):
        run_on(parse_module(loop), "convert-tir-to-scf")
    passed_on = """func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      func.return %x : tensor<?xf32>
    }"""
    with pytest.raises(ByocirError, match=r"B340.*static shape.*arg0"):
        run_on(parse_module(passed_on), "bufferize")


def test_staged_programs_of_vta_with_scopes_and_copies():
    module = conv_net(16, 16, 2, 2, 1, 1)
    image = np.random.default_rng(0).integers(-100, 100, (1, 16, 2, 2)).astype(np.int8)
    apply(module, VtaLegalisePass, VtaPackPass, VtaBufferizePass, VtaTilePass, VtaStagePass)
    expected = evaluate_function(module, "main", [image])
    assert any(scope_of(op.result.type) for op in module.walk() if isinstance(op, AllocOp))
    run_on(module, LOOPS)
    same(evaluate_function(module, "main", [image]), expected)
    lower(print_module(module))
