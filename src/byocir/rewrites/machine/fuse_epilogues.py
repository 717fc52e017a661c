"""fuse-epilogues: fuses the ops after the sums of composites into as few blocks as possible.

Does: sums to which another array is added begin with that array in place of zero, or with a row of
a number, and blocks that compute element by element become one. So a convolution with bias, relu
and requantisation is three blocks: what brings the bias, the sums, and what stores them. Where a
machine has a load that adds to what is there, a sum of two computed arrays adds the second to the
first, and both to what is added to the sum; where it has one that reduces windows on the way out,
the maximum of windows reads what the computed array was made of, and leaves out points outside in
the place of a pad that changes nothing.

Requires: composites on tensors in functions of described machines.

Guarantees: the same results, bit for bit: sums of integers wrap in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.array import Array
from byocir.dialects.new_ops import clone_op, copied_body
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, is_integer, shape_of, tensor
from byocir.dialects.uses import erase, replace_op, replace_uses, set_operand
from byocir.evaluate.scalar import number
from byocir.machine import Machine
from byocir.machine.cut_plans import plans_of
from byocir.machine.instructions import init_of
from byocir.machine.parts import Operand
from byocir.rewrites.host.fuse_blocks import fuse_into, fuse_producer, is_map, with_numbers
from byocir.rewrites.machine import searched_composites
from byocir.rewrites.machine.cover_bodies import Cover
from byocir.rewrites.machine.pieces import each_element
from byocir.rewrites.machine.split_bodies import split_bodies
from byocir.rewrites.machine.whole_blocks import home_of
from byocir.rewrites.window_guards import guards_of


@dataclass(frozen=True)
class FuseEpiloguesPass(ModulePass):
    """Brings the ops after sums into the form that instructions have."""

    name = "fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for composite, machine in searched_composites(op):
            fuse_epilogues(machine, composite.body.block)


def fuse_epilogues(machine: Machine, body: Block) -> None:
    """Fuses what follows sums in a body on tensors."""
    adds = any(
        init_of(form) and any(not isinstance(read.pattern, Operand) for read in form.reads)
        for i in machine.instructions
        for form in i.forms
        if not form.iterators.reduction
    )
    for op in list(body.ops):
        if isinstance(op, BlockOp) and op.in_value_form and not _begin_with(machine, op) and adds:
            _add_to_first(op)
    for op in list(body.ops):
        if isinstance(op, BlockOp) and op.in_value_form:
            fuse_into(op)
    for op in list(body.ops) if _has_pools(machine) else ():
        if isinstance(op, BlockOp) and op.in_value_form and op.reductions:
            _fuse_pool(op)
    for op in list(body.ops):
        if isinstance(op, EmptyOp | FillOp) and op.results and not op.results[0].uses:
            erase(op)


def fused(
    machine: Machine, blocks: Sequence[BlockOp], inside: Sequence[Operation] | None = None
) -> list[BlockOp]:
    """Copies blocks on tensors, sorted by what they read, into a body of their own, and there fuses
    what follows sums and splits it into what instructions do. The constants `inside`, by default
    all, are copied; others become arguments of the body, whose numbers are known.
    """

    def copies(value: SSAValue) -> bool:
        if isinstance(value.owner, ConstantOp):
            return inside is None or value.owner in inside
        return isinstance(value.owner, EmptyOp | FillOp)

    body, known = copied_body(blocks, copies)
    constants = [v for v in known if isinstance(v.owner, ConstantOp) and not copies(v)]
    fuse_epilogues(machine, body)
    split_bodies(machine, body, {known[value]: value for value in constants})
    return [op for op in body.ops if isinstance(op, BlockOp)]


def _begin_with(machine: Machine, op: BlockOp) -> bool:
    """Makes sums begin with the array that a block adds to them; tells if it did."""
    for position, value in enumerate(op.ins):
        sums = value.owner
        if isinstance(sums, BlockOp) and _adds_to(op, position, sums):
            break
    else:
        return False
    ops = _bringing(machine, op, 1 - position, value)
    if ops is None:
        return False
    assert sums.parent is not None
    sums.parent.insert_ops_before(ops, sums)
    first, start = ops[-1].results[0], sums.outs[0]
    if not isinstance(start.owner, FillOp):
        made = each_element(first, _plus, start)
        made.location = sums.location
        sums.parent.insert_op_before(made, sums)
        first = made.results[0]
    set_operand(sums, len(sums.ins), first)
    replace_op(op, [], sums.results)
    return True


def _plus(x: Emitted, total: Emitted) -> Emitted:
    return total + x


def _bringing(
    machine: Machine, op: BlockOp, position: int, sums: SSAValue
) -> Sequence[Operation] | None:
    """Makes the ops that bring an array to the memory of sums, to which a block adds it; a known
    number comes as a row of it. None where no instruction brings it.
    """
    for ops in _ways_to_bring(op, op.ins[position], op.in_maps[position]):
        if _is_brought(machine, ops[-1], op, sums):
            return ops
        for each in reversed(ops):
            each.erase()
    return None


def _ways_to_bring(op: BlockOp, array: SSAValue, index: AffineMap) -> Iterator[list[Operation]]:
    """Yields the ops that copy a row of a known number, and those that copy an array as a block
    reads it.
    """
    constant, lanes = array.owner, op.out_maps[0].results[-1:]
    known = constant.value.data if isinstance(constant, ConstantOp) else None
    if known is not None and known.present and not index.results and lanes:
        row = np.broadcast_to(known.values(), shape_of(op.results[0].type)[-1:])
        made = ConstantOp.of(Array.of(row.copy()), location=op.location)
        yield [made, *_copying(op, made.result, AffineMap(index.num_dims, 0, lanes))]
    yield _copying(op, array, index)


def _copying(op: BlockOp, array: SSAValue, index: AffineMap) -> list[Operation]:
    """Makes the block that copies an array to each point of what another block computes."""
    element = element_type_of(array.type)
    start = EmptyOp.of(tensor(element, shape_of(op.results[0].type)), op.location)
    maps, body = [index, *op.out_maps], emit_body([element, element], first, op.location)
    ends = ([array], [start.results[0]], maps, body)
    return [start, BlockOp(list(op.iterators), *ends, location=op.location)]


def _is_brought(machine: Machine, made: Operation, added: BlockOp, sums: SSAValue) -> bool:
    """Tells whether an instruction can bring what sums would begin with to where they are, in no
    more cycles than adding it to them takes. Products would add it on the unit that makes the sums.
    """
    assert isinstance(made, BlockOp)
    home = home_of(machine, sums)
    plans = plans_of(machine, made, made.extents, "pattern")
    brought = [plan.cycles for plan in plans if plan.instruction.into == home]
    if not brought:
        return False
    trial = clone_op(added)
    Block([trial])
    trial = with_numbers(trial)
    piece = Cover(machine, trial, products=False).best([home])
    erase(trial)
    return piece is None or brought[0] <= piece.cycles


def _adds_to(op: BlockOp, position: int, sums: BlockOp) -> bool:
    """Tells whether a block adds another array to each of the sums of integers that it reads at
    this position, where the sums begin with zero, or with a computed array that nothing else reads.
    """
    if not _is_sum(op, position):
        return False
    other, start = op.ins[1 - position], sums.outs[0].owner
    is_there = isinstance(other.owner, Block) or other.owner.is_before_in_block(sums)
    if sums.reductions:
        begins = isinstance(start, FillOp) and number(start.value) == 0
    else:
        begins = isinstance(start, BlockOp) and is_map(start) and sums.outs[0].has_one_use()
    return is_there and begins and _is_accumulated(sums)


def _add_to_first(op: BlockOp) -> None:
    """Makes a sum of two computed arrays begin with the first of them, and compute the second."""
    if not all(isinstance(value.owner, BlockOp) for value in op.ins) or not _is_sum(op, 0):
        return
    body = op.body.clone()
    first, _, old = body.block.args
    replace_uses(first, old)
    body.block.erase_arg(first)
    maps = [op.in_maps[1], *op.out_maps]
    made = BlockOp(list(op.iterators), op.ins[1:], op.ins[:1], maps, body, location=op.location)
    replace_op(op, made)
    fuse_into(made)


def _has_pools(machine: Machine) -> bool:
    """Tells whether a machine has an instruction that reduces windows on the way out."""
    forms = [form for each in machine.instructions if each.into.is_main for form in each.forms]
    return any(form.iterators.reduction for form in forms)


def _fuse_pool(op: BlockOp) -> None:
    """Makes a block that takes windows of a computed array compute the array where it reads it. A
    pad equal to what its results begin with changes nothing, so a guard replaces it.
    """
    value, pad = op.ins[0], op.pad_values[0]
    producer, start, limit = value.owner, op.outs[0].owner, op.yielded[0].owner
    if len(op.ins) != 1 or op.bases or op.where is not None or not isinstance(limit, _LIMITS):
        return
    if {limit.lhs, limit.rhs} != {*op.body.block.args}:
        return
    if not isinstance(producer, BlockOp) or not value.has_one_use() or not is_map(producer):
        return
    if pad is not None and not (isinstance(start, FillOp) and start.value == pad):
        return
    made = BlockOp(
        list(op.iterators),
        list(op.ins),
        list(op.outs),
        [*op.in_maps, *op.out_maps],
        op.body.clone(),
        where=guards_of(op),
        location=op.location,
    )
    replace_op(op, made)
    fuse_producer(made, 0)


_LIMITS = arith.MaxSIOp | arith.MinSIOp | arith.MaxUIOp | arith.MinUIOp


def _is_sum(op: BlockOp, position: int) -> bool:
    """Tells whether a block adds two arrays of integers, and alone reads the array at `position`,
    at the very index that it writes.
    """
    if len(op.ins) != 2 or op.reductions or op.bases or op.where is not None or op.is_padded:
        return False
    value, (x, y, _) = op.yielded[0].owner, op.body.block.args
    term, result = op.ins[position], op.results[0]
    return (
        isinstance(value, arith.AddiOp)
        and {value.lhs, value.rhs} == {x, y}
        and isinstance(op.outs[0].owner, EmptyOp)
        and term.has_one_use()
        and term.type == result.type
        and op.in_maps[position] == op.out_maps[0]
        and is_integer(element_type_of(result.type))
    )


def _is_accumulated(sums: BlockOp) -> bool:
    """Tells whether a block adds to the former content of its result, and uses that for nothing
    else.
    """
    old, value = sums.body.block.args[-1], sums.yielded[0].owner
    return isinstance(value, arith.AddiOp) and old in (value.lhs, value.rhs) and old.has_one_use()
