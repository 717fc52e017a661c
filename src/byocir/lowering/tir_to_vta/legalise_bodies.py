"""Computes bodies of element-wise blocks in steps of VTA's ALU: restated in i32, in the way that
takes the fewest cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i32
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.legalise_lanes import (
    IMMEDIATE,
    OPERAND_CYCLES,
    Constant,
    Lane,
    Step,
    cycles,
    step,
)
from byocir.lowering.tir_to_vta.legalise_products import NeedsProduct, without_products
from byocir.patterns.scalars import constant_number
from byocir.rewrites.block_ends import BodyEnds, Known, scalar_ends
from byocir.rewrites.machine.gather_numbers import gather_numbers
from byocir.rewrites.machine.idle_clamps import drop_idle_clamps, has_idle_clamps
from byocir.rewrites.machine.restate_bodies import restated, why_not_restated

Value = Lane | Constant
Reader = Callable[[BlockOp, SSAValue, AffineMap], Value]
"""Finds what a block reads from a tensor at an index."""

_STEPS: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.MuliOp: "mul",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
    arith.ShRSIOp: "shr",
}


def lane_of(block: BlockOp, read: Reader, given: Known, *, has_products: bool, points: int) -> Lane:
    """Computes an element-wise block in the steps that take the fewest cycles for so many points of
    each channel. `given` bounds what it reads.

    Raises ByocirError B321 for a body that VTA cannot compute, B323 for one that needs more than 32
    bits; NeedsProduct where all ways multiply, and the machine cannot.
    """
    scratch = Block([first := block.clone()])
    ends = gather_numbers(first, given)
    known = ends[first.yielded[0]].interval
    try:
        found = [_lane_of_form(block, form, read) for form in _forms(scratch, first, ends, given)]
    finally:
        for op in reversed(list(scratch.ops)):
            erase(op)
    if not found:
        raise _refused(block, scalar_ends(block, given))
    ways = found if has_products else [*_shifted(found)]
    if not ways:
        raise NeedsProduct
    best = min(ways, key=lambda way: cycles(way, points, OPERAND_CYCLES))
    return replace(best, range=known) if isinstance(best, Step) else best


def why_not_computed(block: BlockOp, given: Known) -> str:
    """Says why VTA does not compute an element-wise block; empty if it does."""
    ends = scalar_ends(block, given)
    return _refused(block, ends).message if why_not_restated(block, i32, ends) else ""


def _forms(scratch: Block, first: BlockOp, ends: BodyEnds, given: Known) -> Iterator[BlockOp]:
    """Yields the forms in i32 of the first block in another one, in which they are put: with all
    clamps of terms and without those that need not act.
    """
    bodies = [(first, ends)]
    if has_idle_clamps(first, ends):
        eased = first.clone()
        scratch.add_op(eased)
        drop_idle_clamps(eased, given)
        bodies.append((eased, scalar_ends(eased, given)))
    for body, known in bodies:
        found = restated(body, i32, known, IMMEDIATE)
        for made in [] if isinstance(found, str) else found:
            scratch.add_ops(made)
            block = made[-1]
            assert isinstance(block, BlockOp)
            yield block


def _shifted(lanes: Sequence[Lane]) -> Iterator[Lane]:
    for lane in lanes:
        try:
            yield without_products([lane])[0]
        except NeedsProduct:
            continue


def _lane_of_form(given: BlockOp, block: BlockOp, read: Reader) -> Lane:
    """Reads the form on i32 of a given block as a lane."""
    values = dict[SSAValue, Value]()
    places = zip(block.body.block.args, block.ins, block.in_maps, strict=False)
    values |= {arg: read(given, value, map_) for arg, value, map_ in places}
    for op in block.body.block.ops:
        if isinstance(op, arith.ConstantOp):
            number = constant_number(op.result)
            assert isinstance(number, int)
            values[op.result] = Constant.uniform(number, len(block.extents))
        elif isinstance(op, arith.ExtSIOp | arith.TruncIOp):
            values[op.result] = values[op.input]
        elif op.results:
            values[op.results[0]] = _step(given, op, [values[v] for v in op.operands])
    result = values[block.yielded[0]]
    if not isinstance(result, Lane):
        raise _beyond_alu(given, given)
    return result


def _step(block: BlockOp, op: Operation, operands: Sequence[Value]) -> Lane:
    """Makes the step that an op is. A factor that is no immediate but a power of two shifts."""
    name, (lhs, rhs) = _STEPS.get(type(op)), operands
    if isinstance(lhs, Constant) and name != "shr":
        lhs, rhs = rhs, lhs
    if name is None or not isinstance(lhs, Lane) or (name == "shr" and isinstance(rhs, Lane)):
        raise _beyond_alu(op, block)
    number = rhs.number if isinstance(rhs, Constant) else None
    if name == "mul" and number is not None and not IMMEDIATE.holds(number):
        distance = number.bit_length() - 1
        if number == 1 << distance:
            return step("shl", lhs, Constant.uniform(distance, len(block.extents)), block.location)
    return step(name, lhs, rhs, block.location)


def _refused(block: BlockOp, ends: BodyEnds) -> ByocirError:
    """Says why no way to restate a block fits."""
    for op in block.body.block.ops:
        if len(op.results) == 1 and not _is_known(op, ends):
            return _beyond_alu(op, block)
    return unsupported(
        "B323",
        "expected a requantise whose numbers fit 32 bits, found a multiplier, shift or range "
        "that does not",
        block,
        help="let fix-point choose the multipliers and shifts",
    )


def _is_known(op: Operation, ends: BodyEnds) -> bool:
    exact = ends.exact(op)
    wraps = exact is not None and not exact.within(integer_range(op.results[0].type))
    return exact is not None and (op.results[0].type == i32 or not wraps)


def _beyond_alu(op: Operation, block: BlockOp) -> ByocirError:
    types = ", ".join(str(v.type) for v in [*op.operands, *op.results])
    return unsupported(
        "B321",
        "expected a body of additions, multiplications, minima, maxima and right shifts on i32, "
        f"or a fixed-point requantise, found {op.name} on {types}",
        block,
        help="let the target's patterns decline this op, so that another target takes it",
    )
