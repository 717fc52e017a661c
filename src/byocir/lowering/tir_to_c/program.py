"""Turns a function on tensors into a straight line of steps on buffers.

Region functions in memory, for which there is no code, are part of it as they are scheduled. Every
array gets a buffer: an input's, an output's, a constant's, or one in the arena. A block that
updates a value which nobody needs any more works in place; else it works on a copy. Fills become
the numbers that reductions start from wherever the reduction writes all of its result. A loop keeps
each value that it carries in one buffer. Values that are no arrays are kept by the code that runs
the calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from byocir.dialects import tir
from byocir.dialects.byoc import WHOLE, CallOp
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph import YieldOp as GraphYieldOp
from byocir.dialects.locations import names
from byocir.dialects.open_values import is_open, read_by
from byocir.dialects.types import element_type_of, i64, static_shape, tensor
from byocir.evaluate.ports import INPUTS, is_in_memory, ports_of
from byocir.evaluate.routines import routine_of
from byocir.lowering.tir_to_c.contractions import kernel_of
from byocir.lowering.tir_to_c.epilogue import Epilogue, epilogue_of, writes_all, writes_each_once
from byocir.lowering.tir_to_c.literals import NoC, c_type, literal, stored_literal
from byocir.lowering.tir_to_c.loops import BlockWriter
from byocir.lowering.tir_to_c.scheduled import steps_in_memory
from byocir.lowering.tir_to_c.steps import (
    ARENA,
    INPUT,
    KEPT,
    OUTPUT,
    SIZES,
    Branch,
    Buffer,
    CallStep,
    Compute,
    Copy,
    CProgram,
    Extern,
    Fill,
    Repeat,
    Step,
    TextOf,
    all_of,
    arena_of,
    inside,
)
from byocir.lowering.tir_to_c.unwritten import Runs, unwritten_of
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.host.contraction import is_contraction
from byocir.rewrites.liveness import Liveness, hand_on, starts_block


def program_of(function: FuncOp, host: CHost) -> CProgram:
    """Makes the program of a function on tensors: blocks, constants, fills, and what runs
    elsewhere; or that of a function in memory, as it is scheduled. Raises NoC for a function in
    memory without a form in C, and for one that takes numbers of type `index`.
    """
    if any(isinstance(type_, IndexType) for type_ in function.function_type.inputs):
        raise NoC("an input of type index")
    if is_in_memory(function):
        return in_memory(function, host)
    return _Builder(function, host).build()


def in_memory(function: FuncOp, host: CHost, text_of: TextOf = lambda op: None) -> CProgram:
    """Makes the program of a function in memory, as it is scheduled; `text_of` gives the C of its
    instructions. Raises NoC for a function without a form in C.
    """
    inputs, outputs = ports_of(function)
    program = CProgram()
    program.arguments = [Buffer(type_, INPUT, i) for i, type_ in enumerate(inputs)]
    program.results = [Buffer(type_, OUTPUT, i) for i, type_ in enumerate(outputs)]
    buffers = [*program.arguments, *program.results]
    if INPUTS in function.attributes:  # behind the inputs comes what the outputs held
        held = [Buffer(type_, INPUT, len(inputs) + i) for i, type_ in enumerate(outputs)]
        program.arguments += held
        program.steps += [Copy(*pair) for pair in zip(held, program.results, strict=True)]
    program.steps += steps_in_memory(function, buffers, len(inputs), program, host, text_of)
    program.arena = arena_of(program.steps)
    return program


class _Builder:
    def __init__(self, function: FuncOp, host: CHost) -> None:
        self.block, self.host = function.body.block, host
        self.program = CProgram()
        self.buffers: dict[SSAValue, Buffer] = {}
        self._steps = self.program.steps
        """The list that steps go to: that of the function, or of the innermost loop."""
        self._functions = functions_of(function)
        self._numbers: dict[SSAValue, str] = {}
        """Index values as C expressions."""
        self._blocks = list(self._called(self.block))
        self._loops = 0
        self._contractions = self._with_epilogues()
        self._early: dict[Operation, Operation] = {
            op: later for later, (op, _) in self._contractions.items()
        }
        self._liveness = Liveness(*self._blocks, postponed=self._early)

    def _called(self, block: Block) -> Iterator[Block]:
        """Yields a block, and those of the functions that it calls."""
        yield block
        for op in (inner for top in block.ops for inner in tir.ops_around(top)):
            if isinstance(op, FuncCallOp) and (callee := self._body(op)) is not None:
                yield from self._called(callee)

    def _body(self, op: FuncCallOp) -> Block | None:
        """Finds the body of a called function; None if it is not in this module."""
        function = self._functions.get(op.callee.string_value())
        if function is None or function.is_declaration or WHOLE in function.attributes:
            return None
        return function.body.block

    def _with_epilogues(self) -> dict[Operation, tuple[tir.BlockOp, Epilogue]]:
        """Maps each block that is an epilogue to the largest contraction that it can follow; this
        contraction then runs at the epilogue's place.
        """
        pairs: dict[Operation, tuple[tir.BlockOp, Epilogue]] = {}
        for op in (op for block in self._blocks for top in block.ops for op in tir.blocks_in(top)):
            if not op.in_value_form or not is_contraction(op):
                continue
            epilogue = epilogue_of(op)
            if epilogue is None:
                continue
            held = pairs.get(epilogue.op)
            if held is None or prod(op.extents) > prod(held[0].extents):
                pairs[epilogue.op] = op, epilogue
        return pairs

    def build(self) -> CProgram:
        inputs = count()
        for arg in self.block.args:
            kept = is_open(arg.type)
            made = Buffer(arg.type, KEPT) if kept else Buffer(arg.type, INPUT, next(inputs))
            self.buffers[arg] = made
            self.program.arguments.append(made)
        for op in self.block.ops:
            self._add(op)
        self.program.arena = arena_of(self.program.steps)
        return self.program

    def _add(self, op: Operation) -> None:
        if isinstance(op, tir.ConstantOp):
            self.buffers[op.result] = self.program.constant(op.value.data, op.result.type)
        elif isinstance(op, tir.FillOp | tir.EmptyOp):
            self._start(op)
        elif isinstance(op, tir.BlockOp):
            self._block(op)
        elif isinstance(op, tir.ExternOp):
            self._extern(op)
        elif isinstance(op, tir.ForOp):
            self._repeat(op)
        elif isinstance(op, FuncCallOp) and (body := self._body(op)) is not None:
            self._inline(op, body)
        elif isinstance(op, ForeignOp) and is_outlined(op):
            self._branch(op)
        elif isinstance(op, ReturnOp):
            self._return(op)
        elif isinstance(op, arith.ConstantOp) and isinstance(op.result.type, IndexType):
            assert isinstance(op.value, IntegerAttr)
            self._numbers[op.result] = str(op.value.value.data)
        else:
            self._call(op)

    def _start(self, op: tir.FillOp | tir.EmptyOp) -> None:
        """Gives a fill or an empty tensor a buffer of its own, if more than blocks that start from
        it use it.
        """
        result = op.results[0]
        if all(starts_block(use) for use in result.uses):
            return
        self.buffers[result] = Buffer(result.type, ARENA)
        self._fill(self.buffers[result], op)

    def _fill(self, buffer: Buffer, op: Operation, runs: list[Runs] | None = None) -> None:
        # What is empty holds zeros here as in the evaluator, should anybody look.
        filled = stored_literal(op.value) if isinstance(op, tir.FillOp) else "0"
        self._steps.append(Fill(buffer, filled, all_of(buffer) if runs is None else runs))

    def _block(self, op: tir.BlockOp) -> None:
        if op in self._early:
            return  # it was written with its epilogue
        first, epilogue = self._contractions.get(op, (None, None))
        try:
            self._compute(first or op, epilogue)
        except NoC:
            for alone in [op] if first is None else [first, op]:
                self._call(alone)

    def _compute(self, op: tir.BlockOp, epilogue: Epilogue | None) -> None:
        last = op if epilogue is None else epilogue.op
        for value in (*op.ins, *op.outs, *last.ins, *last.outs):
            c_type(element_type_of(value.type))
        initial = {
            i: literal(start.owner.value)
            for i, start in enumerate(op.outs)
            if isinstance(start.owner, tir.FillOp)
            and (op.where is None or op.reductions)
            and writes_each_once(op, i)
        }
        bases = [self._numbers[base] for base in op.bases]
        based = [i for i, base in enumerate(bases) if base != "0"]
        writer = BlockWriter(op, initial, based, epilogue)
        kernel = kernel_of(writer, self.host)
        covered = [i for i in range(len(last.outs)) if writes_all(last, i)]
        read = () if epilogue is None else op.ins
        targets = [self._target(last, i, i in covered, read) for i in range(len(last.outs))]
        sources = [self.buffers[op.ins[i]] for i in writer.used]
        if epilogue is not None:
            sources += [self.buffers[last.ins[i]] for i in writer.late_used]
        nodes = dict.fromkeys((*names(op.location), *names(last.location)))
        starts = [bases[i] for i in based]
        self._steps.append(Compute(kernel, [*sources, *targets], tuple(nodes), starts))
        self.buffers.update(zip(last.results, targets, strict=True))

    def _target(
        self, op: tir.BlockOp, index: int, is_set: bool, read: Sequence[SSAValue]
    ) -> Buffer:
        """Gives the buffer of a block's result, ready to be updated. `read` are the values that its
        function reads beside its own operands.
        """
        start = op.outs[index]
        owner = start.owner
        if isinstance(owner, tir.FillOp | tir.EmptyOp) and start not in self.buffers:
            made = Buffer(start.type, ARENA)
            if isinstance(owner, tir.FillOp) and not is_set and (runs := unwritten_of(op, index)):
                self._fill(made, owner, runs)
            return made
        return self._owned(start, op, [*op.ins, *op.outs, *read])

    def _owned(self, value: SSAValue, op: Operation, used: Sequence[SSAValue]) -> Buffer:
        """Gives a buffer with a value that an op, which uses these values, may change: the value's
        own if nobody needs it any more, else a copy.
        """
        held = self._held(value)
        is_ours = held.place == ARENA and not is_given(value)
        if is_ours and self._liveness.may_overwrite(op, value, used):
            return held
        return self._copied(held)

    # -- loops

    def _repeat(self, op: tir.ForOp) -> None:
        """Adds a loop; each value that it carries has one buffer, which iterations change."""
        name = f"t{self._loops}"
        self._loops += 1
        carried = [self._owned(value, op, op.initial) for value in op.initial]
        condition = carried[0] if op.conditional is not None else None
        inside = Repeat(name, op.extent.value.data, [], op.kind.data, condition=condition)
        self._numbers[op.index] = inside.name
        self.buffers.update(zip(op.carried, carried, strict=True))
        outside, self._steps = self._steps, inside.steps
        for inner in op.body.block.ops:
            if not isinstance(inner, tir.YieldOp):
                self._add(inner)
        hand_on([self._held(v) for v in op.yielded], carried, self._copied, self._move)
        self._steps = outside
        self._steps.append(inside)
        self.buffers.update(zip(op.results, carried, strict=True))

    def _copied(self, source: Buffer) -> Buffer:
        made = Buffer(source.type, ARENA)
        self._move(source, made)
        if source.sizes is not None:
            made.sizes = self._copied(source.sizes)
        return made

    def _move(self, source: Buffer, target: Buffer) -> None:
        self._steps.append(Copy(source, target))

    # -- branches

    def _inline(self, op: FuncCallOp, body: Block) -> None:
        """Adds the steps of a function. None of them changes its arguments, and each result has a
        buffer of its own.
        """
        given = [self._held(value) for value in op.operands]
        self.buffers.update(zip(body.args, given, strict=True))
        for inner in body.ops:
            if not isinstance(inner, ReturnOp):
                self._add(inner)
                continue
            taken = set(given)
            for result, value in zip(op.results, inner.operands, strict=True):
                held = self._held(value)
                shared = held in taken and held.place != KEPT
                self.buffers[result] = self._copied(held) if shared else held
                taken.add(held)

    def _branch(self, op: ForeignOp) -> None:
        """Adds the steps of both graphs of an If, which leave their results in the same buffers."""
        graphs = dict(op.named_graphs())
        made = Branch(self._held(op.inputs[0]), [], [])
        results = [buffer_of(result) for result in op.results]
        outside = self._steps
        for name, self._steps in zip(("then_branch", "else_branch"), inside(made), strict=True):
            for inner in graphs[name].block.ops:
                if isinstance(inner, GraphYieldOp):
                    self._leave(inner, op.present_outputs(), results)
                else:
                    self._add(inner)
        self._steps = outside
        self._steps.append(made)
        self.buffers.update(zip(op.results, results, strict=True))

    def _leave(self, op: GraphYieldOp, present: Sequence[bool], results: Sequence[Buffer]) -> None:
        """Copies what a graph yields to the results. A value that may not be an array of the
        result's type is passed on by what runs the calls.
        """
        sources, places = [self._held(value) for value in op.operands], iter(results)
        targets = [next(places) if there else None for there in present]
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if t is not None]
        if all(t.place != KEPT and s.type == t.type and not s.sizes for s, t in pairs):
            self._steps += [Copy(*pair) for pair in pairs]
            return
        outputs = [t or Buffer(s.type, KEPT) for s, t in zip(sources, targets, strict=True)]
        self._steps.append(CallStep(op, sources, outputs))

    def _call(self, op: Operation) -> None:
        inputs, outputs = self._ports(op)
        scheduled = self._scheduled(op, inputs, outputs)
        self._steps += [CallStep(op, inputs, outputs)] if scheduled is None else scheduled

    def _scheduled(
        self, op: Operation, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> list[Step] | None:
        """Gives the steps of a region function in memory that has no code of its target; None for
        others, and where it has no form in C.
        """
        body = self._functions.get(op.callee.string_value()) if isinstance(op, CallOp) else None
        if body is None or body.is_declaration or not is_in_memory(body):
            return None
        buffers = [*inputs, *outputs]
        try:
            return steps_in_memory(body, buffers, len(inputs), self.program, self.host)
        except NoC:
            return None

    def _extern(self, op: tir.ExternOp) -> None:
        routine = routine_of(op)
        ports, numbers = self._ports(op), routine.values(op)
        self._steps.append(Extern(routine, *ports, numbers, names(op.location)))

    def _ports(self, op: Operation) -> tuple[list[Buffer], list[Buffer]]:
        """Gives the buffers that an op reads, and new ones for its results."""
        inputs = [self._held(value) for value in read_by(op)]
        outputs = [buffer_of(result) for result in op.results]
        self.buffers.update(zip(op.results, outputs, strict=True))
        return inputs, outputs

    def _held(self, value: SSAValue) -> Buffer:
        """Gives the buffer of a value; a start for blocks, or an index, gets one if it has none
        yet.
        """
        if value in self._numbers:
            made = Buffer(tensor(i64, []), ARENA)
            self._steps.append(Fill(made, self._numbers[value], all_of(made)))
            return made
        if value not in self.buffers:
            assert isinstance(value.owner, tir.FillOp | tir.EmptyOp)
            self.buffers[value] = Buffer(value.type, ARENA)
            self._fill(self.buffers[value], value.owner)
        return self.buffers[value]

    def _return(self, op: ReturnOp) -> None:
        outputs = count()
        for value in op.operands:
            held = self._held(value)
            if held.place not in (ARENA, KEPT):
                held = self._copied(held)
            if held.place == ARENA:
                held.place, held.index = OUTPUT, next(outputs)
                if held.sizes is not None:
                    held.sizes.place, held.sizes.index = SIZES, held.index
            self.program.results.append(held)


def buffer_of(value: OpResult) -> Buffer:
    """Makes a buffer for what an op makes."""
    op = value.op
    bound = op.bound(value.index) if isinstance(op, tir.ExternOp) else None
    if bound is not None and static_shape(value.type) is None:
        sizes = Buffer(tensor(i64, [len(bound)]), ARENA)
        return Buffer(tensor(element_type_of(value.type), bound), ARENA, sizes=sizes)
    return Buffer(value.type, KEPT if is_open(value.type) else ARENA)


def is_outlined(op: ForeignOp) -> bool:
    """Tells if the graphs of an If are calls of functions."""
    return op.op_type.data == "If" and any(isinstance(i, FuncCallOp) for i in op.walk())


def is_given(value: SSAValue) -> bool:
    """Tells if a value is an argument of a function."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)


def functions_of(function: FuncOp) -> dict[str, FuncOp]:
    """Gives the functions that a function may call, by name."""
    module = function.parent_op()
    found = [op for op in module.walk() if isinstance(op, FuncOp)] if module else []
    return {other.sym_name.data: other for other in found}
