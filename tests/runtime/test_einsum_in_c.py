"""Einsum as C: in process, and in an exported project on its own."""

import numpy as np
import pytest
from host_models import model_of
from onnx import helper
from projects import check, tools_alone

import byocir
from byocir.evaluate.module import random_feeds

PRODUCTS = {
    "scores": ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    "mixed": ("abc,cda->bd", (2, 3, 4), (4, 5, 2)),
    "diagonal": ("iij,jk->ki", (3, 3, 4), (4, 2)),
    "outer": ("...i,j->j...i", (2, 1, 3), (4,)),
    "alone": ("abz,yb->a", (2, 3, 4), (5, 3)),
}
"""By the name of the result: an equation and the shapes of two operands."""


@pytest.fixture(scope="module")
def package():
    nodes, inputs = [], {}
    for name, (equation, *shapes) in PRODUCTS.items():
        names = [f"{name}_{index}" for index in range(len(shapes))]
        inputs |= dict(zip(names, shapes, strict=True))
        nodes.append(helper.make_node("Einsum", names, [name], equation=equation))
    return byocir.compile(
        model_of(nodes, inputs, list(PRODUCTS)), targets=[], host="c{cpu=generic}"
    )


def test_it_runs_in_c(package):
    assert package.report.host_runs_on == "c", package.report.notes
    feeds = random_feeds(package.module, 7)
    found = package.run(feeds)
    for name, (equation, *_) in PRODUCTS.items():
        expected = np.einsum(equation, feeds[f"{name}_0"], feeds[f"{name}_1"])
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5)


def test_it_is_exported(package, tmp_path):
    check(package, tmp_path / "project", tools_alone(tmp_path))
