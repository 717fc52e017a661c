"""Runs a package in this process, and keeps what was made for that from one run to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from byocir.errors import ByocirError, did_you_mean
from byocir.runtime.package_file import MODULE, WEIGHTS
from byocir.runtime.packaged_module import PackagedModule
from byocir.runtime.report import C, Report

if TYPE_CHECKING:
    from byocir.evaluate.interpreter import External
    from byocir.lowering.tir_to_c import HostCode
    from byocir.runtime.cached_plan import PlannedProgram
    from byocir.runtime.native import Running
    from byocir.targets.base import Target
    from byocir.targets.loader import Loader

Blobs = Mapping[str, Mapping[str, bytes]]


class Execution:
    """Keeps the targets of a package, the program of its plan, and its module as it runs; each is
    made when it is needed first. A package that was just compiled knows its targets, and may know
    the host's code.
    """

    def __init__(
        self,
        module: PackagedModule,
        blobs: Blobs,
        report: Report,
        code: HostCode | None = None,
        found: Mapping[str, Target] | None = None,
    ) -> None:
        self._module, self._blobs, self._report, self._code = module, blobs, report, code
        self.found = {**(found or {})}
        """Targets by name as they were when the package was compiled or loaded: another class of
        the same name may be given later."""
        self.loaders: dict[str, Loader] = {}
        """By name of their targets, what runs their code, where the user gave no more than that."""
        self._planned: PlannedProgram | None = None
        self._running: Running | None = None
        self._lock = Lock()  # interpreter and C code have only one working memory

    def run(self, feeds: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Gives outputs by name for inputs by name; errors as `Package.run`."""
        with self._lock:
            planned = None if check else self._from_plan()
            if planned is None or not planned.takes(feeds):
                return self.running().run(feeds, check)
            outputs = planned.run(feeds)
            self._report.built_without = planned.lacking
            return outputs

    def _from_plan(self) -> PlannedProgram | None:
        """Gives the program of the plan that an earlier process kept for this module, as long as
        nobody has read the module here, and so may have changed it.
        """
        from byocir.runtime.cached_plan import PlannedProgram, kept_plan

        texts = self._module.unread
        if texts is None or self._report.host_runs_on != C:
            return None
        plan = None if self._planned is not None else kept_plan(texts[MODULE])
        if plan is not None and plan.interface == self._module.interface:
            regions = self.externals(False) if plan.calls else {}
            if all(call.symbol in regions for call in plan.calls):
                with suppress(ValueError):  # weights that are not those of the module
                    self._planned = PlannedProgram(plan, texts[WEIGHTS], regions)
        return self._planned

    def running(self) -> Running:
        """Gives the module as it runs. If it was saved, and is read for this purpose alone, a plan
        is kept for later processes.
        """
        from byocir.runtime.cached_plan import keep_plan
        from byocir.runtime.native import Running

        if self._running is None:
            texts = self._module.unread
            module = self._module.read()
            self._running = Running(module, self._report, self.externals, self._code)
            if texts is not None and self._planned is None and self._report.host_runs_on == C:
                plan = self._running.plan(self._module.interface)
                if plan is not None:
                    keep_plan(texts[MODULE], plan)
        return self._running

    def target(self, name: str) -> Target:
        """Gives one of the targets, with its options. Raises ByocirError B210."""
        from byocir.targets.base import target_of

        if name not in self.found:
            own = {each.target_name.data: each for each in self._module.targets()}
            if name not in own:
                raise ByocirError(
                    "B210",
                    f"expected a target of the package, found '{name}'",
                    help=did_you_mean(name, list(own)),
                )
            self.found[name] = target_of(own[name])
        return self.found[name]

    def with_code(self) -> list[tuple[Target, Mapping[str, bytes]]]:
        """Lists the targets that have code, each with it."""
        return [(self.target(name), self._blobs[name]) for name, _ in self._with_code()]

    def _with_code(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Gives the names of the targets that have code, with their options."""
        targets = self._module.interface.targets
        return [(each.name, each.options) for each in targets if self._blobs.get(each.name)]

    def _loader(self, name: str, options: Mapping[str, Any]) -> Loader:
        """Finds what runs a target's code: its loader, which imports no compiler, else the
        target.
        """
        from byocir.targets.loader import installed_loader

        given = self.loaders.get(name) or self.found.get(name)
        return given or installed_loader(name, options) or self.target(name)

    def take(self, loaders: Sequence[Loader], where: str) -> None:
        """Makes these loaders run the code of their targets. Raises ByocirError B210 or B213 for
        loaders of other targets, or with other options.
        """
        from byocir.targets.loader import check_loader

        targets = {each.name: each.options for each in self._module.interface.targets}
        for loader in loaders:
            check_loader(loader, targets, where)
            self.loaders[loader.name] = loader

    def externals(self, check: bool) -> dict[str, External]:
        """Gives the functions that run regions, by symbol; with `check` they look for mistakes in
        their own code."""
        from byocir.runtime.region_code import RegionCode
        from byocir.targets.load_code import load_code

        externals: dict[str, External] = {}
        for name, options in self._with_code():
            runner = load_code(self._loader(name, options), self._blobs[name], check=check)
            regions = [each for each in self._report.regions if each.target == name]
            externals.update({each.symbol: RegionCode(runner, each) for each in regions})
        return externals
