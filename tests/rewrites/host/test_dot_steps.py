"""What `pack-weights` lays out for an instruction, the C code takes with that instruction."""

from itertools import product

import numpy as np
import pytest
from graph_ops import Case
from pass_checks import run_on

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.dialects.types import i8, i16, ui8
from byocir.evaluate.interpreter import Interpreter
from byocir.lowering.tir_to_c import emit_host
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.host.dot_steps import DotStep, dot_step_of
from byocir.toolchain.cpu import CPUS

BYTES = {"i1": i8, "u1": ui8}


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("kinds", list(product(BYTES, BYTES)), ids=" by ".join)
@pytest.mark.parametrize("depth", [34, 36])
def test_what_is_packed_is_taken(cpu, kinds, depth):
    arrays = [np.ones((9, depth), kinds[0]), np.ones((depth, 37), kinds[1])]
    module = Case(graph.MatmulOp, arrays, constants=[1]).module()
    run_on(module, host_pipeline(CHost(cpu)))
    source = emit_host(Interpreter(module).function("main"), host=CHost(cpu)).source
    step = dot_step_of(BYTES[kinds[1]], BYTES[kinds[0]], CPUS[cpu])
    taken = {n for n, macro in ((2, "PAIRS"), (4, "QUADS")) if f" = {macro}_" in source}
    assert taken == (set() if step is None else {step.count})


@pytest.mark.parametrize(
    ("cpu", "weights", "shared", "step"),
    [
        ("generic", i8, i8, None),
        ("x86-64-v3", i8, ui8, DotStep(2, i16)),
        ("x86-64-v4-vnni", i8, ui8, DotStep(4, i8)),
        ("x86-64-v4-vnni", ui8, i8, DotStep(4, ui8)),
        ("x86-64-v4-vnni", ui8, ui8, DotStep(2, i16)),
        ("x86-64-v4-vnni", i8, i16, None),
    ],
)
def test_steps_by_processor_and_types(cpu, weights, shared, step):
    assert dot_step_of(weights, shared, CPUS[cpu]) == step
