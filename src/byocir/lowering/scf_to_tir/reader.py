"""Reads loops as statements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from math import prod

from xdsl.dialects import affine, func, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import VerifyException

from byocir.dialects import tir
from byocir.dialects.tir.affine import canonical
from byocir.dialects.traits import is_terminator
from byocir.dialects.types import element_type_of, shape_of
from byocir.lowering.scf_to_tir.blocks import ops_of
from byocir.lowering.scf_to_tir.bodies import Bodies
from byocir.lowering.scf_to_tir.indices import IndexExprs, conditions
from byocir.lowering.scf_to_tir.staged import unstaged
from byocir.lowering.scf_to_tir.statements import (
    ElementAccess,
    Nesting,
    NotRaised,
    RaisedOp,
    SourceLoop,
    Statement,
    check_order,
)

MOST_ELEMENTS = 1 << 24
"""Memory of one iteration is made memory of all of them if those are at most so many elements."""

Loads = memref.LoadOp | affine.LoadOp
Stores = memref.StoreOp | affine.StoreOp
Nests = scf.ForOp | affine.ForOp | tir.ForOp
Allocs = memref.AllocOp | memref.AllocaOp | tir.AllocOp
_SKIPPED = (memref.DeallocOp, memref.GetGlobalOp, tir.ConstantOp)


class Reader:
    """Reads the ops of a function's body. `allocs` are the buffers that it made: memory that each
    iteration has to itself gets one element for each iteration.
    """

    def __init__(self) -> None:
        self.indices = IndexExprs()
        self.bodies = Bodies(self.indices)
        self.place = Nesting()
        self.allocs: list[tir.AllocOp] = []
        self._own: dict[SSAValue, list[SourceLoop]] = {}
        """The buffers that were made for an op, with the loops that they have elements for."""
        self._statements: list[Statement] = []

    def read(self, op: Operation) -> RaisedOp:
        """Raises an op of the function's body to blocks, or says why it stays."""
        self.place, self._statements, self._own = Nesting(), [], {}
        before, since = len(self.allocs), self.bodies.time()
        try:
            self._op(op)
            self.bodies.check_loads(since)
            statements = unstaged(self._statements, self._own)
            self._check_room(statements)
            check_order(statements)
            made = [made for s in statements for made in ops_of(s, self.indices)]
            _check_inside(made)
            return RaisedOp(op, made)
        except NotRaised as reason:
            del self.allocs[before:]
            self.bodies.forget(since)
            self.keep(op)
            return RaisedOp(op, [], str(reason))

    def keep(self, op: Operation) -> None:
        """Notes an op that stays as it is."""
        self.bodies.touch(op)

    def _op(self, op: Operation) -> None:
        if isinstance(op, Nests):
            self._nest(op)
        elif isinstance(op, scf.IfOp):
            self._if(op)
        elif isinstance(op, Stores):
            self._store(op)
        elif isinstance(op, Loads):
            self.bodies.load(op, self.place.loops)
        elif isinstance(op, Allocs):
            self._alloc(op)
        elif isinstance(op, tir.BlockOp | tir.FillOp | tir.CopyOp):
            self._statements += self.bodies.of_op(op, self.place.loops, self.place.guards)
        elif not is_scalar(op) and not isinstance(op, _SKIPPED):
            raise NotRaised(f"expected loads, stores and arithmetic, found {op.name}")

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if not is_terminator(op):
                self._op(op)

    @contextmanager
    def _inside(self, loops: Sequence[SourceLoop], guards: Sequence[AffineExpr]):
        outside = self.place
        self.place = Nesting([*outside.loops, *loops], [*outside.guards, *guards])
        yield
        self.place = outside

    # Loops.

    def _nest(self, op: Nests) -> None:
        loop, guards = self._loop(op)
        if loop is None:
            if op.results:
                raise NotRaised("expected a loop that runs, found one without iterations")
            return
        carried = self._carried(op)
        with self._inside([loop], guards):
            self._block(op.body.block)
            self._hand_on(op, carried)

    def _loop(self, op: Nests) -> tuple[SourceLoop | None, list[AffineExpr]]:
        """Normalises a loop to one from 0 in steps of 1, with what must be at least 0 for an
        iteration to run; None for a loop that never runs.
        """
        index = op.body.block.args[0]
        low, highs, step = self._bounds(op)
        spans = [canonical(high + low * -1) for high in highs]
        most = [self.indices.bounds(span)[1] for span in spans]
        extent = min(-(-n // step) for n in most)
        if extent <= 0:
            return None, []
        loop = self.indices.new_loop(extent, index.name_hint or f"i{len(self.indices.loops)}")
        at = AffineExpr.dimension(loop.number) * step
        self.indices.learn(index, low + at)
        left = [canonical(span + at * -1 + -1) for span in spans]
        return loop, [expr for expr in left if self.indices.bounds(expr)[0] < 0]

    def _bounds(self, op: Nests) -> tuple[AffineExpr, list[AffineExpr], int]:
        indices = self.indices
        if isinstance(op, tir.ForOp):
            if op.results:
                raise NotRaised("expected a loop on memory, found one that carries tensors")
            return AffineExpr.constant(0), [AffineExpr.constant(op.extent.value.data)], 1
        if isinstance(op, affine.ForOp):
            lows = indices.mapped(op.lowerBoundMap, list(op.lowerBoundOperands))
            highs = indices.mapped(op.upperBoundMap, list(op.upperBoundOperands))
            step = op.step.value.data
        else:
            lows, highs = [indices.expr(op.lb)], indices.least(op.ub)
            step = indices.number(op.step)
        if len(lows) != 1 or step <= 0:
            raise NotRaised("expected a loop with one lower bound and a positive step")
        return lows[0], highs, step

    # What loops carry is kept in memory.

    def _carried(self, op: Nests) -> list[ElementAccess]:
        """Gives memory to the values that a loop carries, and stores their initial values there."""
        if isinstance(op, tir.ForOp):
            return []
        inits = list(op.iter_args) if isinstance(op, scf.ForOp) else list(op.inits)
        found: list[ElementAccess] = []
        for position, init in enumerate(inits):
            arg, result = op.body.block.args[1 + position], op.results[position]
            access = self._passed_through(op, position, init)
            if access is None:
                access = self._accumulator(op, result)
                self._start(init, access, op)
            self.bodies.keep(arg, access)
            self.bodies.keep(result, access)
            found.append(access)
        return found

    def _passed_through(self, op: Nests, position: int, init: SSAValue) -> ElementAccess | None:
        """Finds the place of a value that the loop around carries, if this loop only goes on with
        it.
        """
        outer = op.parent_op()
        if not isinstance(outer, scf.ForOp | affine.ForOp) or init not in outer.body.block.args:
            return None
        last, result = outer.body.block.last_op, op.results[position]
        index = outer.body.block.args.index(init) - 1
        goes_on = last is not None and index >= 0 and last.operands[index] is result
        once = init.has_one_use() and result.has_one_use()
        return self.bodies.kept(init) if goes_on and once else None

    def _accumulator(self, op: Nests, result: SSAValue) -> ElementAccess:
        """Chooses where a loop's result is kept: the place where it is stored in the end, if
        nothing else touches that buffer until then, else memory of its own.
        """
        use = result.get_user_of_unique_use()
        if isinstance(use, Stores) and use.parent is op.parent and _value(use) is result:
            buffer = use.memref
            if self._is_free(buffer, op, use):
                return ElementAccess.of(self.bodies.buffer(buffer), self.bodies.index(use))
        shape = [1] if not self.place.loops else [loop.extent for loop in self.place.loops]
        made = self._new_buffer(result, shape)
        dims = [AffineExpr.dimension(loop.number) for loop in self.place.loops]
        return ElementAccess.of(made, dims or [AffineExpr.constant(0)])

    def _is_free(self, buffer: SSAValue, op: Operation, store: Operation) -> bool:
        """Tells if no op from a loop up to a store touches a buffer, and the store's place is known
        before the loop.
        """
        inner = op
        while inner is not store:
            if any(buffer in each.operands for each in inner.walk()):
                return False
            following = inner.next_op
            if following is None:
                return False
            inner = following
        assert isinstance(store, Stores)
        try:
            self.bodies.index(store)
        except NotRaised:
            return False
        return True

    def _start(self, init: SSAValue, access: ElementAccess, op: Operation) -> None:
        """Stores the initial value of what a loop carries."""
        self._add(*self.bodies.statement([init], [access], self.place, op))

    def _hand_on(self, op: Nests, carried: Sequence[ElementAccess]) -> None:
        """Stores the values that an iteration hands on, in one statement where one of them is
        computed from another's old value.
        """
        last = op.body.block.last_op
        if not carried or last is None:
            return
        values = list(last.operands)
        moves = [
            (value, access)
            for value, access in zip(values, carried, strict=True)
            if self.bodies.kept(value) != access
        ]
        args = set(op.body.block.args[1:])
        crossed = any(
            self.bodies.reads(value) & (args - {op.body.block.args[1 + i]})
            for i, value in enumerate(values)
        )
        groups = [moves] if crossed else [[move] for move in moves]
        for group in groups:
            targets = [access for _, access in group]
            made = self.bodies.statement([value for value, _ in group], targets, self.place, last)
            self._add(*made)

    # Ops on memory.

    def _if(self, op: scf.IfOp) -> None:
        if op.results:
            self.bodies.padded(op, self.place.loops)
            return
        if op.false_region.blocks and any(
            not is_terminator(other) for other in op.false_region.block.ops
        ):
            raise NotRaised("expected a condition with one branch, found two")
        guards = conditions(self.indices, op.cond)
        left = [guard for guard in guards if self.indices.bounds(guard)[0] < 0]
        with self._inside([], left):
            self._block(op.true_region.block)

    def _store(self, op: Stores) -> None:
        target = ElementAccess.of(self.bodies.buffer(op.memref), self.bodies.index(op))
        if self.bodies.kept(_value(op)) == target:
            return  # the loop before accumulated there
        self._add(*self.bodies.statement([_value(op)], [target], self.place, op))

    def _add(self, *statements: Statement) -> None:
        self._statements += statements

    def _alloc(self, op: Allocs) -> None:
        if isinstance(op.parent_op(), func.FuncOp):
            return
        value = op.results[0]
        shape = [*(loop.extent for loop in self.place.loops), *shape_of(value.type)]
        prefix = [AffineExpr.dimension(loop.number) for loop in self.place.loops]
        self.bodies.expand(value, self._new_buffer(value, shape), prefix)

    def _new_buffer(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        type_ = value.type
        element = element_type_of(type_) if _is_memref(value) else type_
        made = tir.AllocOp.of(element, tuple(shape))
        made.result.name_hint = value.name_hint
        self.allocs.append(made)
        self._own[made.result] = list(self.place.loops)
        return made.result

    def _check_room(self, statements: Sequence[Statement]) -> None:
        """Raises NotRaised if a buffer that is still used keeps too many elements."""
        touched = {access.buffer for each in statements for access, _ in each.accesses}
        for size in (prod(shape_of(buffer.type)) for buffer in self._own if buffer in touched):
            if size > MOST_ELEMENTS:
                raise NotRaised(
                    f"expected iterations that keep at most {MOST_ELEMENTS} elements in all, "
                    f"found {size}"
                )


def _is_memref(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType)


def _value(op: Stores) -> SSAValue:
    return op.value


def is_scalar(op: Operation) -> bool:
    """Tells if an op only computes; such ops are read where their results are used."""
    values = (*op.operands, *op.results)
    only = op.name.partition(".")[0] in ("arith", "math") or isinstance(
        op, affine.ApplyOp | affine.MinOp
    )
    is_cast = op.name == "builtin.unrealized_conversion_cast"
    return (only or is_cast) and not op.regions and not any(map(_is_memref, values))


def _check_inside(made: Sequence[Operation]) -> None:
    """Raises NotRaised where a block that was made breaks a rule, for example leaves an array; what
    was made is erased then.
    """
    try:
        for op in made:
            op.verify()
    except VerifyException as error:
        for op in reversed(made):
            op.erase(safe_erase=False)
        raise NotRaised(str(error).partition(";")[0]) from error
