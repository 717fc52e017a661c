"""Random VTA programs: rows of fields, their encoding, and tokens that make them correct.

A row is a mnemonic with its fields, as `byocir.vta_sim.encode` takes them. `random_rows` gives any
mix of instructions, to be run in program order; `serialise` and `synchronise` add tokens that keep
the order, the first by a single chain, the second only where instructions conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from byocir.lowering.tir_to_vta.insert_tokens import tokens_of, vta_ordering
from byocir.testing.choose import Choose, pick
from byocir.vta_sim import DEFAULT_CONFIG, Memory, VTAConfig, decode, encode, encode_uops
from byocir.vta_sim.isa import INSN_BYTES, Queue
from byocir.vta_sim.touched import conflicts_of

Row = tuple[str, dict[str, int]]
BATCH2 = VTAConfig(log_batch=1)
BLOCK8 = VTAConfig(
    log_block=3,
    log_uop_buff_size=12,
    log_inp_buff_size=13,
    log_wgt_buff_size=15,
    log_acc_buff_size=15,
)
BATCH4_BLOCK4 = VTAConfig(
    log_batch=2,
    log_block=2,
    log_uop_buff_size=10,
    log_inp_buff_size=12,
    log_wgt_buff_size=12,
    log_acc_buff_size=14,
)
CONFIGS = {c.name: c for c in (DEFAULT_CONFIG, BATCH2, BLOCK8, BATCH4_BLOCK4)}
DRAM_BYTES = 1 << 15
UOPS = 64
INDEX = 12  # base indices stay below this, so that steps collide often
FINISH: Row = ("finish", {})
COMPUTE_NOP: Row = ("load", {"memory_type": int(Memory.UOP)})


@dataclass(frozen=True)
class Stream:
    """A program and its image: ``insns`` uint8 [N, 16], ``dram`` uint8 [B]."""

    insns: NDArray[np.uint8]
    dram: NDArray[np.uint8]
    config: VTAConfig


def encode_rows(rows: Sequence[Row], config: VTAConfig) -> NDArray[np.uint8]:
    """Rows as uint8 [N, 16]."""
    if not rows:
        return np.zeros((0, INSN_BYTES), np.uint8)
    return np.stack([encode(kind, config=config, **fields) for kind, fields in rows])


def random_config(choose: Choose) -> VTAConfig:
    """An int8 instance with scratchpads of 256 elements and more."""
    batch, block = choose(0, 2), choose(2, 4)
    tile = batch + block
    return VTAConfig(
        log_batch=batch,
        log_block=block,
        log_uop_buff_size=choose(8, 11) + 5 - 3,
        log_inp_buff_size=choose(8, 10) + tile + 3 - 3,
        log_wgt_buff_size=choose(8, 9) + 2 * block + 3 - 3,
        log_acc_buff_size=choose(8, 10) + tile + 5 - 3,
    )


def memory_row(choose: Choose, config: VTAConfig) -> Row:
    """A LOAD of INP, WGT, ACC or ACC_8BIT, or a STORE; some move nothing."""
    kind = pick(choose, ["load", "load", "store"])
    loadable = [Memory.INP, Memory.WGT, Memory.ACC, Memory.ACC_8BIT]
    memory = pick(choose, loadable) if kind == "load" else Memory.OUT
    room = DRAM_BYTES // config.element_bytes(memory) - 30
    fields = {
        "memory_type": int(memory),
        "sram_base": choose(0, INDEX),
        "dram_base": choose(0, room),
        "y_size": choose(0, 3),
        "x_size": choose(0, 4),
        "x_stride": choose(0, 6),
    }
    if kind == "load":
        fields |= {n: choose(0, 3) for n in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    return kind, fields


def loop_row(choose: Choose) -> Row:
    """A GEMM or an ALU instruction; some loop over nothing."""
    kind, begin = pick(choose, ["gemm", "alu"]), choose(0, UOPS - 8)
    fields = {
        "uop_bgn": begin,
        "uop_end": begin + choose(0, 7),
        "iter_out": choose(0, 3),
        "iter_in": choose(0, 4),
    }
    operands = ("dst", "src", "wgt") if kind == "gemm" else ("dst", "src")
    for operand in operands:
        fields |= {f"{operand}_factor_{loop}": choose(0, 3) for loop in ("out", "in")}
    if kind == "gemm":
        return kind, fields | {"reset_reg": int(choose(0, 3) == 3)}
    imm = choose(-31, 31) if choose(0, 1) else choose(-(1 << 15), (1 << 15) - 1)
    return kind, fields | {"alu_opcode": choose(0, 4), "use_imm": choose(0, 1), "imm": imm}


def random_rows(choose: Choose, config: VTAConfig, longest: int = 12) -> list[Row]:
    """LOAD UOP, any instructions, and a STORE; on an image of `random_image`."""
    uop_load: Row = ("load", {"memory_type": 0, "y_size": 1, "x_size": UOPS, "x_stride": UOPS})
    dump: Row = ("store", {"memory_type": 4, "y_size": 1, "x_size": 32, "dram_base": 40})
    middle = [
        memory_row(choose, config) if choose(0, 1) else loop_row(choose)
        for _ in range(choose(1, longest))
    ]
    return [uop_load, *middle, dump]


def fill_rows(config: VTAConfig) -> list[Row]:
    """Loads that write every scratchpad element `random_rows` can reach."""
    reach = {Memory.INP: 64, Memory.WGT: 64, Memory.ACC: 96}
    return [
        ("load", {"memory_type": int(m), "y_size": 1, "x_size": count, "x_stride": count})
        for m, count in reach.items()
    ]


def random_image(config: VTAConfig, seed: int) -> NDArray[np.uint8]:
    """Random bytes, with UOPS valid micro-ops first."""
    rng = np.random.default_rng(seed)
    dram = rng.integers(0, 256, DRAM_BYTES, dtype=np.uint8)
    dst, src, wgt = (rng.integers(0, INDEX, UOPS) for _ in range(3))
    dram[: UOPS * 4] = encode_uops(dst, src, wgt, config).view(np.uint8)
    return dram


def queue_of(row: Row) -> Queue:
    """The module that runs a row."""
    kind, fields = row
    if kind == "store":
        return Queue.STORE
    loads = kind == "load" and fields["memory_type"] in (Memory.INP, Memory.WGT)
    return Queue.LOAD if loads else Queue.COMPUTE


def serialise(rows: Sequence[Row]) -> list[Row]:
    """Rows and a FINISH with tokens (and compute NOPs between load and store) that force program
    order."""
    chained: list[Row] = []
    for row in [*rows, FINISH]:
        if chained and abs(queue_of(chained[-1]) - queue_of(row)) == 2:
            chained.append((COMPUTE_NOP[0], dict(COMPUTE_NOP[1])))
        chained.append((row[0], dict(row[1])))
    for first, second in pairwise(chained):
        step = queue_of(second) - queue_of(first)
        if step:
            first[1]["push_next" if step > 0 else "push_prev"] = 1
            second[1]["pop_prev" if step > 0 else "pop_next"] = 1
    return chained


def synchronise(rows: Sequence[Row], dram: NDArray[np.uint8], config: VTAConfig) -> list[Row]:
    """Rows and a FINISH with tokens between conflicting instructions, and only there, as the VTA
    target inserts them. Stores must leave micro-ops in DRAM alone."""
    finished, ordering = [*rows, FINISH], vta_ordering()
    decoded = decode(encode_rows(finished, config), config)
    conflicts = conflicts_of(decoded, dram, len(dram))
    for index, row in enumerate(finished):
        ordering.add(queue_of(row), conflicts.get(index, ()), last=row is FINISH)
    result: list[Row] = []
    for step in ordering.steps:
        kind, fields = COMPUTE_NOP if step.source is None else finished[step.source]
        result.append((kind, fields | dict.fromkeys(sorted(tokens_of(step)), 1)))
    return result
