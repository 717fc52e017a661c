"""schedule: runs a script of schedule primitives on a function in buffer form.

Does: what the option `script` says, see `byocir.rewrites.schedule.script`; `function` names the
function where there are several.

Requires: the blocks that the script names in buffer form, with locations. Raises ByocirError B250
to B260 for what cannot be done.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.rewrites.schedule.handles import Schedule
from byocir.rewrites.schedule.script import function_of, run_script


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Schedules a function by a script."""

    name = "schedule"

    script: str
    function: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        run_script(Schedule(function_of(op, self.function)), self.script)
