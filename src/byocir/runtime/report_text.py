"""Writes the report as text: a summary after each compilation, and why each node went where it
did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from byocir.dialects.byoc import FOLDED, HOST, Node
from byocir.dialects.decisions import Decision, Taken
from byocir.dialects.gc_pause import gc_paused
from byocir.errors import ByocirError, did_you_mean, escaped
from byocir.runtime.report import SCHEMA_VERSION, Region, Report
from byocir.runtime.shared_reasons import SharedReason, shared_reasons


def summary(report: Report) -> str:
    """Sums up the off-load: operators, share of multiply-accumulates, regions, and the bytes
    that cross between host and target."""
    lines = [f"note: {note}" for note in [*report.notes, *report.built_without]]
    total, macs = sum(node.macs for node in report.nodes), report.macs
    counted = len(report.nodes) - len(report.folded)
    for target in report.targets:
        regions = [region for region in report.regions if region.target == target]
        names = {name for region in regions for name in region.nodes}
        lines.append(_row(f"{target} operators", len(names), counted))
        lines.append(_row(f"{target} MACs", macs.get(target, 0), total) + _unknown(report, names))
        padded, cycles = (_on_device(report, regions, of) for of in ("padded_macs", "cycles"))
        if padded:
            lines.append(f"{f'{target} MACs with padding':<28}{padded:>14,}")
        if cycles:
            lines.append(f"{f'{target} cycles':<28}{cycles:>14,}   simulated, of all calls")
        lines.append(f"{f'{target} regions':<28}{len(regions):>14,}")
        crossing = sum(region.bytes * region.calls for region in regions)
        lines.append(f"{f'{target} bytes crossing':<28}{crossing:>14,}" + _more_bytes(regions))
        kept = sum(region.kept * region.calls for region in regions)
        if kept:
            told = "on the chip, between composites"
            lines.append(f"{f'{target} bytes kept':<28}{kept:>14,}   {told}")
    lines.append(
        _row(f"{HOST} operators", len(report.host), counted) + f"   {HOST}: {report.host_runs_on}"
    )
    if report.called_back:
        lines.append(_row(f"{HOST} operators called back", len(report.called_back), counted))
    unknown = _unknown(report, set(report.host))
    lines.append(_row(f"{HOST} MACs", macs.get(HOST, 0), total) + unknown)
    if report.padded_host_macs > macs.get(HOST, 0):
        lines.append(f"{f'{HOST} MACs with padding':<28}{report.padded_host_macs:>14,}")
    lines.append(f"{'folded operators':<28}{len(report.folded):>14,}")
    if report.memory:
        arena, least = report.memory["arena"], report.memory["arena_lower_bound"]
        lines.append(f"{f'{HOST} arena bytes':<28}{arena:>14,}   lower bound: {least:,}")
    return "\n".join(map(escaped, lines))


def _on_device(report: Report, regions: Sequence[Region], of: str) -> int:
    """Adds up what code generation tells of all calls of regions."""
    return sum(report.device.get(r.symbol, {}).get(of, 0) * r.calls for r in regions)


def _row(label: str, count: int, total: int) -> str:
    share = 100 * count / total if total else 0
    return f"{label:<28}{count:>14,} {share:>6.1f} %"


def _unknown(report: Report, nodes: Container[str]) -> str:
    """Words how many of these nodes have work of unknown size."""
    count = sum(name in nodes for name in report.unknown_macs)
    looped = sum(name in nodes for name in report.per_turn)
    text = f"   and {count:,} operators of unknown size" if count else ""
    return text + (f"   per turn of loops for {looped:,} operators" if looped else "")


def _more_bytes(regions: Sequence[Region]) -> str:
    """Says why more bytes may cross than are counted."""
    why = ["sizes of some arrays depend on the inputs"] * any(r.is_open for r in regions)
    why += ["one turn of loops is counted"] * any(r.turns is None for r in regions)
    return f"   at least: {', and '.join(why)}" if why else ""


def by_op_type(report: Report) -> str:
    """Tabulates for each op type how many nodes went where, and which share of its work is
    offloaded.
    """
    place_of = report.places
    places = [*report.targets, HOST, FOLDED]
    counts: dict[str, Counter[str]] = {}
    macs: dict[str, Counter[str]] = {}
    for node in report.nodes:
        place = place_of[node.name]
        counts.setdefault(node.op_type, Counter())[place] += 1
        own = report.host_macs.get(node.name, 0)
        work = macs.setdefault(node.op_type, Counter())
        work[place] += node.macs - own
        work[HOST] += own
    left = set(report.unknown_macs)
    unknown = {node.op_type for node in report.nodes if node.name in left}
    lines = [f"{'op type':<24}" + "".join(f"{p:>10}" for p in places) + f"{'MACs':>16}  offloaded"]
    for op_type in sorted(counts, key=lambda t: (-macs[t].total(), t)):
        row = "".join(f"{counts[op_type][place]:>10,}" for place in places)
        total = macs[op_type].total()
        away = total - macs[op_type][HOST] - macs[op_type][FOLDED]
        share = f"{100 * away / total:>9.1f} %" if total else ""
        work = "unknown" if not total and op_type in unknown else f"{total:,}"
        lines.append(f"{op_type:<24}{row}{work:>16}{share}".rstrip())
    return "\n".join(map(escaped, lines))


@gc_paused()
def explain(report: Report, node: str | None = None) -> str:
    """Lists where each node went; for host nodes the pattern that came closest, how far it came,
    and every rule that failed with what was seen. For one node it lists every pattern that was
    tried, and what keeps its region apart from others. Raises ByocirError B230 for a node that the
    model does not have.
    """
    if node is not None:
        found = _lines(report, [known_node(report, node)], verbose=True)[node]
        notes = report.notes if node in report.foreign else ()  # such as sizes that can be pinned
        return "\n".join([*(escaped(f"note: {note}") for note in notes), *found])
    found = _Found(report)
    companions = _companions(found)
    shared = shared_reasons(report, found.placement, partial(_deciding, report), companions)
    lines = [f"note: {note}" for note in report.notes]
    lines += _grouped(found, shared, companions)
    total = sum(each.macs for each in report.nodes)
    lines += [line for i, each in enumerate(shared, 1) for line in each.lines(i, total)]
    lines += [line for region in report.regions for line in _cuts(region, found)]
    return "\n".join(map(escaped, lines))


def _companions(found: _Found) -> dict[str, str]:
    """Maps each node that only quantises to the op that it belongs to, where both went to one
    place: then the line of the op tells all.
    """
    ops = {node.name: node.belongs_to for node in found.report.nodes if node.belongs_to}
    places = found.placement
    return {name: op for name, op in ops.items() if places[name] == places.get(op)}


def _grouped(
    found: _Found, shared: Sequence[SharedReason], companions: Mapping[str, str]
) -> Iterator[str]:
    """Yields lines on each node, together with its quantize and dequantize nodes; reasons that many
    nodes share are referred to by number.
    """
    numbers = dict[str, int]()
    for i, each in enumerate(shared, 1):
        numbers.update((node.name, i) for node in each.nodes)
    around: dict[str, list[str]] = {}
    for name, main in companions.items():
        around.setdefault(main, []).append(name)
    for node in found.report.nodes:
        if node.name in companions:
            continue
        lines = _node(node, found, verbose=False)
        yield next(lines)
        if node.name in around:
            yield f"  with {', '.join(around[node.name])}"
        if node.name in numbers:
            yield f"  for reason {numbers[node.name]}, below"
        else:
            yield from lines


def _deciding(report: Report, decisions: Sequence[Decision]) -> Sequence[Decision]:
    """Picks the decisions that keep a node on the host: those that left it in float, else the
    closest miss."""
    left = [decision for decision in decisions if not decision.target]
    return left or _furthest(report, decisions)[:1]


def node_lines(report: Report, *, verbose: bool = False) -> dict[str, list[str]]:
    """Gives the lines of `explain` on each node, by name; `verbose` gives the longer ones for that
    node alone.
    """
    return _lines(report, report.nodes, verbose=verbose)


def region_lines(report: Report) -> list[list[str]]:
    """Describes each region: its composites, the types that cross, and its cuts from others."""
    found = _Found(report)
    return [_region(region, found) for region in report.regions]


def _region(region: Region, found: _Found) -> list[str]:
    lines = [f"group  {region.group}"] * bool(region.group)
    for composite in region.composites:
        lines.append(f"{composite.level:<6} {composite.pattern:<18} {', '.join(composite.nodes)}")
        lines += [f"schedule {composite.schedule}"] * bool(composite.schedule)
    lines += [f"input  {type_}" for type_ in region.inputs]
    lines += [f"output {type_}" for type_ in region.outputs]
    return [*lines, *(line.strip() for line in found.cuts(region))]


class _Found:
    """Finds regions and composites of a report by node and by function, all of which it lists
    once.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.placement, self.split = report.placement, frozenset(report.split)
        self._calls: dict[str, list[Region]] = {}
        self._numbers: dict[int, int] = {}
        self._parts: dict[str, list[tuple[Region, Taken]]] = {}
        self._cuts: dict[int, list[str]] = {}
        for region in report.regions:
            calls = self._calls.setdefault(region.symbol, [])
            calls.append(region)
            self._numbers[id(region)] = len(calls)
            for composite in region.composites:
                for name in composite.nodes:
                    self._parts.setdefault(name, []).append((region, composite))

    def parts_of(self, node: str) -> list[tuple[Region, Taken]]:
        """Gives the composites that a node is in, with their regions."""
        return self._parts.get(node, [])

    def regions_of(self, node: str) -> list[Region]:
        """Gives the regions that a node is in, each once."""
        return [*{id(region): region for region, _ in self.parts_of(node)}.values()]

    def first_with(self, nodes: Sequence[str]) -> Region | None:
        """Gives the first region that all of these nodes are in."""
        each = [{id(region): region for region in self.regions_of(node)} for node in nodes]
        first, *others = each or [{}]
        return next((r for key, r in first.items() if all(key in other for other in others)), None)

    def cuts(self, region: Region) -> list[str]:
        """Describes the paths that keep a region apart from earlier ones: once for all its nodes,
        as a cut names all nodes of an op that many share."""
        if id(region) not in self._cuts:
            self._cuts[id(region)] = [*_cuts(region, self)]
        return self._cuts[id(region)]

    def call(self, region: Region) -> str:
        """Describes a region by its function, and which call of it is meant where there are
        several.
        """
        if len(self._calls[region.symbol]) == 1:
            return region.symbol
        return f"{region.symbol} (call {self._numbers[id(region)]})"


def _lines(report: Report, nodes: Sequence[Node], *, verbose: bool) -> dict[str, list[str]]:
    found = _Found(report)
    return {node.name: [*map(escaped, _node(node, found, verbose))] for node in nodes}


def closest_miss(report: Report, node: str) -> str:
    """Words in one line the pattern that came closest to a node, how far it came, every rule that
    failed, and why the node stayed in float if it did; empty if none was tried and declined.
    """
    decisions = report.reasons.get(node, [])
    closest = [each for each in _furthest(report, decisions)[:1] if each.shares_an_op]
    lines = [*_declined(closest), *_left_in_float(decisions)]
    return "; ".join(" ".join(line.split()) for line in lines)


def node_data(report: Report, name: str) -> str:
    """Writes what `explain` says of one node as JSON text. Raises ByocirError B230."""
    region = next((region for region in report.regions if name in region.nodes), None)
    about = {
        "schema_version": SCHEMA_VERSION,
        "node": known_node(report, name)._asdict(),
        "place": report.placement[name],
        "partly_on_host": name in report.split,
        "called_back": report.called_back.get(name, ""),
        "padded": asdict(report.padded[name]) if name in report.padded else None,
        "region": None if region is None else asdict(region),
        "reasons": [asdict(decision) for decision in report.reasons.get(name, ())],
    }
    return json.dumps(about, indent=1, sort_keys=True) + "\n"


def known_node(report: Report, name: str) -> Node:
    """Finds a node of the model. Raises ByocirError B230 for a name that none has."""
    nodes = {entry.name: entry for entry in report.nodes}
    if name not in nodes:
        raise ByocirError("B230", f"unknown node '{name}'", help=did_you_mean(name, list(nodes)))
    return nodes[name]


def _node(node: Node, found: _Found, verbose: bool) -> Iterator[str]:
    report = found.report
    decisions, regions = report.reasons.get(node.name, []), found.regions_of(node.name)
    if regions:
        taken = next(c for region, c in found.parts_of(node.name) if region is regions[-1])
        partly = ", partly on the host" if node.name in found.split else ""
        group = f", group {regions[-1].group}" if regions[-1].group else ""
        how = f"{taken.level} level, {taken.pattern}{group}{partly}"
        symbols = dict.fromkeys(each.symbol for each in regions)
        yield f"{node.name}  {node.op_type}  {', '.join(symbols)} ({how})"
        yield from _channels(node, report)
        if verbose:
            yield from _of_taken(node, found, regions)
        return
    if found.placement[node.name] != HOST:
        yield f"{node.name}  {node.op_type}  folded at compile time"
        return
    yield f"{node.name}  {node.op_type}  {HOST}"
    yield from _channels(node, report)
    if node.name in report.foreign:
        yield f"  stays an ONNX operator: {report.foreign[node.name]}"
    yield from _left_in_float(decisions)
    if node.name in report.called_back:
        yield f"  called back from C: {report.called_back[node.name]}"
    declined = _furthest(report, decisions)
    if verbose:
        yield from _declined_at_length(declined)
    else:
        yield from _declined([d for d in declined[:1] if d.shares_an_op])
    if declined and declined[0].shares_an_op:
        yield from _closest(declined, node.name, verbose)
    if not any(decision.shares_an_op for decision in declined):
        for target in report.targets:
            yield f"  {target}: no pattern has such an op"


def _channels(node: Node, report: Report) -> Iterator[str]:
    """Says which channels a layer got, and what they cost."""
    if node.name in report.padded:
        found = report.padded[node.name]
        inputs, outputs, (macs, padded) = asdict(found).values()
        ins, outs = (" → ".join(f"{n:,}" for n in pair) for pair in (inputs, outputs))
        # Where windows are gathered as channels, those of weight 0 are left out.
        yield f"  pad-channels: {ins} channels in, {outs} out, {macs:,} → at most {padded:,} MACs"


def _closest(declined: Sequence[Decision], node: str, verbose: bool) -> Iterator[str]:
    """Names the closest miss where there are others, and where to read what is not shown."""
    first, others = declined[0], len(declined) - 1
    if verbose and others:
        yield f"  closest: {first.pattern}"
    elif not verbose and (others or first.is_shortened):
        tried = f"{others} more were tried, " if others else ""
        yield f"  closest: {first.pattern}; {tried}see --node {node}"


def _of_taken(node: Node, found: _Found, regions: Sequence[Region]) -> Iterator[str]:
    """Says of a node that a target took what the host still does of it, how often regions are
    called, what else was tried, and what keeps the regions apart.
    """
    parts, decisions = found.report.host_parts, found.report.reasons.get(node.name, [])
    if node.name in parts:
        yield f"  on the host: {'; '.join(parts[node.name])}"
    yield from _in_turns(regions)
    yield from _schedules(c for _, c in found.parts_of(node.name))
    yield from (f"  {d.reason}" for d in decisions if d.taken and d.reason)
    yield from _declined_at_length(_furthest(found.report, decisions))
    for region in regions:
        yield from found.cuts(region)


def _schedules(composites: Iterable[Taken]) -> Iterator[str]:
    """Lists the schedules by which targets run their parts of a node."""
    scripts = ((c.pattern, c.schedule) for c in composites if c.schedule)
    yield from (f"  schedule of {pattern}: {script}" for pattern, script in dict.fromkeys(scripts))


def _in_turns(regions: Sequence[Region]) -> Iterator[str]:
    """Words how many times loops call regions."""
    for region in regions:
        if region.turns != 1:
            times = f"{region.turns} times" if region.turns is not None else "in each turn"
            yield f"  {region.symbol} is called {times}"


def _cuts(region: Region, found: _Found) -> Iterator[str]:
    """Describes the path that keeps a region apart from an earlier one."""
    for cut in region.cuts:
        near = found.first_with(cut.leaves)
        earlier = "an earlier one" if near is None else found.call(near)
        between = _named(cut.first)
        if cut.last != cut.first:
            between += f" … {_named(cut.last)}"
        way = f"{_named(cut.leaves)} → {between} → {_named(cut.enters)}"
        yield f"  {found.call(region)} is apart from {earlier}: {cut.by} lies between, {way}"


def _named(nodes: list[str]) -> str:
    """Names the last of some nodes: the one that the value comes from."""
    return nodes[-1] if nodes else "?"


def _furthest(report: Report, decisions: Sequence[Decision]) -> list[Decision]:
    """Picks, for each pattern that declined, the attempt that came furthest; the closest miss
    first. Of those that came as far, the first in the order of targets and their patterns is the
    closest.
    """
    furthest: dict[tuple[str, str], Decision] = {}
    for decision in decisions:
        known = furthest.get((decision.level, decision.pattern))
        tried = decision.target and not decision.taken
        if tried and (known is None or decision.matched > known.matched):
            furthest[decision.level, decision.pattern] = decision
    order, last = report.order, len(report.order)
    return sorted(
        furthest.values(),
        key=lambda d: (not d.shares_an_op, d.distance, order.get(d.pattern, last)),
    )


def _left_in_float(decisions: list[Decision]) -> Iterator[str]:
    """Says why a node between dequantize and quantize has no integer form: a rewrite gave the
    reason before any target was asked. Patterns on integers then miss because of it.
    """
    for decision in (decision for decision in decisions if not decision.target):
        why = f", {decision.reason}" if not decision.rules else ""
        yield f"  stays float: {decision.pattern}{why}"
        yield from _failed(decision)


def _declined(decisions: list[Decision]) -> Iterator[str]:
    for decision in decisions:
        yield f"  {decision.shown}"
        yield from _failed(decision)


def _declined_at_length(decisions: list[Decision]) -> Iterator[str]:
    for decision in decisions:
        first, *further = decision.in_lines
        yield f"  {first}"
        yield from (f"         {line}" for line in further)
        yield from _failed(decision)


def _failed(decision: Decision) -> Iterator[str]:
    for rule in decision.rules:
        if not rule.holds:
            yield f"         rule fails: {rule.sentence:<44} seen {rule.seen}"
            if rule.fix:
                yield f"         to fix it: {rule.fix}"
