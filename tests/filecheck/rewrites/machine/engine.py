"""A machine with a DMA unit and a core that doubles bytes: what the tests of passes ask for."""

import byocir
from byocir.dialects.types import i8
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import block

engine = Machine("engine")
dma, core = engine.unit("dma", queue=4), engine.unit("core")
near = engine.memory("near", i8, row=(4,), rows=16)
engine.order(Counted())
for name, source, into in (("load", MAIN, near), ("store", near, MAIN)):
    engine.copy(
        name, source, into, unit=dma, cycles=lambda s: 4 + s["rows"], rows=up_to(2), lanes=up_to(4)
    )


@engine.instruction(core, into=near, cycles=lambda s: s["m"], m=up_to(2), n=up_to(4))
def double():
    return block("m n", near("x")["m n"], lambda _, x: x + x)


class Engine(byocir.Target):
    name, machine = "engine", engine
