"""onnx's own backend tests, run without a way out.

onnx's runner counts a test as passed when the backend says that it is not supposed to implement it.
Here a case passes if the model was prepared and gave every expected output in dtype, shape and
value; anything else is a failure. `python tests/programs/onnx_suite.py [--host HOST]…
[--target TARGET]… [KIND]…` prints the score of each host with all of the targets, by default that
of the evaluator and of the host's C on this machine, without any.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from c_host import build_together
from onnx.backend.test import loader, runner
from onnx_cases import node_cases

from byocir.errors import ByocirError
from byocir.onnx_backend import Backend, BackendRep
from byocir.runtime.report import REFERENCE as EVALUATOR
from byocir.runtime.report import C

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")

BATCH = 48
"""The number of cases whose C is built as one library."""

PASSED, WRONG, REFUSED, CRASHED = "passed", "wrong", "refused", "crashed"

DataSets = list[tuple[list[Any], list[Any]]]


@dataclass(frozen=True)
class Case:
    """A model with inputs and the outputs that are expected for them."""

    name: str
    kind: str
    model: onnx.ModelProto
    data_sets: DataSets
    rtol: float
    atol: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: one of the words above, a flag that says if byocir computed all of it
    itself (as C, if that is the host), and a text of what went wrong."""

    case: Case
    result: str
    alone: bool = False
    problem: str = ""


def cases(kind: str) -> Iterator[Case]:
    """The cases of one kind, read one by one."""
    if kind == "light":
        yield from _light_cases()
        return
    found: Any = node_cases() if kind == "node" else loader.load_model_tests(kind=kind)
    for case in found:
        model, data_sets = case.model, case.data_sets
        if model is None:
            folder = Path(case.model_dir)
            model = _load(folder / "model.onnx")
            data_sets = [_read_set(each, model) for each in sorted(folder.glob("test_data_set*"))]
        yield Case(case.name, kind, model, data_sets, case.rtol, case.atol)


def _load(path: Path) -> onnx.ModelProto:
    return onnx.load_model_from_string(path.read_bytes())


def _light_cases() -> Iterator[Case]:
    folder = Path(loader.__file__).parents[1] / "data" / "light"
    for path in sorted(folder.glob("light_*.onnx")):
        model = _load(path)
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs: list[Any] = [
            runner.Runner.generate_dummy_data(value, name=path.stem)
            for value in model.graph.input
            if value.name not in weights
        ]
        outputs = [
            _read_value(path.with_name(f"{path.stem}_output_{index}.pb"), value.type)
            for index, value in enumerate(model.graph.output)
        ]
        yield Case(f"test_{path.stem}", "light", model, [(inputs, outputs)], 1e-3, 1e-7)


def _read_set(folder: Path, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    return (
        _read_values(folder, "input", model.graph.input),
        _read_values(folder, "output", model.graph.output),
    )


def _read_values(folder: Path, prefix: str, ports: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return [
        _read_value(folder / f"{prefix}_{index}.pb", ports[index].type) for index in range(count)
    ]


def _read_value(path: Path, type_: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if type_.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if type_.HasField("optional_type"):
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))


def run_case(case: Case, host: str = EVALUATOR, targets: Sequence[str] = ()) -> Outcome:
    """Prepares and runs a case, and compares."""
    return run_cases([case], host, targets)[0]


def run_cases(
    given: Sequence[Case], host: str = EVALUATOR, targets: Sequence[str] = ()
) -> list[Outcome]:
    """Prepares and runs cases, and compares. The C of many is built as one library, while the next
    ones are prepared."""
    prepared: list[tuple[Case, BackendRep | Outcome]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(given), BATCH):
            taken = given[start : start + BATCH]
            batch = [(case, _prepared(case, host, targets)) for case in taken]
            prepared += batch
            pool.submit(_build, [rep for _, rep in batch if isinstance(rep, BackendRep)])
    return [rep if isinstance(rep, Outcome) else _ran(case, rep, host) for case, rep in prepared]


def _prepared(case: Case, host: str, targets: Sequence[str]) -> BackendRep | Outcome:
    try:
        return Backend.prepare(case.model, host=host, targets=targets)
    except Exception as error:  # what the score is about: there should be none
        return _failed(case, error)


def _build(prepared: Sequence[BackendRep]) -> None:
    """Builds what is C; where that fails, each case builds its own when it is run."""
    packages = [rep.package for rep in prepared if rep.package.report.host_runs_on == C]
    programs = [package.host_program(f"case{i}") for i, package in enumerate(packages)]
    with suppress(ByocirError):
        build_together(programs)


def _ran(case: Case, prepared: BackendRep, host: str) -> Outcome:
    report, ran_on = prepared.package.report, set[str]()
    try:
        for inputs, expected in case.data_sets:
            outputs = prepared.run([_array(value) for value in inputs])
            ran_on |= set(report.ran_on.values())
            _compare([_array(value) for value in expected], list(outputs), case)
    except Exception as error:
        return _failed(case, error)
    in_c = report.host_runs_on == C and not report.called_back
    return Outcome(case, PASSED, not ran_on if host == EVALUATOR else in_c)


def _failed(case: Case, error: Exception) -> Outcome:
    if isinstance(error, AssertionError):
        return Outcome(case, WRONG, problem=str(error))
    if isinstance(error, ByocirError):
        return Outcome(case, REFUSED, problem=str(error))
    return Outcome(case, CRASHED, problem=f"{type(error).__name__}: {error}")


def _compare(expected: list[Any], found: list[Any], case: Case) -> None:
    """Raises AssertionError. Sequences are taken apart here: onnx's runner compares the rows of
    their elements, and fails for elements that have none."""
    assert len(found) == len(expected), f"expected {len(expected)} values, found {len(found)}"
    for wanted, value in zip(expected, found, strict=True):
        if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
            _compare([*cast(list[Any], wanted)], [*cast(list[Any], value)], case)
        elif wanted is None or value is None:
            assert wanted is value, f"expected {wanted}, found {value}"
        else:
            runner.Runner.assert_similar_outputs([wanted], [value], case.rtol, case.atol)


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value


def main(kinds: Sequence[str], hosts: Sequence[str], targets: Sequence[str]) -> int:
    """Prints the score by host and kind, and each case that did not pass; gives the exit code: 1 if
    any crashed."""
    found = {kind: list(cases(kind)) for kind in kinds}
    return int(any([_score(host, targets, found) for host in hosts]))


def _score(host: str, targets: Sequence[str], found: Mapping[str, Sequence[Case]]) -> bool:
    """Prints the score of one host; whether any case crashed."""
    totals: Counter[str] = Counter()
    print(" ".join(["host", host, *(f"target {target}" for target in targets)]))
    for kind, given in found.items():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = run_cases(given, host, targets)
        results = Counter(outcome.result for outcome in outcomes)
        own = sum(outcome.alone for outcome in outcomes)
        totals.update({**results, "all": len(outcomes), "own": own})
        _print_row(kind, len(outcomes), results, own)
        for outcome in outcomes:
            if outcome.result != PASSED:
                lines = [line for line in outcome.problem.splitlines() if line.strip()]
                print(f"  {outcome.result:<8} {outcome.case.name}: {lines[0] if lines else ''}")
    _print_row("all", totals["all"], totals, totals["own"])
    return totals[CRASHED] > 0


def _print_row(kind: str, count: int, results: Counter[str], own: int) -> None:
    words = ", ".join(f"{results[word]} {word}" for word in (WRONG, REFUSED, CRASHED))
    print(
        f"{kind:<18}{results[PASSED]:>5} of {count:>5} passed, "
        f"{own:>5} without foreign ops; {words}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the score in onnx's own backend tests")
    parser.add_argument("--host", action="append", default=[], help='such as "reference", "c"')
    parser.add_argument("--target", action="append", default=[], help="such as dnnl")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    return parser.parse_args()


if __name__ == "__main__":
    os.environ.setdefault("ORT_LOGGING_LEVEL", "4")
    arguments = _arguments()
    hosts = arguments.host or (EVALUATOR, C)
    sys.exit(main(arguments.kinds or KINDS, hosts, arguments.target))
