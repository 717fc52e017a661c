"""Defines the report of a compilation as plain data: where each node runs, and why."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from byocir.dialects.decisions import FOLDED, HOST, Cut, Decision, Node, Padded, Taken
from byocir.dialects.gc_pause import gc_paused
from byocir.runtime.records import read_as

SCHEMA_VERSION = 2
REFERENCE, C = "reference", "c"
"""Ways to run the host's ops in process: the evaluator that defines their meaning, or C code made
from the module (what has no form in C runs in the evaluator)."""


@dataclass(frozen=True)
class Region:
    """Describes composites that a target runs in one call. `inputs` and `outputs` are the types
    that cross, as MLIR writes them, `bytes` their size; `level` is "graph", "tensor", or "both" for
    a mixed region. Regions that compute the same share their function, `symbol`. `cuts` says what
    keeps the region apart from earlier ones."""

    symbol: str
    target: str
    level: str
    composites: list[Taken]
    nodes: list[str]
    inputs: list[str]
    outputs: list[str]
    bytes: int
    cuts: list[Cut]
    turns: int | None = 1
    """Its calls in one inference; None where only the run tells: in a loop."""
    group: str = ""
    """The group that markers ask for: work that no region has together with other work."""
    is_open: bool = False
    """Tells if sizes that cross depend on the inputs: then `bytes` counts the others."""
    kept: int = 0
    """The bytes that composites hand to each other on the chip in one call, which would be stored
    to main memory and loaded again otherwise."""

    @property
    def calls(self) -> int:
        """Counts the region's calls; gives 1 where only the run tells how many there are."""
        return self.turns or 1


@dataclass
class Report:
    """Says where each node of the model runs, and why.

    `host` and `folded` are node names: nodes that run on the host, and nodes of which nothing is
    left at run time. `split` are nodes that became several ops, some of a target and some of the
    host. `decisions` are all patterns that were tried, in order, each once. `macs` maps
    a target (or "host") to the model's own multiply-accumulates; `device` holds what code
    generation adds for each region: cycles, and multiply-accumulates with the padding of blocks.
    `memory` has, if the host runs as C, the bytes of its arena, the bytes alive at once at most,
    below which no arena can be, and the bytes of its weights.
    """

    nodes: list[Node]
    targets: list[str]
    regions: list[Region]
    host: list[str]
    folded: list[str]
    decisions: list[Decision]
    foreign: dict[str, str] = field(default_factory=dict[str, str])
    """Nodes that stayed ONNX operators, and why no graph op took them."""
    unknown_macs: list[str] = field(default_factory=list[str])
    """Nodes of which nobody knows how much they multiply and accumulate; `macs` leaves them out."""
    per_turn: list[str] = field(default_factory=list[str])
    """Nodes in loops of which only the run tells how many turns they take: `macs` has one."""
    ran_on: dict[str, str] = field(default_factory=dict[str, str])
    """Maps host nodes to what ran them as ONNX operators in the last run: "onnxruntime" or
    "reference"."""
    built_without: list[str] = field(default_factory=list[str])
    """The features that the C compiler of the last run lacked, for a host that runs as C."""
    split: list[str] = field(default_factory=list[str])
    host_macs: dict[str, int] = field(default_factory=dict[str, int])
    """The multiply-accumulates of split nodes that the host does itself, where it does."""
    host_parts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Maps split nodes to what the host computes of them, as bodies of patterns are written."""
    padded: dict[str, Padded] = field(default_factory=dict[str, Padded])
    """The layers that `pad-channels` gave more channels than the model has."""
    patterns: list[str] = field(default_factory=list[str])
    """The names of the targets' patterns, in the order in which they are preferred."""
    notes: list[str] = field(default_factory=list[str])
    device: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    host_runs_on: str = REFERENCE
    called_back: dict[str, str] = field(default_factory=dict[str, str])
    """The nodes that a host in C calls back to the evaluator for, with the reasons."""
    memory: dict[str, int] = field(default_factory=dict[str, int])

    @cached_property
    def reasons(self) -> dict[str, list[Decision]]:
        """Gives the attempts of all patterns that were tried on each node, by the node's name. A
        rewrite is left out if the rule that failed kept no target from taking another node.
        """
        found: dict[str, list[Decision]] = {node.name: [] for node in self.nodes}
        for decision in self.decisions:
            if not decision.target and not self._overcome.isdisjoint(decision.failed):
                continue
            for name in decision.nodes:
                if name in found:
                    found[name].append(decision)
        return {name: decisions for name, decisions in found.items() if decisions}

    @cached_property
    def _overcome(self) -> frozenset[str]:
        """Lists the rules of rewrites that failed at nodes which a target took nevertheless: they
        cannot be why another node is not taken.
        """
        taken = {name for region in self.regions for name in region.nodes}
        untargeted = (each for each in self.decisions if not each.target)
        met = (each.failed for each in untargeted if not taken.isdisjoint(each.nodes))
        return frozenset(sentence for failed in met for sentence in failed)

    @cached_property
    def order(self) -> dict[str, int]:
        """Gives the place of each pattern in the order of targets and of their patterns."""
        return {name: place for place, name in enumerate(self.patterns)}

    @property
    def placement(self) -> dict[str, str]:
        """Gives, for each node by name, the symbol of its region, "host" or "folded". A node that
        became several ops may be in several regions: "npu_0, npu_1"; `split` tells of those that
        the host shares.
        """
        symbols: dict[str, dict[str, None]] = {}
        for region in self.regions:
            for name in dict.fromkeys(region.nodes):
                symbols.setdefault(name, {})[region.symbol] = None
        where = dict.fromkeys(self.folded, FOLDED) | dict.fromkeys(self.host, HOST)
        return where | {name: ", ".join(found) for name, found in symbols.items()}

    @property
    def places(self) -> dict[str, str]:
        """Gives, for each node by name, its target, "host" or "folded"; of several targets the last
        one.
        """
        where = dict.fromkeys(self.folded, FOLDED) | dict.fromkeys(self.host, HOST)
        for region in self.regions:
            where.update(dict.fromkeys(region.nodes, region.target))
        return where

    @property
    def macs(self) -> dict[str, int]:
        """Counts the model's own multiply-accumulates per inference, by target or "host"."""
        totals = dict.fromkeys([*self.targets, HOST], 0)
        places = self.places
        for node in self.nodes:
            where, own = places.get(node.name, HOST), self.host_macs.get(node.name, 0)
            where = where if where in totals else HOST
            totals[where] += node.macs - own
            totals[HOST] += own
        return totals

    @property
    def padded_host_macs(self) -> int:
        """Counts the multiply-accumulates per inference that the host does, with those on channels
        that were added.
        """
        places, total = self.places, 0
        for node in self.nodes:
            own = node.macs if places[node.name] == HOST else self.host_macs.get(node.name, 0)
            found = self.padded.get(node.name)
            total += own if found is None else own * found.macs[1] // found.macs[0]
        return total

    def to_dict(self) -> dict[str, Any]:
        """Gives plain data, as the schema `report.schema.json` describes it."""
        return {
            **asdict(self),
            "schema_version": SCHEMA_VERSION,
            "nodes": [node._asdict() for node in self.nodes],
            "macs": self.macs,
        }

    @gc_paused()
    def to_json(self) -> str:
        """Gives the report as JSON text."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_dict(data: object) -> Report:
        """Reads the report that `to_dict` wrote; raises ValueError for anything else."""
        report = read_as(Report, data, "report")
        placement = report.placement
        lost = [node.name for node in report.nodes if node.name not in placement]
        if lost:
            raise ValueError(f"expected a place of each node, found none of '{lost[0]}'")
        if report.memory and not {"arena", "arena_lower_bound"} <= report.memory.keys():
            raise ValueError(f"expected the bytes of the arena, found {[*report.memory]}")
        return report


_QUANTISATION = re.compile(r"(Quantize|Dequantize)Linear(_\d+)?$")
"""Names as quantisers give them, and as nodes without a name are called."""


def layer_of(nodes: str) -> str:
    """Names a layer after its first node that is no quantisation."""
    names = nodes.split(", ")
    own = [name for name in names if not _QUANTISATION.search(name)]
    return (own or names)[0] or "(no node)"
