"""Finds the nodes at which ONNX Runtime computes something else, given the same inputs.

Every node is run alone on what ONNX Runtime gave it, so that a difference is found where it begins
and not where it shows. The table of differences then says which of them are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import onnx.inliner
from onnx import helper

from byocir.cli.reference import ROUGH, distances
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import import_onnx
from byocir.frontend.onnx.detached_weights import inner_graphs
from byocir.frontend.onnx.differences import Difference, differences
from byocir.frontend.onnx.names import name_nodes
from byocir.runtime.golden import bounds, distance
from byocir.targets.ort_session import Session
from byocir.vendor.engine import NotComputed

PAGE = "docs/differences.md"

CLOSE = 1e-3
"""The part of the spread by which one node's floats of fewer than 32 bits may differ; others are
held to the bounds of whole models."""

FEW = 64
"""Arrays of so many numbers may be shapes, axes or pads, which import wants to know."""

Values = dict[str, Any]


class Differing(NamedTuple):
    """Describes a node with different results, and the rows of the table of differences that
    explain them; no row where none should differ.
    """

    node: str
    operator: str
    rows: list[Difference]

    def __str__(self) -> str:
        known = ", ".join(row.name for row in self.rows)
        return f"{self.operator} '{self.node}'" + (f" ({known} in {PAGE})" if known else "")


@dataclass
class ByNode:
    """Says which nodes of a model differ, in order, and whether all of them could be compared."""

    differing: list[Differing] = field(default_factory=list[Differing])
    is_whole: bool = True

    @property
    def is_known(self) -> bool:
        """Tells whether nodes differ, and the table of differences explains all of them."""
        return bool(self.differing) and all(each.rows for each in self.differing)

    def amplifies(self, array: np.ndarray, reference: np.ndarray, coarse: bool) -> bool:
        """Tells if rounding alone may keep an output of a model that does not round coarsely from
        ONNX Runtime's: no node differs by itself, and floats are as near as those of models that
        do.
        """
        if coarse or self.differing or not self.is_whole or array.shape != reference.shape:
            return False
        difference, limit, _ = distances(array, reference, coarse=True)
        return reference.dtype.kind != "f" or bool((difference <= limit).all())


def compared_by_node(path: Path, feeds: Mapping[str, np.ndarray]) -> ByNode:
    """Finds the nodes of a model whose results are others in ONNX Runtime; none where it does not
    tell inner values.
    """
    try:
        model = onnx.load(str(path))
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        name_nodes(model)
        values = _all_values(model, feeds)
    # The model may be too large to be serialised.
    except (NotComputed, OSError, ValueError, RuntimeError):
        return ByNode(is_whole=False)
    opsets = {each.domain.replace("ai.onnx", ""): each.version for each in model.opset_import}
    found = ByNode()
    for node in model.graph.node:
        inputs = [values.get(name) for name in node.input]
        rows = differences(
            node, inputs, opsets.get(node.domain.replace("ai.onnx", ""), 1), "onnxruntime"
        )
        is_known = any(not row.steps for row in rows)
        agrees = _agrees(model, node, values, step=0 if is_known else 1)
        if agrees is None:
            found.is_whole = False
        elif not agrees:
            found.differing.append(Differing(node.name, node.op_type, rows))
    return found


def _all_values(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Values:
    """Computes every value of the outer graph by name, in ONNX Runtime."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    made = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    values: Values = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    values.update(feeds)
    values.update(zip(made, Session(shown).run(feeds), strict=True))
    return values


def _agrees(model: onnx.ModelProto, node: onnx.NodeProto, values: Values, step: int) -> bool | None:
    """Tells if byocir and ONNX Runtime compute the same from the same inputs, up to this step of
    quantised values. None where that cannot be tried, as for values that are no arrays of numbers.
    """
    names = list(dict.fromkeys(name for name in _uses(node) if name in values))
    outputs = [name for name in node.output if name]
    if not all(isinstance(values[name], np.ndarray) for name in [*names, *outputs]):
        return None
    weights = {each.name for each in model.graph.initializer}
    fixed = {name for name in names if name in weights or values[name].size <= FEW}
    graph = helper.make_graph(
        [node],
        "node",
        [_port(name, values[name]) for name in names if name not in fixed],
        [_port(name, values[name], is_open=True) for name in outputs],
        [onnx.numpy_helper.from_array(values[name], name) for name in names if name in fixed],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        feeds = {name: values[name] for name in names if name not in fixed}
        ours = evaluate(import_onnx(alone), feeds)
    except ByocirError:
        return None
    verdicts = [_close(ours[name], values[name], step) for name in outputs]
    return False if False in verdicts else None if None in verdicts else True


def _uses(node: onnx.NodeProto) -> Iterator[str]:
    """Lists the names that a node reads, those that its graphs read included."""
    yield from node.input
    for _, graph in inner_graphs(node):
        for inner in graph.node:
            yield from _uses(inner)
        yield from (output.name for output in graph.output)


def _port(name: str, array: np.ndarray[Any, Any], is_open: bool = False) -> onnx.ValueInfoProto:
    shape = None if is_open else list(np.shape(array))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def _close(ours: Any, theirs: np.ndarray, step: int) -> bool | None:
    if not isinstance(ours, np.ndarray):
        return False
    array = cast(np.ndarray, ours)
    if array.shape != theirs.shape:
        return False
    if array.dtype.kind not in "fiub":
        return None
    difference, spread = distance(array, theirs)
    if array.dtype.kind != "f":
        return bool((difference <= (step if array.dtype.itemsize == 1 else 0)).all())
    least = ROUGH if array.dtype.itemsize >= 4 else CLOSE * spread
    return bool((difference <= bounds(theirs, spread, least)).all())
