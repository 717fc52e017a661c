"""Emits instructions in program order, with their micro-ops loaded where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr, MemRefType, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.tir import ConstantOp
from byocir.dialects.vta import (
    AluKind,
    AluKindAttr,
    AluOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    LoadMemory,
    LoadOp,
    StoreOp,
)
from byocir.dialects.vta.base import integer, integers
from byocir.lowering.tir_to_vta.legalise_lanes import IMMEDIATE
from byocir.lowering.tir_to_vta.micro_ops import Axis, MicroOpNest, Offsets, kernel_of, nests
from byocir.lowering.tir_to_vta.micro_ops_memory import MicroOpMemory
from byocir.lowering.tir_to_vta.tensorise_copies import Movement
from byocir.vta_sim import VTAConfig

WIDEST_LEFT = 16
"""The longest shift to the left that all VTAs make in one step."""


@dataclass(frozen=True)
class _MicroOpLoad:
    """Describes a LOAD UOP whose source, the table of the whole program, is not known yet."""

    number: int
    address: int
    count: int
    location: LocationAttr


class InstructionEmitter:
    """Collects the instructions of one function."""

    def __init__(self, config: VTAConfig) -> None:
        self.config = config
        self._emitted: list[InstructionOp | _MicroOpLoad] = []
        self._micro_ops = MicroOpMemory(config)

    def move(self, moved: Movement, local: int, dram: SSAValue, location: LocationAttr) -> None:
        """Emits the loads or stores of a copy; the scratchpad buffer is at address `local`."""
        for part in moved.transfers:
            sram, offset = local + moved.sram + part.sram, moved.dram + part.dram
            size = (part.rows, part.columns)
            if moved.memory is None:
                op = StoreOp.of(sram, dram, offset, size, stride=part.stride, location=location)
            else:
                op = LoadOp.of(
                    moved.memory,
                    sram,
                    dram,
                    offset,
                    size,
                    stride=part.stride,
                    pads=part.pads,
                    location=location,
                )
            self._emitted.append(op)

    def gemm(
        self,
        steps: Sequence[MicroOpNest],
        bases: Offsets,
        location: LocationAttr,
        *,
        reset: bool = False,
    ) -> None:
        """Emits a multiply-accumulate, or a reset, over these nests."""
        for nest in steps:
            properties = self._nest(nest, bases, location)
            properties["wgt"] = integers((nest.outer.steps[2], nest.inner.steps[2]))
            if reset:
                properties["reset"] = UnitAttr()
            self._emitted.append(GemmOp.create(properties=properties, location=location))

    def alu(
        self,
        kind: AluKind,
        immediate: int | None,
        steps: Sequence[MicroOpNest],
        bases: Offsets,
        location: LocationAttr,
    ) -> None:
        """Emits one ALU operation over these nests, with a number or with other accumulators."""
        for nest in steps:
            properties = self._nest(nest, bases, location)
            properties["kind"] = AluKindAttr(kind)
            if immediate is not None:
                properties["imm"] = integer(immediate)
            self._emitted.append(AluOp.create(properties=properties, location=location))

    def fill(self, start: int, count: int, value: int, location: LocationAttr) -> bool:
        """Sets `count` accumulators to a number; tells if the number can be made: 16 bits, shifted
        left.
        """
        shift = max((value & -value).bit_length() - 1, 0)
        short = value >> shift
        if not IMMEDIATE.holds(short):
            return False
        steps = nests((Axis(count, (1, 1, 0)),), (0, 0, 0), self.config, gemm=False)
        bases = (start, start, 0)
        self.gemm(steps, bases, location, reset=True)
        if IMMEDIATE.holds(value):
            short, shift = value, 0
        if short:
            self.alu(AluKind.ADD, short, steps, bases, location)
        while shift:
            part = min(shift, WIDEST_LEFT)
            self.alu(AluKind.SHR, -part, steps, bases, location)
            shift -= part
        return True

    def finish(self, location: LocationAttr) -> tuple[list[ConstantOp], list[InstructionOp]]:
        """Gives the constants that the instructions need, and all instructions, ending in
        FINISH.
        """
        table = self._micro_ops.table()
        tables: list[ConstantOp] = []
        if table.size:
            type_ = MemRefType(i32, table.shape)
            tables = [ConstantOp.of(Array.of(table), type_, location)]
        ops = [
            op if isinstance(op, InstructionOp) else self._load(op, tables[0].result)
            for op in self._emitted
        ]
        return tables, [*ops, FinishOp.of(location)]

    def _load(self, load: _MicroOpLoad, table: SSAValue) -> LoadOp:
        offset = self._micro_ops.offset(load.number)
        return LoadOp.of(
            LoadMemory.UOP,
            load.address,
            table,
            offset,
            (1, load.count),
            stride=load.count,
            location=load.location,
        )

    def _nest(
        self, nest: MicroOpNest, bases: Offsets, location: LocationAttr
    ) -> dict[str, Attribute]:
        """Places the micro-ops of an instruction over a nest, and gives its properties."""
        kernel = kernel_of(nest, bases, self.config)
        (address, missing), count = self._micro_ops.hold(kernel), len(kernel)
        if missing is not None:
            self._emitted.append(_MicroOpLoad(missing, address, count, location))
        outer, inner = nest.outer, nest.inner
        return {
            "uops": integers((address, address + count)),
            "loops": integers((outer.extent, inner.extent)),
            "dst": integers((outer.steps[0], inner.steps[0])),
            "src": integers((outer.steps[1], inner.steps[1])),
        }
