"""Hazards the slow way: sets of elements, all pairs of instructions, reachability in a graph.

Shares nothing with the sanitizer but the names of the fields: rows are (mnemonic, fields), what
they touch is listed element by element, and orders are sets (as bits of an int).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

from vta_streams import Row

from byocir.vta_sim import Memory, VTAConfig

Element = tuple[str, int]
LOAD, COMPUTE, STORE = range(3)
WORD = 4  # bytes; every element is of some
NAMES = {0: "UOP", 1: "WGT", 2: "INP", 3: "ACC", 4: "ACC", 5: "ACC"}
# producer, its bit, consumer, its bit
QUEUES = (
    (LOAD, "push_next", COMPUTE, "pop_prev"),
    (COMPUTE, "push_prev", LOAD, "pop_next"),
    (COMPUTE, "push_next", STORE, "pop_prev"),
    (STORE, "push_prev", COMPUTE, "pop_next"),
)


@dataclass
class Touched:
    """Elements (memory name, index; DRAM by the word) of one instruction."""

    reads: set[Element]
    writes: set[Element]
    outside: bool = False


def module(row: Row) -> int:
    kind, f = row
    if kind == "store":
        return STORE
    return LOAD if kind == "load" and f["memory_type"] in (1, 2) else COMPUTE


class Toucher:
    """Lists what instructions touch, in program order."""

    def __init__(self, dram: bytes, config: VTAConfig) -> None:
        self.dram, self.config = dram, config
        self.uops: dict[int, int] = {}

    def touched(self, row: Row) -> Touched:
        kind, fields = row
        found = Touched(set(), set())
        getattr(self, f"_{kind}")({"x_size": 0, "y_size": 0} | fields, found)
        depths = {NAMES[m]: self.config.depth(m) for m in Memory} | {"DRAM": len(self.dram) // WORD}
        for side in (found.reads, found.writes):
            beyond = {e for e in side if e[1] >= depths[e[0]]}
            found.outside |= bool(beyond)
            side -= beyond
        return found

    def _finish(self, f: dict[str, int], found: Touched) -> None:
        pass

    def _words(self, f: dict[str, int], y: int, x: int) -> range:
        size = self.config.element_bytes(Memory(f["memory_type"]))
        start = (f.get("dram_base", 0) + y * f.get("x_stride", 0) + x) * size
        return range(start // WORD, (start + size) // WORD)

    def _load(self, f: dict[str, int], found: Touched) -> None:
        if not f["x_size"]:
            return
        name, at = NAMES[f["memory_type"]], f.get("sram_base", 0)
        for y in range(-f.get("y_pad_0", 0), f["y_size"] + f.get("y_pad_1", 0)):
            for x in range(-f.get("x_pad_0", 0), f["x_size"] + f.get("x_pad_1", 0)):
                found.writes.add((name, at))
                value = 0
                if 0 <= y < f["y_size"] and 0 <= x < f["x_size"]:
                    where = self._words(f, y, x)
                    found.reads |= {("DRAM", word) for word in where}
                    data = self.dram[where.start * WORD : where.stop * WORD]
                    value = int.from_bytes(data, "little")
                if name == "UOP":
                    self.uops[at] = value
                at += 1

    def _store(self, f: dict[str, int], found: Touched) -> None:
        for y in range(f["y_size"]):
            for x in range(f["x_size"]):
                found.reads.add(("ACC", f.get("sram_base", 0) + y * f["x_size"] + x))
                found.writes |= {("DRAM", word) for word in self._words(f, y, x)}

    def _steps(self, f: dict[str, int], found: Touched) -> set[tuple[int, int, int]]:
        acc, inp, wgt = (self.config.log_depth(m) for m in (Memory.ACC, Memory.INP, Memory.WGT))
        steps: set[tuple[int, int, int]] = set()
        for i in range(f.get("iter_out", 0)):
            for j in range(f.get("iter_in", 0)):
                for u in range(f.get("uop_bgn", 0), f.get("uop_end", 0)):
                    found.reads.add(("UOP", u))
                    word, indices = self.uops.get(u, 0), []
                    for name, bits in (("dst", acc), ("src", max(acc, inp)), ("wgt", wgt)):
                        loops = i * f.get(f"{name}_factor_out", 0)
                        loops += j * f.get(f"{name}_factor_in", 0)
                        indices.append((word & ((1 << bits) - 1)) + loops)
                        word >>= bits
                    steps.add(tuple(indices))
        return steps

    def _gemm(self, f: dict[str, int], found: Touched) -> None:
        for d, s, w in self._steps(f, found):
            found.writes.add(("ACC", d))
            if not f.get("reset_reg", 0):
                found.reads |= {("ACC", d), ("INP", s), ("WGT", w)}

    def _alu(self, f: dict[str, int], found: Touched) -> None:
        depth = self.config.depth(Memory.ACC)
        for d, s, _ in self._steps(f, found):
            found.writes.add(("ACC", d))
            found.reads.add(("ACC", d))
            if not f.get("use_imm", 0):
                found.reads.add(("ACC", s))
            found.outside |= s >= depth


def touched(rows: list[Row], dram: bytes, config: VTAConfig) -> list[Touched]:
    toucher = Toucher(dram, config)
    return [toucher.touched(row) for row in rows]


def edges(rows: list[Row]) -> tuple[list[tuple[int, int]], bool]:
    """Which instruction must be done before which, and whether every pop has a push."""
    found: list[tuple[int, int]] = []
    for queue in range(3):
        own = [i for i, row in enumerate(rows) if module(row) == queue]
        found += pairwise(own)
    complete = True
    for producer, push, consumer, pop in QUEUES:
        pushes = [i for i, r in enumerate(rows) if module(r) == producer and r[1].get(push)]
        pops = [i for i, r in enumerate(rows) if module(r) == consumer and r[1].get(pop)]
        found += zip(pushes, pops, strict=False)
        complete &= len(pops) <= len(pushes)
    return found, complete


def before(rows: list[Row]) -> list[int] | None:
    """For each instruction the set (as bits) of those that are surely done; None in a deadlock."""
    pairs, complete = edges(rows)
    if not complete:
        return None
    into: list[list[int]] = [[] for _ in rows]
    for first, second in pairs:
        into[second].append(first)
    result: list[int | None] = [None] * len(rows)
    pending = list(range(len(rows)))
    while pending:
        blocked: list[int] = []
        for index in pending:
            if any(result[i] is None for i in into[index]):
                blocked.append(index)
                continue
            bits = 0
            for i in into[index]:
                bits |= (result[i] or 0) | 1 << i
            result[index] = bits
        if len(blocked) == len(pending):
            return None
        pending = blocked
    return [bits or 0 for bits in result]


def _masks(elements: set[Element]) -> dict[str, int]:
    """Elements by memory, as bits."""
    result: dict[str, int] = {}
    for name, index in elements:
        result[name] = result.get(name, 0) | 1 << index
    return result


def conflicts(rows: list[Row], sets: list[Touched]) -> list[tuple[int, int, set[str]]]:
    """All pairs of instructions of different modules that touch a common element, one of them
    writing, and the memories of those elements; FINISH conflicts with everything."""
    found: list[tuple[int, int, set[str]]] = []
    masks = [(_masks(one.reads), _masks(one.writes)) for one in sets]
    modules = [module(row) for row in rows]
    for i, j in combinations(range(len(rows)), 2):
        if modules[i] == modules[j]:
            continue
        (reads_a, writes_a), (reads_b, writes_b) = masks[i], masks[j]
        memories = {
            name
            for one, other in ((writes_a, reads_b), (reads_a, writes_b), (writes_a, writes_b))
            for name in one.keys() & other.keys()
            if one[name] & other[name]
        }
        if "finish" in (rows[i][0], rows[j][0]):
            memories.add("")
        if memories:
            found.append((i, j, memories))
    return found


def races(pairs: list[tuple[int, int, set[str]]], order: list[int]) -> set[tuple[int, int, str]]:
    """The conflicts whose instructions may run in either order."""
    return {
        (i, j, name)
        for i, j, names in pairs
        for name in names
        if not (order[j] >> i & 1 or order[i] >> j & 1)
    }


def unwritten(rows: list[Row], sets: list[Touched], order: list[int]) -> set[tuple[int, Element]]:
    """Scratchpad elements that are read with no write surely done before."""
    writers: dict[Element, int] = {}
    for i, found in enumerate(sets):
        for element in found.writes:
            writers[element] = writers.get(element, 0) | 1 << i
    return {
        (i, element)
        for i, found in enumerate(sets)
        for element in found.reads
        if element[0] != "DRAM" and not writers.get(element, 0) & order[i]
    }
