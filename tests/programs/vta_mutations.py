"""Mistakes in VTA programs: single changes to a correct stream, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from byocir.testing.choose import Choose, pick
from byocir.vta_sim import Opcode, VTAConfig, decode, encode
from byocir.vta_sim.isa import LAYOUT, Decoded, Instruction, slots
from byocir.vta_sim.token_order import TOKEN_FIFOS, link, route

MutationKind = Literal["drop-token", "add-token", "shift-address", "change-size"]
ADDRESSES = ("sram_base", "dram_base", "uop_bgn")
SIZES = ("y_size", "x_size", "x_stride", "uop_end", "iter_out", "iter_in")


@dataclass(frozen=True)
class Mutation:
    """Field ``field`` of instruction ``index`` becomes ``after``; a shift of ``uop_bgn`` moves
    ``uop_end`` along."""

    kind: MutationKind
    index: int
    field: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.kind}: instruction {self.index}, {self.field} {self.before} -> {self.after}"


def apply(
    mutations: Sequence[Mutation], insns: NDArray[np.uint8], config: VTAConfig
) -> NDArray[np.uint8]:
    """The stream (uint8 [N, 16]) with all changes made; the one given is left alone."""
    result = insns.copy()
    for mutation in mutations:
        row = result[mutation.index : mutation.index + 1]
        insn = decode(row, config).instruction(0)
        fields = insn.fields | {mutation.field: mutation.after}
        if mutation.field == "uop_bgn":
            fields["uop_end"] += mutation.after - mutation.before
        result[mutation.index] = encode(insn.opcode, config=config, **fields)
    return result


def token_mutations(insns: NDArray[np.uint8], config: VTAConfig) -> Iterator[Mutation]:
    """Every token dropped and every token added, one at a time; bits that a module does not have
    are left out."""
    decoded = decode(insns, config)
    queues = route(decoded)
    for fifo in TOKEN_FIFOS:
        for queue, name in ((fifo.producer, fifo.push), (fifo.consumer, fifo.pop)):
            for index in np.flatnonzero(queues == queue).tolist():
                before = int(decoded.columns[name][index])
                kind: MutationKind = "drop-token" if before else "add-token"
                yield Mutation(kind, index, name, before, 1 - before)


def dropped_edges(
    insns: NDArray[np.uint8], config: VTAConfig
) -> Iterator[tuple[Mutation, Mutation]]:
    """Every push dropped together with the pop that takes its token: the rest still matches."""
    decoded = decode(insns, config)
    links = link(decoded)
    for fifo in TOKEN_FIFOS:
        slot = 0 if fifo.pop == "pop_prev" else 1
        consumers = np.flatnonzero((links.queue == fifo.consumer) & (links.waits[:, slot] >= 0))
        for index in consumers.tolist():
            push = int(links.waits[index, slot])
            yield (
                Mutation("drop-token", push, fifo.push, 1, 0),
                Mutation("drop-token", index, fifo.pop, 1, 0),
            )


def random_mutation(
    choose: Choose, insns: NDArray[np.uint8], config: VTAConfig, fields: Sequence[str]
) -> Mutation | None:
    """A change of one of the address and size fields, by little, by its own size or in one bit;
    None if the instruction drawn has none or the value would not fit."""
    decoded = decode(insns, config)
    insn = decoded.instruction(choose(0, len(decoded) - 1))
    present = [f.name for f in LAYOUT[insn.opcode] if f.name in fields]
    if not present or not _works(insn):
        return None
    name = pick(choose, present)
    before = insn.fields[name]
    after = _moved(choose, decoded, insn, name)
    width = next(s.width for s in slots(insn.opcode, config) if s.field.name == name)
    if after == before or not 0 <= after < 1 << width:
        return None
    if name == "uop_bgn" and insn.fields["uop_end"] + after - before > 1 << width:
        return None
    kind: MutationKind = "shift-address" if name in ADDRESSES else "change-size"
    return Mutation(kind, insn.index, name, before, after)


def _works(insn: Instruction) -> bool:
    """Tells if the instruction does more than carry tokens."""
    if insn.opcode in (Opcode.LOAD, Opcode.STORE):
        return insn.fields["x_size"] > 0
    return insn.opcode != Opcode.FINISH


def _moved(choose: Choose, decoded: Decoded, insn: Instruction, name: str) -> int:
    """The new value: one or two up or down, one transfer or twice as far, or another bit."""
    before = insn.fields[name]
    if name in ("sram_base", "dram_base"):
        size = insn.fields["x_size"] * max(insn.fields["y_size"], 1)
    else:
        size = before
    steps = [1, -1, 2, -2, size, -size, before ^ (1 << choose(0, 15))]
    number = choose(0, len(steps) - 1)
    return steps[number] if number == len(steps) - 1 else before + steps[number]
