"""Adds golden inputs and outputs (`compile --golden`), and checks them (`run --selftest`)."""

from __future__ import annotations

import argparse

from byocir.cli.arguments import read_shapes
from byocir.cli.given_inputs import GivenInputs
from byocir.cli.guard import CHECK_FAILED, OK
from byocir.dialects.context import load_context
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.golden import Golden, exact
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model
from byocir.targets.hand_off_passes import is_handed_over, meaning_pipeline


def add_golden(options: argparse.Namespace, package: Package, inputs: GivenInputs) -> None:
    """Gives a package inputs, drawn or read from a file, and the outputs that the evaluator
    computes from them in the model before any hand-off.
    """
    module = read_model(options.model, shapes=read_shapes(options.shape), targets=options.target)
    if not is_handed_over(module):
        targets = [package.target(each.target_name.data) for each in package.targets]
        run_passes(module, load_context(), meaning_pipeline(module, targets))
    feeds = inputs.feeds(package)
    package.golden = Golden(feeds, evaluate(module, feeds))


def selftest(package: Package) -> int:
    """Runs a package on its golden inputs and prints how its outputs compare; gives the exit code.
    Raises ByocirError B136 for a package without."""
    golden = package.golden
    if golden is None:
        raise ByocirError(
            "B136",
            "expected a package with golden inputs and outputs, found none",
            help="compile it with --golden",
        )
    found, code = package.run(golden.inputs), OK
    for name, meant in golden.outputs.items():
        holds, text = exact(found[name], meant, "the golden output")
        print(f"{'ok  ' if holds else 'FAIL'} {name}: {text}")
        code = code if holds else CHECK_FAILED
    return code
