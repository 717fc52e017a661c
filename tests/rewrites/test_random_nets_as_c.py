"""Random quantised nets through all rewrites and passes, as C."""

import numpy as np
import pytest
from hypothesis import given, settings
from random_qdq_nets import nets

from byocir.compiler import FOR_C, GRAPH_REWRITES
from byocir.dialects.context import load_context
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.pipeline import parse_pipeline, run_passes
from byocir.runtime.native import HostProgram, host_code

QUICK = ("-std=c99", "-O1", "-ffp-contract=off", "-lm")


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@given(nets())
def test_c_gives_the_integers_of_the_evaluator(net):
    module = net.module.clone()
    expected = evaluate_function(module, "main", net.inputs)
    pipeline = f"{GRAPH_REWRITES},convert-graph-to-tir,{FOR_C}"
    run_passes(module, load_context(), parse_pipeline(pipeline))
    program = HostProgram(host_code(module), Interpreter(module), QUICK)
    found = program.run(Interpreter(module).function("main"), net.inputs)
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(left, right)
