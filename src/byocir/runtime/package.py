"""Defines the package: one file that holds a compiled model, which is run in this process.

A zip of stored members with fixed timestamps and order: `manifest.json` (schema version, digests
and sizes of all members), the module's text, its weights as safetensors, each target's blobs and
the report. It holds sources and data, no shared libraries and no pickles; loading runs no code
from it, and reads no more than the manifest and the report: all else is read, and its digest
checked, when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from byocir.arguments import FLAG, TEXT, list_of
from byocir.arguments import check as check_arguments
from byocir.dialects.gc_pause import gc_paused
from byocir.errors import ByocirError, did_you_mean
from byocir.runtime.execution import Blobs, Execution
from byocir.runtime.interface import Interface, ValueType, types_of
from byocir.runtime.package_file import as_written, read_archive, write_archive
from byocir.runtime.packaged_module import PackagedModule, SavedModule
from byocir.runtime.report import Report

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from byocir.dialects.byoc import TargetAttr
    from byocir.lowering.tir_to_c import HostCode
    from byocir.runtime.golden import Golden
    from byocir.runtime.native import HostProgram
    from byocir.targets.base import Profile, Target
    from byocir.targets.loader import Loader
    from byocir.targets.resolve_targets import Targets

ARRAYS = list_of("a list of arrays", np.ndarray)


class Package:
    """Holds a compiled model: `module` (the host's program), `blobs` (each target's code, by target
    name and member name) and `report`."""

    def __init__(
        self,
        module: ModuleOp | PackagedModule,
        blobs: Blobs,
        report: Report,
        *,
        code: HostCode | None = None,
        found: Mapping[str, Target] | None = None,
        golden: Mapping[str, bytes] | None = None,
    ) -> None:
        """Makes a package; `code` is the host's and `found` are targets by name, where they are
        known already; `golden` are the members with golden inputs and outputs.
        """
        is_wrapped = isinstance(module, PackagedModule)
        self._source = module if is_wrapped else PackagedModule(module)
        self.blobs, self.report, self._golden = blobs, report, golden or {}
        self._execution = Execution(self._source, blobs, report, code, found)

    def __repr__(self) -> str:
        nodes, regions = len(self.report.nodes), len(self.report.regions)
        return f"<Package of {nodes:,} nodes, {regions:,} regions of {self.report.targets}>"

    @property
    def module(self) -> ModuleOp:
        """Gives the host's program. If it comes from a file it is read when it is first asked for;
        that raises ByocirError B120 to B122, B134 or B135 where byocir did not write it.
        """
        return self._source.read()

    @property
    def targets(self) -> list[TargetAttr]:
        """Gives the targets that it was compiled for, with their options."""
        return self._source.targets()

    @property
    def inputs(self) -> dict[str, ValueType]:
        """Gives the name and type of each input."""
        return types_of(self._source.interface.inputs)

    @property
    def outputs(self) -> dict[str, ValueType]:
        """Gives the name and type of each output."""
        return types_of(self._source.interface.outputs)

    @property
    def golden(self) -> Golden | None:
        """Gives inputs with the outputs that they must give, if somebody has set them. Raises
        ByocirError B122 or B135 where byocir did not write them, B136 for values that are no arrays
        of numbers.
        """
        from byocir.runtime.golden import golden_of

        return golden_of(self._golden, self._source.where) if self._golden else None

    @golden.setter
    def golden(self, given: Golden | None) -> None:
        self._golden = given.members() if given is not None else {}

    def run(self, feeds: Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
        """Computes outputs by name for inputs by name: arrays, and lists where the model has
        sequences. `check` has targets look for mistakes in their own code. Threads take turns.

        Foreign ops, and graph ops that no code of ours computes, run on ONNX Runtime if it is
        installed, else on onnx's reference; `report.ran_on` says which. Raises ByocirError B310 for
        a feed with a wrong name, shape or dtype, B312 for a foreign op that nothing runs, B219
        and B227 for a target that fails, B401 to B404 where the host runs as C and no compiler
        works, B134 where the file of the package was changed.
        """
        check_arguments(check=(check, FLAG))
        return self._execution.run(feeds, check)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles a package as the members of its file; compiled code is built anew."""
        blobs = {target: dict(files) for target, files in self.blobs.items()}
        return _restored, (
            dict(self._source.texts()),
            self._source.interface.to_dict(),
            self.report.to_dict(),
            blobs,
            dict(self._golden),
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Package:
        restore, parts = self.__reduce__()
        made: Package = restore(*parts)
        made._execution.found.update(self._execution.found)
        made._execution.loaders.update(self._execution.loaders)
        return made

    def take(self, loaders: Sequence[Loader], where: str) -> None:
        """Makes these loaders run the code of their targets, which then are not needed. Raises
        ByocirError B210 for a loader of another target, B213 for one with other options.
        """
        self._execution.take(loaders, where)

    def host_program(self, name: str = "") -> HostProgram:
        """Gives the host's C code as the program that `run` calls. Its names begin with `name`, if
        one is given, so that one library can hold several.
        """
        from byocir.runtime.c_function import NAME

        return self._execution.running().host_program(name or NAME)

    def target(self, name: str) -> Target:
        """Gives one of the targets, with its options. Raises ByocirError B210 where it is not
        known, or not one of this package."""
        check_arguments(name=(name, TEXT))
        return self._execution.target(name)

    def has_code(self, symbol: str) -> bool:
        """Tells if a region has code of its target; other regions run in the evaluator."""
        return symbol in self._execution.externals(False)

    def run_region(self, symbol: str, inputs: Sequence[Any]) -> list[Any]:
        """Runs the code of a region on inputs. Raises ByocirError B302 for an unknown region, and
        as `run` does for a target that fails."""
        check_arguments(symbol=(symbol, TEXT), inputs=(inputs, ARRAYS))
        externals = self._execution.externals(False)
        if symbol not in externals:
            raise ByocirError(
                "B302",
                f"expected a region with code, found {symbol}",
                help=did_you_mean(symbol, list(externals)),
            )
        return list(externals[symbol](inputs))

    def save(self, path: str | Path) -> None:
        """Writes the package; the same package gives the same bytes."""
        with gc_paused():
            texts = {**self._source.texts(), **self._golden}
            interface = self._source.interface
            write_archive(_path(path), texts, interface, self.report, self.blobs)

    @gc_paused()
    def profile(self) -> list[Profile]:
        """Profiles each target's programs, where the target can measure them."""
        from byocir.targets.base import profiles_of

        return [p for t, blobs in self._execution.with_code() for p in profiles_of(t, blobs)]


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
        return Package(saved, blobs, Report.from_dict(report), golden=golden)


def _path(given: object) -> Path:
    if isinstance(given, (str, os.PathLike)):
        return Path(cast("str | os.PathLike[str]", given))
    raise ByocirError("B130", f"expected the path of a package, found {type(given).__name__}")


def load(path: str | Path, *, targets: Targets | Loader | Sequence[Loader] = ()) -> Package:
    """Reads a package. Version, names and sizes are checked before anything else. Each part is
    read, and its digest checked, when it is used first: the weights of the model at its first run.
    Raises ByocirError B130 to B135 for a file that is not a package, or was changed, cut short or
    made to escape; for a part that is used later, whatever uses it raises them.

    A package names its targets and holds no code of theirs: give those that are not installed in
    `targets`, as instances or as files (`npu.py:Npu`), without options: it keeps those it was
    compiled with. Raises ByocirError B213 for options, and for an instance with others than those,
    B210 or B217 for a target there is not. Of a target that has one, a `Loader` will do, with which
    no compiler is imported.
    """
    if isinstance(targets, tuple) and not targets:
        return _load(path)
    from byocir.targets.loader import loaders_in

    loaders, others = loaders_in(targets)
    package = _load_with(path, others) if others is not None else _load(path)
    package.take(loaders, str(path))
    return package


def _load(path: str | Path) -> Package:
    place = _path(path)
    with gc_paused():
        texts, interface, blobs, report, golden = read_archive(place)
    return Package(SavedModule(texts, interface, str(place)), blobs, report, golden=golden)


def _load_with(path: str | Path, targets: Targets) -> Package:
    from byocir.targets.resolve_targets import check_options, listed, make_known

    named = listed(targets)
    given = {make_known(target, "a package", str(path)) for target in named}
    package = _load(path)
    check_options(named, package.targets, "a package", str(path))
    for target in package.targets:
        if target.target_name.data in given:
            package.target(target.target_name.data)
    return package
