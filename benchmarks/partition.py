"""How compiling scales: each step on graphs of many shapes, with and without targets, one thread.

    python benchmarks/partition.py [--nodes N] [--runs N] [--shape SHAPE ...] [--steps STEP ...]
        [--targets TARGET ...]

Targets are none, a toy at the graph level, and VTA, which matches at both levels (not by default).
Each graph is compiled with N / 8 nodes and with N (20,000 by default), each time in a process of
its own. Printed are the median of the runs' processor seconds for both, how many times as much as
linear the larger one takes (2 is twice), and the same of the most memory, that of an empty program
aside. Then merging alone beside a rival: dependency sets copied along the graph, as Relax's
MergeCompositeFunctions keeps them, on the same graph in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from nets.growing_graphs import SHAPES, Npu, growing
from nets.resident import most_resident

import byocir
from byocir.compiler import generate, hand_over
from byocir.request import Request
from byocir.rewrites.byoc.grouping import Edge, group_nodes
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.page import page
from byocir.runtime.report_of_module import report_of
from byocir.runtime.report_text import explain

GROWTH = 8
"""How many times as many nodes the larger graph has."""
STEPS = (
    *("import", "partition", "report", "explain"),
    *("evaluator", "save", "load", "module", "host C"),
)
MEMORY = "memory"
TARGETS = {"none": list[str | Npu](), "toy": [Npu()], "vta": ["vta"]}

T = TypeVar("T")


def measure(shape: str, nodes: int, target: str) -> dict[str, float]:
    """Processor seconds of each step, with a fresh runner as in one compilation, and the megabytes
    that all took at most."""
    seconds: dict[str, float] = {}

    def timed(step: str, work: Callable[[], T]) -> T:
        gc.collect()
        began = time.process_time()
        result = work()
        seconds[step] = time.process_time() - began
        return result

    byocir.compile(
        growing(shape, 8), targets=[Npu(), "vta"], host="c"
    )  # what is loaded on first use
    model, before = growing(shape, nodes), most_resident()
    module = timed("import", lambda: byocir.import_onnx(model))
    runner, targets = PassRunner(keeps_start=False), TARGETS[target]
    report = timed("partition", lambda: hand_over(module, Request(targets), runner))
    timed("report", lambda: report_of(module).to_json())
    timed("explain", lambda: explain(report) + page(report, shape))
    package = timed("evaluator", lambda: generate(module, report, runner=runner))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.bpkg")
        timed("save", lambda: package.save(path))
        loaded = timed("load", lambda: byocir.load(path, targets=targets))
        timed("module", lambda: loaded.module)  # which is read when it is asked for
    timed("host C", lambda: generate(module, report, host="c", runner=runner))
    return {**seconds, MEMORY: most_resident() - before}


def medians(shape: str, nodes: int, target: str, runs: int) -> dict[str, float]:
    """The same as the median of several processes."""
    command = [sys.executable, __file__, "--child", shape, str(nodes), target]
    found = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(runs)
    ]
    return {step: median(each[step] for each in found) for step in found[0]}


def table(options: argparse.Namespace) -> None:
    """Prints a line for each shape and step."""
    small, large = options.nodes // GROWTH, options.nodes
    print(f"{'':<44}{small:>8} nodes{large:>9} nodes   beyond linear")
    for shape in options.shape:
        for target in options.targets:
            title = f"{shape}{'' if target == 'none' else f', {target}'}"
            few, many = (medians(shape, n, target, options.runs) for n in (small, large))
            for step in (*options.steps, MEMORY):
                unit = "MB" if step == MEMORY else "s "
                beyond = many[step] / max(GROWTH * few[step], 1e-9)
                numbers = f"{few[step]:>11.2f} {unit}{many[step]:>12.2f} {unit}{beyond:>12.2f} x"
                print(f"{title:<34}{step:<10}{numbers}", flush=True)
                title = ""


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


def merging(nodes: int) -> None:
    """Prints merging beside the rival."""
    ours, theirs, regions, others = merging_alone(nodes)
    print(f"merging alone, {nodes} nodes of diamonds:")
    print(f"  waves               {ours:>8.3f} s, {regions} regions")
    print(f"  dependency sets     {theirs:>8.3f} s, {others} regions")
    print(f"  sets / waves        {theirs / ours:>8.1f} x")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=["none", "toy"])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    if options.child:
        shape, nodes, target = options.child
        print(json.dumps(measure(shape, int(nodes), target)))
        return
    table(options)
    merging(options.nodes)


if __name__ == "__main__":
    main(read_arguments())
