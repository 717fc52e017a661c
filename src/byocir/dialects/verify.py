"""Every rule a module must meet: xDSL's own, definitions before uses, and calls that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import HasAncestor, HasParent
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.byoc import CallOp, CompositeOp
from byocir.dialects.byoc import YieldOp as CompositeYieldOp
from byocir.dialects.dominance import InvalidOp, verify_dominance
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.tir import BlockOp, YieldOp
from byocir.dialects.tir.block import strange_use
from byocir.dialects.types import too_deep
from byocir.dialects.walk import ops_in, ops_of

LOCAL_DIALECTS = frozenset(("arith", "byoc", "func", "graph", "math", "tir"))
"""Dialects whose ops are right or wrong by what is recorded in `_Facts`, and by the ops directly
inside them."""

TRACED_DIALECTS = LOCAL_DIALECTS | {"affine", "builtin", "cf", "memref", "scf", "vta"}
"""Dialects whose ops are right or wrong by what `_trace` lists of a module, and nothing else."""

BRANCHING_DIALECTS = frozenset(("builtin", "cf"))
"""Those of them whose ops may have successors, `builtin` for its unregistered ops."""

SCALAR_DIALECTS = frozenset(("arith", "math"))
"""Dialects whose ops compute one number from others."""


def verify_module(module: ModuleOp) -> None:
    """Raises InvalidOp, one sentence, for the first op that breaks a rule."""
    Verifier().verify(module)


class _Facts(NamedTuple):
    """The facts of an op when it was found right; until one of them changes it stays so.
    Whether its operands reach it is not here: that is checked every time."""

    types: list[Attribute]
    """The types of operands, results and the arguments of blocks inside."""
    counts: tuple[int, ...]
    """The numbers of operands and results, and of each block's arguments."""
    around: object
    """The class of the op around it; for the last op of a block, what that op is."""
    properties: dict[str, Attribute] | None
    attributes: dict[str, Attribute] | None
    values: tuple[SSAValue, ...]
    """The operands themselves where they must be of the op around."""


@dataclass
class Verifier:
    """Verifies a module time and again while passes change it: after the first time, only the ops
    that changed and those directly around them; nothing if nothing did. What it accepts and refuses
    is the same."""

    _known: dict[Operation, _Facts] = field(default_factory=dict[Operation, _Facts])
    _right: list[object] | None = None
    """The trace of the module when it was last found right."""
    _alike: dict[tuple[object, ...], _Facts] = field(
        default_factory=dict[tuple[object, ...], _Facts]
    )
    """Facts of ops that were found right, by what makes other ops right, too. They keep the
    attributes alive that are told apart by identity."""

    def verify(self, module: ModuleOp) -> None:
        """Raises InvalidOp, one sentence, for the first op that breaks a rule."""
        with gc_paused():
            trace: list[object] | None = []
            if not _trace(module, trace):
                trace = None
            if trace is not None and trace == self._right:
                return
            self._right = None
            before, self._known = self._known, {}
            self._verify_op(module, before)
            verify_dominance(module)
            verify_calls(module)
            self._right = trace

    def _verify_op(self, op: Operation, before: dict[Operation, _Facts]) -> bool:
        """Verifies an op after the ops inside it; tells if any of them had changed."""
        inside = False
        for region in op.regions:
            for block in region.blocks:
                empty = block.first_op is None
                inside = empty or inside
                for inner in ops_in(block):
                    if self._verify_op(inner, before):
                        inside = True
        facts = _facts(op)
        changed = facts is None or facts != before.get(op)
        if changed or (inside and not isinstance(op, FuncOp)):
            key = _likeness(op, facts) if facts is not None else None
            if key is None or key not in self._alike:
                _verify_alone(op)
            if key is not None and facts is not None:
                self._alike.setdefault(key, facts)
            changed = True
        if facts is not None:
            self._known[op] = facts
        return changed


def _trace(op: Operation, trace: list[object]) -> bool:
    """Lists all that the rules look at, of an op and of those inside, in an order that tells what
    belongs where: of programs with equal lists both are right or both wrong. False, and a list that
    is good for nothing, where an op is of a dialect whose rules may look at more."""
    operands = tuple(op.operands)
    trace.append(op)
    trace.extend(operands)
    trace.extend([value.type for value in operands])
    trace.extend([result.type for result in op.results])
    trace.append(op.properties.copy())
    if op.attributes:
        trace.append(op.attributes.copy())
    for region in op.regions:
        trace.append(region)
        for block in region.blocks:
            trace.append(block)
            trace.extend([arg.type for arg in block.args])
            for inner in ops_in(block):
                if not _trace(inner, trace):
                    return False
        trace.append(region)
    dialect = _dialect(op.name)
    if dialect in BRANCHING_DIALECTS:
        trace.extend(op.successors)
    return dialect in TRACED_DIALECTS


@cache
def _dialect(name: str) -> str:
    return name.partition(".")[0]


def _verify_alone(op: Operation) -> None:
    arguments = (arg for region in op.regions for block in region.blocks for arg in block.args)
    for value in (*op.results, *arguments):
        if deep := too_deep(value.type):
            raise InvalidOp(deep, op)
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as error:
        invalid = InvalidOp(str(error), op)
        for note in getattr(error, "__notes__", ()):  # the module, marked at the op
            invalid.add_note(note)
        raise invalid from error


def _facts(op: Operation) -> _Facts | None:
    """Collects the facts that decide if an op by itself is right; None if that takes more."""
    if _dialect(op.name) not in LOCAL_DIALECTS or isinstance(op, FuncCallOp):
        return None
    operands, results = op.operands, op.results
    types = [value.type for value in operands]
    types += [result.type for result in results]
    counts = (len(operands), len(results))
    for region in op.regions:
        for inner in region.blocks:
            types += [arg.type for arg in inner.args]
            counts += (len(inner.args),)
    block = op.parent
    around = block.parent_op() if block is not None else None
    last = around is not None and op.next_op is None
    return _Facts(
        types,
        counts,
        (around, dict(around.properties)) if around is not None and last else type(around),
        op.properties.copy() or None,
        op.attributes.copy() or None,
        tuple(operands) if isinstance(around, BlockOp) else (),
    )


def _likeness(op: Operation, facts: _Facts) -> tuple[object, ...] | None:
    """Makes a key that ops share if they are right or wrong alike: the same types and attributes in
    the same places. None where the rules look at more. Those of composites and blocks look at the
    ends of their bodies, and those of blocks at whose values the body uses; that what is inside
    composites stays isolated is checked with the definitions."""
    if not isinstance(facts.around, type) and not isinstance(op, YieldOp | CompositeYieldOp):
        return None
    if op.regions and not isinstance(op, CompositeOp | BlockOp):
        return None
    bodies = [body for region in op.regions for body in region.blocks]
    if isinstance(op, BlockOp) and any(map(strange_use, bodies)):
        return None
    return (
        type(op),
        facts.around if _looks_around(type(op)) else isinstance(facts.around, type),
        facts.counts,
        *map(_end, bodies),
        *map(id, facts.types),
        *_contents(op, facts.properties),
        *_contents(op, facts.attributes),
    )


def _end(block: Block) -> tuple[object, ...]:
    last = block.last_op
    return (type(last), *(() if last is None else (value.type for value in last.operands)))


@cache
def _looks_around(kind: type[Operation]) -> bool:
    """Tells if the rules of an op that is not the last of its block look at the op around it."""
    return kind.has_trait(HasParent) or kind.has_trait(HasAncestor)


def _contents(op: Operation, attributes: dict[str, Attribute] | None) -> Iterator[object]:
    """Lists attributes for a key: those of scalar ops, which are numbers, by what they are, others
    by identity, as hashing a map or a weight takes longer than verifying an op."""
    small = _dialect(op.name) in SCALAR_DIALECTS
    for name, attribute in (attributes or {}).items():
        yield name
        yield attribute if small else id(attribute)
    yield None


def verify_calls(module: ModuleOp) -> None:
    """Raises InvalidOp for a `byoc.call` whose function is missing or of another type."""
    symbols = {
        name.data: op
        for op in module.body.block.ops
        if isinstance(name := op.properties.get("sym_name"), StringAttr)
    }
    for op in ops_of(module):
        if not isinstance(op, CallOp):
            continue
        name = op.callee.root_reference.data
        if name not in symbols:
            raise InvalidOp(f"expected a function @{name} to call, found none", op)
        callee = symbols[name]
        if not isinstance(callee, FuncOp):
            continue  # encoded code; its interface is the device's
        try:
            op.verify_type(callee.function_type)
        except VerifyException as error:
            raise InvalidOp(str(error), op) from error
