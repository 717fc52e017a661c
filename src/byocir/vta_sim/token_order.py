"""Follows queues and dependency tokens: which instruction waits for which, and a legal order.

Each of load, compute and store runs its queue in stream order (tvm-vta ``src/sim/sim_tlpp.cc``).
Every token FIFO has one pushing and one popping queue, so the k-th pop waits for exactly the k-th
push: the partial order of a stream is fixed before it runs, and does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.errors import Lines
from byocir.machine_sim import NEVER, NOT_WAITING, Order, legal_order
from byocir.machine_sim.order import blocked
from byocir.vta_sim.asm import format_instruction, where
from byocir.vta_sim.config import Memory
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import AluOp, Decoded, Opcode, Queue


@dataclass(frozen=True)
class TokenFifo:
    """Describes a token queue, filled by the ``push`` bit of its producer and drained by the
    ``pop`` bit of the other unit.
    """

    name: str
    producer: Queue
    push: str
    consumer: Queue
    pop: str


TOKEN_FIFOS = (
    TokenFifo("load->compute", Queue.LOAD, "push_next", Queue.COMPUTE, "pop_prev"),
    TokenFifo("compute->load", Queue.COMPUTE, "push_prev", Queue.LOAD, "pop_next"),
    TokenFifo("compute->store", Queue.COMPUTE, "push_next", Queue.STORE, "pop_prev"),
    TokenFifo("store->compute", Queue.STORE, "push_prev", Queue.COMPUTE, "pop_next"),
)


@dataclass(frozen=True)
class Links:
    """Lists the waits between the N instructions of a stream: which waits for which.

    ``queue`` uint8 [N]; ``waits`` int64 [N, 2]: the instructions whose tokens ``pop_prev`` and
    ``pop_next`` take, NOT_WAITING, or NEVER if no such push exists; ``pushed`` and ``popped``:
    totals per entry of TOKEN_FIFOS.
    """

    queue: NDArray[np.uint8]
    waits: NDArray[np.int64]
    pushed: tuple[int, ...]
    popped: tuple[int, ...]


def route(decoded: Decoded) -> NDArray[np.uint8]:
    """Assigns each instruction to a queue, uint8 [N]: INP and WGT loads, stores, and all the
    rest.
    """
    memory = decoded.columns["memory_type"]
    queue = np.full(len(decoded), Queue.COMPUTE, np.uint8)
    loads = (decoded.opcode == Opcode.LOAD) & ((memory == Memory.INP) | (memory == Memory.WGT))
    queue[loads] = Queue.LOAD
    queue[decoded.opcode == Opcode.STORE] = Queue.STORE
    return queue


def check_form(decoded: Decoded) -> None:
    """Raises VTAError V103-V106 for the first instruction that no module accepts as it stands.

    A STORE with x_size 0 carries tokens only: its other fields are not looked at, as upstream.
    """
    columns, opcode = decoded.columns, decoded.opcode
    memory, queue = columns["memory_type"], route(decoded)
    loadable = np.isin(memory, (Memory.UOP, Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC_8BIT))
    stores = (opcode == Opcode.STORE) & (columns["x_size"] != 0)
    pads = sum(columns[name] for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"))
    forbidden = {
        "pop_prev or push_prev": (Queue.LOAD, columns["pop_prev"] | columns["push_prev"]),
        "pop_next or push_next": (Queue.STORE, columns["pop_next"] | columns["push_next"]),
    }
    alu, operation, config = opcode == Opcode.ALU, columns["alu_opcode"], decoded.config
    widens = (opcode == Opcode.LOAD) & (memory == Memory.ACC_8BIT) & (not config.acc_8bit)
    multiplies = alu & (operation == AluOp.MUL) & (not config.alu_mul)
    rules = [
        ("V103", "a loadable memory id", (opcode == Opcode.LOAD) & ~loadable, "memory_type"),
        ("V103", f"no ACC_8BIT, which {config.name} lacks", widens, "memory_type"),
        ("V103", f"memory id {Memory.OUT}", stores & (memory != Memory.OUT), "memory_type"),
        ("V105", "a store without padding", stores & (pads != 0), "pads"),
        (
            "V104",
            f"an ALU opcode in 0..{max(AluOp)}",
            alu & (operation > max(AluOp)),
            "alu_opcode",
        ),
        ("V104", f"no MUL, which {config.name} lacks", multiplies, "alu_opcode"),
    ]
    for bits, (module, used) in forbidden.items():
        name = module.name.lower()
        rules.append(("V106", f"no {bits} in {name}", (queue == module) & (used != 0), "bit"))
    for code, expected, broken, shown in rules:
        if broken.any():
            index = int(np.flatnonzero(broken)[0])
            found = f"{shown} {columns[shown][index]}" if shown in columns else f"{shown} set"
            raise VTAError(code, expected, found, where(decoded, index))


def _users(
    decoded: Decoded, queue: NDArray[np.uint8], fifo: TokenFifo
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = decoded.columns
    pushes = np.flatnonzero((queue == fifo.producer) & (columns[fifo.push] != 0))
    pops = np.flatnonzero((queue == fifo.consumer) & (columns[fifo.pop] != 0))
    return pushes, pops


def fifo_users(decoded: Decoded, links: Links, fifo: TokenFifo) -> tuple[list[int], list[int]]:
    """Gives the instructions that push to a FIFO, and those that pop from it."""
    pushes, pops = _users(decoded, links.queue, fifo)
    return pushes.tolist(), pops.tolist()


def link(decoded: Decoded) -> Links:
    """Matches every pop with its push."""
    queue = route(decoded)
    waits = np.full((len(decoded), 2), NOT_WAITING, np.int64)
    pushed: list[int] = []
    popped: list[int] = []
    for fifo in TOKEN_FIFOS:
        pushes, pops = _users(decoded, queue, fifo)
        matched = min(len(pushes), len(pops))
        slot = 0 if fifo.pop == "pop_prev" else 1
        waits[pops, slot] = NEVER
        waits[pops[:matched], slot] = pushes[:matched]
        pushed.append(len(pushes))
        popped.append(len(pops))
    return Links(queue, waits, tuple(pushed), tuple(popped))


def check_finish(decoded: Decoded, links: Links) -> None:
    """Checks that there is one FINISH, which runs after everything else, whatever the interleaving.

    Raises VTAError V303 (none), V304 (compute instructions after it), V302 (tokens left over) and
    V305 (a queue whose end is not ordered before FINISH). With balanced tokens, a queue is wholly
    ordered before FINISH exactly when its last instruction pushes to compute: that last push is
    then popped by FINISH or by an instruction before it.
    """
    finishes = np.flatnonzero(decoded.opcode == Opcode.FINISH)
    if not finishes.size:
        raise VTAError("V303", "a FINISH", f"none in {len(decoded)} instructions")
    after = np.flatnonzero(links.queue == Queue.COMPUTE)
    after = after[after > finishes[0]]
    if after.size:
        found = f"FINISH at {finishes[0]} before it"
        raise VTAError("V304", "FINISH last in compute", found, where(decoded, int(after[0])))
    left = [
        f"{pushed - popped} in {fifo.name}"
        for fifo, pushed, popped in zip(TOKEN_FIFOS, links.pushed, links.popped, strict=True)
        if pushed > popped
    ]
    if left:
        raise VTAError("V302", "no token left at the end", ", ".join(left))
    for queue, push in ((Queue.LOAD, "push_next"), (Queue.STORE, "push_prev")):
        rows = np.flatnonzero(links.queue == queue)
        if rows.size and not decoded.columns[push][rows[-1]]:
            expected = f"the last {queue.name.lower()} instruction ordered before FINISH"
            raise VTAError("V305", expected, f"no {push}", where(decoded, int(rows[-1])))


def order_of(decoded: Decoded, links: Links, seed: int | None = None) -> list[int]:
    """Orders a stream after all checks that need no data; see ``schedule``.

    Raises VTAError V103-V106 (form) and V301-V305 (tokens and FINISH).
    """
    check_form(decoded)
    order = schedule(decoded, links, seed)
    check_finish(decoded, links)
    return order


def schedule(decoded: Decoded, links: Links, seed: int | None = None) -> list[int]:
    """Finds a legal order of the whole stream, as instruction indices.

    Without ``seed``: each queue in turn runs as far as it can. With it: a random legal order, the
    same one as the native engine takes.
    Raises VTAError V301 when nothing can run and instructions are left.
    """
    random = None if seed is None else _split_mix(seed)

    def choose(ready: list[int]) -> int:
        return ready[0 if random is None else next(random) % len(ready)]

    order = legal_order(order_by(links), choose)
    if len(order) < len(decoded):
        raise _deadlock(decoded, links, order)
    return order


def order_by(links: Links) -> Order:
    """Gives the order that tokens demand."""
    return Order(len(Queue), links.queue.tolist(), links.waits.tolist())


def _split_mix(seed: int) -> Iterator[int]:
    """Makes 64-bit random numbers as ``split_mix`` in ``native/vta_program.c`` does.

    Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014).
    """
    mask = (1 << 64) - 1
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        yield z ^ z >> 31


def _deadlock(decoded: Decoded, links: Links, order: list[int]) -> VTAError:
    """Makes the V301 report: token counts, and per queue its head and the tokens that it lacks."""
    ran = np.zeros(len(decoded), np.bool_)
    ran[order] = True
    counts: dict[str, int] = {}
    for fifo in TOKEN_FIFOS:
        pushes, pops = _users(decoded, links.queue, fifo)
        counts[fifo.name] = int(ran[pushes].sum() - ran[pops].sum())
    heads = {Queue(links.queue[head.index]): head.index for head in blocked(order_by(links), order)}
    lines: list[str] = []
    for queue in Queue:
        if queue not in heads:
            lines.append(f"{queue.name.lower()} queue is empty")
            continue
        insn = decoded.instruction(heads[queue])
        missing = [
            fifo.name
            for fifo in TOKEN_FIFOS
            if fifo.consumer == queue and insn.fields[fifo.pop] and not counts[fifo.name]
        ]
        lines.append(
            f"{queue.name.lower()} head, instruction {insn.index}: {format_instruction(insn)}"
            f" (missing {', '.join(missing)})"
        )
    tokens = ", ".join(f"{name} {count}" for name, count in counts.items())
    found = f"a deadlock after {len(order)} of {len(decoded)}; tokens: {tokens}"
    return VTAError("V301", "a queue that can run", found, Lines.of(lines, 5))
