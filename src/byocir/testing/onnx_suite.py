"""onnx's own backend tests, run without a way out.

onnx's runner counts a test as passed when the backend says that it is not supposed to implement it.
Here a case passes if the model was prepared and gave every expected output in dtype, shape and
value; anything else is a failure. `python -m byocir.testing.onnx_suite` prints the score.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend.test import loader, runner

from byocir.errors import ByocirError
from byocir.onnx_backend import Backend
from byocir.runtime.host import REFERENCE

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")

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
    """What became of a case: one of the words above, whether onnx's reference ran any of its
    operators, and what went wrong."""

    case: Case
    result: str
    used_reference: bool
    problem: str = ""


def cases(kind: str) -> Iterator[Case]:
    """The cases of one kind, read one by one."""
    if kind == "light":
        yield from _light_cases()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # expected values that overflow
        found: Any = loader.load_model_tests(kind=kind)
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


def run_case(case: Case) -> Outcome:
    """Prepares and runs a case, and compares."""
    ran_on: set[str] = set()
    try:
        prepared = Backend.prepare(case.model)
        for inputs, expected in case.data_sets:
            outputs = prepared.run([_array(value) for value in inputs])
            ran_on |= set(prepared.package.report.ran_on.values())
            _compare([_array(value) for value in expected], list(outputs), case)
    except AssertionError as error:
        return Outcome(case, WRONG, REFERENCE in ran_on, str(error))
    except ByocirError as error:
        return Outcome(case, REFUSED, REFERENCE in ran_on, str(error))
    except Exception as error:  # what the score is about: there should be none
        return Outcome(case, CRASHED, REFERENCE in ran_on, f"{type(error).__name__}: {error}")
    return Outcome(case, PASSED, REFERENCE in ran_on)


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


def main(kinds: Sequence[str]) -> int:
    """Prints the score by kind, and each case that did not pass; gives the exit code: 1 if any
    crashed."""
    totals: Counter[str] = Counter()
    for kind in kinds or KINDS:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = [run_case(case) for case in cases(kind)]
        results = Counter(outcome.result for outcome in outcomes)
        own = sum(o.result == PASSED and not o.used_reference for o in outcomes)
        totals.update({**results, "all": len(outcomes), "own": own})
        _print_row(kind, len(outcomes), results, own)
        for outcome in outcomes:
            if outcome.result != PASSED:
                lines = [line for line in outcome.problem.splitlines() if line.strip()]
                print(f"  {outcome.result:<8} {outcome.case.name}: {lines[0] if lines else ''}")
    _print_row("all", totals["all"], totals, totals["own"])
    return int(totals[CRASHED] > 0)


def _print_row(kind: str, count: int, results: Counter[str], own: int) -> None:
    words = ", ".join(f"{results[word]} {word}" for word in (WRONG, REFUSED, CRASHED))
    print(
        f"{kind:<18}{results[PASSED]:>5} of {count:>5} passed, "
        f"{own:>5} without onnx's reference; {words}",
        flush=True,
    )


if __name__ == "__main__":
    os.environ.setdefault("ORT_LOGGING_LEVEL", "4")
    sys.exit(main(sys.argv[1:]))
