"""Verifies a run (`byocir run --verify`): compares the outputs with those that the model means.

It gives two answers, since two things can go wrong. The compiled model must agree with the
evaluator on the module before any hand-off, where the numbers of a quantised model are settled;
this shows that offloading, lowering and code generation changed nothing. And the model itself must
be near ONNX Runtime, unless it is not installed, or lacks an operator that a target brings.

If it is not near, and every node that ONNX Runtime computes otherwise is in the table of
differences, a note names the rows. If there are no such nodes, a model of floats amplifies how they
round, or how a target rounds what it multiplies, and a quantised one, whose requantisation may
differ by single steps from a target's fixed point, is followed op by op, as it may amplify these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.cli.arguments import Shapes
from byocir.cli.differing import ByNode, compared_by_node
from byocir.cli.guard import CHECK_FAILED, OK
from byocir.cli.reference import distances, rounds_coarsely, run_onnxruntime
from byocir.dialects.context import load_context
from byocir.dialects.graph.fixed_point import FLOAT_SCALES
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.evaluate.rounding_steps import BEFORE_INTEGERS, StepCounts, count_steps
from byocir.patterns.targets import targets_of
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.golden import distance, exact
from byocir.targets.base import target_of
from byocir.targets.hand_off_passes import meaning_pipeline
from byocir.targets.resolve_targets import operators_of
from byocir.vendor.hooks import ask

MOST_MOVED = 0.01
"""The share of quantised values that fixed point may move by a step, each given the same inputs."""
MOST_MOVED_BY_TERMS = 0.05
"""The same where terms of sums are rounded, too: those that are scaled by f32 as they come in."""
MOST_AMPLIFIED = 2.0
"""Bounds how far an output may be from ONNX Runtime where the model is far from it without fixed
point, too, though no node differs by itself: so many times as far as there."""

Arrays = Mapping[str, np.ndarray]


def verify(
    model: Path, shapes: Shapes, targets: Sequence[str], feeds: Arrays, outputs: Arrays
) -> tuple[list[str], int]:
    """Compares outputs with the evaluator's and ONNX Runtime's; gives lines to print, and the exit
    code.
    """
    module = byocir.import_onnx(model, shapes=shapes, targets=targets)
    run_passes(module, load_context(), meaning_pipeline(module, targets))
    coarse = rounds_coarsely(module)
    meant = evaluate(module, feeds)
    runtime, lines = _runtime(model, targets, feeds)
    ways, halves = (
        [ask(target_of(attribute), name) for attribute in targets_of(module)]
        for name in ("fixed_point", "rounds_operands")
    )
    most = MOST_MOVED_BY_TERMS if any(way in FLOAT_SCALES for way in ways) else MOST_MOVED
    apart = _Apart(model, shapes, module, feeds, coarse, most, max(halves, default=""))
    code = OK
    for name, array in outputs.items():
        holds, text = exact(array, meant[name], "the evaluator")
        lines.append(f"{'ok  ' if holds else 'FAIL'} {name}: {text}")
        code = code if holds else CHECK_FAILED
        if name not in runtime:
            continue
        holds, text = _near(array, runtime[name], coarse)
        word, why = ("ok", "") if holds else apart.verdict(name, array, runtime[name])
        lines.append(f"{word:<4} {name}: {text}{why}")
        code = CHECK_FAILED if word == "FAIL" else code
    return lines, code


def _runtime(model: Path, targets: Sequence[str], feeds: Arrays) -> tuple[Arrays, list[str]]:
    """Gives ONNX Runtime's outputs; none, and a note, without it or where it lacks operators that
    targets bring.
    """
    try:
        return next(run_onnxruntime(model, [dict(feeds)])), []
    except ByocirError as error:
        own = "as targets bring operators of their own: " if error.code == "B119" else ""
        if error.code != "B118" and not (own and operators_of(targets)):
            raise
        return {}, [f"note not compared with ONNX Runtime, {own}{error.message}"]


@dataclass(frozen=True)
class _Apart:
    """Describes a model some of whose outputs are not near ONNX Runtime's, and finds why."""

    model: Path
    shapes: Shapes
    module: ModuleOp
    feeds: Arrays
    coarse: bool
    most: float
    """The share of quantised values that may be moved by a step."""
    half: str
    """The type to which targets round what is multiplied; empty if they do not."""

    def verdict(self, name: str, array: np.ndarray, reference: np.ndarray) -> tuple[str, str]:
        """Words the verdict on an output, and names the nodes where the difference begins, or says
        what adds up to it.
        """
        by_node = self._by_node
        if by_node.differing:
            at = f"; at {', '.join(map(str, by_node.differing))}"
            return "note" if by_node.is_known else "FAIL", at
        if by_node.amplifies(array, reference, self.coarse):
            return "note", "; no node differs by itself: the model amplifies how floats round"
        if self.half and _near(self._followed.outputs[name], reference, coarse=False)[0]:
            return "note", f"; without rounding what is multiplied to {self.half} it is near"
        told = self._followed.explanation(name, array, reference, by_node.is_whole)
        return ("note", told) if told else ("FAIL", self._followed.steps_told())

    @cached_property
    def _by_node(self) -> ByNode:
        return compared_by_node(self.model, self.feeds)

    @cached_property
    def _followed(self) -> _Followed:
        plain = byocir.import_onnx(self.model, shapes=self.shapes)
        return _Followed.of(plain, self.module, self.feeds, self.most)


@dataclass(frozen=True)
class _Followed:
    """Records the run of a model before any rewrite for targets: its outputs, and how far each op
    of the rewritten model is from its own, given the same inputs.
    """

    outputs: Arrays
    steps: StepCounts
    most: float

    @staticmethod
    def of(plain: ModuleOp, rewritten: ModuleOp, feeds: Arrays, most: float) -> _Followed:
        run_passes(plain, load_context(), BEFORE_INTEGERS)
        found = StepCounts()
        outputs = evaluate(plain, feeds)
        count_steps(plain, rewritten, feeds, found)
        return _Followed(outputs, found, most)

    def explanation(self, name: str, array: np.ndarray, reference: np.ndarray, alike: bool) -> str:
        """Words how a few values that are a single step off keep an output from ONNX Runtime's;
        empty if they do not. Without fixed point the output is near, or, where each node by itself
        is `alike` in ONNX Runtime, at least half as far away.
        """
        steps, plain = self.steps, self.outputs[name]
        few = 0 < steps.moved <= steps.values * self.most and steps.largest <= 1
        if not few or steps.unseen:
            return ""
        found = f"{steps.counted()} one step off, none more"
        if _near(plain, reference, coarse=True)[0]:
            return f"; without fixed point it is near; {found}"
        if not alike or plain.shape != array.shape:
            return ""
        apart, own = (float(distance(each, reference)[0].max()) for each in (array, plain))
        if not apart <= MOST_AMPLIFIED * own < inf:
            return ""
        return f"; no node differs by itself, but without fixed point it is {own:.6g} away; {found}"

    def steps_told(self) -> str:
        """Words how many quantised values are off, which do not explain an output."""
        steps = self.steps
        if not steps.moved:
            return ""
        rounded = f"where a step for {self.most:.0%} is taken for rounding"
        return f"; {steps.counted()} off, by up to {steps.largest}, {rounded}"


def _near(array: np.ndarray, reference: np.ndarray, coarse: bool) -> tuple[bool, str]:
    if array.shape != reference.shape:
        return False, f"ONNX Runtime: shape {reference.shape}, found {array.shape}"
    difference, limit, told = distances(array, reference, coarse)
    largest = float(difference.max(initial=0.0))
    equal = 100 * float((difference == 0).mean()) if array.size else 100.0
    return bool((difference <= limit).all()), (
        f"ONNX Runtime: largest difference {largest:.6g}, {equal:.2f} % equal ({told})"
    )
