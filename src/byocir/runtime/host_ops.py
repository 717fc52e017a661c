"""Checks the operators that stay on the host against those that may, and names all that may not.

| code | what is wrong |
| --- | --- |
| B247 | operators stay on the host that must not |
| B248 | there is no such type of operator |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from byocir.dialects.byoc import Node
from byocir.errors import ByocirError, CheckFailed, Lines, did_you_mean
from byocir.runtime.report import Report
from byocir.runtime.report_text import closest_miss


def check_host_ops(report: Report, allowed: Sequence[str]) -> None:
    """Raises CheckFailed B247 unless every operator that stays on the host, in whole or in part, is
    of one of these ONNX types, in letters of either case. It names each other operator with the
    pattern that came closest and what kept it. Raises ByocirError B248 for a type that neither the
    model nor ONNX has.
    """
    own = {node.op_type.lower() for node in report.nodes}
    for name in allowed:
        if name.lower() not in own and name.lower() not in _of_onnx():
            known = sorted({*(node.op_type for node in report.nodes), *_of_onnx().values()})
            help = did_you_mean(name, known)
            raise ByocirError(
                "B248", f"expected a type of operator of ONNX, found '{name}'", help=help
            )
    fine, there = {name.lower() for name in allowed}, {*report.host, *report.split}
    left = [n for n in report.nodes if n.name in there and n.op_type.lower() not in fine]
    if not left:
        return
    runs = len(report.nodes) - len(report.folded)
    but = f" but {', '.join(allowed)}" if allowed else ""
    types = sorted({*allowed, *(node.op_type for node in left)})
    raise CheckFailed(
        "B247",
        f"expected no operator on the host{but}, found {len(left):,} of {runs:,}",
        where=Lines.of(_listed(report, left)),
        help="`byocir explain --node NAME` tells every pattern that was tried; "
        f"--host-ops {','.join(types)} allows what is there now",
    )


def _listed(report: Report, nodes: Sequence[Node]) -> list[str]:
    """Writes a line for the operators of one type that stay for the same reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        partly = ", partly" if node.name in report.split else ""
        groups.setdefault((node.op_type + partly, _why(report, node.name)), []).append(node.name)
    return [f"{', '.join(names)} ({kind}): {why}" for (kind, why), names in groups.items()]


def _why(report: Report, node: str) -> str:
    if node in report.foreign:
        return f"stays an ONNX operator, {report.foreign[node]}"
    none = f"no pattern of {', '.join(report.targets) or 'any target'} has such an op"
    return closest_miss(report, node) or none


@cache
def _of_onnx() -> dict[str, str]:
    """Gives ONNX's operator types by their names in small letters."""
    import onnx

    return {schema.name.lower(): schema.name for schema in onnx.defs.get_all_schemas()}
