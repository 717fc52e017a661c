"""Finds mistakes in descriptions of machines when the target is loaded: one message, code B270."""

from byocir.machine.checks.feeding import (
    check_feeding,
    check_fifos,
    check_single_numbers,
    check_tokens,
)
from byocir.machine.checks.instructions import (
    check_bodies,
    check_costs,
    check_limits,
    check_operands,
    check_pads,
    check_registers,
    check_starts,
    check_strides,
    check_tiles,
)
from byocir.machine.checks.parts import (
    check_channels,
    check_kinds,
    check_memories,
    check_names,
    check_opcodes,
    check_parts,
    check_units,
    check_views,
)
from byocir.machine.checks.rules import check_rules
from byocir.machine.description import Machine


def check_machine(machine: Machine) -> None:
    """Raises ByocirError B270 for the first mistake of a description."""
    parts = (check_kinds, check_names, check_views, check_memories, check_parts, check_channels)
    codes = (check_fifos, check_units, check_opcodes, check_registers)
    forms = (check_starts, check_operands, check_pads, check_limits, check_strides)
    work = (check_bodies, check_costs, check_tiles, check_feeding)
    whole = (check_single_numbers, check_tokens, check_rules)
    for check in (*parts, *codes, *forms, *work, *whole):
        check(machine)
