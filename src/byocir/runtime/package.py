"""The package: one file that holds a compiled model, and running it in process.

A zip of stored members with fixed timestamps and order: `manifest.json` (schema version, digests
and sizes of all members), the module's text, its weights as safetensors, each target's blobs and
the report. It holds sources and data, no shared libraries and no pickles; loading runs no code
from it, and reads the module's text only when the module is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from byocir.arguments import FLAG, TEXT, list_of
from byocir.arguments import check as check_arguments
from byocir.dialects.collector import collector_paused
from byocir.errors import ByocirError, did_you_mean
from byocir.runtime.archive import (
    MODULE,
    WEIGHTS,
    as_written,
    read_archive,
    write_archive,
)
from byocir.runtime.c_function import NAME
from byocir.runtime.interface import Interface
from byocir.runtime.module_text import SavedModule
from byocir.runtime.plan import PlannedProgram, keep_plan, kept_plan
from byocir.runtime.report import C, Region, Report

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from byocir.dialects.byoc import TargetAttr
    from byocir.evaluate.interpreter import External
    from byocir.lowering.tir_to_c import HostCode
    from byocir.runtime.golden import Golden
    from byocir.runtime.native import HostProgram
    from byocir.runtime.running import Running
    from byocir.targets.base import Profile, Runner, Target
    from byocir.targets.given import Targets

ARRAYS = list_of("a list of arrays", np.ndarray)

Blobs = Mapping[str, Mapping[str, bytes]]


@dataclass
class Package:
    """A compiled model: `module` (the host's program), `blobs` (each target's code, by target name
    and member name) and `report`."""

    _source: ModuleOp | SavedModule = field(repr=False)
    blobs: Blobs
    report: Report
    _code: HostCode | None = field(default=None, repr=False, compare=False)
    """The host's code, where it is known already."""
    _found: dict[str, Target] = field(
        default_factory=dict[str, "Target"], repr=False, compare=False
    )
    """Targets by name as they were when this was compiled or loaded: another class of the same name
    may be given later."""
    _golden: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """The members with golden inputs and outputs."""
    _planned: PlannedProgram | None = field(default=None, init=False, repr=False, compare=False)
    """The program that runs as long as nobody needs the module."""
    _running: Running | None = field(default=None, init=False, repr=False, compare=False)
    """The module as it runs, once somebody needs it."""
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def module(self) -> ModuleOp:
        """The host's program. That of a file is read when it is asked for the first time: raises
        ByocirError B120 to B122 or B135 where byocir did not write it."""
        return self._source.read() if isinstance(self._source, SavedModule) else self._source

    @property
    def targets(self) -> list[TargetAttr]:
        """The targets it was compiled for, with their options."""
        from byocir.patterns.targets import targets_of
        from byocir.runtime.saved_module import targets_named

        source = self._source
        if isinstance(source, SavedModule):
            return targets_named(source.interface.targets, source.where)
        return [*targets_of(source)]

    @property
    def inputs(self) -> dict[str, Attribute]:
        """Name and type of each input."""
        return self._types()[0]

    @property
    def outputs(self) -> dict[str, Attribute]:
        """Name and type of each output."""
        return self._types()[1]

    def _types(self) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        from byocir.runtime.saved_module import module_types, types_of

        source = self._source
        if not isinstance(source, SavedModule):
            return module_types(source)
        interface = source.interface
        return types_of(interface.inputs, source.where), types_of(interface.outputs, source.where)

    @property
    def golden(self) -> Golden | None:
        """Inputs and the outputs that they must give, as far as somebody has set them. Raises
        ByocirError B122 or B135 where byocir did not write them, B136 for values that are no arrays
        of numbers."""
        from byocir.runtime.golden import golden_of

        source = self._source
        where = source.where if isinstance(source, SavedModule) else ""
        return golden_of(self._golden, where) if self._golden else None

    @golden.setter
    def golden(self, given: Golden | None) -> None:
        self._golden = given.members() if given is not None else {}

    @property
    def _interface(self) -> Interface:
        if isinstance(self._source, SavedModule):
            return self._source.interface
        from byocir.runtime.saved_module import interface_of

        return interface_of(self._source)

    @property
    def _texts(self) -> Mapping[str, bytes]:
        """The module as text; what was read from a file and not changed since is that of the
        file."""
        kept = self._source.texts if isinstance(self._source, SavedModule) else None
        if kept is not None:
            return kept
        from byocir.runtime.saved_module import texts_of

        return texts_of(self.module)

    def run(self, feeds: Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
        """Outputs by name for inputs by name: arrays, and lists where the model has sequences.
        `check` has targets look for mistakes in their own code. Threads take turns.

        Foreign ops, and graph ops that no code of ours computes, run on ONNX Runtime if it is
        installed, else on onnx's reference; `report.ran_on` says which. Raises ByocirError B310 for
        a feed with a wrong name, shape or dtype, B312 for a foreign op that nothing runs, B219
        and B227 for a target that fails, B401 to B404 where the host runs as C and no compiler
        works."""
        check_arguments(check=(check, FLAG))
        with self._lock:  # interpreter and C code have one working memory
            planned = None if check else self._from_plan()
            if planned is None or not planned.takes(feeds):
                return self._runs().run(feeds, check)
            outputs = planned.run(feeds)
            self.report.built_without = planned.lacking
            return outputs

    def _from_plan(self) -> PlannedProgram | None:
        """The program of the plan that an earlier process kept for a module that nobody has read
        here, nor may have changed."""
        texts = self._source.texts if isinstance(self._source, SavedModule) else None
        if texts is None or self.report.host_runs_on != C:
            return None
        plan = None if self._planned is not None else kept_plan(texts[MODULE])
        if plan is not None and plan.interface == self._interface:
            regions = self._externals(False) if plan.calls else {}
            if all(call.symbol in regions for call in plan.calls):
                with suppress(ValueError):  # weights that are not those of the module
                    self._planned = PlannedProgram(plan, texts[WEIGHTS], regions)
        return self._planned

    def _runs(self) -> Running:
        """The module as it runs. Of one that was saved, and read for this alone, a plan is kept."""
        from byocir.runtime.running import Running

        if self._running is None:
            texts = self._source.texts if isinstance(self._source, SavedModule) else None
            self._running = Running(self.module, self.report, self._externals, self._code)
            if texts is not None and self._planned is None and self.report.host_runs_on == C:
                plan = self._running.plan(self._interface)
                if plan is not None:
                    keep_plan(texts[MODULE], plan)
        return self._running

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what a file would: what runs is made anew where they are."""
        blobs = {target: dict(files) for target, files in self.blobs.items()}
        return _restored, (
            dict(self._texts),
            self._interface.to_dict(),
            self.report.to_dict(),
            blobs,
            dict(self._golden),
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Package:
        restore, parts = self.__reduce__()
        made: Package = restore(*parts)
        made._found.update(self._found)
        return made

    def host_program(self, name: str = NAME) -> HostProgram:
        """The host's C code as a program with names that begin with `name`: what `run` will call.
        For `HostProgram.build_together`."""
        return self._runs().host_program(name)

    def target(self, name: str) -> Target:
        """One of the targets, with its options. Raises ByocirError B210 where it is not known, or
        not one of this package."""
        from byocir.targets.base import target_of

        check_arguments(name=(name, TEXT))
        if name not in self._found:
            own = {each.target_name.data: each for each in self.targets}
            if name not in own:
                raise ByocirError(
                    "B210",
                    f"expected a target of the package, found '{name}'",
                    help=did_you_mean(name, list(own)),
                )
            self._found[name] = target_of(own[name])
        return self._found[name]

    def has_code(self, symbol: str) -> bool:
        """Tells if a region has code of its target; the evaluator runs the others."""
        return symbol in self._externals(False)

    def run_region(self, symbol: str, inputs: Sequence[Any]) -> list[Any]:
        """Runs the code of a region on inputs. Raises ByocirError B302 for an unknown region, and
        as `run` does for a target that fails."""
        check_arguments(symbol=(symbol, TEXT), inputs=(inputs, ARRAYS))
        externals = self._externals(False)
        if symbol not in externals:
            raise ByocirError(
                "B302",
                f"expected a region with code, found {symbol}",
                help=did_you_mean(symbol, list(externals)),
            )
        return list(externals[symbol](inputs))

    def save(self, path: str | Path) -> None:
        """Writes the package; the same package gives the same bytes."""
        with collector_paused():
            texts = {**self._texts, **self._golden}
            write_archive(_path(path), texts, self._interface, self.report, self.blobs)

    @collector_paused()
    def profile(self) -> list[Profile]:
        """Profiles each target's programs, for targets that can tell."""
        from byocir.targets.base import profiles_of

        return [p for t, blobs in self._with_code() for p in profiles_of(t, blobs)]

    def _with_code(self) -> list[tuple[Target, Mapping[str, bytes]]]:
        names = [target.name for target in self._interface.targets]
        return [(self.target(name), self.blobs[name]) for name in names if self.blobs.get(name)]

    def _externals(self, check: bool) -> dict[str, External]:
        from byocir.targets.calls import loaded

        externals: dict[str, External] = {}
        for target, blobs in self._with_code():
            runner = loaded(target, blobs, check=check)
            regions = [each for each in self.report.regions if each.target == target.name]
            externals.update({each.symbol: partial(_called, runner, each) for each in regions})
        return externals


def _called(runner: Runner, region: Region, inputs: Sequence[Any]) -> list[Any]:
    """Runs the code of a region; errors say of which nodes."""
    try:
        return runner(region.symbol, inputs)
    except ByocirError as error:
        error.at(", ".join(region.nodes))
        raise


def _restored(
    texts: Mapping[str, bytes],
    interface: Mapping[str, Any],
    report: Mapping[str, Any],
    blobs: Blobs,
    golden: Mapping[str, bytes],
) -> Package:
    where = "a copied package"
    with as_written(where):
        saved = SavedModule(texts, Interface.read(interface), where)
        return Package(saved, blobs, Report.from_dict(report), _golden=golden)


def _path(given: object) -> Path:
    if isinstance(given, str | os.PathLike):
        return Path(cast("str | os.PathLike[str]", given))
    raise ByocirError("B130", f"expected the path of a package, found {type(given).__name__}")


def load(path: str | Path, *, targets: Targets = ()) -> Package:
    """Reads a package. Version and digests are checked before anything else; raises ByocirError
    B130 to B135 for a file that is not a package, or was changed, cut short or made to escape.

    A package names its targets and holds no code of theirs: give those that are not installed in
    `targets`, as instances or as files (`npu.py:Npu`), without options: it keeps those it was
    compiled with. Raises ByocirError B213 for options, and for an instance with others than those,
    B210 or B217 for a target there is not.
    """
    if isinstance(targets, tuple) and not targets:
        return _load(path)  # which imports no compiler
    return _load_with(path, targets)


def _load(path: str | Path) -> Package:
    place = _path(path)
    with collector_paused():
        texts, interface, blobs, report, golden = read_archive(place)
    return Package(SavedModule(texts, interface, str(place)), blobs, report, _golden=golden)


def _load_with(path: str | Path, targets: Targets) -> Package:
    from byocir.targets.given import check_options, listed, make_known

    named = listed(targets)
    given = {make_known(target, "a package", str(path)) for target in named}
    package = _load(path)
    check_options(named, package.targets, "a package", str(path))
    for target in package.targets:
        if target.target_name.data in given:
            package.target(target.target_name.data)
    return package
