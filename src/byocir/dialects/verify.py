"""Checks every rule that a module must meet: xDSL's own, definitions before uses, and calls that
fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import HasAncestor, HasParent, NoTerminator
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.body_facts import BodyFacts
from byocir.dialects.byoc import CallOp, CompositeOp, HandedOffAttr
from byocir.dialects.byoc import YieldOp as CompositeYieldOp
from byocir.dialects.dominance import InvalidOp, verify_dominance
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.tir import BlockOp, IntrinsicOp, YieldOp
from byocir.dialects.tir.block import strange_use
from byocir.dialects.types import too_deep
from byocir.dialects.walk import ops_in

LOCAL_DIALECTS = frozenset(("arith", "byoc", "func", "graph", "math", "tir"))
"""Dialects whose ops are right or wrong by what is recorded in `_Facts`, and by the ops directly
inside them."""

TRACED_DIALECTS = LOCAL_DIALECTS | {"affine", "builtin", "cf", "memref", "scf", "vta"}
"""Dialects whose ops are right or wrong by what `_look` lists of a module, and nothing else."""

BRANCHING_DIALECTS = frozenset(("builtin", "cf"))
"""Those of them whose ops may have successors, `builtin` for its unregistered ops."""

SCALAR_DIALECTS = frozenset(("arith", "math"))
"""Dialects whose ops compute one number from others."""

BODY_DIALECTS = SCALAR_DIALECTS | {"tir"}
"""Dialects whose ops in the body of a block are right or wrong by what the body is made of."""


def verify_module(module: ModuleOp) -> None:
    """Raises InvalidOp, one sentence, for the first op that breaks a rule."""
    Verifier().verify(module)


@dataclass(eq=False)
class _Body:
    """Stands for the bodies of blocks that are alike: they are right or wrong together."""

    is_right: bool = False


class _Facts(NamedTuple):
    """Holds the facts by which an op's own rules accept or refuse it. They leave out where its
    operands are defined, which is checked every time.
    """

    types: list[Attribute]
    """The types of operands, results and the arguments of blocks inside."""
    counts: tuple[object, ...]
    """The numbers of operands and results, and of each block's arguments; if it has ops, or what
    stands for these if the block is the body of a `tir.block`."""
    around: object
    """The class of the op around it; for the last op of a block, what that op is."""
    properties: dict[str, Attribute] | None
    attributes: dict[str, Attribute] | None
    values: tuple[SSAValue, ...]
    """The operands themselves where they must be of the op around."""


class _Seen(NamedTuple):
    """Describes an op as a walk met it. Modules in which walks meet equal ops are all valid, or
    none is."""

    op: Operation
    around: Operation | None
    operands: tuple[SSAValue, ...]
    facts: _Facts
    inside: tuple[object, ...]
    """Its regions and their blocks, each with the number of its ops."""
    successors: tuple[Block, ...]


@dataclass
class Verifier:
    """Verifies a module again and again while passes change it: after the first time it looks only
    at the ops that changed and those directly around them, and at nothing if nothing changed. It
    accepts and refuses the same modules as `verify_module`.
    """

    _known: dict[Operation, _Facts] = field(default_factory=dict[Operation, _Facts])
    """The facts of ops that were right."""
    _right: list[_Seen] | None = None
    """The module as it was last found right; None if its ops may look at more than was noted."""
    _bodies: BodyFacts[_Body | None] = field(default_factory=BodyFacts)
    _alike: dict[tuple[object, ...], _Facts] = field(
        default_factory=dict[tuple[object, ...], _Facts]
    )
    """Facts of ops that were found right, by what makes other ops right, too. They keep the
    attributes alive that are told apart by identity."""

    def verify(self, module: ModuleOp) -> None:
        """Raises InvalidOp, one sentence, for the first op that breaks a rule."""
        with gc_paused():
            seen: list[_Seen] = []
            _look(module, None, False, seen, self._bodies)
            if seen == self._right:
                return
            self._right = None
            before, self._known = self._known, {}
            self._verify_ops(seen, before)
            verify_dominance(module)
            verify_calls(module, [each.op for each in seen])
            if {_dialect(name) for name in {each.op.name for each in seen}} <= TRACED_DIALECTS:
                self._right = seen

    def _verify_ops(self, seen: Sequence[_Seen], before: dict[Operation, _Facts]) -> None:
        """Verifies the ops that changed, or hold one that did, each after those inside it."""
        holders = set[Operation | None]()
        for each in seen:
            op, facts = each.op, each.facts
            for body in facts.counts:
                if type(body) is _Body and not body.is_right:
                    self._verify_body(op)
                    body.is_right = True
            is_local = _is_local(type(op))
            changed = not is_local or facts != before.get(op)
            if changed or (op in holders and not isinstance(op, FuncOp)):
                if is_local:
                    self._verify_local(op, facts)
                else:
                    _verify_alone(op)
                holders.add(each.around)
            if is_local:
                self._known[op] = facts

    def _verify_body(self, op: Operation) -> None:
        """Verifies the ops in the body of a block."""
        seen: list[_Seen] = []
        for inner in ops_in(op.regions[0].block):
            _look(inner, op, inner.next_op is None, seen, self._bodies)
        for each in seen:
            self._verify_local(each.op, each.facts)

    def _verify_local(self, op: Operation, facts: _Facts) -> None:
        """Verifies an op unless one like it was right; of a block like another but for its index
        maps these alone."""
        form = _form(op, facts)
        key = form and (*form, *_attributes(op, facts, _contents))
        if key in self._alike:
            return
        outline = None
        if form is not None and isinstance(op, BlockOp):
            outline = (*form, *_attributes(op, facts, _contents_but_maps))
        if isinstance(op, BlockOp) and outline in self._alike:
            _expect_valid(op, op.verify_indices)
        else:
            _verify_alone(op)
        for each in (key, outline):
            if each is not None:
                self._alike.setdefault(each, facts)


def _look(
    op: Operation,
    around: Operation | None,
    is_last: bool,
    seen: list[_Seen],
    bodies: BodyFacts[_Body | None],
) -> None:
    """Lists the ops inside an op, then the op itself, with their facts. The body of a block is
    among its facts where that stands for its ops.
    """
    operands = tuple(op._operands)  # pyrefly: ignore[protected-access]
    types = [value.type for value in (*operands, *op.results)]
    counts: tuple[object, ...] = len(operands), len(op.results)
    inside: tuple[object, ...] = ()
    for region in op.regions:
        inside += (region,)
        for block in region.blocks:
            types += [arg.type for arg in block.args]
            body = _body(block, bodies) if type(op) is BlockOp else None
            if body is not None:
                counts += (len(block.args), body)
                inside += (block,)
                continue
            ops, last = ops_in(block), block.last_op
            for inner in ops:
                _look(inner, op, inner is last, seen, bodies)
            counts += (len(block.args), len(ops) > 0)
            inside += (block, len(ops))
    facts = _Facts(
        types,
        counts,
        (around, around.properties.copy()) if around is not None and is_last else type(around),
        op.properties.copy() or None,
        op.attributes.copy() or None,
        operands if isinstance(around, BlockOp) else (),
    )
    branches = _dialect(op.name) in BRANCHING_DIALECTS
    successors = tuple(op.successors) if branches else ()
    seen.append(_Seen(op, around, operands, facts, inside, successors))


def _body(block: Block, bodies: BodyFacts[_Body | None]) -> _Body | None:
    """Gives what stands for the ops in the body of a block; None if they must be looked at."""

    def found() -> _Body | None:
        return _Body() if all(_dialect(op.name) in BODY_DIALECTS for op in block.ops) else None

    return bodies.of(block, found)


@cache
def _is_local(kind: type[Operation]) -> bool:
    return _dialect(kind.name) in LOCAL_DIALECTS and not issubclass(kind, FuncCallOp)


@cache
def _dialect(name: str) -> str:
    return name.partition(".")[0]


def _verify_alone(op: Operation) -> None:
    arguments = (arg for region in op.regions for block in region.blocks for arg in block.args)
    for value in (*op.results, *arguments):
        if deep := too_deep(value.type):
            raise InvalidOp(deep, op)
    _expect_valid(op, lambda: op.verify(verify_nested_ops=False))


def _expect_valid(op: Operation, verify: Callable[[], None]) -> None:
    """Raises InvalidOp where a check of an op raises xDSL's VerifyException."""
    try:
        verify()
    except VerifyException as error:
        invalid = InvalidOp(str(error), op)
        # The note is the module's text with the op marked.
        for note in getattr(error, "__notes__", ()):
            invalid.add_note(note)
        raise invalid from error


_Attributes = dict[str, Attribute] | None


def _form(op: Operation, facts: _Facts) -> tuple[object, ...] | None:
    """Makes a key that ops with the same attributes share if the rules accept all of them or none.
    None where the rules look at more. The rules of composites, instructions and blocks look at the
    ends of their bodies, those of blocks also at the values that the body uses; that composites use
    nothing from outside is checked with the definitions.
    """
    kind, around = type(op), facts.around
    is_last = type(around) is tuple
    if is_last and not _ends_body(kind):
        region = op.parent_region()
        holder = region and region.parent
        if region is None or holder is None or not _has_no_end(type(holder)):
            return None
        if len(region.blocks) > 1:
            return None
        is_last, around = False, type(holder)
    bodies: list[Block] = []
    if op.regions:
        if not _is_right_by_ends(kind):
            return None
        if not any(type(each) is _Body for each in facts.counts):
            bodies = [body for region in op.regions for body in region.blocks]
        if issubclass(kind, BlockOp) and any(map(strange_use, bodies)):
            return None
    return (
        kind,
        around if _looks_around(kind) else not is_last,
        facts.counts,
        *map(_end, bodies),
        *map(id, facts.types),
    )


@cache
def _ends_body(kind: type[Operation]) -> bool:
    return issubclass(kind, YieldOp | CompositeYieldOp)


@cache
def _has_no_end(kind: type[Operation]) -> bool:
    """Tells if the last op in the body of an op is like any other."""
    return kind.has_trait(NoTerminator)


@cache
def _is_right_by_ends(kind: type[Operation]) -> bool:
    """Tells if the rules of an op with regions look at nothing inside but the ends of its bodies,
    and at the values that these use.
    """
    return issubclass(kind, CompositeOp | BlockOp | IntrinsicOp)


def _end(block: Block) -> tuple[object, ...]:
    last = block.last_op
    if isinstance(last, BlockOp):  # of an instruction, which may cut it
        return BlockOp, last.extents
    return (type(last), *(() if last is None else (value.type for value in last.operands)))


@cache
def _looks_around(kind: type[Operation]) -> bool:
    """Tells if the rules of an op that is not the last of its block look at the op around it."""
    return kind.has_trait(HasParent) or kind.has_trait(HasAncestor)


def _attributes(
    op: Operation,
    facts: _Facts,
    contents: Callable[[type[Operation], _Attributes], Sequence[object]],
) -> Sequence[object]:
    """Lists the properties and attributes of an op for a key, by what `contents` lists of them."""
    kind = type(op)
    return (*contents(kind, facts.properties), *contents(kind, facts.attributes))


def _contents(kind: type[Operation], attributes: _Attributes) -> Sequence[object]:
    """Lists attributes for a key: those of scalar ops, which are numbers, and others that are quick
    to hash by value, the rest by identity, for hashing a map or a weight takes longer than
    verifying an op. Of the record of a hand-off the rules look at the class alone.
    """
    if attributes is None:
        return (None,)
    if _dialect(kind.name) in SCALAR_DIALECTS:
        return (*attributes, *attributes.values())
    return (*attributes, *map(_content, attributes.values()))


def _contents_but_maps(kind: type[Operation], attributes: _Attributes) -> Sequence[object]:
    """Lists the attributes of a block for a key by what they are; of index maps only the counts."""
    return [*((name, _but_maps(each)) for name, each in (attributes or {}).items())]


def _but_maps(attribute: Attribute) -> object:
    """Gives what counts of an attribute of a block beside its index maps."""
    if isinstance(attribute, ArrayAttr):
        return tuple(map(_but_map, cast("ArrayAttr[Attribute]", attribute)))
    return id(attribute) if isinstance(attribute, AffineMapAttr) else attribute  # its guard


def _but_map(part: Attribute) -> object:
    if not isinstance(part, AffineMapAttr):
        return part
    return part.data.num_dims, part.data.num_symbols, len(part.data.results)


_QUICK = frozenset((IntegerAttr, SymbolRefAttr, UnitAttr))
"""The attributes that are quick to hash, and that ops which are alike have each of their own."""


def _content(attribute: Attribute) -> object:
    kind = type(attribute)
    if kind is HandedOffAttr:
        return kind
    return attribute if kind in _QUICK else id(attribute)


def verify_calls(module: ModuleOp, ops: Sequence[Operation]) -> None:
    """Raises InvalidOp for a `byoc.call` among these ops of a module whose function is missing or
    of another type."""
    symbols = {
        name.data: op
        for op in module.body.block.ops
        if isinstance(name := op.properties.get("sym_name"), StringAttr)
    }
    for op in ops:
        if type(op) is not CallOp:
            continue
        name = op.callee.root_reference.data
        if name not in symbols:
            raise InvalidOp(f"expected a function @{name} to call, found none", op)
        callee = symbols[name]
        if not isinstance(callee, FuncOp):
            continue  # its code is encoded already, with the device's interface
        try:
            op.verify_type(callee.function_type)
        except VerifyException as error:
            raise InvalidOp(str(error), op) from error
