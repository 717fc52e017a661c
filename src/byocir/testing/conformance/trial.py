"""Compiles a program for a target, runs it, and reports what is wrong.

| code | what is wrong |
| --- | --- |
| B380 | results differ from what the evaluator computes |
| B381 | a target fails on a program that its patterns take |
| B382 | the same program gives other code |
| B383 | code writes its inputs |
| B384 | a call gives something else than the same call before |
| B385 | calls of two runners at once disturb each other |
| B386 | an exported project does not run, or gives something else |
| B390 | inputs are taken that do not fit |
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, cast

import numpy as np

from byocir.compiler import generate, hand_over
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate
from byocir.isolation import Died, Limits, go_on, isolated, limits_for
from byocir.machine import Machine
from byocir.request import Request
from byocir.rewrites.check_each import first_difference
from byocir.runtime.golden import distance
from byocir.runtime.host import Host
from byocir.runtime.package import Package
from byocir.targets.base import Runner, Target
from byocir.targets.load_code import load_code
from byocir.testing.conformance.cases import (
    NO_MEANING,
    Arrays,
    Case,
    Meaning,
    Unmeant,
)
from byocir.testing.conformance.exported import NotBuilt, run_exported
from byocir.testing.conformance.overlap import interleaved, side_by_side
from byocir.vendor.user_code import given_file


@contextmanager
def quiet() -> Generator[None]:
    """Silences numpy's warnings of overflow and NaN, as cases have such numbers, too."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # hides numpy's warnings in threads, too
        yield


@dataclass(frozen=True)
class Problem:
    """Describes one thing that is wrong, with a code of `docs/errors.md`."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"error[{self.code}]: {self.text}"


class Wrong(Exception):
    """Ends a trial with its problem."""

    def __init__(self, code: str, text: str) -> None:
        self.problem = Problem(code, text)
        super().__init__(text)


class TimeOver(Exception):
    """Ends a trial, between two of its parts, when no time is left for it."""


def in_time(until: float, *regions: str) -> None:
    """Raises TimeOver after this moment, in `time.monotonic()`. Before it, what follows has as much
    time of the process that it runs in as all before; the regions that it loads or runs are
    noted."""
    if time.monotonic() > until:
        raise TimeOver
    _note(*regions)


def _note(*regions: str) -> None:
    """Notes which regions are loaded or run next."""
    go_on(f"region{'s' if len(regions) > 1 else ''} {', '.join(regions)}")


@dataclass
class Call:
    """Records one call of a region: its function, and copies of its inputs and outputs."""

    symbol: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


@dataclass
class Trial:
    """Compiles one program for a target, runs it and holds the result: the composites that were
    taken, by name, and the problem, if there is one.
    """

    case: Case
    target: Target
    is_thorough: bool = True
    """Repeats calls of regions in ways that must not matter."""
    is_exported: bool = False
    """Tells if it runs as a project of its own, too."""
    until: float = inf
    """The moment, in `time.monotonic()`, after which nothing more is tried."""
    taken: Counter[str] = field(default_factory=Counter[str])
    declined: dict[str, str] = field(default_factory=dict[str, str])
    """By composite that was tried and not taken, the reason where it came closest."""
    problem: Problem | None = None
    is_run: bool = False
    """Tells if the program could be run on its inputs."""

    def run(self) -> Trial:
        """Compiles, runs and compares. Raises TimeOver."""
        expected = self.case.meaning(self.target)
        if expected is None:
            return self
        try:
            with suppress(Unmeant):
                self._check(expected)
        except Wrong as wrong:
            self.problem, self.is_run = wrong.problem, True
        return self

    def _check(self, expected: Meaning) -> None:
        package, again = compiled(self.case, self.target, self.until, twice=self.is_thorough)
        for region in package.report.regions:
            self.taken.update(each.pattern for each in region.composites)
        tried = package.report.decisions
        for each in sorted(tried, key=lambda decision: decision.distance, reverse=True):
            if not self.taken[each.pattern]:
                self.declined[each.pattern] = each.in_short
        limits = limits_for(is_from_file=bool(given_file(type(self.target))))
        if limits is None or not package.blobs:
            self._check_runs(package, expected)
        else:
            self._check_apart(partial(self._check_runs, package, expected), limits)
        self.is_run = True
        if again is not None:
            _compare_code(package, again)
        in_time(self.until)
        if self.is_exported and package.blobs:
            self._check_project(expected)

    def _check_runs(self, package: Package, expected: Meaning) -> None:
        """Runs the generated code in all ways, and compares."""
        calls = self._compare(package, expected, check=False)
        if package.blobs and _checks_itself(self.target):
            self._compare(package, expected, check=True)
        if self.is_thorough:
            _check_feeds(package, self.case.feeds)
        for call in calls[:2] if self.is_thorough else ():
            _check_call(partial(self._loaded, package), call, self.until)

    def _check_apart(self, check: Callable[[], None], limits: Limits) -> None:
        """Checks in a process of its own; raises here what was raised there, and Wrong where the
        code ended that process.
        """

        def checked() -> Any:
            try:
                check()
            except Unmeant:
                return {"meant": False}
            except Wrong as wrong:
                return {"wrong": [wrong.problem.code, wrong.problem.text]}
            except TimeOver:
                return {"over": True}
            return {}

        try:
            found = isolated(checked, limits)
        except Died as died:
            of = f"{died.during}, of target '{self.target.name}',"
            raise Wrong("B381", f"expected the code of {of} to be run, found {died}") from died
        if "meant" in found:
            raise Unmeant
        if "over" in found:
            raise TimeOver
        if "wrong" in found:
            raise Wrong(*found["wrong"])

    def _check_project(self, expected: Meaning) -> None:
        """Runs the program as an exported project and compares it with its meaning."""
        with _failing("to be exported"):
            try:
                found = run_exported(self.case, self.target)
            except NotBuilt as error:
                told = f"expected an exported project that runs, found {error}"
                raise Wrong("B386", told) from error
        if found is not None:
            _compare_meaning("B386", " of the exported project", found, expected)

    def _loaded(self, package: Package, check: bool = False) -> Runner:
        (blobs,) = package.blobs.values()
        return load_code(package.target(self.target.name), blobs, check=check)

    def _compare(self, package: Package, expected: Meaning, *, check: bool) -> list[Call]:
        """Runs the program and compares it with its meaning; gives the calls of regions."""
        calls: list[Call] = []
        externals: dict[str, Callable[[Sequence[np.ndarray]], list[np.ndarray]]] = {}
        in_time(self.until, *dict.fromkeys(each.symbol for each in package.report.regions))
        with _failing("to be run"):
            runner = self._loaded(package, check) if package.blobs else None
            for region in package.report.regions if runner is not None else ():
                assert runner is not None
                externals[region.symbol] = partial(_observed, calls, runner, region.symbol)
            host = Host()
            interpreter = Interpreter(package.module, externals, engine=host, whole=host.whole)
            found: Mapping[str, Any] = evaluate(
                package.module, self.case.feeds, interpreter=interpreter
            )
        _compare_meaning("B380", "", found, expected)
        return calls


def compiled(
    case: Case, target: Target, until: float = inf, *, twice: bool = False
) -> tuple[Package, Package | None]:
    """Compiles a program and, on request, generates its code once more to compare. Raises Wrong,
    Unmeant and TimeOver.
    """
    module = case.module.clone()
    with _failing("to be compiled"):
        report = hand_over(module, Request([target], case.levels))
        again = (module.clone(), deepcopy(report)) if twice else None
        in_time(until)
        package = generate(module, report)
        in_time(until)
        return package, None if again is None else generate(*again)


def _compare_meaning(code: str, which: str, found: Mapping[str, Any], expected: Meaning) -> None:
    """Raises Wrong for the first result that differs from the evaluator's."""
    for name, array in expected.outputs.items():
        told = difference(found[name], array)
        if told and difference(found[name], array, expected.room[name]):
            raise Wrong(code, f"expected {name}{which} as the evaluator computes it, {told}")


def difference(found: Any, expected: np.ndarray, room: np.ndarray | None = None) -> str:
    """Describes where an array differs from the expected one, by more than the tolerance of
    `first_difference` and this room; empty where it does not.
    """
    array = cast(np.ndarray, found)
    if not isinstance(found, np.ndarray) or array.dtype != expected.dtype:
        kind = array.dtype if isinstance(found, np.ndarray) else type(found).__name__
        return f"{expected.dtype}, found {kind}"
    if room is not None and array.shape == expected.shape:
        is_near = (room > 0) & ~(distance(array, expected)[0] > room)
        array = np.where(is_near, expected, array)
    seen = first_difference(array, expected)
    if seen is None:
        return ""
    at = f" at {list(seen.place)}" if seen.place else ""
    return f"{seen.before}{at}, found {seen.found}"


@contextmanager
def _failing(what: str) -> Generator[None]:
    """Turns an error of a target or a pass into a problem of the trial."""
    try:
        yield
    except (Wrong, Unmeant, TimeOver):
        raise
    except Exception as error:
        if isinstance(error, ByocirError) and error.code in NO_MEANING:
            raise Unmeant from error
        is_told = isinstance(error, ByocirError)
        told = str(error) if is_told else f"{type(error).__name__}: {error}"
        raise Wrong("B381", f"expected what patterns take {what}, found {told}") from error


def _check_feeds(package: Package, feeds: Arrays) -> None:
    """Raises Wrong where the target takes inputs that do not fit the program."""
    for name, array in feeds.items():
        others: list[dict[str, Any]] = [
            {key: value for key, value in feeds.items() if key != name},
            {**feeds, name: array[None]},
            {**feeds, name: array.astype(np.complex64)},
        ]
        for wrong, what in zip(others, ("no", "one more dimension of", "complex"), strict=True):
            with suppress(ByocirError):
                package.run(wrong)
                raise Wrong("B390", f"expected {what} {name} to be refused, found results")


def _checks_itself(target: Target) -> bool:
    """Tells if a target looks for mistakes in its own code."""
    is_own = type(target).load_checked is not Target.load_checked
    return is_own or isinstance(target.machine, Machine)


def _observed(
    calls: list[Call], runner: Runner, symbol: str, inputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Calls a region and keeps copies of its inputs and outputs."""
    before = [np.array(each) for each in inputs]
    _note(symbol)
    outputs = runner(symbol, inputs)
    for i, (array, copy) in enumerate(zip(inputs, before, strict=True)):
        if not np.array_equal(_bits(array), _bits(copy)):
            raise Wrong("B383", f"expected the code of {symbol} to keep its inputs, found it to "
                        f"write input {i}")  # fmt: skip
    calls.append(Call(symbol, before, [np.array(each) for each in outputs]))
    return outputs


def _bits(array: np.ndarray) -> np.ndarray:
    """Gives the bytes of an array, in which NaNs compare equal, too."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _compare_code(package: Package, again: Package) -> None:
    """Raises Wrong where the same module did not give the same bytes."""
    for target, blobs in package.blobs.items():
        others = again.blobs.get(target, {})
        for name in {**blobs, **others}:
            if blobs.get(name) != others.get(name):
                raise Wrong("B382", f"expected emit to give the same bytes each time, found "
                            f"another {name}")  # fmt: skip


def _check_call(load: Callable[[], Runner], call: Call, until: float) -> None:
    """Repeats a call in ways that must not matter: after another call, by a second runner, on
    arrays in another layout, and beside a call by another runner. Raises TimeOver.
    """
    in_time(until, call.symbol)
    first, second = load(), load()
    in_time(until, call.symbol)
    turned, begun = [_turned(array) for array in call.inputs], time.monotonic()
    try:
        other = first(call.symbol, turned)
    except Exception:  # other numbers may not be valid, such as indices
        turned, other = call.inputs, call.outputs
    spent = time.monotonic() - begun
    columns = [np.asfortranarray(a) if a.ndim > 1 else a for a in call.inputs]
    ways: list[tuple[str, Runner, Sequence[np.ndarray]]] = [
        ("after another", first, call.inputs),
        ("by a second runner", second, call.inputs),
        ("on arrays in column-major order", first, columns),
    ]
    for how, runner, inputs in ways:
        in_time(until, call.symbol)
        with _failing(f"to be run {how}"):
            _expect("B384", how, call, runner(call.symbol, inputs))
    with _failing("to be run by two runners at once"):
        beside = Call(call.symbol, turned, other)
        for run in (side_by_side, interleaved):
            pairs = run(lambda: first(call.symbol, call.inputs),
                        lambda: second(call.symbol, beside.inputs), spent)  # fmt: skip
            for mine, theirs in pairs:
                in_time(until, call.symbol)
                _expect("B385", "beside a call by another runner", call, mine)
                _expect("B385", "beside a call by another runner", beside, theirs)


def _expect(code: str, how: str, call: Call, outputs: Sequence[Any]) -> None:
    for i, (found, expected) in enumerate(zip(outputs, call.outputs, strict=True)):
        told = difference(found, expected)
        if told:
            raise Wrong(code, f"expected output {i} of {call.symbol} {how} as before, {told}")


def _turned(array: np.ndarray) -> np.ndarray:
    """Reverses the order of the numbers in inputs, which are mostly still valid."""
    return np.ascontiguousarray(array.reshape(-1)[::-1].reshape(array.shape))
