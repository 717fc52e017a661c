"""The cycle model: when each instruction of a stream runs, from the instructions alone.

``model``: parameters; ``work``: the cost of each instruction by itself; ``timeline``: how they
overlap, as ``byocir.machine_sim`` finds it. docs/vta.md explains it and its limits.
"""

from byocir.vta_sim.timing.model import TimingModel
from byocir.vta_sim.timing.timeline import Timeline, UnitTime, estimate, timeline, units_of
from byocir.vta_sim.timing.work import loop_steps

__all__ = [
    "Timeline",
    "TimingModel",
    "UnitTime",
    "estimate",
    "loop_steps",
    "timeline",
    "units_of",
]
