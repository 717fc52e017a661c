"""Words mistakes in descriptions."""

from byocir.errors import ByocirError
from byocir.machine.description import Machine


def wrong(machine: Machine, expected: str, found: str, help: str = "") -> ByocirError:
    """Makes the error that says what a description of a machine has in place of what it must, with
    the line that declares what it names.
    """
    told = f"expected {expected}, found {found}"
    line = machine.declared_at(told)
    where = f"{line}, machine {machine.name}" if line else f"machine {machine.name}"
    return ByocirError("B270", told, where=where, help=help)
