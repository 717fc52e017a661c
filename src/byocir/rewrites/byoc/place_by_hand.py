"""`place-nodes` and `check-placement`: put nodes where a user wants them, whatever patterns would
do.

A placement is a list of (nodes, place) in the module attribute `byoc.placement`: `nodes` is a name
of the model or a regular expression for whole names, `place` is a target or "host". An entry that
is a node's name counts before those whose expression fits it, else the first does. An op that
stands for several nodes is placed as any of them. Markers (`byoc.begin`, `byoc.end`) place what
they enclose.

`place-nodes` requires `byoc.targets`; it turns both into the attributes `byoc.place` and, for
markers of a group, `byoc.group` of ops, which `match-composites` obeys, and keeps markers as
placement for later stages. `check-placement` runs after the last hand-off and demands that targets
took what was placed on them. Copies on the way into what they took, with another layout or numbers
around an array, may be the host's.

| code | what is wrong |
| --- | --- |
| B241 | a placement that names a target which the module does not |
| B242 | a placement whose nodes are no regular expression |
| B243 | a placement for nodes that the model does not have |
| B244 | a target that did not take what was placed on it |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.byoc import (
    HOST,
    PLACEMENT,
    BeginOp,
    CallOp,
    CompositeOp,
    DecisionAttr,
    EndOp,
    PlaceAttr,
    RegionOp,
    SourceOp,
    TrailOp,
)
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp, EmptyOp, FillOp
from byocir.dialects.traits import is_constant
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.legality import describe
from byocir.patterns.targets import composites_of, targets_of
from byocir.rewrites.byoc.host_blocks import host_blocks
from byocir.rewrites.byoc.markers import HandPlacement, erase_markers, marked_ops


def set_placement(module: ModuleOp, placement: Mapping[str, str]) -> None:
    """Writes into a module where nodes are placed by hand, by name or regular expression: on a
    target or "host". Names count before expressions; of several expressions the first that fits
    counts. Raises ByocirError B245 for anything but a mapping of strings.
    """
    found = _no_placement(placement)
    if found:
        raise ByocirError(
            "B245",
            f"expected a placement of names of nodes to names of targets, found {found}",
            help='e.g. placement={"conv_1": "npu", "block2/.*": "host"}',
        )
    _add(module, [PlaceAttr.of(nodes, place) for nodes, place in placement.items()])


def _add(module: ModuleOp, entries: Iterable[PlaceAttr]) -> None:
    module.attributes[PLACEMENT] = ArrayAttr([*placement_of(module), *entries])


def _no_placement(given: object) -> str:
    """Says how a value is no mapping of strings to strings; empty if it is one."""
    if not isinstance(given, Mapping):
        return type(given).__name__
    for nodes, place in cast("Mapping[object, object]", given).items():
        if not isinstance(nodes, str) or not isinstance(place, str):
            return f"{nodes!r}: {place!r}"
    return ""


def placement_of(module: ModuleOp) -> list[PlaceAttr]:
    """Lists the placements made by hand, in order of priority."""
    found = module.attributes.get(PLACEMENT)
    entries = cast(ArrayAttr[Attribute], found) if isinstance(found, ArrayAttr) else ()
    return [entry for entry in entries if isinstance(entry, PlaceAttr)]


def is_placed(module: ModuleOp) -> bool:
    """Tells if anything is placed by hand."""
    marked = any(isinstance(op, BeginOp | EndOp) for op in module.walk())
    return marked or bool(placement_of(module))


@dataclass(frozen=True)
class PlaceNodesPass(ModulePass):
    """Notes on each op where the user placed it."""

    name = "place-nodes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = [target.target_name.data for target in targets_of(op)]
        blocks = list(host_blocks(op))
        marked = {o: place for block in blocks for o, place in marked_ops(block).items()}
        used = [place.target for place in marked.values()]
        for place in (*used, *(entry.place.data for entry in placement_of(op))):
            if place not in (*known, HOST):
                help = did_you_mean(place, [*known, HOST])
                raise ByocirError("B241", f"the module names no target '{place}'", help=help)
        for marked_op, place in marked.items():
            place.put_on(marked_op)
        for block in blocks:
            erase_markers(block)
        _place(op, blocks, marked)
        by_marker = {re.escape(n): place for o, place in marked.items() for n in names(o.location)}
        if by_marker:
            _add(op, [PlaceAttr.of(nodes, *place) for nodes, place in by_marker.items()])


def _place(module: ModuleOp, blocks: Iterable[Block], marked: Collection[Operation]) -> None:
    entries = [(_matcher(entry.nodes.data), entry) for entry in placement_of(module)]
    sources = [op for op in module.body.block.ops if isinstance(op, SourceOp)]
    nodes = [node.name for source in sources for node in source.entries()]
    nodes = nodes or [n for block in blocks for op in block.ops for n in names(op.location)]
    for matches, entry in entries:
        if not any(map(matches, nodes)):
            raise ByocirError(
                "B243",
                f"expected a node that the placement '{entry.nodes.data}' names, found none",
                help=did_you_mean(entry.nodes.data, nodes),
            )
    for block in blocks:
        for op in block.ops:
            mine = names(op.location)
            place = _first(mine, entries)
            handed_off = isinstance(op, CallOp | CompositeOp | RegionOp)
            if place is not None and op not in marked and not handed_off:
                place.put_on(op)


def _first(
    nodes: Sequence[str], entries: Sequence[tuple[Callable[[str], bool], PlaceAttr]]
) -> HandPlacement | None:
    """Finds where nodes are placed: by the first entry that names one of them, else by the first
    whose expression fits one.
    """
    fitting = [entry for matches, entry in entries if any(map(matches, nodes))]
    named = [entry for entry in fitting if entry.nodes.data in nodes]
    best = next(iter([*named, *fitting]), None)
    return HandPlacement(best.place.data, best.group.data) if best is not None else None


def _matcher(nodes: str) -> Callable[[str], bool]:
    """Makes a test of names: is it the one that an entry has, or does it fit the entry's regular
    expression?
    """
    try:
        expression = re.compile(nodes)
    except (re.error, OverflowError, RecursionError) as error:
        raise ByocirError(
            "B242",
            f"expected a name or a regular expression, found '{nodes}': {error}",
            help="a placement maps names or expressions to targets",
        ) from error
    return lambda name: name == nodes or expression.fullmatch(name) is not None


@dataclass(frozen=True)
class CheckPlacementPass(ModulePass):
    """Raises ByocirError B244 for an op that the user placed on a target and that is still on the
    host.
    """

    name = "check-placement"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PlaceNodesPass().apply(ctx, op)
        taken = _taken(op)
        for block in host_blocks(op):
            for inner in block.ops:
                place = HandPlacement.of(inner).target
                HandPlacement.clear(inner)
                if not names(inner.location) or is_constant(inner):
                    continue
                is_way = _only_moves(inner) and {*names(inner.location)} <= taken.get(place, set())
                if place not in ("", HOST) and not is_way:
                    raise ByocirError(
                        "B244",
                        f"expected {place} to take {_known_as(op, inner)}, as placed, "
                        f"found {_why_not(op, inner, place)}",
                        help="`explain` without the placement tells every pattern that was tried",
                    )


def _taken(module: ModuleOp) -> dict[str, set[str]]:
    """Lists for each target the nodes of its calls."""
    found: dict[str, set[str]] = {}
    for block in host_blocks(module):
        for record in (op.handed_off for op in block.ops if isinstance(op, CallOp)):
            if record is not None:
                nodes = (node.data for taken in record.composites for node in taken.nodes)
                found.setdefault(record.target.data, set()).update(nodes)
    return found


def _only_moves(op: Operation) -> bool:
    """Tells if an op makes an array or copies one: it computes nothing."""
    if not isinstance(op, BlockOp):
        return isinstance(op, EmptyOp | FillOp)
    inputs = op.body.block.args[: len(op.ins)]
    return all(value in inputs for value in op.yielded)


def _why_not(module: ModuleOp, op: Operation, target: str) -> str:
    """Says why a target has not taken an op: the reason of its nearest pattern and, if the nodes
    stayed in float, the reason for that, which is in a decision without a target.
    """
    mine = set(names(op.location))
    declined: dict[str, list[DecisionAttr]] = {target: [], "": []}
    for trail in (o for o in module.body.block.ops if isinstance(o, TrailOp)):
        for decision in trail.decisions:
            named = mine & {node.data for node in decision.nodes}
            if not decision.taken and named:
                declined.setdefault(decision.target.data, []).append(decision)
    floats = "".join(f"; stays float, {_said(decision)}" for decision in declined[""])
    if not declined[target]:
        return f"no pattern with such an op{floats}"
    attribute = next(t for t in targets_of(module) if t.target_name.data == target)
    order = {composite.name: place for place, composite in enumerate(composites_of(attribute))}
    last = len(order)
    nearest = min(
        declined[target], key=lambda d: (d.plain.distance, order.get(d.pattern.data, last))
    )
    return f"{_said(nearest)}{floats}"


def _said(decision: DecisionAttr) -> str:
    said = decision.plain
    rules = "".join(f"; {rule.sentence}: seen {rule.seen}" for rule in said.rules if not rule.holds)
    return f"{said.pattern}: {said.in_short}{rules}"


def _known_as(module: ModuleOp, op: Operation) -> str:
    """Words an op as the model's user knows it: by the nodes that it came from and their operators.
    By now it may be an op of the compiler's own.
    """
    sources = [o for o in module.body.block.ops if isinstance(o, SourceOp)]
    kinds = {node.name: node.op_type for source in sources for node in source.entries()}
    nodes = [f"{name} ({kinds[name]})" for name in names(op.location) if name in kinds]
    return ", ".join(nodes) or describe(op)
