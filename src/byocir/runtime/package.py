"""The package: one file that holds a compiled model, and running it in process.

A zip of stored members with fixed timestamps and order: `manifest.json` (schema version, digests
and sizes of all members), the module's text, its weights as safetensors, each target's blobs and
the report. It holds sources and data, no shared libraries and no pickles; loading runs no code
from it, and reads the module's text only when the module is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from byocir.arguments import FLAG, TEXT, list_of
from byocir.arguments import check as check_arguments
from byocir.dialects.byoc import TargetAttr
from byocir.dialects.collector import collector_paused
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate.interpreter import External, Interpreter
from byocir.evaluate.module import MAIN, bind, evaluate, owned
from byocir.lowering.tir_to_c import HostCode
from byocir.runtime.archive import SavedModule, as_written, read_archive, texts_of, write_archive
from byocir.runtime.host import Host
from byocir.runtime.interface import Interface
from byocir.runtime.native import NAME, HostProgram, host_code
from byocir.runtime.report import C, Report
from byocir.targets.base import Profile, Target, profiles_of, target_of
from byocir.targets.calls import loaded
from byocir.targets.given import Targets, check_options, listed, make_known

ARRAYS = list_of("a list of arrays", np.ndarray)

Blobs = Mapping[str, Mapping[str, bytes]]


@dataclass
class Package:
    """A compiled model: `module` (the host's program), `blobs` (each target's code, by target name
    and member name) and `report`."""

    _source: ModuleOp | SavedModule = field(repr=False)
    blobs: Blobs
    report: Report
    _host: Host = field(default_factory=Host, repr=False)
    _interpreters: dict[bool, Interpreter] = field(
        default_factory=dict[bool, Interpreter], repr=False
    )
    _programs: dict[bool, HostProgram] = field(default_factory=dict[bool, HostProgram], repr=False)
    _code: HostCode | None = field(default=None, repr=False, compare=False)
    """The host's code, where it is known already."""
    _found: dict[str, Target] = field(default_factory=dict[str, Target], repr=False, compare=False)
    """Targets by name as they were when this was compiled or loaded: another class of the same name
    may be given later."""
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def module(self) -> ModuleOp:
        """The host's program. That of a file is read when it is asked for the first time: raises
        ByocirError B120 to B122 or B135 where byocir did not write it."""
        return self._source if isinstance(self._source, ModuleOp) else self._source.read()

    @property
    def targets(self) -> list[TargetAttr]:
        """The targets it was compiled for, with their options."""
        return [*self._interface.targets]

    @property
    def inputs(self) -> dict[str, Attribute]:
        """Name and type of each input."""
        return dict(self._interface.inputs)

    @property
    def outputs(self) -> dict[str, Attribute]:
        """Name and type of each output."""
        return dict(self._interface.outputs)

    @property
    def _interface(self) -> Interface:
        source = self._source
        return Interface.of(source) if isinstance(source, ModuleOp) else source.interface

    @property
    def _texts(self) -> Mapping[str, bytes]:
        """The module as text; what was read from a file and not changed since is that of the
        file."""
        kept = None if isinstance(self._source, ModuleOp) else self._source.texts
        return kept or texts_of(self.module)

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
            return self._run(self._interpreter(check), feeds, check)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what a file would: what runs is made anew where they are."""
        blobs = {target: dict(files) for target, files in self.blobs.items()}
        return _restored, (
            dict(self._texts),
            self._interface.to_dict(),
            self.report.to_dict(),
            blobs,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Package:
        restore, parts = self.__reduce__()
        made: Package = restore(*parts)
        made._found.update(self._found)
        return made

    def host_program(self, name: str = NAME) -> HostProgram:
        """The host's C code as a program with names that begin with `name`: what `run` will call.
        For `HostProgram.build_together`."""
        if self._code is None or self._code.name != name:
            self._code = host_code(self.module, name)
        return self._programs.setdefault(False, HostProgram(self._code, self._interpreter(False)))

    def _interpreter(self, check: bool) -> Interpreter:
        if check not in self._interpreters:
            self._interpreters[check] = Interpreter(
                self.module,
                self._externals(check),
                engine=self._host,
                whole=self._host.whole,
            )
        return self._interpreters[check]

    def target(self, name: str) -> Target:
        """One of the targets, with its options. Raises ByocirError B210 where it is not known, or
        not one of this package."""
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

    def _run(
        self, interpreter: Interpreter, feeds: Mapping[str, Any], check: bool
    ) -> dict[str, Any]:
        self.report.ran_on = self._host.ran_on
        if self.report.host_runs_on != C:
            return evaluate(self.module, feeds, interpreter=interpreter)
        if check not in self._programs:
            self._code = self._code or host_code(self.module)
            self._programs[check] = HostProgram(self._code, interpreter)
        entry = interpreter.function(MAIN)
        arrays, outputs = bind(entry, feeds)
        if [*outputs] != [*self.outputs]:  # of a function in memory: feeds say what is an input
            raise ByocirError(
                "B310",
                f"expected feeds for the inputs {', '.join(self.inputs)}, found {', '.join(feeds)}",
            )
        program = self._programs[check]
        results = owned(program.run(arrays), arrays)
        self.report.built_without = program.lacking
        return dict(zip(outputs, results, strict=True))

    def save(self, path: str | Path) -> None:
        """Writes the package; the same package gives the same bytes."""
        with collector_paused():
            write_archive(_path(path), self._texts, self._interface, self.report, self.blobs)

    def profile(self) -> list[Profile]:
        """Profiles each target's programs, for targets that can tell."""
        return [p for t, blobs in self._with_code() for p in profiles_of(t, blobs)]

    def _with_code(self) -> list[tuple[Target, Mapping[str, bytes]]]:
        names = [attribute.target_name.data for attribute in self.targets]
        return [(self.target(name), self.blobs[name]) for name in names if self.blobs.get(name)]

    def _externals(self, check: bool) -> dict[str, External]:
        externals: dict[str, External] = {}
        for target, blobs in self._with_code():
            symbols = [r.symbol for r in self.report.regions if r.target == target.name]
            runner = loaded(target, blobs, check=check)
            externals.update({s: lambda xs, s=s, r=runner: r(s, xs) for s in symbols})
        return externals


def _restored(
    texts: Mapping[str, bytes],
    interface: Mapping[str, Any],
    report: Mapping[str, Any],
    blobs: Blobs,
) -> Package:
    where = "a copied package"
    with as_written(where):
        saved = SavedModule(texts, Interface.read(interface), where)
        return Package(saved, blobs, Report.from_dict(report))


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
    named = listed(targets)
    given = {make_known(target, "a package", str(path)) for target in named}
    with collector_paused():
        module, blobs, report = read_archive(_path(path))
    check_options(named, module.interface.targets, "a package", str(path))
    package = Package(module, blobs, report)
    for attribute in package.targets:
        if attribute.target_name.data in given:
            package.target(attribute.target_name.data)
    return package
