"""vta-insert-tokens: sets dependency flags by what instructions read and write.

Requires: functions for VTA that hold `vta` instructions in program order, without dependency
flags, constants and DRAM buffers, and end in `vta.finish` (after `vta-tensorise`); memrefs that are
arguments do not overlap. Error B336 for others.
Guarantees: any order in which load, compute and store can run under the flags gives what the
program order gives; every token pushed is popped; `vta.finish` runs last. Instructions that only
carry tokens (loads and stores of size [0, 0]) may be added, with the location of the instruction
they are for. Tokens follow from what the simulator says that instructions touch; tiles and loops
are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.vta import TOKENS, FinishOp, InstructionOp, LoadMemory, LoadOp, config_of
from byocir.dialects.vta.assemble import assembled
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.rewrites.unit_order import OrderedStep, Ordering
from byocir.vta_sim import decode
from byocir.vta_sim.isa import Queue
from byocir.vta_sim.token_order import TOKEN_FIFOS
from byocir.vta_sim.touched import conflicts_of


@dataclass(frozen=True)
class VtaInsertTokensPass(ModulePass):
    """Sets the dependency flags of instructions."""

    name = "vta-insert-tokens"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            _insert_tokens(function)


def vta_ordering() -> Ordering:
    """Makes an ordering of load, compute and store. No queue joins load and store: such a pair is
    ordered by way of a compute instruction between them.
    """
    pairs = [(fifo.producer, fifo.consumer) for fifo in TOKEN_FIFOS]
    return Ordering(len(Queue), pairs, Queue.COMPUTE)


def tokens_of(step: OrderedStep) -> set[str]:
    """Gives the dependency flags of a step."""
    pushes = {f.push for f in TOKEN_FIFOS if f.producer == step.unit and f.consumer in step.pushes}
    return pushes | {
        f.pop for f in TOKEN_FIFOS if f.consumer == step.unit and f.producer in step.pops
    }


def _insert_tokens(function: FuncOp) -> None:
    block, ordering = function.body.block, vta_ordering()
    stream = assembled(function, needs_weights=False)
    ops = [op for op in block.ops if isinstance(op, InstructionOp)]
    decoded = decode(stream.insns, config_of(function))
    conflicts = conflicts_of(decoded, stream.image, stream.size)
    for index, op in enumerate(ops):
        ordering.add(op.queue, conflicts.get(index, ()), last=isinstance(op, FinishOp))
    carriers: list[LoadOp] = []
    for step in ordering.steps:
        if step.source is None:
            carrier = LoadOp.nop(LoadMemory.UOP)
            carriers.append(carrier)
            _set_tokens(carrier, tokens_of(step))
            continue
        op = ops[step.source]
        _set_tokens(op, tokens_of(step))
        for carrier in carriers:
            carrier.location = op.location
        block.insert_ops_before(carriers, op)
        carriers = []


def _set_tokens(op: InstructionOp, tokens: set[str]) -> None:
    for token in TOKENS:
        if token in tokens:
            op.set_token(token)
