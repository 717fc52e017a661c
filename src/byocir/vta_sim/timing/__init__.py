"""Models cycles: when each instruction of a stream runs, from the instructions alone.

``parameters``; ``instruction_costs``: the cost of each instruction by itself; ``timeline``: how
they overlap, as ``byocir.machine_sim`` finds it. docs/vta.md explains it and its limits.
"""

from byocir.vta_sim.timing.instruction_costs import loop_steps
from byocir.vta_sim.timing.parameters import TimingModel
from byocir.vta_sim.timing.timeline import Timeline, UnitTime, estimate, timeline, units_of

__all__ = [
    "Timeline",
    "TimingModel",
    "UnitTime",
    "estimate",
    "loop_steps",
    "timeline",
    "units_of",
]
