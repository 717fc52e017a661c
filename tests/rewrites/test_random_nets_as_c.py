"""Random quantised nets through all rewrites and passes, as C."""

from dataclasses import replace

import numpy as np
import pytest
from c_compilers import VECTOR, flags_for
from hypothesis import given, settings
from hypothesis import strategies as st
from random_qdq_nets import nets

from byocir.compiler import host_pipeline
from byocir.dialects.context import load_context
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.pipeline import parse_pipeline, run_passes
from byocir.runtime.native import HostProgram
from byocir.targets.hand_off_passes import GRAPH_REWRITES
from byocir.toolchain.cpu import CPUS

QUICK = ("-std=c99", "-O1", "-ffp-contract=off", "-lm")


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@given(nets(), st.sampled_from(sorted(CPUS)))
def test_c_gives_the_integers_of_the_evaluator(net, cpu):
    module, host = net.module.clone(), CHost(cpu)
    expected = evaluate_function(module, "main", net.inputs)
    pipeline = f"{GRAPH_REWRITES},convert-graph-to-tir,{host_pipeline(host)}"
    run_passes(module, load_context(), parse_pipeline(pipeline))
    function = Interpreter(module).function("main")
    code = emit_host(function, host=host)
    # Any machine can run code for another processor, if the C compiler may choose instructions.
    flags = flags_for(host) if cpu == VECTOR else QUICK
    program = HostProgram(replace(code, host=CHost("generic")), Interpreter(module), flags)
    found = program.run(net.inputs)
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(left, right)
