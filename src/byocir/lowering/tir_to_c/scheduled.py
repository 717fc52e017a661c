"""Turns a function in memory into steps: its loops as they are written.

Blocks become functions that stand where their block stands, with its bases as arguments. Loops keep
their order and their kinds: parallel ones are shared by threads, the outermost of them only, unless
something in them may end the run;
unrolled ones are written out; a vectorised loop around one block becomes the lane along which the
block's function computes. Small buffers of loops are arrays of the C block around them, others lie
in the arena, one for each thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects import byoc, tir
from byocir.dialects.locations import names
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import element_type_of, shape_of
from byocir.evaluate.ports import INPUTS
from byocir.evaluate.routines import routine_of
from byocir.lowering.tir_to_c.accesses import IndexText, offset_of
from byocir.lowering.tir_to_c.contractions import kernel_of
from byocir.lowering.tir_to_c.epilogue import writes_all
from byocir.lowering.tir_to_c.literals import NoC, c_type, literal, stored_literal
from byocir.lowering.tir_to_c.loops import ANYWHERE, BlockWriter
from byocir.lowering.tir_to_c.ops_as_blocks import Based, calls_of, with_lane
from byocir.lowering.tir_to_c.steps import (
    ARENA,
    LOCAL,
    Buffer,
    BufferElement,
    Compute,
    Copy,
    CProgram,
    Extern,
    Fill,
    Instruct,
    Local,
    Repeat,
    Step,
    TextOf,
    all_of,
    all_steps,
    buffers_of,
)
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.schedule.access import accesses_in, is_whole
from byocir.rewrites.schedule.blocks import block_of_copy
from byocir.rewrites.schedule.index import base_sums, interval_of_sum, is_index_arithmetic, sum_of

LOCAL_BYTES = 4096
"""The largest buffer of a loop that is an array of a C block."""

_ENDS = (ReturnOp, tir.YieldOp, byoc.YieldOp)


def steps_in_memory(
    function: FuncOp,
    buffers: Sequence[Buffer],
    inputs: int,
    program: CProgram,
    host: CHost,
    text_of: TextOf = lambda op: None,
) -> list[Step]:
    """Makes the steps of a function on memrefs, given the buffers of its arguments; those behind
    the inputs are written. Outputs whose former content the function may see are set to zeros
    first, unless the function says how many its inputs are: then its callers have arrays there.
    `text_of` gives the C of its instructions. Raises NoC for what has no form in C.
    """
    block = function.body.block
    writer = _Writer(program, host, text_of)
    writer.buffers = dict(zip(block.args, buffers, strict=True))
    for output in block.args[inputs:]:
        if INPUTS not in function.attributes and not _is_set_first(output, block):
            writer.steps.append(Fill(writer.buffers[output], "0", all_of(writer.buffers[output])))
    writer.add_all(block)
    return writer.steps


def _is_set_first(output: SSAValue, block: Block) -> bool:
    """Tells if the first op that accesses a buffer writes all of it and does not read it."""
    found = next(iter(accesses_in(block, {output})), None)
    return found is not None and not found.reads and is_whole(found)


class _Writer:
    """Makes the steps of one function and of those that it calls."""

    def __init__(self, program: CProgram, host: CHost, text_of: TextOf) -> None:
        self.program, self.host, self.text_of = program, host, text_of
        self.steps: list[Step] = []
        self.buffers: dict[SSAValue, Buffer] = {}
        self._names: dict[SSAValue, str] = {}
        """Maps the indices of loops to their names in C."""
        self._loops = self._locals = 0
        self._depth, self._threads = 0, 1

    def add_all(self, block: Block) -> None:
        """Appends the steps of a block's ops."""
        for op in block.ops:
            if not isinstance(op, _ENDS) and not is_index_arithmetic(op):
                self._add(op)

    def _add(self, op: Operation) -> None:
        if isinstance(op, tir.BlockOp):
            self._block(Based(op, base_sums(op.bases, len(op.extents))))
        elif isinstance(op, tir.FillOp):
            self._fill(op)
        elif isinstance(op, tir.CopyOp):
            self._copy(op)
        elif isinstance(op, tir.AllocOp):
            self.buffers[op.result] = self._allocated(op.result.type)
        elif isinstance(op, tir.ConstantOp):
            self.buffers[op.result] = self.program.constant(op.value.data, op.result.type)
        elif isinstance(op, tir.ForOp):
            self._for(op)
        else:
            self._enclosing(op)

    def _enclosing(self, op: Operation) -> None:
        """Adds the steps of an op that has others inside."""
        if isinstance(op, tir.IntrinsicOp):
            self._instruction(op)
        elif isinstance(op, byoc.CompositeOp | byoc.RegionOp) and not op.results:
            self._inlined(op.body.block, op.operands)
        elif isinstance(op, func.CallOp):
            self._call(op)
        else:
            raise NoC(op.name)

    def _inlined(self, block: Block, values: Sequence[SSAValue]) -> None:
        self.buffers.update(zip(block.args, [self.buffers[v] for v in values], strict=True))
        self.add_all(block)

    def _call(self, op: func.CallOp) -> None:
        callee = _function(op, op.callee.string_value())
        if callee is None or op.results:
            raise NoC(op.name)
        if not callee.is_declaration:
            return self._inlined(callee.body.block, op.operands)
        count = callee.attributes.get("inputs")
        if not isinstance(count, IntegerAttr) or "routine" not in callee.attributes:
            raise NoC(op.name)
        described = {name: callee.attributes[name] for name in ("routine", "numbers")}
        made = tir.ExternOp.create(properties=described)
        routine, number = routine_of(made), count.value.data
        buffers = [self.buffers[value] for value in op.operands]
        ports = buffers[:number], buffers[number:]
        self.steps.append(Extern(routine, *ports, routine.values(made), names(op.location)))

    def _allocated(self, type_: Attribute) -> Buffer:
        made = Buffer(type_, ARENA, copies=self._threads)
        if not self._depth or made.nbytes > LOCAL_BYTES:
            return made
        made = Buffer(type_, LOCAL, self._locals)
        self._locals += 1
        self.steps.append(Local(made))
        return made

    # -- blocks

    def _block(self, based: Based, lane: int | None = None) -> None:
        op, bases = based.op, based.bases
        for value in (*op.ins, *op.outs):
            c_type(element_type_of(value.type))
        if not _in_place(op):
            raise NoC(op.name)
        initial = {0: literal(fill.value)} if (fill := _fill_before(op)) is not None else {}
        moved = [i for i, base in enumerate(bases) if base != Linear()]
        spans = {i: span for i in moved if (span := interval_of_sum(bases[i])) is not None}
        writer = BlockWriter(op, initial, moved, spans=spans, lane=lane)
        host = replace(self.host, threads=1) if self._depth else self.host
        kernel = kernel_of(writer, host) if lane is None else writer.kernel()
        sources = [self.buffers[op.ins[i]] for i in writer.used]
        targets = [self.buffers[value] for value in op.outs]
        starts = [self._text(bases[i]) for i in moved]
        self.steps.append(Compute(kernel, [*sources, *targets], names(op.location), starts))

    def _instruction(self, op: tir.IntrinsicOp) -> None:
        """Adds the target's C for each call of an instruction; without it, the blocks that say what
        it does.
        """
        calls = calls_of(op)
        texts = [self.text_of(call) for call in calls]
        if None in texts:
            self.add_all(op.body.block)
        else:
            pairs = zip(calls, texts, strict=True)
            self.steps += [self._instruct(call, text) for call, text in pairs if text is not None]
        for call in calls:
            if call is not op:
                call.erase()

    def _instruct(self, op: tir.IntrinsicOp, text: str) -> Instruct:
        block = op.body.block.last_op
        assert isinstance(block, tir.BlockOp)
        bases = base_sums(block.bases, len(block.extents))
        known = [interval_of_sum(base) or ANYWHERE for base in bases]
        indices = IndexText([f"({self._text(b)})" if b != Linear() else "0" for b in bases], known)
        names_ = [f"x{i}" for i in range(len(block.ins))]
        names_ += [f"y{i}" for i in range(len(block.outs))]
        places: list[BufferElement] = []
        for name, value, attr in zip(names_, [*block.ins, *block.outs], block.maps, strict=True):
            form = offset_of(attr.data, shape_of(value.type) if attr.data.results else ())
            places.append(BufferElement(name, self.buffers[value], indices.offset(form)))
        return Instruct(text, places, indices.helpers, names(op.location))

    def _fill(self, op: tir.FillOp) -> None:
        if op.destination is None:
            raise NoC(op.name)
        if _block_after(op) is None:
            buffer = self.buffers[op.destination]
            self.steps.append(Fill(buffer, stored_literal(op.value), all_of(buffer)))

    def _copy(self, op: tir.CopyOp) -> None:
        source, target = self.buffers[op.source], self.buffers[op.destination]
        bases = base_sums([*op.source_bases, *op.destination_bases], 0)
        shapes = {shape_of(value.type) for value in (op.source, op.destination)}
        elements = {element_type_of(value.type) for value in (op.source, op.destination)}
        if shapes == {op.box} and len(elements) == 1 and all(base == Linear() for base in bases):
            self.steps.append(Copy(source, target))
            return
        block, starts = block_of_copy(op)
        self._block(Based(block, [Linear() if each is None else sum_of(each) for each in starts]))
        block.erase()

    # -- loops

    def _for(self, op: tir.ForOp) -> None:
        if op.initial:
            raise NoC(op.name)
        if op.kind.data is tir.LoopKind.VECTORIZE and self._lanes(op):
            return
        can_share = op.kind.data is tir.LoopKind.PARALLEL and self._threads == 1
        threads = min(self.host.threads, op.extent.value.data) if can_share else 1
        inside = Repeat(f"i{self._loops}", op.extent.value.data, [], _kind(op), threads)
        self._names[op.index] = inside.name
        self._loops += 1
        outside = self.steps, self._depth, self._threads
        self.steps, self._depth = inside.steps, self._depth + 1
        self._threads = max(self._threads, threads)
        self.add_all(op.body.block)
        self.steps, self._depth, self._threads = outside
        steps = [*all_steps(inside.steps)]
        if threads > 1 and any(_may_return(step) for step in steps):
            inside = replace(inside, threads=1)
            for buffer in (b for step in steps for b in buffers_of(step)):
                buffer.copies = 1
        self.steps.append(inside)

    def _lanes(self, op: tir.ForOp) -> bool:
        """Makes a loop around one block the lanes of the block; tells if it could."""
        inner = [each for each in op.body.block.ops if not is_index_arithmetic(each)]
        if len(inner) != 1 or not isinstance(inner[0], tir.BlockOp):
            return False
        found = with_lane(inner[0], op)
        if found is None:
            return False
        based, lane = found
        self._block(based, lane)
        based.op.erase()
        return True

    # -- indices

    def _text(self, value: Linear[SSAValue]) -> str:
        """Writes an index as a C expression."""
        parts = [f"{c} * {self._atom(v)}" if c != 1 else self._atom(v) for v, c in value.terms]
        parts += [str(value.constant)] if value.constant or not parts else []
        return " + ".join(f"({part})" if part.startswith("-") else part for part in parts)

    def _atom(self, value: SSAValue) -> str:
        if value in self._names:
            return self._names[value]
        op = value.owner
        if not isinstance(op, arith.MinSIOp | arith.MaxSIOp | arith.DivUIOp | arith.RemUIOp):
            raise NoC(str(value.type))
        left, right = self._text(sum_of(op.lhs)), self._text(sum_of(op.rhs))
        if isinstance(op, arith.DivUIOp | arith.RemUIOp):
            return f"(({left}) {'/' if isinstance(op, arith.DivUIOp) else '%'} ({right}))"
        sign = "<" if isinstance(op, arith.MinSIOp) else ">"
        return f"({left} {sign} {right} ? {left} : {right})"


def _kind(op: tir.ForOp) -> tir.LoopKind:
    """Gives the kind that a loop has in C: one with buffers inside cannot become lanes."""
    kind = op.kind.data
    own = any(isinstance(inner, tir.AllocOp) for inner in op.walk())
    return tir.LoopKind.SERIAL if kind is tir.LoopKind.VECTORIZE and own else kind


def _function(op: Operation, name: str) -> FuncOp | None:
    """Finds the function of this name in the module around an op."""
    top = op
    while (parent := top.parent_op()) is not None:
        top = parent
    functions = top.ops if isinstance(top, ModuleOp) else ()
    found = (f for f in functions if isinstance(f, FuncOp) and f.sym_name.data == name)
    return next(found, None)


def _may_return(step: Step) -> bool:
    """Tells if a step may end the function, which a single thread cannot."""
    return isinstance(step, Extern) or (isinstance(step, Compute) and step.kernel.can_fail)


def _in_place(op: tir.BlockOp) -> bool:
    """Tells if a block updates each buffer once, and reads it only at the element that it
    updates.
    """
    maps: Mapping[SSAValue, object] = dict(zip(op.outs, op.out_maps, strict=True))
    read = zip(op.ins, op.in_maps, strict=True)
    whole = {list(op.ins)[i] for i in op.whole if i < len(op.ins)}
    return (
        len(maps) == len(op.outs)
        and all(maps.get(value, map_) == map_ for value, map_ in read)
        and whole.isdisjoint(op.outs)
    )


def _block_after(fill: tir.FillOp) -> tir.BlockOp | None:
    """Finds the reduction right behind a fill that starts from its number and writes the whole
    buffer; None if there is none.
    """
    after = fill.next_op
    while after is not None and (
        is_index_arithmetic(after) or isinstance(after, tir.AllocOp | tir.ConstantOp)
    ):
        after = after.next_op
    if not isinstance(after, tir.BlockOp) or list(after.outs) != [fill.destination]:
        return None
    if not after.reductions or after.where is not None or fill.destination in after.ins:
        return None
    return after if writes_all(after, 0) else None


def _fill_before(op: tir.BlockOp) -> tir.FillOp | None:
    """Finds the fill whose number a block starts from, as `_block_after` does."""
    before = op.prev_op if op.parent is not None else None
    while before is not None and not isinstance(before, tir.FillOp):
        if not is_index_arithmetic(before) and not isinstance(before, tir.AllocOp | tir.ConstantOp):
            return None
        before = before.prev_op
    return before if before is not None and _block_after(before) is op else None
