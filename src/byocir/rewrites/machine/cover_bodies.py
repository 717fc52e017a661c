"""Covers what a block computes with instructions, each of which does a part of it: it finds the
chain that takes the fewest cycles.

A part ends in one value of the body and begins with others: what arrays hold, numbers, or results
of other parts, in the memories that the instruction has its operands in. Known numbers may be added
by an instruction that adds products, too: those of two constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations, product
from math import inf, isfinite

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import BlockOp, ConstantOp, FillOp, buffer
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import Emitted, number_attr, number_op
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.evaluate.scalar import number, sources
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.cut_plans import Plan, plans_of
from byocir.machine.find_instruction import Misfit, fits, on_its_own
from byocir.machine.instructions import Fit, Instruction, init_of
from byocir.machine.parts import Operand
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.scalars import Part, constant_number, emit_pattern, match_part
from byocir.rewrites.machine.copies import Copies
from byocir.rewrites.machine.number_products import factors_of
from byocir.rewrites.machine.pieces import (
    Given,
    Made,
    Piece,
    Source,
    block_of,
    each_element,
    made_again,
    result_type,
    type_of,
)
from byocir.rewrites.machine.restate_bodies import is_signed
from byocir.rewrites.schedule.blocks import reads_old


class Cover:
    """Finds the ways to do a block on tensors that computes element by element, with products of
    constants or without.
    """

    def __init__(
        self,
        machine: Machine,
        op: BlockOp,
        *,
        products: bool = True,
        reasons: list[str] | None = None,
    ) -> None:
        self.machine, self.op, self.products = machine, op, products
        self._reasons, self._told = reasons, list[str]()
        used = sources(op.body.block, op.yielded)
        self._uses = Counter(value for inner in used for value in inner.operands)
        self._uses.update(op.yielded)
        self._readers = {value: inner.results[0] for inner in used for value in inner.operands}
        self._inputs: dict[SSAValue, int] = {}
        self._inputs |= {arg: i for i, arg in enumerate(op.body.block.args[: len(op.ins)])}
        self._values = [*(inner.results[0] for inner in used)]
        self._known: dict[tuple[SSAValue, Memory], Piece | None] = {}
        self._sums_with_zero: dict[tuple[SSAValue, SSAValue], arith.AddiOp] = {}
        self._zeros = set[SSAValue]()
        self._homes: dict[SSAValue, Memory] = {}
        self._result = op.out_maps[0].results
        kinds = [it.kind.data for it in op.iterators]
        self._points = machine.number_of((op.extents, tuple(kinds), self._result))

    def best(self, memories: Sequence[Memory]) -> Piece | None:
        """Finds the cheapest piece that ends in what the block yields, in one of these memories;
        None where there is none.
        """
        (root,) = self.op.yielded
        found = [piece for memory in memories if (piece := self._best(root, memory)) is not None]
        if not found and self._reasons is not None:
            lost = next((v for v in self._values if self._is_lost(v)), root)
            told = self._told[:1]
            if isinstance(lost.owner, Operation):
                told = [f"none does {_described(lost.owner)}"]
            self._reasons += told
        for total in self._sums_with_zero.values():
            total.drop_all_references()
        return min(found, key=lambda piece: piece.cycles, default=None)

    @property
    def _memories(self) -> list[Memory]:
        return [MAIN, *self.machine.memories]

    def _is_lost(self, value: SSAValue) -> bool:
        if isinstance(value.owner, arith.ConstantOp):
            return False
        return all(self._best(value, memory) is None for memory in self._memories)

    def _best(self, value: SSAValue, into: Memory) -> Piece | None:
        """Finds the cheapest way to compute a value into a memory."""
        key = value, into
        if key not in self._known:
            self._known[key] = None
            forms = self._forms(value, into)
            found = [piece for form in forms for piece in self._pieces(value, *form)]
            found += [piece for form in forms for piece in self._products(value, *form)]
            self._known[key] = min(found, key=lambda piece: piece.cycles, default=None)
        return self._known[key]

    def _forms(self, value: SSAValue, into: Memory) -> list[tuple[Instruction, BlockPattern]]:
        def found() -> list[tuple[Instruction, BlockPattern]]:
            return [
                (instruction, form)
                for instruction in self.machine.instructions
                if instruction.into == into and into.element in (None, value.type)
                for form in instruction.forms
                if not any(read.whole for read in form.reads)
                and isinstance(form.init, Operand | None)
            ]

        return self.machine.answer(("forms", into, value.type), found)

    def _pieces(
        self, value: SSAValue, instruction: Instruction, form: BlockPattern, *, copies: bool = False
    ) -> Iterator[Piece]:
        """Yields the ways in which an instruction computes a value of others, or only copies it."""
        if form.iterators.reduction or form.iterators.reduction_groups:
            return
        for part in match_part(value, form.body, len(form.reads)):
            begun = init_of(form) is not None
            if (part.old is not None) != begun or None in part.inputs:
                continue
            is_itself = value in (part.old, *part.inputs) and value not in self._inputs
            if is_itself != copies or (copies and begun):
                continue
            for sources_ in product(*self._sources(value, instruction, form, part)):
                old, inputs = (sources_[0], sources_[1:]) if begun else (None, sources_)
                piece = Piece(value, partial(_body_of, value, form, part), old, inputs)
                timed = self._timed(instruction, piece, (form, repr(part.numbers)))
                if timed is not None:
                    yield timed
                elif self._reasons is not None:
                    why = _why_not_done_by(self.machine, self._alone(piece), instruction)
                    self._told += [f"{instruction.name}: {why}"] if why else []

    def _products(
        self, value: SSAValue, instruction: Instruction, form: BlockPattern
    ) -> Iterator[Piece]:
        """Yields the ways in which an instruction that adds products to what is there adds known
        numbers.
        """
        owner = value.owner
        if not self.products or type(owner) is not arith.AddiOp or not is_signed(value.type):
            return
        body = partial(multiply_accumulate, to=value.type)
        for x, y in permutations(owner.operands):
            numbers = self._numbers_of(y)
            if numbers is None:
                continue
            for old in self._in_place(x, instruction.into, value):
                factors = factors_of(self.op, numbers, instruction, form)
                pieces = (Piece(value, body, old, inputs, count) for inputs, count in factors)
                timed = (self._timed(instruction, piece, None) for piece in pieces)
                yield from (piece for piece in timed if piece is not None)

    def _numbers_of(self, value: SSAValue) -> np.ndarray | None:
        """Gives the number for each lane of the result that a value is known to be; else None."""
        number, position = constant_number(value), self._inputs.get(value)
        if number is not None:
            return np.full(self._row, number)
        source = None if position is None else self.op.ins[position].owner
        if position is None or not isinstance(source, ConstantOp) or not source.value.data.present:
            return None
        in_lanes = self.op.in_maps[position].results == self.op.out_maps[0].results[-1:]
        plain = position not in self.op.whole and self.op.pad_values[position] is None
        return source.value.data.values() if in_lanes and plain else None

    def _sources(
        self, result: SSAValue, instruction: Instruction, form: BlockPattern, part: Part
    ) -> list[list[Source]]:
        """Lists, for what the result begins with, if it does, and for each input, where it may come
        from.
        """
        found: list[list[Source]] = []
        if part.old is not None:
            found.append(list(self._in_place(part.old, instruction.into, result)))
        for read, value in zip(form.reads, part.inputs, strict=True):
            assert value is not None
            memory = read.pattern.memory if isinstance(read.pattern, Operand) else MAIN
            found.append(list(self._read(value, memory)))
        return found

    def _in_place(self, value: SSAValue, into: Memory, result: SSAValue) -> Iterator[Source]:
        """Yields the sources of a value that the instruction which computes a result overwrites."""
        position = self._inputs.get(value)
        is_free = position is not None and self._is_free(value, position)
        if position is not None and is_free and self.home(self.op.ins[position]) == into:
            yield Given(position)
        if isinstance(value.owner, arith.ConstantOp) and value not in self._zeros:
            return
        if not self._leads_only_to(value, result):
            yield from self._own(value, into, result)
        elif (piece := self._best(value, into)) is not None:
            yield piece

    def _leads_only_to(self, value: SSAValue, result: SSAValue) -> bool:
        """Tells whether a value is read once, on the way to a result."""
        while value is not result:
            if self._uses[value] != 1:
                return False
            value = self._readers[value]
        return True

    def _own(self, value: SSAValue, into: Memory, result: SSAValue) -> Iterator[Piece]:
        """Yields the ways in which a result gets a value that others read, too, in a place of its
        own: it is made again, copied, or added to zeros.
        """
        sums = self._sums_with_zero
        if result.owner in sums.values():
            return
        made = self._best(value, into)
        again = None if made is None else made_again(made)
        if again is not None:
            yield again
        for form in self._forms(value, into):
            for piece in self._pieces(value, *form, copies=True):
                yield _copying(value, piece)
        if is_signed(value.type):
            if (value, result) not in sums:
                zero = number_op(0, value.type)
                sums[value, result] = total = arith.AddiOp(zero.result, value)
                self._uses[zero.result], self._readers[zero.result] = 1, total.result
                self._zeros.add(zero.result)
            added = self._best(sums[value, result].result, into)
            if added is not None:
                yield _copying(value, added)

    def _is_free(self, value: SSAValue, position: int) -> bool:
        """Tells whether a block before makes an input, element for element, that nothing else
        needs.
        """
        source = self.op.ins[position]
        if not isinstance(source.owner, BlockOp) or self._uses[value] > 1:
            return False
        home = source.owner.parent
        users = {use.operation for use in source.uses if use.operation.parent is home}
        same = self.op.in_maps[position] == self.op.out_maps[0]
        same &= shape_of(source.type) == shape_of(self.op.outs[0].type)
        return same and len(users) == 1 and self.op.pad_values[position] is None

    def _read(self, value: SSAValue, memory: Memory) -> Iterator[Source]:
        """Yields the sources of a value that an instruction reads in a memory. Known numbers may
        lie there in fewer bits than the body has for them.
        """
        position, numbers = self._inputs.get(value), self._numbers_of(value)
        if position is None and numbers is None:
            piece = self._best(value, memory)
            if piece is not None:
                yield piece
            return
        home = MAIN if position is None else self.home(self.op.ins[position])
        element = memory.element or value.type
        if home != memory and not (home.is_main and self.machine.path(home, memory)):
            return
        if position is not None and element == value.type:
            yield Given(position)
            yield from self._spread(position)
        elif numbers is not None and (element == value.type or _fit(numbers, value.type, element)):
            lanes = self.op.out_maps[0].results[-1:]
            yield Made(numbers.astype(dtype_of(element)), element, lanes)

    def _spread(self, position: int) -> Iterator[Made]:
        """Yields a known array that varies along other dimensions than lanes, with its numbers for
        all elements of the result, which instructions read as they read an array of that shape.
        """
        constant, index = self.op.ins[position].owner, self.op.in_maps[position].results
        axes = [expr.position for expr in index if isinstance(expr, AffineDimExpr)]
        out = [expr.position for expr in self._result if isinstance(expr, AffineDimExpr)]
        plain = len({*axes}) == len(index) and len({*out}) == len(self._result)
        if not isinstance(constant, ConstantOp) or not constant.value.data.present or not plain:
            return
        if index in (self._result, self._result[-1:]) or not {*axes} <= {*out}:
            return
        values = constant.value.data.values()
        values = values.transpose(sorted(range(len(axes)), key=lambda d: out.index(axes[d])))
        sides = [n if i in axes else 1 for i, n in zip(out, self._shape, strict=True)]
        spread = np.broadcast_to(values.reshape(sides), self._shape)
        yield Made(spread.copy(), element_type_of(constant.results[0].type), self._result)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Gives the shape of the result."""
        return shape_of(self.op.outs[0].type)

    @property
    def _row(self) -> tuple[int, ...]:
        """Gives the shape of an array with a number for each of the lanes that the result has."""
        return self._shape[-1:]

    def home(self, value: SSAValue) -> Memory:
        """Gives the memory in which an array is made: main memory unless a block before makes
        it.
        """
        if value not in self._homes:
            owner, plans = value.owner, list[Plan]()
            if isinstance(owner, BlockOp):
                plans = plans_of(self.machine, owner, owner.extents, "pattern")
            self._homes[value] = plans[0].instruction.into if plans else MAIN
        return self._homes[value]

    def _timed(
        self, instruction: Instruction, piece: Piece, body: tuple[BlockPattern, str] | None
    ) -> Piece | None:
        """Counts the cycles of a piece and of all that leads to it; None where the instruction does
        not do it after all. Its body is that of a form with these numbers, or adds products.
        """
        read = tuple(self._read_as(source) for source in piece.inputs)
        key = "done", instruction, body, self._points, read, piece.value.type, piece.sums
        found = self.machine.answer(
            key, lambda: done_by(self.machine, self._alone(piece), instruction)
        )
        if found is None:
            return None
        pairs = zip(piece.inputs, found.fit.memories, strict=False)
        before = sum(self._brought(source, memory) for source, memory in pairs)
        before += piece.old.cycles if isinstance(piece.old, Piece) else 0
        return replace(piece, cycles=found.cycles + before)

    def _read_as(self, source: Source) -> tuple[Attribute, Hashable]:
        """Gives the elements of a source, and the index at which a piece reads it."""
        if isinstance(source, Piece):
            return source.value.type, self._result
        if isinstance(source, Made):
            return source.element, source.index
        maps, value = self.op.maps.data, self.op.ins[source.position]
        return element_type_of(value.type), maps[source.position].data.results

    def _alone(self, piece: Piece) -> BlockOp:
        """Makes the block of a piece as a program of its own."""
        types = [type_of(self.op, source) for source in piece.inputs]
        outside = Block(arg_types=[*types, result_type(self.op, piece)])
        block = block_of(self.op, piece, outside.args[:-1], outside.args[-1])
        outside.add_op(block)
        return block

    def _brought(self, source: Source, memory: Memory) -> float:
        """Counts the cycles of the pieces that lead to a source, which all that read it share, or
        of bringing an array once to the memory in which it is read.
        """
        if isinstance(source, Piece):
            return source.cycles / max(self._uses[source.value], 1)
        home = self.home(self.op.ins[source.position]) if isinstance(source, Given) else MAIN
        type_ = type_of(self.op, source)
        key = "brought", type_, home, memory
        return self.machine.answer(key, lambda: cycles_of_moving(self.machine, type_, home, memory))


def _copying(value: SSAValue, piece: Piece) -> Piece:
    """Says of a piece that it copies the result of the one which computes a value, if one does."""
    pieces = (each for each in piece.inputs if isinstance(each, Piece))
    return replace(piece, copied=next((each for each in pieces if each.value is value), None))


def cycles_of_moving(machine: Machine, type_: Attribute, home: Memory, memory: Memory) -> float:
    """Counts the cycles of moving a whole array to a memory, or of one step where only tiles of it
    can be moved.
    """
    shape = [np.array(size, np.int64) for size in shape_of(type_)]
    steps = pairwise(machine.path(home, memory) or ())
    copies = [Copies(element_type_of(type_), shape, *step) for step in steps]
    found = sum(float(n) for each in copies for n in each.cycles(machine).values())
    return found if isfinite(found) else 1.0


def _fit(numbers: np.ndarray, type_: Attribute, element: Attribute) -> bool:
    """Tells whether numbers of a signed type are elements of another one."""
    if not is_signed(type_) or not is_signed(element):
        return False
    least, most = integer_range(element)
    return bool((least <= numbers).all() and (numbers <= most).all())


def _body_of(value: SSAValue, form: BlockPattern, part: Part, *arguments: Emitted) -> Emitted:
    known = constant_number(value)
    if known is not None:
        return arguments[-1].constant(known)
    return emit_pattern(form.body, arguments, part.numbers.__getitem__)


def _described(op: Operation) -> str:
    numbers = [constant_number(value) for value in op.operands]
    text = "".join(f" with {number}" for number in numbers if number is not None)
    return f"{op.name} of {op.results[0].type}{text}"


# -- what instructions say to whole blocks, their rules included


def done_by(machine: Machine, block: BlockOp, instruction: Instruction) -> Plan | None:
    """Gives the plan by which an instruction does a block on tensors, its rules included; None
    where it does not.
    """
    plans = plans_of(machine, block, block.extents, "pattern", only=instruction)
    return plans[0] if plans and not _broken(machine, block, plans[0].fit) else None


def _why_not_done_by(machine: Machine, block: BlockOp, instruction: Instruction) -> str:
    """Says why an instruction does not do a block on tensors."""
    reasons: list[str] = []
    plans = plans_of(machine, block, block.extents, "pattern", reasons, only=instruction)
    if plans:
        return _broken(machine, block, plans[0].fit)
    return "; ".join(reasons[:1]).removeprefix(f"{instruction.name}: ")


def _broken(machine: Machine, block: BlockOp, fit: Fit) -> str:
    """Names a rule of an instruction that its smallest call for a block breaks; empty if it breaks
    none.
    """
    extents = [1] * len(block.extents)
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        for i in positions:
            extents[i] = min(limit.least if limit else 1, block.extents[i])
    values = zip([*block.ins, *block.outs], fit.memories, strict=True)
    types = [buffer(element_type_of(v.type), shape_of(v.type), m.scope) for v, m in values]
    iterators = [it.resized(n) for it, n in zip(block.iterators, extents, strict=True)]
    maps = [attr.data for attr in block.maps]
    own = on_its_own(block, iterators, types, maps)
    said = next(fits(machine, own, own.extents, only=fit.instruction))
    return said.reason if isinstance(said, Misfit) else ""


def is_done(machine: Machine, block: BlockOp) -> bool:
    """Tells whether one instruction does a block as a whole."""
    return any(_can_be_fed(block, plan) for plan in _done(machine, block))


def _done(machine: Machine, block: BlockOp) -> Iterator[Plan]:
    """Yields the plan of each instruction that does a block on tensors."""
    plans = plans_of(machine, block, block.extents, "pattern")
    for instruction in dict.fromkeys(plan.instruction for plan in plans):
        plan = done_by(machine, block, instruction)
        if plan is not None:
            yield plan


def _can_be_fed(block: BlockOp, plan: Plan) -> bool:
    """Tells whether what a plan reads can be where it reads it: a single number cannot be copied,
    so it must be in main memory or come from another block.
    """
    return all(
        memory.is_main or shape_of(value.type) or isinstance(value.owner, BlockOp)
        for value, memory in zip(block.ins, plan.fit.memories, strict=False)
    )


def plans_for(
    machine: Machine, block: BlockOp, extents: Sequence[int], reasons: list[str] | None = None
) -> list[Plan]:
    """Gives the ways in which instructions do a block of a composite, over these extents, from what
    it begins with or, if none adds to that, from a number; `reasons`, if they are asked for, get
    why others do not.
    """
    found = plans_of(machine, block, extents, "pattern", reasons)
    if found or not reads_old(block) or isinstance(block.outs[0].owner, BlockOp):
        return found
    return plans_of(machine, block, extents, "pattern", reasons, _start_of(block))


def _start_of(block: BlockOp) -> Attribute:
    """Gives the number that the result of a block begins with: zero unless a fill sets another."""
    fill = block.outs[0].owner
    zero = number_attr(0, element_type_of(block.outs[0].type))
    return fill.value if isinstance(fill, FillOp) else zero


def why_not_begun(machine: Machine, block: BlockOp, plan: Plan) -> str:
    """Says why sums cannot begin with their number in the memory that a plan has them in, as no
    instruction begins with it or sets elements to it, and no copy brings it; empty if they can.
    """
    into = plan.instruction.into
    path = machine.path(MAIN, into)
    if not reads_old(block) or (path is not None and len(path) <= 2):
        return ""
    start, ones = _start_of(block), (1,) * len(block.extents)
    begun = fits(machine, block, ones, start=start, asked="pattern")
    if any(isinstance(each, Fit) and each.instruction.into == into for each in begun):
        return ""
    value = number(start).item()
    cycles = cycles_in_place(machine, block.outs[0].type, into, lambda old: old.constant(value))
    return "" if isfinite(cycles) else f"nothing sets elements of {into.called} to {value}"


def cycles_in_place(
    machine: Machine, type_: Attribute, into: Memory, body: Callable[[Emitted], Emitted]
) -> float:
    """Counts the cycles in which an instruction computes each element of an array in a memory of
    what was in its place; infinitely many where none does.
    """
    outside = Block(arg_types=[type_])
    block = each_element(outside.args[0], body)
    outside.add_op(block)
    plans = [plan for plan in _done(machine, block) if plan.instruction.into == into]
    return min((plan.cycles for plan in plans), default=inf)
