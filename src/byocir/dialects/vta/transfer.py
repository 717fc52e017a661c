"""Defines loads and stores."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, MemRefType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.types import element_type_of, i8, i32, nbytes
from byocir.dialects.vta.base import (
    INTEGER,
    INTEGERS,
    InstructionOp,
    expect_numbers,
    integer,
    integers,
    value_of,
)
from byocir.vta_sim import Memory, Opcode, VTAConfig
from byocir.vta_sim.isa import Queue


class LoadMemory(StrEnum):
    """Names the memories that a LOAD fills: `acc8` is ACC from int8 values, widened."""

    INP = "inp"
    WGT = "wgt"
    ACC = "acc"
    ACC8 = "acc8"
    UOP = "uop"


@irdl_attr_definition
class LoadMemoryAttr(EnumAttribute[LoadMemory], SpacedOpaqueSyntaxAttribute):
    """Names the scratchpad that a load fills."""

    name = "vta.memory"


MEMORIES = {
    LoadMemory.INP: Memory.INP,
    LoadMemory.WGT: Memory.WGT,
    LoadMemory.ACC: Memory.ACC,
    LoadMemory.ACC8: Memory.ACC_8BIT,
    LoadMemory.UOP: Memory.UOP,
}
"""The memory id of each name."""


class TransferOp(InstructionOp):
    """Defines what LOAD and STORE share. `size` is [rows, elements per row]; `stride` counts the
    elements between the starts of rows in DRAM, where rows follow each other by default; in the
    scratchpad they always do.
    """

    @property
    @abstractmethod
    def memory_id(self) -> Memory: ...

    @property
    @abstractmethod
    def dram(self) -> SSAValue | None:
        """Gives the memref that is moved from or to; None only for an instruction that moves
        nothing."""

    @property
    @abstractmethod
    def box(self) -> tuple[int, int]:
        """Counts the rows, and the elements per row."""

    @property
    def is_nop(self) -> bool:
        """Tells if the instruction carries tokens only."""
        return self.box[1] == 0

    @property
    @abstractmethod
    def sram_size(self) -> int:
        """Counts the elements that are read or written in the scratchpad, from the SRAM
        address on."""

    def verify_machine(self, config: VTAConfig) -> None:
        memory, fields = self.memory_id, self.fields()
        has = config.acc_8bit or memory is not Memory.ACC_8BIT
        expect(has, f"expected no acc8, which {config.name} lacks, found one")
        last, depth = fields["sram_base"] + self.sram_size, config.depth(memory)
        expect(
            last <= depth,
            f"expected {memory.name} elements within 0..{depth}, found "
            f"{fields['sram_base']}..{last}",
        )
        expect((self.dram is None) <= self.is_nop, "expected a memref unless the size is 0")
        if self.dram is not None:
            self._verify_dram(self.dram.type, config)

    def _verify_dram(self, type_: Attribute, config: VTAConfig) -> None:
        memory, fields = self.memory_id, self.fields()
        wide = memory in (Memory.ACC, Memory.UOP)
        element = element_type_of(type_)
        expected = i32 if wide else i8
        expect(element == expected, f"expected a memref of {expected}, found {type_}")
        elements = nbytes(type_) // config.element_bytes(memory)
        rows, columns = self.box
        end = fields["dram_base"] + max(rows - 1, 0) * fields["x_stride"] + columns
        if rows and columns:
            expect(
                end <= elements,
                f"expected DRAM elements within 0..{elements} of {type_}, found "
                f"{fields['dram_base']}..{end}",
            )


@irdl_op_definition
class LoadOp(TransferOp):
    """Fills a scratchpad with a window of DRAM, with zeros around it where asked, e.g.
    `vta.load inp[16] from %x[0] size [4, 6] stride 14 pads [1, 0, 1, 2] {pop_next} : memref<…>`.

    `pads` are rows before and after, then elements before and after each row. A load of size
    [0, 0] moves tokens only: `vta.load uop[0] size [0, 0] {pop_prev, push_next}`.
    """

    name = "vta.load"
    OPCODE: ClassVar[Opcode] = Opcode.LOAD

    memory = prop_def(LoadMemoryAttr)
    sram = prop_def(INTEGER)
    source = opt_operand_def(MemRefType)
    offset = opt_prop_def(INTEGER)
    size = prop_def(INTEGERS)
    stride = opt_prop_def(INTEGER)
    pads = opt_prop_def(INTEGERS)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$memory `[` $sram `]` (`from` $source^ `[` $offset `]`)? `size` $size (`stride` $stride^)?"
        " (`pads` $pads^)? attr-dict (`:` type($source)^)?"
    )

    @staticmethod
    def of(
        memory: LoadMemory,
        sram: int,
        source: SSAValue,
        offset: int,
        size: tuple[int, int],
        *,
        stride: int | None = None,
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        location: LocationAttr = UNKNOWN_LOC,
    ) -> LoadOp:
        properties: dict[str, Attribute] = {
            "memory": LoadMemoryAttr(memory),
            "sram": integer(sram),
            "offset": integer(offset),
            "size": integers(size),
        }
        if stride not in (None, size[1]):
            properties["stride"] = integer(stride)
        if any(pads):
            properties["pads"] = integers(pads)
        return LoadOp.create(operands=[source], properties=properties, location=location)

    @staticmethod
    def nop(memory: LoadMemory, location: LocationAttr = UNKNOWN_LOC) -> LoadOp:
        """Makes an instruction that only moves tokens, in the module that loads `memory`."""
        properties = {
            "memory": LoadMemoryAttr(memory),
            "sram": integer(0),
            "size": integers((0, 0)),
        }
        return LoadOp.create(properties=properties, location=location)

    @property
    def queue(self) -> Queue:
        loads = (LoadMemory.INP, LoadMemory.WGT)
        return Queue.LOAD if self.memory.data in loads else Queue.COMPUTE

    @property
    def memory_id(self) -> Memory:
        return MEMORIES[self.memory.data]

    @property
    def dram(self) -> SSAValue | None:
        return self.source

    @property
    def box(self) -> tuple[int, int]:
        rows, columns = self.size.get_values()
        return rows, columns

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """Counts the zeros around what is loaded: rows before and after, elements before and after
        each row.
        """
        if self.pads is None:
            return 0, 0, 0, 0
        top, bottom, left, right = self.pads.get_values()
        return top, bottom, left, right

    @property
    def sram_size(self) -> int:
        if self.is_nop:
            return 0
        (rows, columns), (top, bottom, left, right) = self.box, self.padding
        return (top + rows + bottom) * (left + columns + right)

    def operation_fields(self) -> dict[str, int]:
        (rows, columns), (top, bottom, left, right) = self.box, self.padding
        return {
            "memory_type": int(self.memory_id),
            "sram_base": value_of(self.sram),
            "dram_base": value_of(self.offset),
            "y_size": rows,
            "x_size": columns,
            "x_stride": columns if self.stride is None else self.stride.value.data,
            "y_pad_0": top,
            "y_pad_1": bottom,
            "x_pad_0": left,
            "x_pad_1": right,
        }

    def _verify_shape(self) -> None:
        expect_numbers("size", self.size, 2)
        if self.pads is not None:
            expect_numbers("pads", self.pads, 4)


@irdl_op_definition
class StoreOp(TransferOp):
    """Writes the low 8 bits of accumulators to a window of DRAM, e.g.
    `vta.store acc[0] to %y[32] size [4, 6] stride 14 {pop_prev} : memref<…>`.

    A store of size [0, 0] moves tokens only: `vta.store acc[0] size [0, 0] {pop_prev}`.
    """

    name = "vta.store"
    OPCODE: ClassVar[Opcode] = Opcode.STORE

    sram = prop_def(INTEGER)
    destination = opt_operand_def(MemRefType)
    offset = opt_prop_def(INTEGER)
    size = prop_def(INTEGERS)
    stride = opt_prop_def(INTEGER)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "`acc` `[` $sram `]` (`to` $destination^ `[` $offset `]`)? `size` $size "
        "(`stride` $stride^)? attr-dict (`:` type($destination)^)?"
    )

    @staticmethod
    def of(
        sram: int,
        destination: SSAValue,
        offset: int,
        size: tuple[int, int],
        *,
        stride: int | None = None,
        location: LocationAttr = UNKNOWN_LOC,
    ) -> StoreOp:
        properties: dict[str, Attribute] = {
            "sram": integer(sram),
            "offset": integer(offset),
            "size": integers(size),
        }
        if stride not in (None, size[1]):
            properties["stride"] = integer(stride)
        return StoreOp.create(operands=[destination], properties=properties, location=location)

    @staticmethod
    def nop(location: LocationAttr = UNKNOWN_LOC) -> StoreOp:
        """Makes an instruction that only moves tokens."""
        properties = {"sram": integer(0), "size": integers((0, 0))}
        return StoreOp.create(properties=properties, location=location)

    @property
    def queue(self) -> Queue:
        return Queue.STORE

    @property
    def memory_id(self) -> Memory:
        return Memory.OUT

    @property
    def dram(self) -> SSAValue | None:
        return self.destination

    @property
    def box(self) -> tuple[int, int]:
        rows, columns = self.size.get_values()
        return rows, columns

    @property
    def sram_size(self) -> int:
        return self.box[0] * self.box[1]

    def operation_fields(self) -> dict[str, int]:
        rows, columns = self.box
        return {
            "memory_type": 0 if self.is_nop else int(Memory.OUT),
            "sram_base": value_of(self.sram),
            "dram_base": value_of(self.offset),
            "y_size": rows,
            "x_size": columns,
            "x_stride": columns if self.stride is None else self.stride.value.data,
        }

    def _verify_shape(self) -> None:
        expect_numbers("size", self.size, 2)
