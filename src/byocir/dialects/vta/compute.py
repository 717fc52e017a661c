"""Defines GEMM, ALU and FINISH."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, UnitAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.vta.base import (
    INTEGER,
    INTEGERS,
    InstructionOp,
    expect_numbers,
    value_of,
)
from byocir.vta_sim import AluOp as AluOpcode
from byocir.vta_sim import Memory, Opcode, VTAConfig
from byocir.vta_sim.isa import Queue


class AluKind(StrEnum):
    """Names the operations of the ALU: signed minimum and maximum, wrapping sum and product, and
    the arithmetic shift, to the right or, by a negative distance, to the left."""

    MIN = "min"
    MAX = "max"
    ADD = "add"
    SHR = "shr"
    MUL = "mul"


@irdl_attr_definition
class AluKindAttr(EnumAttribute[AluKind], SpacedOpaqueSyntaxAttribute):
    """Names an operation of the ALU."""

    name = "vta.alu"


class NestOp(InstructionOp):
    """Defines what GEMM and ALU instructions share: two loops around a range of micro-ops.

    In iteration (i, j) a micro-op's index is its own plus `i * outer + j * inner` for the factor
    pair [outer, inner] of that operand.
    """

    uops = prop_def(INTEGERS)
    loops = prop_def(INTEGERS)
    dst = prop_def(INTEGERS)
    src = prop_def(INTEGERS)

    @property
    def queue(self) -> Queue:
        return Queue.COMPUTE

    def operation_fields(self) -> dict[str, int]:
        begin, end = self.uops.get_values()
        outer, inner = self.loops.get_values()
        fields = {"uop_bgn": begin, "uop_end": end, "iter_out": outer, "iter_in": inner}
        for name, attr in (("dst", self.dst), ("src", self.src)):
            fields[f"{name}_factor_out"], fields[f"{name}_factor_in"] = attr.get_values()
        return fields

    def _verify_shape(self) -> None:
        expect_numbers("uops", self.uops, 2)
        expect_numbers("loops", self.loops, 2)
        expect_numbers("dst", self.dst, 2)
        expect_numbers("src", self.src, 2)

    def verify_machine(self, config: VTAConfig) -> None:
        fields = self.operation_fields()
        begin, end, depth = fields["uop_bgn"], fields["uop_end"], config.depth(Memory.UOP)
        expect(
            begin < end <= depth,
            f"expected a range of micro-ops within 0..{depth}, found {begin}..{end}",
        )
        loops = (fields["iter_out"], fields["iter_in"])
        expect(min(loops) > 0, f"expected loops > 0, found {list(loops)}")


@irdl_op_definition
class GemmOp(NestOp):
    """Adds products of inputs and weights to accumulators, or sets accumulators to 0, e.g.
    `vta.gemm uops [0, 9] loops [14, 14] dst [14, 1] src [16, 1] wgt [0, 0] {pop_prev}` and
    `vta.gemm reset uops [9, 10] loops [1, 196] dst [0, 1] src [0, 0] wgt [0, 0]`."""

    name = "vta.gemm"
    OPCODE: ClassVar[Opcode] = Opcode.GEMM

    reset = opt_prop_def(UnitAttr)
    wgt = prop_def(INTEGERS)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "(`reset` $reset^)? `uops` $uops `loops` $loops `dst` $dst `src` $src `wgt` $wgt attr-dict"
    )

    def operation_fields(self) -> dict[str, int]:
        fields = super().operation_fields()
        outer, inner = self.wgt.get_values()
        return fields | {
            "reset_reg": int(self.reset is not None),
            "wgt_factor_out": outer,
            "wgt_factor_in": inner,
        }

    def _verify_shape(self) -> None:
        super()._verify_shape()
        expect_numbers("wgt", self.wgt, 2)


@irdl_op_definition
class AluOp(NestOp):
    """Combines accumulators with other accumulators or with one number, in place, e.g.
    `vta.alu add uops [0, 1] loops [1, 196] dst [0, 1] src [0, 0]` and
    `vta.alu shr imm 7 uops [0, 1] loops [1, 196] dst [0, 1] src [0, 1]`."""

    name = "vta.alu"
    OPCODE: ClassVar[Opcode] = Opcode.ALU

    kind = prop_def(AluKindAttr)
    imm = opt_prop_def(INTEGER)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind (`imm` $imm^)? `uops` $uops `loops` $loops `dst` $dst `src` $src attr-dict"
    )

    def operation_fields(self) -> dict[str, int]:
        return super().operation_fields() | {
            "alu_opcode": int(AluOpcode[self.kind.data.name]),
            "use_imm": int(self.imm is not None),
            "imm": value_of(self.imm),
        }

    def verify_machine(self, config: VTAConfig) -> None:
        super().verify_machine(config)
        has = config.alu_mul or self.kind.data is not AluKind.MUL
        expect(has, f"expected no mul, which {config.name} lacks, found one")


@irdl_op_definition
class FinishOp(InstructionOp):
    """Ends the program; nothing runs after it, e.g. `vta.finish {pop_next}`."""

    name = "vta.finish"
    OPCODE: ClassVar[Opcode] = Opcode.FINISH

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    @staticmethod
    def of(location: LocationAttr = UNKNOWN_LOC) -> FinishOp:
        return FinishOp.create(location=location)

    @property
    def queue(self) -> Queue:
        return Queue.COMPUTE

    def operation_fields(self) -> dict[str, int]:
        return {}
