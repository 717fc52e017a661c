"""Defines the one exception of the simulator: a stable code, *expected X, found Y*, where, and a
help line.

``CODES`` is the table of all codes: V0xx arguments and files, V1xx form of instructions and text,
V2xx execution, V3xx tokens and FINISH, S2xx what the sanitizer finds (its rows come from
``sanitizer_kinds.HAZARDS``). Codes never change their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from byocir.errors import fitted
from byocir.vta_sim.sanitizer_kinds import HAZARDS


@dataclass(frozen=True)
class ErrorCode:
    """Explains a code: ``meaning`` says what was wrong, in a phrase, and ``help`` what to do, or
    the rule that holds.

    ``checked``: only ``check=True`` looks for it.
    """

    meaning: str
    help: str
    checked: bool = False


CODES = {
    "V001": ErrorCode(
        "the stream is no array of instructions",
        "instructions are a uint8 array of shape [N, 16]: 16 bytes each, little endian",
    ),
    "V002": ErrorCode(
        "the image is no array of bytes",
        "dram is a flat uint8 array; its index is the byte address",
    ),
    "V003": ErrorCode(
        "no engine has that name",
        "the choice is between the engines listed above; 'auto' takes the fastest",
    ),
    "V004": ErrorCode(
        "the configuration describes no VTA",
        "a config has the nine LOG_ keys of vta_config.json, each the log2 of a size",
    ),
    "V005": ErrorCode(
        "the locations do not go with the stream",
        "locations are one string per instruction, in stream order",
    ),
    "V006": ErrorCode(
        "the configuration file cannot be read",
        "a config is a JSON object, e.g. tvm-vta's config/vta_config.json",
    ),
    "V009": ErrorCode(
        "a parameter of the timing or energy model is out of range",
        "see TimingModel and EnergyModel; de10 and pynq are the timing presets",
    ),
    "V101": ErrorCode(
        "the bytes are no whole number of instructions",
        "the stream ends inside an instruction; was the file cut?",
    ),
    "V102": ErrorCode(
        "no instruction has that opcode",
        "opcodes are 0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU",
    ),
    "V103": ErrorCode(
        "the memory cannot be loaded, or stored",
        "LOAD takes UOP, WGT, INP, ACC or ACC_8BIT; STORE takes OUT",
    ),
    "V104": ErrorCode(
        "no ALU operation has that opcode",
        "ALU opcodes are 0 MIN, 1 MAX, 2 ADD, 3 SHR, 4 MUL",
    ),
    "V105": ErrorCode(
        "a STORE has padding",
        "padding exists for LOAD only; fold the zeros into the tensor instead",
    ),
    "V106": ErrorCode(
        "a token bit names a neighbour that the module does not have",
        "load has no previous stage and store no next one; clear the bit",
    ),
    "V107": ErrorCode(
        "a field does not exist or its value does not fit",
        "the value must fit the field's bits, which depend on the config",
    ),
    "V108": ErrorCode(
        "a line is no assembly",
        "a line is: mnemonic key=value ... {token,...}",
    ),
    "V201": ErrorCode(
        "an access leaves the scratchpad",
        "the elements written or read must lie inside the scratchpad",
    ),
    "V202": ErrorCode(
        "an access leaves DRAM",
        "DRAM addresses are in elements of that memory; byte = address * element bytes",
    ),
    "V203": ErrorCode(
        "the range of micro-ops leaves their memory",
        "uop_end is exclusive and at most the depth of the micro-op memory",
    ),
    "V204": ErrorCode(
        "a loop nest computes an index beyond the scratchpad",
        "an index is the micro-op's field plus the loop factors, and does not wrap",
    ),
    "V205": ErrorCode(
        "an element is read that was never written",
        "load or reset the element first; scratchpads hold garbage at the start",
        checked=True,
    ),
    "V206": ErrorCode(
        "a shift distance is beyond 31",
        "shift distances above 31 are undefined on the reference machine",
        checked=True,
    ),
    "V207": ErrorCode(
        "the engine does not compute these widths",
        "the engines compute int8 inputs and weights into int32 accumulators",
    ),
    "V208": ErrorCode(
        "a program is for another configuration",
        "compile the model again with --target 'vta{config=…}' of this machine",
    ),
    "V301": ErrorCode(
        "the queues wait for each other for ever",
        "a popped token must be pushed by the neighbouring stage",
    ),
    "V302": ErrorCode(
        "tokens are left over at the end",
        "balance pushes and pops; on the device, tokens leak into the next run",
    ),
    "V303": ErrorCode(
        "the stream has no FINISH",
        "end the stream with one FINISH; the device never stops without it",
    ),
    "V304": ErrorCode(
        "compute has instructions after FINISH",
        "FINISH must be the last instruction executed; remove it or move it to the end",
    ),
    "V305": ErrorCode(
        "FINISH does not wait for the end of another queue",
        "let the stage's last instruction push a token to compute, popped before FINISH",
    ),
    "V306": ErrorCode(
        "units wait for each other because queues are full",
        "move the instruction that makes room before the one that waits for it",
    ),
    **{code: ErrorCode(kind.meaning, kind.help, checked=True) for code, kind in HAZARDS.items()},
}


class VTAError(Exception):
    """Says that the user made a mistake: bad arguments, a malformed stream, or a program the
    machine refuses.

    ``code`` is stable; ``expected`` and ``found`` are phrases without a full stop; ``where`` names
    the instruction (index and disassembly), a file, or LINE:COLUMN of it, or is empty; ``help`` is
    one line on what to do.
    """

    def __init__(self, code: str, expected: str, found: str, where: str = "") -> None:
        self.code = code
        self.expected, self.found, self.where = fitted(expected, found, where)
        self.help = CODES[code].help
        place = f"\n  at    {self.where}" if where else ""
        what = f"error[{code}]: expected {self.expected}, found {self.found}"
        super().__init__(f"{what}{place}\n  help  {self.help}")


def shown(value: object, limit: int = 40) -> str:
    """Shortens what a user wrote to one line for a message."""
    try:
        text = str(value) if isinstance(value, int) else ascii(value)
    # An int has thousands of digits, or lists are nested too deep.
    except (ValueError, RecursionError):
        return f"a very large {type(value).__name__}"
    return text if len(text) <= limit else f"{text[:limit]}…"
