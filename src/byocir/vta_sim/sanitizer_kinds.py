"""Lists the kinds of findings of the sanitizer: one row per code. Codes never change their meaning.

There is no write-after-write: every memory has exactly one module that writes it (load writes INP
and WGT, compute UOP and ACC, store DRAM), and a module runs its own instructions in order.
"""

from __future__ import annotations

from typing import NamedTuple


class HazardKind(NamedTuple):
    """Describes a kind of hazard: its short name, what it means, and one line on what to do."""

    name: str
    meaning: str
    help: str


HAZARDS: dict[str, HazardKind] = {
    "S201": HazardKind(
        "read-after-write",
        "a module reads scratchpad elements that an earlier instruction of another module writes, "
        "and no token makes it wait",
        "let the writer push a token that the reader, or one before it in its queue, pops",
    ),
    "S202": HazardKind(
        "write-after-read",
        "a module overwrites scratchpad elements that an earlier instruction of another module "
        "reads, and no token makes it wait",
        "let the reader push a token that the writer, or one before it in its queue, pops",
    ),
    "S203": HazardKind(
        "load-store-overlap",
        "a load and a store touch the same DRAM bytes and no token orders them",
        "order them through compute: tokens go from store to compute and from compute to load",
    ),
    "S204": HazardKind(
        "unwritten-read",
        "compute reads a scratchpad element that nothing before it has written",
        "load or reset the element first; scratchpads hold garbage at the start",
    ),
    "S205": HazardKind(
        "unwritten-store",
        "a store reads an ACC element that nothing before it has written",
        "compute, load or reset the element first; scratchpads hold garbage at the start",
    ),
    "S206": HazardKind(
        "token-leak",
        "a token is pushed that no instruction pops",
        "balance pushes and pops; on the device, tokens leak into the next run",
    ),
    "S207": HazardKind(
        "deadlock",
        "an instruction waits for a token that never comes",
        "a popped token must be pushed by the neighbouring stage, and not by one that waits for it",
    ),
    "S208": HazardKind(
        "dram-range",
        "a transfer leaves the DRAM image",
        "DRAM addresses are in elements of that memory; byte = address * element bytes",
    ),
    "S209": HazardKind(
        "scratchpad-range",
        "an instruction names elements beyond the end of a scratchpad",
        "element + count, and index + loop factors, must stay below the depth; nothing wraps",
    ),
    "S210": HazardKind(
        "unfinished",
        "the stream has no FINISH, or an instruction may still run when FINISH is done",
        "end with one FINISH that pops the last token of every queue",
    ),
}
