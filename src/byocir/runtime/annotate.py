"""Writes ONNX models that say where each node went and why: the report is in their metadata.

Viewers such as Netron show it beside each node:

| key | value |
| --- | --- |
| `byocir.nodes` | the nodes of the original model that this one stands for |
| `byocir.target` | the target that takes it, or "host" |
| `byocir.region` | the function of its region |
| `byocir.composite`, `byocir.level` | the pattern that took it, and the level of the match |
| `byocir.closest_miss` | on the host: the pattern that came closest, and what kept it |
| `byocir.explain` | what `explain` says of those nodes |

The model itself has `byocir.summary`, and `byocir.folded`: nodes of which nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from byocir.dialects.byoc import CallOp
from byocir.dialects.locations import names
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.handed_over import OpPlacement
from byocir.runtime.report import HOST, Report
from byocir.runtime.report_text import closest_miss, node_lines, summary

if TYPE_CHECKING:
    from onnx import ModelProto


def annotated_onnx(function: FuncOp, report: Report) -> ModelProto:
    """Makes the ONNX model of a function at the graph level, with a report of what became of it.
    Raises ByocirError B109 or B302, see `byocir.frontend.onnx.export_onnx`.
    """
    if not report.targets:
        return export_onnx(function)
    model = export_onnx(function, _Notes(function, report))
    about = {"byocir.summary": summary(report), "byocir.folded": ", ".join(report.folded)}
    for key, text in about.items():
        if text:
            model.metadata_props.add(key=key, value=text)
    return model


class _Notes:
    """Writes notes beside the nodes of an op. Where the function itself calls a region, that
    region's ops are known; an op outside of it counts as the host's, even if its node is split.
    """

    def __init__(self, function: FuncOp, report: Report) -> None:
        self._report, self._lines = report, node_lines(report)
        calls = [op for op in function.walk() if isinstance(op, CallOp)]
        called = {call.callee.root_reference.data for call in calls}
        self._places: dict[str, OpPlacement] = {}
        for region in report.regions:
            for composite in region.composites if region.symbol not in called else ():
                taken = OpPlacement(
                    region.target, region.symbol, composite.pattern, composite.level
                )
                for node in composite.nodes:
                    self._places.setdefault(node, taken)

    def __call__(self, op: Operation, place: OpPlacement | None) -> dict[str, str]:
        nodes = self._nodes(op)
        places = [place] if place else [self._places[n] for n in nodes if n in self._places]
        nodes = [node for node in nodes if node in self._lines]
        misses = [] if places else [closest_miss(self._report, node) for node in nodes]
        texts = {
            "nodes": _joined(nodes),
            "target": _joined(place.target for place in places) or HOST,
            "region": _joined(place.region for place in places),
            "composite": _joined(place.composite for place in places),
            "level": _joined(place.level for place in places),
            "closest_miss": _joined(misses, "\n"),
            "explain": "\n".join(line for node in nodes for line in self._lines[node]),
        }
        return {f"byocir.{key}": text for key, text in texts.items() if text}

    def _nodes(self, op: Operation | None) -> list[str]:
        """Finds the nodes that an op came from; for an op inside a node's graph this may be that
        node.
        """
        while op is not None and not isinstance(op, FuncOp):
            found = [n for n in names(op.location) if n in self._lines or n in self._places]
            if found:
                return found
            op = op.parent_op()
        return []


def _joined(texts: Iterable[str], separator: str = ", ") -> str:
    return separator.join(dict.fromkeys(text for text in texts if text))
