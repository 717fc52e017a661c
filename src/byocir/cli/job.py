"""`byocir run FOLDER`: a model judged on data, as the folder's `job.json` describes it.

```json
{"model": "net_int8.onnx", "float_model": "net_f32.onnx", "data": "test.npz",
 "input": "image", "labels": "label", "target": "vta", "shapes": {"image": [1, 1, 8, 8]},
 "goals": {"accuracy_loss_points": 0.5, "offloaded_macs_percent": 98.0}}
```

Prints what was offloaded where, top-1 accuracy of the f32 model and of the quantised model in ONNX
Runtime and of byocir, and cycles by layer and unit. The exit code is 3 when a goal is missed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

import byocir
from byocir.cli.guard import CHECK_FAILED
from byocir.cli.reference import run_onnxruntime
from byocir.cli.run import Steps
from byocir.errors import ByocirError
from byocir.runtime.explain import summary
from byocir.runtime.package import Package
from byocir.targets.base import Profile

JOB = "job.json"
FIELDS = {"model", "float_model", "data", "input", "labels", "target", "shapes", "goals"}


@dataclass(frozen=True)
class Job:
    """What `job.json` says, with paths resolved against its folder."""

    model: Path
    float_model: Path
    images: np.ndarray
    labels: np.ndarray
    input: str
    target: str
    shapes: dict[str, tuple[int, ...]]
    max_loss: float
    min_share: float

    @staticmethod
    def read(folder: Path) -> Job:
        """Raises ByocirError B101 for a missing file and B113 for a job that is not one."""
        path = folder / JOB
        if not path.is_file():
            raise ByocirError(
                "B101", f"expected {JOB} in the folder, found none", where=str(folder)
            )
        try:
            data: dict[str, Any] = json.loads(path.read_text())
            missing = sorted(FIELDS - data.keys())
            if missing:
                raise ByocirError("B113", f"expected '{missing[0]}' in the job", where=str(path))
            with np.load(folder / data["data"], allow_pickle=False) as arrays:
                images, labels = arrays[data["input"]], arrays[data["labels"]]
            goals = data["goals"]
            return Job(
                folder / data["model"],
                folder / data["float_model"],
                images,
                labels,
                data["input"],
                data["target"],
                {name: tuple(shape) for name, shape in data["shapes"].items()},
                float(goals["accuracy_loss_points"]),
                float(goals["offloaded_macs_percent"]),
            )
        except (ValueError, KeyError, OSError, AttributeError, TypeError) as error:
            raise ByocirError("B113", f"expected a job, found: {error}", where=str(path)) from error


def run_job(folder: Path, *, check: bool = False) -> int:
    """Runs the job; gives the exit code. `check` looks for hazards in the target's code."""
    job, steps = Job.read(folder), Steps(6)
    package = byocir.compile(
        job.model, targets=[job.target], shapes=job.shapes, on_step=steps.begin
    )
    steps.begin("f32 in ONNX Runtime")
    feeds = [{job.input: job.images[i : i + 1]} for i in range(len(job.images))]
    f32 = _accuracy(run_onnxruntime(job.float_model, feeds), job.labels)
    steps.begin("int8 in ONNX Runtime")
    int8 = _accuracy(run_onnxruntime(job.model, feeds), job.labels)
    steps.begin(f"int8 on {job.target}")
    ours = _accuracy(_outputs(package, feeds, check=check), job.labels)
    steps.end()
    print(summary(package.report))
    count = len(job.labels)
    for name, right in (("f32, ONNX Runtime", f32), ("int8 QDQ, ONNX Runtime", int8)):
        print(f"top-1 {name:<28}{100 * right / count:>8.2f} %   {right} of {count}")
    mine = f"int8, byocir on {job.target}"
    print(f"top-1 {mine:<28}{100 * ours / count:>8.2f} %   {ours} of {count}")
    for profile in package.profile():
        print(cycles_table(profile))
    return _judge(job, package, 100 * (f32 - ours) / count)


def _outputs(
    package: Package, feeds: list[dict[str, np.ndarray]], *, check: bool
) -> Iterator[dict[str, np.ndarray]]:
    console = Console(stderr=True)
    progress: Iterable[dict[str, np.ndarray]] = feeds
    if console.is_terminal:
        progress = track(feeds, description="images", console=console, transient=True)
    for feed in progress:
        yield package.run(feed, check=check)


def _accuracy(outputs: Iterable[Mapping[str, np.ndarray]], labels: np.ndarray) -> int:
    """How many of the first outputs have their largest value at the label."""
    guesses = [int(next(iter(output.values())).argmax()) for output in outputs]
    return int((np.array(guesses) == labels).sum())


def _judge(job: Job, package: Package, loss: float) -> int:
    macs = package.report.macs
    total = sum(macs.values())
    share = 100 * (total - macs["host"]) / total if total else 0.0
    checks = [
        (loss <= job.max_loss, f"accuracy loss {loss:.2f} points, goal <= {job.max_loss}"),
        (share >= job.min_share, f"offloaded MACs {share:.2f} %, goal >= {job.min_share}"),
    ]
    for holds, text in checks:
        print(f"{'ok  ' if holds else 'FAIL'} {text}")
    return 0 if all(holds for holds, _ in checks) else CHECK_FAILED


def cycles_table(profile: Profile) -> str:
    """Cycles of one program in total, and each unit's busy cycles by layer. Units run side by side,
    so rows add up to more than the total."""
    units = list(dict.fromkeys(unit for _, unit, _ in profile.by_node))
    rows: dict[str, Counter[str]] = {}
    for nodes, unit, cycles in profile.by_node:
        rows.setdefault(_layer(nodes), Counter())[unit] += cycles
    lines = [f"{profile.symbol}: {profile.cycles:,} simulated cycles per run; busy cycles by unit:"]
    lines.append(f"  {'layer':<36}" + "".join(f"{unit:>10}" for unit in units))
    for layer, busy in rows.items():
        lines.append(f"  {layer[:36]:<36}" + "".join(f"{busy[unit]:>10,}" for unit in units))
    totals: Counter[str] = Counter()
    for busy in rows.values():
        totals.update(busy)
    lines.append(f"  {'all':<36}" + "".join(f"{totals[unit]:>10,}" for unit in units))
    return "\n".join([*lines, *_causes(profile), *_bounds(profile)])


def _causes(profile: Profile) -> list[str]:
    """What each unit's cycles go to, in a table; its rows add up to the total."""
    if not profile.units:
        return []
    causes = list(next(iter(profile.units.values())))
    lines = [f"  {'all cycles of each unit':<36}" + "".join(f"{cause:>10}" for cause in causes)]
    for unit, cycles in profile.units.items():
        lines.append(f"  {unit:<36}" + "".join(f"{cycles[cause]:>10,}" for cause in causes))
    return lines


def _bounds(profile: Profile) -> list[str]:
    """How far the program is from the least it could take."""
    if not profile.bounds or not profile.cycles:
        return []
    by_size = sorted(profile.bounds.items(), key=lambda item: -item[1])
    share = 100 * by_size[0][1] / profile.cycles
    listed = ", ".join(f"{name} {cycles:,}" for name, cycles in by_size)
    return [f"  least cycles: {listed}; the largest is {share:.1f} % of the total"]


def _layer(nodes: str) -> str:
    """The name of a layer: its first node that is no quantisation."""
    names = nodes.split(", ")
    own = [name for name in names if not name.endswith(("QuantizeLinear", "DequantizeLinear"))]
    return (own or names)[0] or "(no node)"
