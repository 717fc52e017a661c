"""Judges a model on data, as the `job.json` of a folder describes it: `byocir run FOLDER`.

```json
{"model": "net_int8.onnx", "float_model": "net_f32.onnx", "data": "test.npz",
 "input": "image", "labels": "label", "target": "vta", "shapes": {"image": [1, 1, 8, 8]},
 "goals": {"accuracy_loss_points": 0.5, "offloaded_macs_percent": 98.0}}
```

Prints what was offloaded where, top-1 accuracy of the f32 model and of the quantised model in ONNX
Runtime and of byocir, and cycles by layer and unit. If `model` is a list, all of this is printed
for each model, and at the end a line for each. The exit code is 3 when one misses a goal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.progress import track

import byocir
from byocir.cli.guard import CHECK_FAILED
from byocir.cli.profile import cycles_table
from byocir.cli.reference import run_onnxruntime
from byocir.cli.steps import StepTimer
from byocir.cli.user_files import read_arrays, read_json
from byocir.errors import ByocirError, did_you_mean
from byocir.runtime.package import Package
from byocir.runtime.report_text import summary

JOB = "job.json"
GOALS = {"accuracy_loss_points", "offloaded_macs_percent"}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_texts(value: object) -> bool:
    """Tells if a value is a text, or a list of texts."""
    return bool(_listed(value)) and all(map(_is_text, _listed(value)))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _is_shapes(value: object) -> bool:
    """Tells if a value maps names to lists of sizes."""
    if not isinstance(value, dict):
        return False
    shapes = cast(dict[str, object], value).values()
    return all(isinstance(shape, list) and _all_ints(cast(list[object], shape)) for shape in shapes)


def _all_ints(values: list[object]) -> bool:
    return all(type(value) is int for value in values)


def _is_goals(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    goals = cast(dict[str, Any], value)
    return goals.keys() == GOALS and all(type(goal) in (int, float) for goal in goals.values())


FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "model": ("a file name, or a list of them", _is_texts),
    "float_model": ("a file name", _is_text),
    "data": ("the name of an .npz file", _is_text),
    "input": ("the name of the input in the data", _is_text),
    "labels": ("the name of the labels in the data", _is_text),
    "target": ("a target", _is_text),
    "shapes": ('an object of shapes, e.g. {"image": [1, 1, 8, 8]}', _is_shapes),
    "goals": (f"an object of the numbers {' and '.join(sorted(GOALS))}", _is_goals),
}
"""Says for each field what it must hold, and checks that a value does."""


@dataclass(frozen=True)
class Job:
    """Holds the content of `job.json`, with paths resolved against its folder."""

    models: list[Path]
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
        """Reads the job of a folder. Raises ByocirError B101 for a missing file, B111 for a file
        that is no data and B113 for one that is no job.
        """
        path = folder / JOB
        if not path.is_file():
            raise ByocirError(
                "B101", f"expected {JOB} in the folder, found none", where=str(folder)
            )
        data = _read_fields(path)
        wanted = (data["input"], data["labels"])
        arrays = read_arrays(folder / data["data"], wanted, lambda name, _: name in wanted)
        for name in wanted:
            if name not in arrays:
                help = f"{data['data']} has {', '.join(arrays)}"
                raise ByocirError("B113", f"expected data '{name}'", where=str(path), help=help)
        _check_samples(path, data, arrays)
        return Job(
            [folder / name for name in _listed(data["model"])],
            folder / data["float_model"],
            arrays[data["input"]],
            arrays[data["labels"]],
            data["input"],
            data["target"],
            {name: tuple(shape) for name, shape in data["shapes"].items()},
            float(data["goals"]["accuracy_loss_points"]),
            float(data["goals"]["offloaded_macs_percent"]),
        )


def _check_samples(path: Path, fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raises ByocirError for data without one label for each sample, and for shapes that no sample
    has.
    """
    samples, labels = arrays[fields["input"]], arrays[fields["labels"]]
    name, count = fields["data"], samples.shape[0] if samples.ndim else 0
    if count == 0 or labels.shape != (count,):
        raise ByocirError(
            "B113",
            f"expected one label for each sample in {name}, found {fields['input']} of shape "
            f"{list(samples.shape)} and {fields['labels']} of shape {list(labels.shape)}",
            where=str(path),
        )
    sample, shape = [1, *samples.shape[1:]], fields["shapes"].get(fields["input"])
    if shape not in (None, sample):
        raise ByocirError(
            "B113",
            f"expected shape {sample} for '{fields['input']}', as the samples of {name} have it, "
            f"found {shape}",
            where=str(path),
            help="samples run one at a time",
        )


def _read_fields(path: Path) -> dict[str, Any]:
    """Reads the job's fields, each of which must have its form."""
    data = read_json(path, "B113")
    if not isinstance(data, dict):
        raise _not_a_job(path, "an object", data)
    fields = cast(dict[str, Any], data)
    for name, (form, holds) in FIELDS.items():
        if name not in fields:
            raise _not_a_job(path, f"'{name}', {form}", None)
        if not holds(fields[name]):
            raise _not_a_job(path, f"'{name}' to be {form}", fields[name])
    unknown = sorted(fields.keys() - FIELDS.keys())
    if unknown:
        help = did_you_mean(unknown[0], list(FIELDS))
        raise ByocirError("B113", f"unknown field '{unknown[0]}'", where=str(path), help=help)
    return fields


def _not_a_job(path: Path, expected: str, found: object) -> ByocirError:
    what = "none" if found is None else json.dumps(found)
    what = what if len(what) <= 40 else f"{what[:40]}…"
    help = "docs/command-line.md describes every field"
    return ByocirError("B113", f"expected {expected}, found {what}", where=str(path), help=help)


@dataclass(frozen=True)
class Judged:
    """Counts how many answers of a model are right in ONNX Runtime, and how many in byocir."""

    name: str
    package: Package
    in_onnxruntime: int
    right: int

    @property
    def share(self) -> float:
        """Gives the share of the work that a target took, in percent."""
        macs = self.package.report.macs
        total = sum(macs.values())
        return 100 * (total - macs["host"]) / total if total else 0.0


def run_job(folder: Path, *, check: bool = False) -> int:
    """Runs the job; gives the exit code. `check` looks for hazards in the target's code."""
    job = Job.read(folder)
    steps = StepTimer(1 + 5 * len(job.models))
    steps.begin("f32 in ONNX Runtime")
    feeds = [{job.input: job.images[i : i + 1]} for i in range(len(job.images))]
    f32 = _accuracy(run_onnxruntime(job.float_model, feeds), job.labels)
    judged = [_judged(job, model, feeds, steps, check) for model in job.models]
    steps.end()
    missed = [_tell(job, each, f32) for each in judged]
    if len(judged) > 1:
        print()
        for each in judged:
            print(_line(job, each))
    return CHECK_FAILED if any(missed) else 0


def _judged(
    job: Job, model: Path, feeds: list[dict[str, np.ndarray]], steps: StepTimer, check: bool
) -> Judged:
    package = byocir.compile(model, targets=[job.target], shapes=job.shapes, on_step=steps.begin)
    steps.begin("int8 in ONNX Runtime")
    theirs = _accuracy(run_onnxruntime(model, feeds), job.labels)
    steps.begin(f"int8 on {job.target}")
    ours = _accuracy(_outputs(package, feeds, check=check), job.labels)
    return Judged(model.name, package, theirs, ours)


def _tell(job: Job, judged: Judged, f32: int) -> bool:
    """Prints the results of a model; tells if it missed a goal."""
    if len(job.models) > 1:
        print(f"\n{judged.name}")
    print(summary(judged.package.report))
    count = len(job.labels)
    for name, right in (
        ("f32, ONNX Runtime", f32),
        ("int8 QDQ, ONNX Runtime", judged.in_onnxruntime),
        (f"int8, byocir on {job.target}", judged.right),
    ):
        print(f"top-1 {name:<28}{100 * right / count:>8.2f} %   {right} of {count}")
    for profile in judged.package.profile():
        print(cycles_table(profile))
    return _misses(job, judged, 100 * (f32 - judged.right) / count)


def _line(job: Job, judged: Judged) -> str:
    """Sums up a model in one line, to compare it with others."""
    cycles = sum(profile.cycles for profile in judged.package.profile())
    accuracy = 100 * judged.right / len(job.labels)
    on_target = f"{judged.share:6.2f} % of MACs on {job.target}"
    return f"{judged.name:<32}top-1 {accuracy:6.2f} %  {on_target}  {cycles:>10,} cycles"


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
    """Counts the samples for which the largest value of the first output is at the label."""
    guesses = [int(next(iter(output.values())).argmax()) for output in outputs]
    return int((np.array(guesses) == labels).sum())


def _misses(job: Job, judged: Judged, loss: float) -> bool:
    share = judged.share
    checks = [
        (loss <= job.max_loss, f"accuracy loss {loss:.2f} points, goal <= {job.max_loss}"),
        (share >= job.min_share, f"offloaded MACs {share:.2f} %, goal >= {job.min_share}"),
    ]
    for holds, text in checks:
        print(f"{'ok  ' if holds else 'FAIL'} {text}")
    return not all(holds for holds, _ in checks)
