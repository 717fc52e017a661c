"""Words mistakes in descriptions."""

from byocir.errors import ByocirError
from byocir.machine.description import Machine


def wrong(machine: Machine, expected: str, found: str, help: str = "") -> ByocirError:
    """Makes the error that says what a description of a machine has in place of what it must."""
    told = f"expected {expected}, found {found}"
    return ByocirError("B270", told, where=f"machine {machine.name}", help=help)
