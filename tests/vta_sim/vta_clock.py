"""The cycle model, the slow way: every server looks at the world in every cycle.

Written from the rules in docs/vta.md and not from the code: no times are computed ahead, and each
cycle of each unit is counted under one cause as it passes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from byocir.vta_sim import DEFAULT_CONFIG, Decoded, Instruction, Memory, Opcode, TimingModel

UNITS = ("load", "compute", "store")
FIFOS = {  # (unit, bit): the queue it pops from or pushes to
    ("load", "pop_next"): "c2l",
    ("load", "push_next"): "l2c",
    ("compute", "pop_prev"): "l2c",
    ("compute", "push_prev"): "c2l",
    ("compute", "pop_next"): "s2c",
    ("compute", "push_next"): "c2s",
    ("store", "pop_prev"): "c2s",
    ("store", "push_prev"): "s2c",
}
LIMIT = 200_000


class Stuck(Exception):
    """Nothing can ever happen again."""


def unit_of(insn: Instruction) -> str:
    if insn.opcode == Opcode.STORE:
        return "store"
    if insn.opcode == Opcode.LOAD and insn.fields["memory_type"] in (Memory.INP, Memory.WGT):
        return "load"
    return "compute"


@dataclass
class Cost:
    """Cycles of work, cycles from start to request, beats, cycles of waiting for a write."""

    work: int
    lead: int = 0
    beats: int = 0
    writing: int = 0


def cost_of(insn: Instruction, model: TimingModel) -> Cost:
    f = insn.fields
    if insn.opcode == Opcode.FINISH:
        return Cost(model.finish)
    if insn.opcode in (Opcode.GEMM, Opcode.ALU):
        interval = model.gemm_interval
        if insn.opcode == Opcode.ALU:
            immediate, register = model.alu_immediate_interval, model.alu_register_interval
            interval = immediate if f["use_imm"] else register
        steps = f["iter_out"] * f["iter_in"] * max(0, f["uop_end"] - f["uop_bgn"])
        return Cost(max(1, steps * interval + model.pipeline_fill))
    if not f["x_size"]:
        return Cost(model.nop)
    size = DEFAULT_CONFIG.element_bytes(Memory(f["memory_type"]))
    if insn.opcode == Opcode.LOAD:
        return load_cost(f, size, model)
    if not f["y_size"]:
        return Cost(model.nop)
    return store_cost(f, size, model)


def load_cost(f: dict[str, int], size: int, model: TimingModel) -> Cost:
    written = (f["x_pad_0"] + f["x_size"] + f["x_pad_1"]) * (
        f["y_pad_0"] + f["y_size"] + f["y_pad_1"]
    )
    pads = written - f["x_size"] * f["y_size"]
    beats = 0
    for _ in range(f["y_size"]):
        beats += -(-f["x_size"] * size // model.bus_bytes) if model.bus_bytes else 0
    lead = model.load_overhead + model.dram_latency if f["y_size"] else 0
    return Cost(max(1, model.load_overhead + beats + pads), lead, beats)


def store_cost(f: dict[str, int], size: int, model: TimingModel) -> Cost:
    work, bursts = 0, 0
    for y in range(f["y_size"]):
        touched = set()
        for x in range(f["x_size"]):
            beats = -(-size // model.bus_bytes) if model.bus_bytes else 0
            work += beats + model.store_element
            first = (f["dram_base"] + y * f["x_stride"] + x) * size
            touched |= {byte // model.burst_bytes for byte in range(first, first + size)}
        bursts += len(touched)
    return Cost(max(1, work), writing=model.write_latency + bursts * model.write_burst)


@dataclass
class Request:
    rank: int
    arrival: int
    left: int


@dataclass
class Unit:
    """A module: its queue, what it runs, and the tokens it still has to push."""

    queue: list[Instruction] = field(default_factory=list)
    running: Instruction | None = None
    since: int = 0
    worked: int = 0
    request: Request | None = None
    pushing: list[str] = field(default_factory=list)


class Clock:
    """Runs a stream; ``start``, ``end`` by instruction, ``causes`` by unit, ``now`` at the end."""

    def __init__(self, decoded: Decoded, model: TimingModel) -> None:
        self.model, self.now = model, 0
        self.insns = decoded.instructions()
        self.cost = [cost_of(insn, model) for insn in self.insns]
        self.left = Counter(unit_of(insn) for insn in self.insns)
        self.units = {name: Unit() for name in UNITS}
        self.tokens: Counter[str] = Counter()
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.causes = {name: Counter() for name in ("fetch", *UNITS)}
        self.fetched = self.read_to = 0
        self.chunk: Request | None = None
        self.issued, self.issuing = 0, False  # cycles spent on handing over the next instruction

    def run(self) -> Clock:
        while self.fetched < len(self.insns) or sum(self.left.values()):
            self.settle()
            if self.fetched == len(self.insns) and not sum(self.left.values()):
                break
            self.tick()
        return self

    def settle(self) -> None:
        """Let everything happen that happens at this very moment."""
        changed = True
        while changed:
            changed = self.fetch()
            for name, unit in self.units.items():
                changed |= self.step(name, unit)

    def fetch(self) -> bool:
        if self.fetched == len(self.insns):
            return False
        if self.fetched == self.read_to and self.chunk is None:
            count = min(self.model.fetch_chunk, len(self.insns) - self.read_to)
            bus = self.model.bus_bytes
            beats = -(-16 * count // bus) if bus else 0
            self.chunk = Request(0, self.now + self.model.fetch_latency, beats)
        if self.chunk is not None:
            if self.chunk.left or self.now < self.chunk.arrival:
                return False
            self.read_to = min(self.read_to + self.model.fetch_chunk, len(self.insns))
            self.chunk, self.issued = None, 0
        insn = self.insns[self.fetched]
        queue = self.units[unit_of(insn)].queue
        if self.issued < self.model.issue or len(queue) == self.model.command_queue:
            return False
        queue.append(insn)
        self.fetched, self.issued = self.fetched + 1, 0
        return True

    def step(self, name: str, unit: Unit) -> bool:
        if unit.running is not None:
            return self.finish(name, unit)
        for fifo in unit.pushing:
            if self.tokens[fifo] < self.model.token_queue:
                self.tokens[fifo] += 1
                unit.pushing.remove(fifo)
                if not unit.pushing:
                    self.left[name] -= 1
                return True
        if unit.pushing or not unit.queue:
            return False
        insn = unit.queue[0]
        needed = [FIFOS[name, bit] for bit in ("pop_prev", "pop_next") if insn.fields[bit]]
        if not all(self.tokens[fifo] for fifo in needed):
            return False
        self.tokens.subtract(needed)
        unit.running, unit.since, unit.worked = unit.queue.pop(0), self.now, 0
        self.start[insn.index] = self.now
        cost = self.cost[insn.index]
        if cost.beats:
            ranks = {Memory.UOP: 1, Memory.INP: 2, Memory.WGT: 2}
            rank = ranks.get(Memory(insn.fields["memory_type"]), 3)
            unit.request = Request(rank, self.now + cost.lead, cost.beats)
        return True

    def finish(self, name: str, unit: Unit) -> bool:
        assert unit.running is not None
        cost = self.cost[unit.running.index]
        if unit.request is not None and not unit.request.left:
            unit.request = None
        least = max(cost.work + cost.writing, cost.lead)
        if unit.request is not None or self.now - unit.since < least:
            return False
        self.end[unit.running.index] = self.now
        bits = unit.running.fields
        unit.pushing = [FIFOS[name, bit] for bit in ("push_prev", "push_next") if bits[bit]]
        if not unit.pushing:
            self.left[name] -= 1
        unit.running = None
        return True

    def tick(self) -> None:
        """One cycle passes: the channel moves a beat, and every unit's cycle goes to a cause."""
        requests = [unit.request for unit in self.units.values()] + [self.chunk]
        arrived = [r for r in requests if r is not None and r.left and r.arrival <= self.now]
        served = min(arrived, key=lambda request: request.rank, default=None)
        moving = served is not None or any(r is not None for r in requests)
        if served is not None:
            served.left -= 1
        self.causes["fetch"][self.fetch_cause(served)] += 1
        busy = False
        for name, unit in self.units.items():
            self.causes[name][self.cause(name, unit)] += 1
            busy |= unit.running is not None
        if not moving and not busy and not self.issuing:
            raise Stuck
        self.now += 1
        assert self.now < LIMIT

    def fetch_cause(self, served: Request | None) -> str:
        self.issuing = False
        if self.fetched == len(self.insns):
            return "drained"
        if self.chunk is not None:
            return "busy" if self.chunk is served else "dram"
        if self.issued < self.model.issue:
            self.issued += 1
            self.issuing = True
            return "busy"
        return "queue"

    def cause(self, name: str, unit: Unit) -> str:
        """The work of an instruction is counted first, then its waits: the sums are the same."""
        if unit.running is not None:
            unit.worked += 1
            return "busy" if unit.worked <= self.cost[unit.running.index].work else "dram"
        if unit.pushing:
            return "queue"
        if not self.left[name]:
            return "drained"
        return "token" if unit.queue else "fetch"
