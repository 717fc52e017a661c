"""What a host in C calls back to the evaluator, and why."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from byocir.dialects.byoc import CallOp
from byocir.dialects.graph import ForeignOp, YieldOp
from byocir.dialects.locations import names
from byocir.dialects.open_values import Origin, is_open, listed, origins, read_by
from byocir.lowering.tir_to_c import HostCode
from byocir.lowering.tir_to_c.steps import KEPT, buffers_of


def called_back(code: HostCode) -> dict[str, str]:
    """By the name of each node that the code calls back for, the reason. Regions of targets are
    called, too, but not in the evaluator."""
    found: dict[str, str] = {}
    for call in code.calls:
        if not isinstance(call.op, CallOp | YieldOp):
            found.update(dict.fromkeys(names(call.op.location), reason(call.op)))
    return found


def reason(op: Operation) -> str:
    """Why an op has no form in C."""
    if any(is_open(value.type) for value in read_by(op)):
        return f"takes what is open since {listed(origins(read_by(op)))}"
    made = [str(result.type) for result in op.results if is_open(result.type)]
    if made:
        return f"makes what only a run tells the size or type of: {', '.join(made)}"
    if isinstance(op, ForeignOp):
        why = f": {op.reason.data}" if op.reason is not None else ""
        return f"stays an ONNX operator{why}"
    return f"has no form in C for {', '.join(str(v.type) for v in op.results)}"


def where_open(code: HostCode) -> list[Origin]:
    """Where values come from that C cannot hold, or what takes open ones that it holds: inputs, and
    the first ops on the way that have no form in C."""
    kept: list[SSAValue] = []
    found: list[Origin] = []
    for call in code.calls:
        read = [v for v, b in zip(read_by(call.op), call.inputs, strict=True) if b.place == KEPT]
        kept += read
        if not read and any(b.place == KEPT or b.sizes for b in (*call.inputs, *call.outputs)):
            op = call.op.parent_op() if isinstance(call.op, YieldOp) else call.op
            found += [Origin(result) for result in (op.results if op else ())][:1]
    return [*(origin for origin in origins(kept) if origin.is_input), *found]


def about_calls(code: HostCode) -> list[str]:
    """What a user should know of values that C cannot hold: where they come from, and what it
    means for the host."""
    found = where_open(code)
    if not found:
        return []
    calls = [c for c in code.calls if any(b.place == KEPT or b.sizes for b in buffers_of(c))]
    nodes = {name for call in calls for name in names(call.op.location)}
    whole = "" if code.is_worth_it else ", and all that is left with them"
    return [
        f"{len(nodes)} operators run in the evaluator{whole}, for only a run tells the shape or "
        f"type of what they take or make: {listed(found)}{_pins(found)}"
    ]


def _pins(found: Sequence[Origin]) -> str:
    pins = [origin.pin for origin in found if origin.is_input]
    return f"; pin sizes, --shape {' --shape '.join(pins)}" if pins else ""
