"""The VTA accelerator: its instructions as ops, and the encoded program."""

from xdsl.ir import Dialect

from byocir.dialects.vta.base import TOKENS, InstructionOp
from byocir.dialects.vta.compute import AluKind, AluKindAttr, AluOp, FinishOp, GemmOp, NestOp
from byocir.dialects.vta.program import PortAttr, ProgramOp, SpanAttr
from byocir.dialects.vta.transfer import LoadMemory, LoadMemoryAttr, LoadOp, StoreOp, TransferOp
from byocir.dialects.vta_config import VTA, config_of, target_of

Vta = Dialect(
    "vta",
    [AluOp, FinishOp, GemmOp, LoadOp, ProgramOp, StoreOp],
    [AluKindAttr, LoadMemoryAttr, PortAttr, SpanAttr],
)

__all__ = [
    "TOKENS",
    "VTA",
    "AluKind",
    "AluKindAttr",
    "AluOp",
    "FinishOp",
    "GemmOp",
    "InstructionOp",
    "LoadMemory",
    "LoadMemoryAttr",
    "LoadOp",
    "NestOp",
    "PortAttr",
    "ProgramOp",
    "SpanAttr",
    "StoreOp",
    "TransferOp",
    "Vta",
    "config_of",
    "target_of",
]
