"""Checks what each instruction declares: limits, costs, bodies, tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Block

from byocir.dialects.emitting import emitting_to
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, dtype_of, i1, i32, is_float
from byocir.errors import FAILURES, ByocirError
from byocir.machine.checks.told import wrong
from byocir.machine.description import Machine
from byocir.machine.instructions import Instruction, init_of, memory_of
from byocir.machine.parts import MAIN, Limit
from byocir.machine.two_blocks import FIRST
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.index import Affine, Index
from byocir.patterns.nodes import Access, ValuePattern, WildcardPattern
from byocir.patterns.scalars import body_text, emit_pattern
from byocir.vendor.places import failed

MOST_CYCLES = 2**40
"""The most cycles of the smallest call: a million that take so long are counted in 64 bits."""
MOST_SIZES = 64
"""The number of sizes of an iterator for which costs are asked."""


def check_limits(machine: Machine) -> None:
    """Checks that limits are those of iterators that an instruction has, and allow a size."""
    for each in machine.instructions:
        forms = [form for part in _parts(each) for form in part.forms]
        known = {name for form in forms for name in _iterators(form.iterators)}
        for name, limit in each.limits.items():
            if name not in known:
                raise wrong(machine, f"limits of {each.name} for {', '.join(sorted(known))}", name)
            if not 0 < limit.step <= limit.most:
                wanted = f"a limit of {name} of {each.name} that allows a size"
                raise wrong(machine, wanted, str(limit))


def check_strides(machine: Machine) -> None:
    """Checks that names of `strided` are operands of an alternative: another means nothing."""
    for each in machine.instructions:
        operands = [name for part in _parts(each) for name in part.operands]
        known = [*(name for name in operands if name != FIRST), "out"]
        for name in each.strided:
            if name not in (*known, FIRST):
                told = f"strided of {each.name} among {', '.join(known)}"
                raise wrong(machine, told, repr(name))


def _parts(instruction: Instruction) -> list[Instruction]:
    """Lists the instructions of its blocks: one, or that of the first and itself."""
    return [instruction] if instruction.first is None else [instruction.first, instruction]


def check_registers(machine: Machine) -> None:
    """Checks that instructions which set registers have code, of which registers are a part."""
    for each in machine.instructions:
        if each.registers is not None and each.encode is None:
            raise wrong(machine, f"encode of {each.name}, which sets registers", "none")


def _iterators(iterators: Any) -> tuple[str, ...]:
    return (*iterators.parallel, *iterators.reduction, *iterators.groups)


def check_costs(machine: Machine) -> None:
    """Checks that costs are numbers of cycles, 0 or more, and that what keeps an operand says what
    that saves."""
    for each in machine.instructions:
        if each.keeps and each.keeps not in each.operands:
            named = f"{each.name} to keep one of its operands: {', '.join(each.operands)}"
            raise wrong(machine, named, each.keeps)
        if each.keeps and each.kept_cycles is None:
            raise wrong(machine, f"kept_cycles of {each.name}, which keeps {each.keeps}", "none")
        for name, cycles in (("cycles", each.cycles), ("kept_cycles", each.kept_cycles)):
            for sizes in _sizes(each) if cycles else ():
                _check_cost(machine, each, name, cycles, sizes)


def _sizes(each: Instruction) -> Iterator[dict[str, int]]:
    """Yields sizes of an instruction to ask its functions about: the smallest, the largest, and
    those that differ from them in one iterator, a limited number of each, for costs are functions
    that take their time.
    """
    names = [name for form in each.forms for name in _iterators(form.iterators)]
    limits = {name: each.limits.get(name, Limit(1)) for name in names}
    for sizes in (
        {name: limit.least for name, limit in limits.items()},
        {name: limit.most for name, limit in limits.items()},
    ):
        yield sizes
        for name, limit in limits.items():
            between = range(limit.least, limit.most, limit.step)[:MOST_SIZES]
            yield from (sizes | {name: size} for size in between)


def _check_cost(
    machine: Machine, each: Instruction, name: str, cycles: Any, sizes: dict[str, int]
) -> None:
    told = f"{name} of {each.name}"
    try:
        found: Any = cycles(sizes)
    except FAILURES as error:
        help = f"it is given sizes by name: {', '.join(sizes)}, such as s[{next(iter(sizes))!r}]"
        raise failed("B270", told, cycles, error, help) from error
    if not isinstance(cast(object, found), int | float | np.integer | np.floating):
        raise wrong(machine, f"{told} to be a number at {sizes}", repr(found))
    if not 0 <= found < inf:
        raise wrong(machine, f"{told} of at least 0 at {sizes}", str(found))
    if found > MOST_CYCLES and sizes == next(_sizes(each)):
        raise wrong(machine, f"{told} of at most 2**40 at {sizes}", str(found))
    if each.transfer is not None and each.transfer.lead > found:
        lead = f"a lead of {each.name} within its {found} cycles at {sizes}"
        raise wrong(machine, lead, str(each.transfer.lead))


def check_bodies(machine: Machine) -> None:
    """Checks that bodies compute on what the memories hold, and give what `into` holds: no block
    could have another body.
    """
    for each in machine.instructions:
        for form in each.forms:
            types = [*map(_type_of, form.reads), each.into.element]
            if not any(read.whole for read in form.reads) and None not in types[:-1]:
                _check_body(machine, each, form, types)


def check_operands(machine: Machine) -> None:
    """Checks that instructions read what lies in memories. Constants lie there, too, so that
    `constant(…)` in an instruction would match nothing, nor would the result of another block.
    """
    for each in machine.instructions:
        for pattern in (read.pattern for form in each.forms for read in form.reads):
            if not isinstance(pattern, WildcardPattern):
                found = pattern.shown if isinstance(pattern, ValuePattern) else "another pattern"
                told = f"the operands of {each.name} to be those of memories, or wildcards"
                help = "an array in main memory is wildcard(…), a number of a call number(…)"
                if "tir.block" in pattern.root_names():
                    help = "with inside=i32, say, one call does both blocks"
                    help = "an instruction has two at most" if each.into.hidden else help
                raise wrong(machine, told, found, help)


def check_starts(machine: Machine) -> None:
    """Checks that results begin with what is in the memory that they are written to: a call changes
    that in place."""
    for each in machine.instructions:
        for start in filter(None, map(init_of, each.forms)):
            if start.memory != each.into:
                told = f"{each.name} to begin with what lies in {each.into.called}, which it writes"
                help = "read what lies elsewhere as an operand, or move it there first"
                raise wrong(machine, told, f"init of {start.memory.called}", help)


def check_pads(machine: Machine) -> None:
    """Checks that pads are numbers that arrays can hold: no call would have another pad."""
    for each in machine.instructions:
        for read in (read for form in each.forms for read in form.reads if read.pad is not None):
            type_, pad = _type_of(read), read.pad
            if type_ is not None and isinstance(pad, int | float) and not _holds(type_, pad):
                raise wrong(machine, f"the pad of {each.name} to be a number of {type_}", str(pad))


def _holds(type_: Attribute, number: float) -> bool:
    """Tells if an element type has a number; floats have nearly all."""
    if is_float(type_) or type_ == i1:
        return True
    limits = np.iinfo(dtype_of(type_))
    return number == int(number) and limits.min <= number <= limits.max


def _type_of(read: Access) -> Attribute | None:
    """Gives the type of the elements that are read; None for any."""
    return read.pattern.dtype if isinstance(read.pattern, ValuePattern) else None


def _check_body(
    machine: Machine, each: Instruction, form: BlockPattern, types: Sequence[Attribute | None]
) -> None:
    is_known = types[-1] is not None
    block = Block(arg_types=[type_ or types[0] or i32 for type_ in types])
    try:
        with emitting_to(block):
            given = emit_pattern(form.body, [*map(Emitted, block.args)], lambda name: 1)
        for op in block.ops:
            op.verify()
    except TypeError:  # a number alone has any type
        return
    except FAILURES as error:
        if not is_known and block.args[-1].first_use is not None:
            return
        raise _mixed(machine, each, form, types) from error
    sums = form.iterators.reduction or form.iterators.reduction_groups
    if form.init is None and not sums and block.args[-1].first_use is not None:
        told = f"{each.name} to say what its result begins with, which its body reads"
        help = 'iterators that are summed over stand behind a bar, "m n | k"; else init=…'
        raise wrong(machine, told, f'block("{form.iterators}", …) without init', help)
    if is_known and given.type != types[-1]:
        told = f"{each.name} to write {types[-1]}, which {each.into.scope} holds"
        help = f"convert what the body gives, (…).to({types[-1]}), or declare another memory"
        raise wrong(machine, told, f"a body that gives {given.type}", help)


def _mixed(
    machine: Machine, each: Instruction, form: BlockPattern, types: Sequence[Attribute | None]
) -> ByocirError:
    """Words what is wrong with a body whose operators take numbers of several types."""
    (old, *names), text = body_text(form.body, len(form.reads))
    memories = [memory_of(read) for read in form.reads]
    values = zip([*names, old], types, [*memories, each.into], strict=True)
    told = [f"{name} of {type_} in {memory.called}" for name, type_, memory in values if type_]
    help = "both sides of an operator have one type: convert with .to(…), or change the memory"
    expected = f"the body of {each.name} to fit the types of its memories"
    return wrong(machine, expected, f"{text} for {', '.join(told)}", help)


def check_tiles(machine: Machine) -> None:
    """Checks that memories hold the smallest call of each instruction."""
    for each in machine.instructions:
        for form in each.forms:
            least = {n: limit.least for n, limit in each.limits.items()}
            accesses = [(memory_of(r), i) for r, i in zip(form.reads, form.indices, strict=True)]
            for memory, index in [*accesses, (each.into, form.out)]:
                shape = _reached(index, least)
                rows = memory.rows_of(shape)
                if memory != MAIN and not memory.holds([rows]):
                    told = f"{memory.scope} to hold the smallest tile of {each.name}"
                    size = "x".join(map(str, shape))
                    raise wrong(machine, told, f"{rows} rows for {size} and {memory.there}")


def _reached(index: Index, sizes: dict[str, int]) -> Shape:
    """Gives the sizes of the box that an index reaches, taking unknown steps for 1."""
    shape: list[int] = []
    for part in index:
        terms = part.terms if isinstance(part, Affine) else ()
        steps = [(name, step if isinstance(step, int) else 1) for name, step in terms]
        shape.append(1 + sum(abs(step) * (sizes.get(name, 1) - 1) for name, step in steps))
    return tuple(shape)
