"""Reports the sanitizer's findings, as data and as the one error of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byocir.errors import Lines
from byocir.vta_sim.asm import format_instruction
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded
from byocir.vta_sim.sanitizer_kinds import HAZARDS


@dataclass(frozen=True)
class InstructionPlace:
    """Names an instruction: its index in the stream, its assembly, and where it came from ("" if
    that is not known)."""

    index: int
    text: str
    location: str = ""

    def __str__(self) -> str:
        origin = f" ({self.location})" if self.location else ""
        return f"instruction {self.index}: {self.text}{origin}"


@dataclass(frozen=True)
class Hazard:
    """Records a finding of the sanitizer.

    ``code`` is a key of HAZARDS. ``first`` and ``second`` are in stream order; ``second`` is None
    for what concerns one instruction, and both are for a stream without any. ``memory`` is a
    scratchpad, "DRAM", or for tokens the token queue. ``range`` is first and last + 1 of the
    elements concerned (bytes in DRAM), None for tokens; elements within it need not all be.
    """

    code: str
    first: InstructionPlace | None
    second: InstructionPlace | None
    memory: str
    range: tuple[int, int] | None
    expected: str
    found: str

    @property
    def kind(self) -> str:
        """Gives the name of the code, e.g. "read-after-write"."""
        return HAZARDS[self.code].name

    @property
    def message(self) -> str:
        """Tells what was found, in one sentence without the instructions."""
        return f"expected {self.expected}, found {self.found}"

    def __str__(self) -> str:
        places = "".join(f"\n  at {p}" for p in (self.first, self.second) if p is not None)
        return f"[{self.code}] {self.kind}: {self.message}{places}"


class Places:
    """Describes the instructions of one stream, each once."""

    def __init__(self, decoded: Decoded, locations: Sequence[str] | None) -> None:
        if locations is not None and len(locations) != len(decoded):
            expected = f"a location for each of {len(decoded)} instructions"
            raise VTAError("V005", expected, f"{len(locations)} locations")
        self._decoded, self._locations = decoded, locations
        self._made: dict[int, InstructionPlace] = {}

    def __getitem__(self, index: int) -> InstructionPlace:
        if index not in self._made:
            text = format_instruction(self._decoded.instruction(index))
            location = self._locations[index] if self._locations is not None else ""
            self._made[index] = InstructionPlace(index, text, location)
        return self._made[index]


SHOWN = 3


def as_error(hazards: Sequence[Hazard]) -> VTAError:
    """Makes one error of at least one finding: the first in full, the next ones in a line each, and
    how many more there are.
    """
    first, *others = hazards
    places = [str(place) for place in (first.first, first.second) if place is not None]
    lines = places[:1] + [f"and   {place}" for place in places[1:]]
    lines += [f"also  [{h.code}] {h.kind}: {_brief(h)}" for h in others[: SHOWN - 1]]
    if len(hazards) > SHOWN:
        lines.append(f"also  {len(hazards) - SHOWN} more")
    return VTAError(first.code, first.expected, first.found, Lines.of(lines, 2))


def _brief(hazard: Hazard) -> str:
    indices = [str(place.index) for place in (hazard.first, hazard.second) if place is not None]
    return f"{hazard.memory}, instructions {' and '.join(indices)}"
