"""Chooses scales of activations and weights as a target wants them, from the ranges that a net
shows.

Arrays that ops only move (reshapes, max pools) share their scale already. A target that adds
without multiplying wants one scale for both terms of a sum: the larger one. One that only shifts
wants `scale(x) * scale(w) / scale(y)` to be a power of two: weights get
`scale(y) / scale(x) * 2^-k` with the largest k that still holds them, so that they lose up to one
bit and activations none; and the scales of sums and their terms are `m * 2^j` with one m for all
that sums connect.

    0.11, 0.13 -> 0.13 (terms);  sum 0.15 -> 0.26 (0.13 * 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, frexp, log2
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from byocir.patterns.policy import Quantisation

SUMS = ("Add", "Sub", "Sum", "Concat")
"""Operators whose terms a target wants in one scale."""
CONTRACTIONS = ("Conv", "Gemm", "MatMul")
"""Operators whose second input is weights."""
OF_OUTPUT = "_QuantizeLinear_Input"
"""The end that the quantiser appends to the name of an output of the model."""
GREATEST = 127
"""The greatest magnitude of a signed byte that is taken for both signs."""


@dataclass(frozen=True)
class Range:
    """Holds the least and the greatest number of an array; 0 lies between them."""

    least: float
    greatest: float

    def joined(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.greatest, other.greatest))

    @property
    def scale(self) -> float:
        """Gives the step with which signed bytes without a zero point hold the range."""
        return max(-self.least, self.greatest) / GREATEST or 1.0


class DisjointNames:
    """Keeps names in disjoint sets, each known by one of its names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parents = {name: name for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._parents

    def names(self) -> Sequence[str]:
        return list(self._parents)

    def find(self, name: str) -> str:
        while self._parents[name] != name:
            name = self._parents[name]
        return name

    def join(self, names: Sequence[str]) -> None:
        for name in names[1:]:
            self._parents[self.find(name)] = self.find(names[0])

    def sets(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._parents:
            found.setdefault(self.find(name), []).append(name)
        return found


def ranges_in(quantised: onnx.ModelProto) -> dict[str, tuple[Range, str]]:
    """Reads the range of each activation, and the name of its scale, from a QDQ net of signed
    bytes: arrays with one scale share its name."""
    arrays = {each.name: each for each in quantised.graph.initializer}
    found: dict[str, tuple[Range, str]] = {}
    for node in quantised.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[1] not in arrays:
            continue
        scale = float(numpy_helper.to_array(arrays[node.input[1]]))
        zero = int(numpy_helper.to_array(arrays[node.input[2]]))
        limits = Range((-128 - zero) * scale, (127 - zero) * scale)
        found[node.input[0].removesuffix(OF_OUTPUT)] = limits, node.input[1]
    return found


def chosen(
    model: onnx.ModelProto, ranges: Mapping[str, tuple[Range, str]], form: Quantisation
) -> dict[str, list[dict[str, Any]]]:
    """Gives the scales of a float model by array, in the form of ONNX Runtime's
    `TensorQuantOverrides`; `ranges` are those of the same model as the quantiser writes it by
    default (`ranges_in`)."""
    shared = _shared(model, ranges, form.equal_terms)
    natural = {
        root: float(np.float32(_joined(ranges[n][0] for n in names if n in ranges).scale))
        for root, names in shared.sets().items()
    }
    scales = _in_steps(model, shared, natural) if form.powers_of_two else natural
    found = {
        name: _override(scales[shared.find(name)])
        for name in shared.names()
        # A tensor with another tensor's scale follows that one.
        if name not in ranges or ranges[name][1] == f"{name}_scale"
    }
    if form.powers_of_two:
        found |= _weights(model, shared, scales)
    return found


def _override(scale: float) -> list[dict[str, Any]]:
    return [{"scale": np.array(scale, np.float32), "zero_point": np.array(0, np.int8)}]


def _joined(ranges: Iterable[Range]) -> Range:
    whole = Range(0.0, 0.0)
    for each in ranges:
        whole = whole.joined(each)
    return whole


def _shared(
    model: onnx.ModelProto, ranges: Mapping[str, tuple[Range, str]], equal_terms: bool
) -> DisjointNames:
    """Groups arrays that must have one scale: those to which the quantiser gives one, such as a
    relu's input and output, and terms of a sum.
    """
    dropped = [
        (node.input[0], node.output[0])
        for node in model.graph.node
        if node.op_type in ("Relu", "Clip")
        and (node.input[0] in ranges) != (node.output[0] in ranges)
    ]
    shared = DisjointNames({**ranges, **{name: None for pair in dropped for name in pair}})
    by_scale: dict[str, list[str]] = {}
    for name, (_, scale) in ranges.items():
        by_scale.setdefault(scale, []).append(name)
    for names in by_scale.values():
        shared.join(names)
    for pair in dropped:  # the quantiser dropped these and gave one tensor the range of both
        shared.join(pair)
    if equal_terms:
        for terms, _ in _sums(model, shared):
            shared.join(terms)
    return shared


def _sums(model: onnx.ModelProto, shared: DisjointNames) -> Iterator[tuple[list[str], str]]:
    """Yields the terms and the result of each sum of activations."""
    for node in model.graph.node:
        if node.op_type in SUMS and all(name in shared for name in (*node.input, *node.output)):
            yield list(node.input), node.output[0]


def _in_steps(
    model: onnx.ModelProto, shared: DisjointNames, natural: Mapping[str, float]
) -> dict[str, float]:
    """Rounds the scales that sums connect up to `m * 2^j`, with the m in [1, 2) that loses least:
    0.11, 0.15 -> 0.15 * 2^0, 0.15 * 2^0."""
    connected = DisjointNames(natural)
    for terms, result in _sums(model, shared):
        connected.join([shared.find(name) for name in (*terms, result)])
    found = dict(natural)
    for roots in connected.sets().values():
        if len(roots) < 2:
            continue
        bases = [2 * frexp(natural[root])[0] for root in roots]

        def lost(base: float, roots: Sequence[str] = roots) -> float:
            return sum(log2(_up(natural[root], base) / natural[root]) for root in roots)

        best = min(bases, key=lost)
        found |= {root: _up(natural[root], best) for root in roots}
    return found


def _up(scale: float, base: float) -> float:
    """Gives the least `base * 2^j` that is not below a scale, up to an error of floats."""
    return base * 2.0 ** ceil(log2(scale / base) - 1e-6)


def _weights(
    model: onnx.ModelProto, shared: DisjointNames, scales: Mapping[str, float]
) -> dict[str, list[dict[str, Any]]]:
    """Chooses scales of weights that make each contraction's step a power of two. Weights of
    several contractions keep their own unless all agree.
    """
    arrays = {each.name: each for each in model.graph.initializer}
    found: dict[str, set[float]] = {}
    for node in model.graph.node:
        if node.op_type not in CONTRACTIONS or node.input[1] not in arrays:
            continue
        x, w, y = node.input[0], node.input[1], node.output[0]
        if x not in shared or y not in shared:
            continue
        greatest = float(np.abs(numpy_helper.to_array(arrays[w])).max(initial=0.0)) / GREATEST
        if greatest > 0:
            step = scales[shared.find(y)] / scales[shared.find(x)]
            found.setdefault(w, set()).add(step * 2.0 ** -floor(log2(step / greatest) + 1e-6))
    return {name: _override(next(iter(each))) for name, each in found.items() if len(each) == 1}
