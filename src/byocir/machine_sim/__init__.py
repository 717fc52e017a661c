"""Simulates machines that are described by numbers: what runs when, and which accesses nothing
orders.

``model``: the parts of a machine, and instructions with their costs, accesses and waits. From these
``run_times`` tells when each instruction runs and why it waited, ``hazards`` which conflicting
accesses no order keeps apart, ``conflicts`` what a program must order at least, ``legal_order`` the
orders in which it may run; ``trace`` writes a run for Perfetto. VTA's simulator uses the same
engines with columns of its own.

```python
from byocir.machine_sim import Access, Instruction, MachineModel, Program, Transfer, Unit, Wait
from byocir.machine_sim import hazards, run_times

dma, core = 0, 1
model = MachineModel([Unit("dma", depth=2), Unit("core", depth=0)], channels=["dram"])
program = Program.of([
    Instruction(dma, 4, 20, writes=[Access("tcm", 0, 64)], transfer=Transfer(channel=0, beats=8)),
    Instruction(core, 50, reads=[Access("tcm", 0, 64)], waits=[Wait(dma, most=0)]),
])
assert run_times(model, program).cycles == 78
assert hazards(model, program) == []
```
"""

from byocir.machine_sim.accesses import Shadow, conflicts
from byocir.machine_sim.hazards import Hazard, RaceDetector, hazards
from byocir.machine_sim.model import (
    Access,
    Accesses,
    Instruction,
    MachineModel,
    Program,
    Sequencer,
    TokenQueue,
    Transfer,
    Unit,
    Wait,
)
from byocir.machine_sim.order import NEVER, NOT_WAITING, Order, clocks, legal_order, order_of
from byocir.machine_sim.timing import Costs, Stuck, Times, UnitCycles, Waits, run_times, times_of

__all__ = [
    "NEVER",
    "NOT_WAITING",
    "Access",
    "Accesses",
    "Costs",
    "Hazard",
    "Instruction",
    "MachineModel",
    "Order",
    "Program",
    "RaceDetector",
    "Sequencer",
    "Shadow",
    "Stuck",
    "Times",
    "TokenQueue",
    "Transfer",
    "Unit",
    "UnitCycles",
    "Wait",
    "Waits",
    "clocks",
    "conflicts",
    "hazards",
    "legal_order",
    "order_of",
    "run_times",
    "times_of",
]
