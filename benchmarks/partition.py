"""How the first hand-off scales: match, assign, merge and outline on large graphs, one thread.

    python benchmarks/partition.py [NODES]

Prints processor seconds for NODES (default 5000) and four times as many, and the growth beyond
linear. Then the merging alone beside a rival: dependency sets copied along the graph, as Relax's
MergeCompositeFunctions keeps them, on the same graph in the same run.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from byocir.dialects.context import load_context
from byocir.dialects.graph import AddOp, ReluOp, SoftmaxOp
from byocir.dialects.locations import named
from byocir.dialects.types import f32, tensor
from byocir.patterns import Composite, op, wildcard
from byocir.patterns.targets import attr_of, register
from byocir.rewrites.byoc.grouping import Edge, group_nodes
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import parse_pipeline
from byocir.targets.base import Target

PASSES = "match-composites,assign-targets,merge-regions,outline-regions"
TYPE = tensor(f32, (4,))


@dataclass(frozen=True)
class Npu(Target):
    """Takes sums and relus; softmax stays on the host."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (
        Composite("npu.add", (op("graph.add", wildcard(), wildcard()),)),
        Composite("npu.relu", (op("graph.relu", wildcard()),)),
    )


class Graph:
    """A function under construction; every op has a location, as the importer gives it."""

    def __init__(self) -> None:
        self.block = Block(arg_types=[TYPE, TYPE])
        self.x, self.y = self.block.args
        self.count = 0

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._made(AddOp.make(a, b))

    def relu(self, a: SSAValue) -> SSAValue:
        return self._made(ReluOp.make(a))

    def host(self, a: SSAValue) -> SSAValue:
        return self._made(SoftmaxOp.make(a, axis=0))

    def _made(self, made: AddOp | ReluOp | SoftmaxOp) -> SSAValue:
        self.count += 1
        made.location = named(f"node_{self.count}")
        self.block.add_op(made)
        return made.results[0]

    def module(self, *results: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*results))
        types = [TYPE, TYPE], [value.type for value in results]
        return ModuleOp([FuncOp("main", types, Region(self.block))])


def chain(graph: Graph, nodes: int) -> SSAValue:
    """One op after the other, all for the target."""
    value = graph.x
    for i in range(nodes):
        value = graph.relu(value) if i % 2 else graph.add(value, graph.y)
    return value


def diamonds(graph: Graph, nodes: int) -> SSAValue:
    """Forks with one of two ways through the host."""
    value = graph.x
    for _ in range(nodes // 4):
        fork = graph.relu(value)
        value = graph.add(graph.add(fork, graph.y), graph.host(fork))
    return value


def every_third(graph: Graph, nodes: int) -> SSAValue:
    """A chain with every third op on the host."""
    value = graph.x
    for i in range(nodes):
        value = graph.host(value) if i % 3 == 2 else graph.add(value, graph.y)
    return value


def fan_out(graph: Graph, nodes: int) -> SSAValue:
    """One value with thousands of users, a fifth of them on the host, summed up again."""
    fork = graph.relu(graph.x)
    leaves = [graph.add(fork, graph.y) if i % 5 else graph.host(fork) for i in range(nodes // 2)]
    value = leaves[0]
    for leaf in leaves[1:]:
        value = graph.add(value, leaf)
    return value


SHAPES: dict[str, Callable[[Graph, int], SSAValue]] = {
    "chain": chain,
    "diamonds": diamonds,
    "every third on host": every_third,
    "fan-out": fan_out,
}


def partition_seconds(shape: Callable[[Graph, int], SSAValue], nodes: int) -> tuple[float, int]:
    """Processor seconds of the four passes, and the calls they leave."""
    graph = Graph()
    module = graph.module(shape(graph, nodes))
    set_targets(module, [attr_of(Npu())])
    context, passes = load_context(), parse_pipeline(PASSES)
    began = time.process_time()
    for pass_ in passes:
        pass_.apply(context, module)
    seconds = time.process_time() - began
    return seconds, sum(o.name == "byoc.call" for o in module.walk())


def merge_by_sets(count: int, edges: list[Edge], colours: list[int | None]) -> int:
    """The rival: each node's group and the set of groups it depends on through others; a node joins
    the group of a predecessor that is not in the set. Gives the number of groups of a colour."""
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
    group = list(range(count))
    through: list[set[int]] = [set() for _ in range(count)]
    for node in range(count):
        inputs = before[node]
        banned = set[int]().union(*(through[i] for i in inputs))
        banned |= {group[i] for i in inputs if colours[i] != colours[node]}
        mine = [group[i] for i in inputs if colours[i] == colours[node] is not None]
        joined = next((g for g in mine if g not in banned), None)
        if joined is not None:
            group[node] = joined
        through[node] = banned | ({g for g in mine if g != group[node]})
    return len({g for g, colour in zip(group, colours, strict=True) if colour is not None})


def merging_alone(nodes: int) -> tuple[float, float, int, int]:
    """Seconds of ours and of the rival on diamonds, and the regions of each."""
    edges: list[Edge] = []
    for i in range(0, nodes - 3, 4):
        edges += [(i, i + 1), (i, i + 2), (i + 1, i + 3), (i + 2, i + 3)]
        edges += [(i + 3, i + 4)] if i + 4 < nodes else []
    edges = [(a, b) for a, b in edges if b < nodes]
    colours = [None if i % 4 == 2 else 0 for i in range(nodes)]
    gc.collect()  # what came before is none of the merging's business
    began = time.process_time()
    quotient = group_nodes(nodes, edges, colours, ["any"])
    ours = time.process_time() - began
    regions = len({quotient.group(i) for i, colour in enumerate(colours) if colour is not None})
    began = time.process_time()
    theirs_regions = merge_by_sets(nodes, edges, colours)
    return ours, time.process_time() - began, regions, theirs_regions


def main(nodes: int) -> None:
    """Prints both tables."""
    register(Npu.name, Npu)
    print(f"{'':<22}{nodes:>8} nodes{4 * nodes:>8} nodes   growth beyond linear")
    for name, shape in SHAPES.items():
        small, calls = partition_seconds(shape, nodes)
        large, _ = partition_seconds(shape, 4 * nodes)
        ratio = large / (4 * small)
        print(f"{name:<22}{small:>12.2f} s{large:>12.2f} s{ratio:>9.2f} x   ({calls} calls)")
    ours, theirs, regions, others = merging_alone(4 * nodes)
    print(f"merging alone, {4 * nodes} nodes of diamonds:")
    print(f"  waves               {ours:>8.3f} s, {regions} regions")
    print(f"  dependency sets     {theirs:>8.3f} s, {others} regions")
    print(f"  sets / waves        {theirs / ours:>8.1f} x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
