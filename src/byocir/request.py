"""Holds what users ask of a compilation, a request, which is handed on as one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from byocir.arguments import LEVEL_NAMES, PLACEMENT, TEXT, check, instance_of
from byocir.dialects.byoc import LEVELS
from byocir.errors import ByocirError
from byocir.files import read_whole
from byocir.rewrites.byoc.costs import CostTable, read_costs
from byocir.rewrites.byoc.tuned import TunedTable, load_tuned
from byocir.targets.resolve_targets import Targets

COSTS = instance_of("a table of costs or the path of its file", str, PathLike, CostTable)
TUNED = instance_of("a table that tune gives or the path of its file", str, PathLike, TunedTable)


@dataclass(frozen=True)
class Request:
    """Holds the targets, and how work is handed to them, as the arguments of `byocir.compile` say.

    Raises ByocirError B142 for arguments of other types.
    """

    targets: Targets | None = None
    levels: Sequence[str] = LEVELS
    placement: Mapping[str, str] | None = None
    objective: str = ""
    costs: str | Path | CostTable | None = None
    tuned: str | Path | TunedTable | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options for all targets that have them."""

    def __post_init__(self) -> None:
        check(
            levels=(self.levels, LEVEL_NAMES),
            placement=(self.placement, PLACEMENT.or_none()),
            objective=(self.objective, TEXT),
            costs=(self.costs, COSTS.or_none()),
            tuned=(self.tuned, TUNED.or_none()),
        )

    @property
    def at_all_levels(self) -> bool:
        """Tells if targets may take work wherever they can."""
        return [*self.levels] == [*LEVELS]

    @property
    def too_late(self) -> list[str]:
        """Lists the names of the arguments that were given and that a partitioned module no longer
        takes into account.
        """
        own = {"placement": self.placement, "objective": self.objective, "costs": self.costs}
        levels = [] if self.at_all_levels else ["levels"]
        return [*levels, *(name for name, value in own.items() if value), *self.options]

    def cost_table(self) -> CostTable | None:
        """Gives the table of costs, read where a file was given. Raises ByocirError B101, B249."""
        if self.costs is None or isinstance(self.costs, CostTable):
            return self.costs
        try:
            return read_costs(read_whole(self.costs).decode(), str(self.costs))
        except (OSError, UnicodeDecodeError) as error:
            found = error.strerror if isinstance(error, OSError) else "no text"
            raise ByocirError(
                "B101",
                f"expected a file with a table of costs, found: {found}",
                where=str(self.costs),
            ) from None

    def tuned_table(self) -> TunedTable | None:
        """Gives the table of tuned schedules, read where a file was given. Raises ByocirError B101,
        B264."""
        if self.tuned is None or isinstance(self.tuned, TunedTable):
            return self.tuned
        return load_tuned(self.tuned)
