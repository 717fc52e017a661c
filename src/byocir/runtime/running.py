"""Runs a module in this process: in the evaluator, or as C with the evaluator for what has no form
in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.weights import large_arrays
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import External, Interpreter
from byocir.evaluate.module import MAIN, bind, evaluate, owned
from byocir.evaluate.ports import names_of
from byocir.lowering.tir_to_c import HostCode
from byocir.runtime.c_function import NAME
from byocir.runtime.cached_plan import Plan
from byocir.runtime.host import Host
from byocir.runtime.interface import Interface
from byocir.runtime.native import HostProgram, host_code, plan_of
from byocir.runtime.report import C, Report


class Running:
    """Runs a module, and keeps its host's code, once it is built, from one run to the next."""

    def __init__(
        self,
        module: ModuleOp,
        report: Report,
        externals: Callable[[bool], Mapping[str, External]],
        code: HostCode | None = None,
    ) -> None:
        """Takes a module. `externals` gives the functions that run regions, which look for mistakes
        in their own code if asked to; `code` is the host's, where it is known already.
        """
        self._module, self._report, self._externals = module, report, externals
        self._code = code
        self._host = Host()
        self._interpreters: dict[bool, Interpreter] = {}
        self._programs: dict[bool, HostProgram] = {}

    def run(self, feeds: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Computes outputs by name for inputs by name. Errors as `Package.run`."""
        interpreter = self._interpreter(check)
        self._report.ran_on = self._host.ran_on
        if self._report.host_runs_on != C:
            return evaluate(self._module, feeds, interpreter=interpreter)
        program = self._program(check)
        entry = interpreter.function(MAIN)
        arrays, given = bind(entry, feeds)
        inputs, outputs = names_of(entry)
        # In a function in memory only the feeds tell which arguments are inputs.
        if given != [*outputs]:
            raise ByocirError(
                "B310",
                f"expected feeds for the inputs {', '.join(inputs)}, found {', '.join(feeds)}",
            )
        results = owned(program.run(arrays), arrays)
        self._report.built_without = program.lacking
        return dict(zip(given, results, strict=True))

    @property
    def code(self) -> HostCode:
        """Gives the host's C code."""
        self._code = self._code or host_code(self._module)
        return self._code

    def plan(self, interface: Interface) -> Plan | None:
        """Makes the plan that runs the host's C without the module, whose interface is given; None
        where the C needs the evaluator.
        """
        return plan_of(self.code, interface, large_arrays(self._module))

    def host_program(self, name: str = NAME) -> HostProgram:
        """Gives the host's C code as the program that `run` calls, with names that begin with
        `name`.
        """
        if self._code is None or self._code.name != name:
            self._code = host_code(self._module, name)
        return self._program(False)

    def _program(self, check: bool) -> HostProgram:
        if check not in self._programs:
            self._programs[check] = HostProgram(self.code, self._interpreter(check))
        return self._programs[check]

    def _interpreter(self, check: bool) -> Interpreter:
        if check not in self._interpreters:
            self._interpreters[check] = Interpreter(
                self._module, self._externals(check), engine=self._host, whole=self._host.whole
            )
        return self._interpreters[check]
