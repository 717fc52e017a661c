"""Describes machines once: byocir compiles for them, and simulates them, from one declaration.

```python
engine = Machine("engine")
dma, core = engine.unit("dma", queue=4), engine.unit("core", queue=2)
near = engine.memory("near", i8, row=(16,), rows=256)
sums = engine.memory("sums", i32, row=(16,), rows=64)
engine.order(Counted())

moved = dict(rows=up_to(16), lanes=up_to(16), cycles=lambda s: 20 + s["rows"])
engine.copy("load", MAIN, near, unit=dma, **moved)
engine.copy("store", sums, MAIN, unit=dma, **moved)

@engine.instruction(core, cycles=lambda s: s["k"], m=up_to(16), n=up_to(16), k=up_to(16))
def product():
    return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add, init=sums("c"))
```

An instruction's pattern is its meaning: matching it selects the instruction, its rules and limits
are what is legal, its accesses are what it reads and writes, and evaluating what matched is the
simulator.
"""

from byocir.machine.calls import Calls
from byocir.machine.description import Machine
from byocir.machine.instructions import Call, Instruction, Register
from byocir.machine.operand_places import Place
from byocir.machine.parts import (
    MAIN,
    Channel,
    Counted,
    InOrder,
    Interlocked,
    Limit,
    Memory,
    Order,
    Tokens,
    Transfer,
    Unit,
    exactly,
    multiples_of,
    up_to,
)

__all__ = [
    "MAIN",
    "Call",
    "Calls",
    "Channel",
    "Counted",
    "InOrder",
    "Instruction",
    "Interlocked",
    "Limit",
    "Machine",
    "Memory",
    "Order",
    "Place",
    "Register",
    "Tokens",
    "Transfer",
    "Unit",
    "exactly",
    "multiples_of",
    "up_to",
]
