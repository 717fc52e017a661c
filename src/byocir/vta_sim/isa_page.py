"""Writes the instruction set as a page of Markdown, from the tables that the simulator runs on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from byocir.vta_sim.asm import SUFFIX_NAMES, groups, suffixes
from byocir.vta_sim.config import DEFAULT_CONFIG, FEATURES, TARGET, TARGETS, VTAConfig
from byocir.vta_sim.errors import CODES
from byocir.vta_sim.isa_table import AluOp, Memory, Opcode, Slot, slots, uop_slots
from byocir.vta_sim.parse import assemble

WIDTH = 100
SUMMARY = {
    Opcode.LOAD: "Copies rows of elements from DRAM into a scratchpad, with zeros around them. The "
    "scratchpad side is dense: y_pad_0 + y_size + y_pad_1 rows of x_pad_0 + x_size + x_pad_1.",
    Opcode.STORE: "Copies rows of ACC elements to DRAM, each lane cut to its low bits (no "
    "saturation). The scratchpad side is dense. There is no padding: the pad fields are 0.",
    Opcode.GEMM: "For each outer and inner iteration and each micro-op, in this order: "
    "`ACC[dst] += INP[src] x WGT[wgt]^T` in wrapping 32-bit arithmetic, or `ACC[dst] = 0`. An "
    "index is the micro-op's plus outer and inner iteration times their factors.",
    Opcode.FINISH: "Ends the program. It is the last instruction that runs.",
    Opcode.ALU: "The loops of GEMM around `ACC[dst] = op(ACC[dst], y)` on each lane, where y is "
    "ACC[src] or imm.",
}
MEMORY_NOTES = {
    Memory.UOP: ("LOAD", "compute", "micro-ops"),
    Memory.WGT: ("LOAD", "load", "weights, [block_out, block_in]"),
    Memory.INP: ("LOAD", "load", "inputs, [batch, block_in]"),
    Memory.ACC: ("LOAD", "compute", "accumulators, [batch, block_out]"),
    Memory.OUT: ("STORE", "store", "ACC, each lane cut to its low bits"),
    Memory.ACC_8BIT: ("LOAD", "compute", "ACC, each lane widened from the width of an input"),
}
ALU_NOTES = {
    AluOp.MIN: "min(x, y), signed",
    AluOp.MAX: "max(x, y), signed",
    AluOp.ADD: "x + y, wrapping",
    AluOp.SHR: "x >> y, arithmetic; x << -y for a negative y",
    AluOp.MUL: "x * y, the low 32 bits",
}
KEY_NOTES = {
    "LOG_INP_WIDTH": "bits of an input lane",
    "LOG_WGT_WIDTH": "bits of a weight lane",
    "LOG_ACC_WIDTH": "bits of an accumulator lane",
    "LOG_BATCH": "rows of an element",
    "LOG_BLOCK": "input and output channels of the GEMM unit",
    "LOG_UOP_BUFF_SIZE": "bytes of the UOP scratchpad",
    "LOG_INP_BUFF_SIZE": "bytes of the INP scratchpad",
    "LOG_WGT_BUFF_SIZE": "bytes of the WGT scratchpad",
    "LOG_ACC_BUFF_SIZE": "bytes of the ACC scratchpad",
    "ALU_MUL": "the ALU has MUL",
    "ACC_8BIT": "LOAD takes ACC_8BIT",
}
EXAMPLES = (
    "load.inp sram=0x10 dram=0x1234 y=4 x=6 stride=14 pad=1,0,1,2 {pop_next,push_next}",
    "store.out dram=0x100 y=2 x=3 stride=8 {pop_prev,push_prev}",
    "gemm uop=3,7 out=14 in=2 dst=14,196 src=16,0 wgt=0,9 {pop_prev,push_prev}",
    "alu.shr.imm uop=7,8 out=4 in=196 dst=196,1 src=196,1 imm=-3 {push_next}",
    "finish {pop_next}",
)
GRAMMAR = """\
line        = [instruction] ["#" comment]
instruction = mnemonic { key "=" number { "," number } } [ "{" [ token { "," token } ] "}" ]
            | ".insn" number number
mnemonic    = opcode { "." suffix }
number      = decimal or 0x..., with or without a minus sign"""


def render(config: VTAConfig = DEFAULT_CONFIG) -> str:
    """Writes the page for one configuration."""
    parts = [
        "# The VTA instruction set",
        "Written by `byocir vta isa > docs/vta-isa.md` from the tables of `byocir.vta_sim`. "
        "Another configuration has other widths: `byocir vta isa --config vta_config.json`.",
        f"An instruction is 128 bits: two little-endian words of 64. Configuration here: "
        f"`{config.name}`.",
        *_configuration(config),
        *_memories(config),
        "## Instructions",
        "Bit 0 is the lowest of the first byte. Bits in no field are reserved: the machine does "
        "not look at them. Fields that share an assembly key are one list, in this order.",
        *(part for opcode in Opcode for part in _instruction(opcode, config)),
        *_micro_op(config),
        *_text(config),
        *_codes(),
    ]
    return "\n\n".join(map(_wrapped, parts)) + "\n"


def _wrapped(part: str) -> str:
    """Breaks prose into lines of a readable length; headings, tables and code stay as they are."""
    prose = part[0] not in "#|" and not part.startswith("```")
    return textwrap.fill(part, WIDTH, break_on_hyphens=False) if prose else part


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Writes a Markdown table whose columns are as wide as their longest cell."""
    cells = [[*head], *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        f"| {' | '.join(c.ljust(w) for c, w in zip(row, widths, strict=True))} |" for row in cells
    ]
    return "\n".join([lines[0], f"| {' | '.join('-' * width for width in widths)} |", *lines[1:]])


def _configuration(config: VTAConfig) -> list[str]:
    values = config.to_dict().items()
    rows = [
        (f"`{key}`", "", str(value).lower(), f"{KEY_NOTES[key]}; may be absent")
        if key.lower() in FEATURES
        else (f"`{key}`", value, 1 << value, KEY_NOTES[key])
        for key, value in values
    ]
    rows += [
        (f"`{TARGET}`", "", "", "whose design it is; may be absent"),
        ("`HW_VER`", "", "", "a string, not used; may be absent"),
    ]
    whole = [name for name, has in TARGETS.items() if all(has)]
    bare = [name for name in TARGETS if name not in whole]
    return [
        "## Configuration",
        _table(("key", "log2", "value", "meaning"), rows),
        f"TARGET is one of {', '.join(whole)}, whose machines have MUL and ACC_8BIT, and "
        f"{', '.join(bare)}, whose machines have neither. ALU_MUL and ACC_8BIT, where they are "
        "given, win over TARGET.",
    ]


def _memories(config: VTAConfig) -> list[str]:
    rows = [
        (memory.value, memory.name, user, module, config.element_bytes(memory),
         config.depth(memory), note)
        for memory, (user, module, note) in MEMORY_NOTES.items()
    ]  # fmt: skip
    head = ("id", "name", "for", "module", "bytes", "depth", "elements")
    return [
        "## Memories",
        "`bytes` are those of one element in DRAM, `depth` is the number of elements. `dram_base` "
        "and `x_stride` count elements of the memory that the instruction names.",
        _table(head, rows),
    ]


def _bits(slot: Slot) -> str:
    low = 64 * slot.field.word + slot.shift
    return str(low) if slot.width == 1 else f"{low + slot.width - 1}:{low}"


def _spelling(slot: Slot) -> str:
    key = slot.field.text
    if not key:
        return f"`{{{slot.field.name}}}`"
    if key in SUFFIX_NAMES:
        names = SUFFIX_NAMES[key][1]
        return " ".join(f"`{text}`" for text in suffixes(key)[: len(names)])
    return f"`{key}`" if key.startswith(".") else f"`{key}=`"


def _instruction(opcode: Opcode, config: VTAConfig) -> list[str]:
    rows = [("2:0", 3, "opcode", f"`{opcode.name.lower()}`", "3", f"{opcode.value}")]
    rows += [
        (_bits(slot), slot.width, slot.field.name, _spelling(slot), slot.field.width,
         slot.field.doc + (", two's complement" if slot.field.signed else ""))
        for slot in slots(opcode, config)
    ]  # fmt: skip
    head = ("bits", "width", "field", "assembly", "width in general", "meaning")
    parts = [
        f"### {opcode.name}",
        SUMMARY[opcode],
        _table(head, rows),
    ]
    if any(key == ".op" for key, _ in groups(opcode)):
        parts.append(_table(("alu_opcode", "name", "result"), _alu_rows()))
    return parts


def _alu_rows() -> list[tuple[int, str, str]]:
    return [(op.value, op.name, note) for op, note in ALU_NOTES.items()]


def _micro_op(config: VTAConfig) -> list[str]:
    rows = [
        (_bits(slot), slot.width, slot.field.name, slot.field.width, slot.field.doc)
        for slot in uop_slots(config)
    ]
    return [
        "### Micro-ops",
        "A micro-op is one little-endian word of 32 bits. Bits in no field are reserved.",
        _table(("bits", "width", "field", "width in general", "meaning"), rows),
    ]


def _text(config: VTAConfig) -> list[str]:
    parts = [
        "## Assembly",
        "One instruction a line. Keys that are left out are 0; blanks may stand between all parts "
        "but within a mnemonic or number.",
        f"```\n{GRAMMAR}\n```",
        "`.memN` and `.opN` stand for ids without a name. `.insn` gives the two words as they are: "
        "the disassembler writes it for an unknown opcode and where reserved bits are set, so that "
        "bytes to text to bytes changes nothing.",
    ]
    if config != DEFAULT_CONFIG:
        return parts
    words = [assemble(text, config).view("<u8")[0].tolist() for text in EXAMPLES]
    rows = [
        (f"`{text}`", f"`{low:016x}`", f"`{high:016x}`")
        for text, (low, high) in zip(EXAMPLES, words, strict=True)
    ]
    return [*parts, _table(("assembly", "word 0", "word 1"), rows)]


def _codes() -> list[str]:
    rows = [(f"`{code}`", entry.meaning, entry.help) for code, entry in CODES.items()]
    return [
        "## Errors",
        "Every mistake is a `VTAError` with one of these codes, which never change their meaning.",
        _table(("code", "what is wrong", "help"), rows),
    ]
