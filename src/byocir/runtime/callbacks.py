"""Lists the ops that a host in C calls back to the evaluator for, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from byocir.dialects.byoc import CallOp
from byocir.dialects.graph import ForeignOp, YieldOp
from byocir.dialects.locations import names
from byocir.dialects.open_values import Origin, is_open, listed, origins, read_by
from byocir.lowering.tir_to_c import HostCode
from byocir.lowering.tir_to_c.steps import KEPT, Buffer, CallStep, buffers_of


def callback_reasons(code: HostCode) -> dict[str, str]:
    """Gives the reason for each node, by name, for which the C code calls back to the evaluator.
    Regions of targets are called, too, but not in the evaluator.
    """
    found: dict[str, str] = {}
    for call in code.calls:
        for op, _ in _members(call):
            if not isinstance(op, CallOp | YieldOp):
                found.update(dict.fromkeys(names(op.location), callback_reason(op)))
    return found


BufferOf = Mapping[SSAValue, Buffer]
"""Maps values to the buffers in which C holds them."""


def _members(call: CallStep) -> Iterator[tuple[Operation, BufferOf]]:
    """Yields the ops that a call runs, with their buffers: its own, or those of the function that
    runs as one model.
    """
    op = call.op
    callee = SymbolTable.lookup_symbol(op, op.callee) if isinstance(op, FuncCallOp) else None
    if not isinstance(callee, FuncOp):
        buffers = zip([*read_by(op), *op.results], [*call.inputs, *call.outputs], strict=False)
        yield op, dict(buffers)
        return
    given: BufferOf = dict(zip(callee.body.block.args, call.inputs, strict=True))
    yield from ((each, given) for each in callee.body.ops if isinstance(each, ForeignOp))


def _is_kept(value: SSAValue, held: BufferOf) -> bool:
    return held[value].place == KEPT if value in held else is_open(value.type)


def _is_sized(value: SSAValue, held: BufferOf) -> bool:
    """Tells if a value is one whose size only a run tells, though C can hold it."""
    return value in held and held[value].sizes is not None


def callback_reason(op: Operation) -> str:
    """Says why an op has no form in C."""
    if any(is_open(value.type) for value in read_by(op)):
        return f"takes what is open since {listed(origins(read_by(op)))}"
    made = [str(result.type) for result in op.results if is_open(result.type)]
    if made:
        return f"makes what only a run tells the size or type of: {', '.join(made)}"
    if isinstance(op, ForeignOp):
        why = f": {op.reason.data}" if op.reason is not None else ""
        return f"stays an ONNX operator{why}"
    return f"has no form in C for {', '.join(str(v.type) for v in op.results)}"


def open_origins(code: HostCode) -> list[Origin]:
    """Finds where values became open that C cannot hold, and the ops without a form in C that use
    open values which C can hold: inputs, and the first such ops on the way.
    """
    kept: list[SSAValue] = []
    found: list[Origin] = []
    for op, held in (member for call in code.calls for member in _members(call)):
        read = [value for value in read_by(op) if _is_kept(value, held)]
        kept += read
        owner = op.parent_op() if isinstance(op, YieldOp) else op
        made = owner.results if owner is not None else ()
        used = [*read_by(op), *made]
        if not read and any(_is_kept(v, held) or _is_sized(v, held) for v in used):
            found += [Origin(result) for result in sorted(made, key=_is_static)][:1]
    return [*(origin for origin in origins(kept) if origin.is_input), *found]


def _is_static(value: SSAValue) -> bool:
    return not is_open(value.type)


def callback_notes(code: HostCode) -> list[str]:
    """Words the note on values that C cannot hold: their origins, and the consequence for the
    host."""
    found = open_origins(code)
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
