"""Defines the instructions of VTA as ops.

One op is one 128-bit instruction. Scratchpad addresses are numbers; a DRAM address is a memref and
an offset in elements of the scratchpad's memory, and becomes a number when a function is encoded.
Field names, widths and meaning are those of `byocir.vta_sim` (tvm-vta `include/vta/hw_spec.h`).

Four flags move dependency tokens between the modules load, compute and store: an instruction
starts when the tokens that `pop_prev` and `pop_next` name are there, and `push_prev` and
`push_next` hand one over when it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    i64,
)
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    traits_def,
)
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.checks import expect
from byocir.dialects.vta_config import config_of
from byocir.errors import ByocirError
from byocir.vta_sim import Opcode, VTAConfig
from byocir.vta_sim.isa import Queue, slots

Numbers = DenseArrayBase[IntegerType]
INTEGER = IntegerAttr.constr(i64)
INTEGERS = DenseArrayBase.constr(i64)
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The dependency flags, in the order of their bits."""
FORBIDDEN_TOKENS = {
    Queue.LOAD: ("pop_prev", "push_prev"),
    Queue.COMPUTE: (),
    Queue.STORE: ("pop_next", "push_next"),
}
"""The flags that have no queue behind them, by module."""


@lru_cache(maxsize=4096)
def integer(value: int) -> IntegerAttr:
    """Makes the attribute of an instruction field."""
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def integers(values: tuple[int, ...]) -> Numbers:
    """Makes the attribute of a group of instruction fields."""
    return DenseArrayBase.from_list(i64, list(values))


def value_of(attr: IntegerAttr | None) -> int:
    """Reads the number of a field; a field that is left out is 0."""
    return 0 if attr is None else attr.value.data


class InstructionOp(IRDLOperation, ABC):
    """Defines what VTA's instructions share. Subclasses give the opcode, the module that runs it
    and its fields."""

    OPCODE: ClassVar[Opcode]

    pop_prev = opt_prop_def(UnitAttr)
    pop_next = opt_prop_def(UnitAttr)
    push_prev = opt_prop_def(UnitAttr)
    push_next = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryWriteEffect())

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """Names the module that runs the instruction."""

    @abstractmethod
    def operation_fields(self) -> dict[str, int]:
        """Gives the fields other than tokens and `dram_base`, by their names in the ISA table."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Lists the names of the token flags that are set."""
        return tuple(name for name in TOKENS if name in self.properties)

    def set_token(self, name: str) -> None:
        """Sets a token flag."""
        self.properties[name] = UnitAttr()

    def fields(self, dram_base: int = 0) -> dict[str, int]:
        """Gives all fields by name; `dram_base` is the address of the memref, in elements of the
        memory.
        """
        fields = self.operation_fields()
        if "dram_base" in fields:
            fields["dram_base"] += dram_base
        return fields | dict.fromkeys(self.tokens, 1)

    def verify_(self) -> None:
        try:
            config = config_of(self)
        except ByocirError as error:
            raise VerifyException(error.message) from None
        self._verify_shape()
        self._verify_ranges(config)
        self._verify_tokens()
        self.verify_machine(config)

    def _verify_shape(self) -> None:
        """Raises VerifyException unless groups of fields have as many numbers as the instruction
        has fields.
        """

    def _verify_ranges(self, config: VTAConfig) -> None:
        fields = self.fields()
        for slot in slots(self.OPCODE, config):
            value = fields.get(slot.field.name, 0)
            low = -(1 << (slot.width - 1)) if slot.field.signed else 0
            high = low + (1 << slot.width) - 1
            expect(
                low <= value <= high, f"expected {slot.field.name} in {low}..{high}, found {value}"
            )

    def _verify_tokens(self) -> None:
        for name in FORBIDDEN_TOKENS[self.queue]:
            module = self.queue.name.lower()
            expect(
                name not in self.properties, f"expected no {name} in the {module} module, found it"
            )

    def verify_machine(self, config: VTAConfig) -> None:
        """Checks rules about memories, once every field is known to fit its bits."""


def expect_numbers(name: str, attr: Numbers, count: int) -> None:
    """Raises VerifyException unless a field has so many numbers."""
    found = len(attr.get_values())
    expect(found == count, f"expected {count} numbers in {name}, found {found}")
