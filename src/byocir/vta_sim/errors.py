"""The one exception of the simulator: a stable code, *expected X, found Y*, where, and a help line.

Codes: V0xx arguments, V1xx form of instructions and text, V2xx execution, V3xx tokens and FINISH.
"""

from __future__ import annotations

HELP = {
    "V001": "instructions are a uint8 array of shape [N, 16]: 16 bytes each, little endian",
    "V002": "dram is a flat uint8 array; its index is the byte address",
    "V003": "the choice is between the engines listed above; 'auto' takes the fastest",
    "V004": "a config is the nine LOG_ keys of vta_config.json",
    "V009": "see TimingModel and EnergyModel; de10 and pynq are the timing presets",
    "V010": "give one name per instruction, or none at all",
    "V101": "the stream ends inside an instruction; was the file cut?",
    "V102": "opcodes are 0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU",
    "V103": "LOAD takes UOP, WGT, INP, ACC or ACC_8BIT; STORE takes OUT",
    "V104": "ALU opcodes are 0 MIN, 1 MAX, 2 ADD, 3 SHR, 4 MUL",
    "V105": "padding exists for LOAD only; fold the zeros into the tensor instead",
    "V106": "load has no previous stage and store no next one; clear the bit",
    "V107": "the value must fit the field's bits, which depend on the config",
    "V108": "a line is: mnemonic key=value ... {token,...}",
    "V201": "the elements written or read must lie inside the scratchpad",
    "V202": "DRAM addresses are in elements of that memory; byte = address * element bytes",
    "V203": "uop_end is exclusive and at most the depth of the micro-op memory",
    "V204": "an index is the micro-op's field plus the loop factors, and does not wrap",
    "V205": "load or reset the element first; scratchpads hold garbage at the start",
    "V206": "shift distances above 31 are undefined on the reference machine",
    "V207": "the numpy engine computes int8 inputs and weights into int32 accumulators",
    "V301": "a popped token must be pushed by the neighbouring stage",
    "V302": "balance pushes and pops; on the device, tokens leak into the next run",
    "V303": "end the stream with one FINISH; the device never stops without it",
    "V304": "FINISH must be the last instruction executed; remove it or move it to the end",
    "V305": "let the stage's last instruction push a token to compute, popped before FINISH",
    "V306": "move the instruction that makes room before the one that waits for it",
}


class VTAError(Exception):
    """A user's mistake: bad arguments, a malformed stream, or a program the machine refuses.

    ``code`` is stable; ``expected`` and ``found`` are phrases without a full stop; ``where`` names
    the instruction (index and disassembly) or is empty; ``help`` is one line on what to do.
    """

    def __init__(self, code: str, expected: str, found: str, where: str = "") -> None:
        self.code = code
        self.expected = expected
        self.found = found
        self.where = where
        self.help = HELP[code]
        place = f"\n  at {where}" if where else ""
        super().__init__(f"[{code}] expected {expected}, found {found}{place}\n  help: {self.help}")
