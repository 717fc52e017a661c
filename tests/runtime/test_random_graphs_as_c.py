"""Random graphs as C alone agree with ONNX Runtime: 200 here, more with HYPOTHESIS_PROFILE=fuzz.

`RANDOM_GRAPHS=first:count` says which: a graph is told by its number.
"""

import os

import numpy as np
import pytest
from c_compilers import VECTOR
from random_graphs import model_of, outputs_of, random_graph

import byocir
from byocir.lowering.tir_to_c.host import CHost
from byocir.runtime import native

QUICK = ("-std=c99", "-O0", "-ffp-contract=off", "-lm")
BATCH = 50
"""Graphs of one C source."""
VECTORISED = 4
"""One batch in this many is for a processor with vectors, and optimised as packages are."""

IS_FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
FIRST, COUNT = map(
    int, os.environ.get("RANDOM_GRAPHS", f"0:{5000 if IS_FUZZING else 200}").split(":")
)


@pytest.mark.parametrize("start", range(FIRST, FIRST + COUNT, BATCH))
def test_random_graphs(start, monkeypatch):
    host = CHost(VECTOR if (start // BATCH) % VECTORISED == 1 else "generic")
    flags = QUICK if host.cpu == "generic" else native.FLAGS
    monkeypatch.setattr(native, "FLAGS", flags)
    monkeypatch.setattr(native, "rule_of", called_back)
    count = min(BATCH, FIRST + COUNT - start)
    graphs = [random_graph(seed, f"g{seed}_") for seed in range(start, start + count)]
    graphs = [g for g in graphs if g.nodes]
    assert len(graphs) > 0.9 * count
    package = byocir.compile(model_of(graphs), targets=[], host=f"c{{cpu={host.cpu}}}")
    assert package.report.host_runs_on == "c", package.report.notes
    feeds = {value.name: value.array for g in graphs for value in g.inputs if value.name in g.used}
    found = package.run(feeds)
    for g in graphs:
        largest = max(float(np.abs(v.array.astype(np.float64)).max(initial=0)) for v in g.values)
        for value in outputs_of(g):
            check(found[value.name], value, largest)


def called_back(op):
    raise AssertionError(op.name)


def check(found, value, largest):
    """Exact values bit for bit; others by their spread, and by the numbers they came from."""
    assert (found.dtype, found.shape) == (value.array.dtype, value.array.shape), value.name
    expected, found = value.array.astype(np.float64), found.astype(np.float64)
    if value.exact:
        np.testing.assert_array_equal(found, expected, err_msg=value.name)
        return
    tolerance = 1e-4 * float(np.ptp(expected)) + 1e-6 * largest
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=tolerance, err_msg=value.name)
