"""Draws random graphs that a pattern might match, built from the pattern itself.

The pattern's nodes are made inputs first; each op proposes what it might be given
(`byocir.testing.proposals`), and its own type inference decides whether that fits. Blocks are made
from iterators, indices and body of their patterns (`byocir.testing.blocks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import OptPropertyDef
from xdsl.utils.exceptions import VerifyException

from byocir.dialects import tir
from byocir.dialects.array import Array
from byocir.dialects.graph import ConstantOp, ForeignOp, GraphOp
from byocir.dialects.graph.base import attribute_of
from byocir.dialects.graph.values import StringType
from byocir.dialects.locations import named
from byocir.dialects.types import (
    Shape,
    bf16,
    dtype_of,
    element_type_of,
    f16,
    f32,
    holds_numbers,
    i1,
    i8,
    i32,
    i64,
    is_float,
    shape_of,
    tensor,
    ui8,
)
from byocir.patterns import Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.nodes import (
    AlternativesPattern,
    AnyOperandsPattern,
    ConstantPattern,
    OpPattern,
    ValuePattern,
    WildcardPattern,
)
from byocir.patterns.structure import ParallelPattern, PathPattern, ResultPattern
from byocir.testing.blocks import plan_block
from byocir.testing.by_example import op_named, operand_range
from byocir.testing.choose import Choose, pick
from byocir.testing.draft import NARROW, Breadth, Draft, Proposal, Slot, Unfit
from byocir.testing.proposals import propose

ELEMENTS = (f32, i8, i32)
RARE = (ui8, i64, f16, i1)
"""Element types of inputs that nothing else tells, mostly and now and then."""

ANY = (*RARE, bf16, StringType())
"""Those that programs which break a rule have, too."""

PROPOSALS_OF_OP = 4
"""The proposals that are tried for an op before all is drawn again."""

MOST_ELEMENTS = 1 << 14
"""Tensors of a test stay small."""


@dataclass(frozen=True)
class Drawn:
    """Holds a module of one function `@main`, the op at which the pattern shall match, and the
    value of each of the pattern's nodes.
    """

    module: ModuleOp
    root: Operation
    nodes: Mapping[Pattern, SSAValue]


def draw_graph(
    choose: Choose,
    pattern: Pattern,
    level: str,
    wants: Mapping[Any, Any],
    rare: Sequence[Attribute] = RARE,
    breadth: Breadth = NARROW,
) -> Drawn:
    """Draws a graph of ops, or of blocks at level "tensor", in which the pattern might match;
    `rare` are element types that inputs sometimes have. Raises Unfit where a draw failed.
    """
    builder = _Builder(choose, wants, pick(choose, ELEMENTS if choose(0, 4) else rare))
    builder.tensor_level = level == "tensor"
    builder.breadth = breadth
    builder.plain = breadth.plain and choose(0, 2) < 2
    value = builder.value(pattern)
    if not isinstance(value.owner, tir.BlockOp | GraphOp | ForeignOp) or not value.owner.operands:
        raise Unfit
    return Drawn(builder.module(value.owner), value.owner, builder.nodes)


class _Builder:
    """Makes the ops of one graph."""

    def __init__(self, choose: Choose, wants: Mapping[Any, Any], element: Attribute) -> None:
        self.choose = choose
        self.wants = wants
        self.block = Block()
        self.element = element
        self.nodes: dict[Pattern, SSAValue] = {}
        self.recent: list[Shape] = []
        self.tensor_level = False
        self.breadth = NARROW
        self.plain = False

    def value(self, pattern: Pattern) -> SSAValue:
        """Makes the value for a pattern of ops, once."""
        if pattern not in self.nodes:
            self.nodes[pattern] = self._make(pattern)
        return self.nodes[pattern]

    def _make(self, pattern: Pattern) -> SSAValue:
        match pattern:
            case OpPattern():
                count = self.choose(pattern.required, len(pattern.operands))
                operands = pattern.operands[:count]
                return self._op(pattern.name, operands, pattern.attrs, pattern.label).results[0]
            case AnyOperandsPattern():
                return self._any(pattern).results[0]
            case AlternativesPattern():
                return self.value(pick(self.choose, pattern.alternatives))
            case ResultPattern():
                inner, index = self.value(pattern.inner).owner, pattern.index or 0
                if not isinstance(inner, Operation) or index >= len(inner.results):
                    raise Unfit
                return inner.results[index]
            case ParallelPattern():
                roots = [self.value(root) for root in pattern.roots]
                return roots[0]
            case PathPattern():
                return self._path(pattern)
            case BlockPattern():
                return self._block(pattern)
            case _:  # the pattern is a single leaf
                return self._leaf(pattern, TensorType(self.element, (2, 4)))

    def _op(
        self,
        name: str,
        operands: Sequence[Pattern],
        fixed: Mapping[str, Any],
        label: str | None,
        result: TensorType | None = None,
    ) -> Operation:
        """Makes an op of these operands: operands that are ops come first; leaves then get the
        types they need, and so do ops that keep the shape of a leaf. Such an op is given its
        `result`.
        """
        for operand in operands:
            chosen = self._chosen(operand)
            if not isinstance(chosen, ValuePattern) and not self._keeps_shape(chosen):
                self.value(operand)
        slots = [self._slot(self._chosen(operand)) for operand in operands]
        if result is not None:
            slots[0].type = operand_type(self.choose, name, result, slots[0].element)
        facts = self.choose, slots, fixed, label, self.element, self.wants, self.recent
        draft = Draft(*facts, self.breadth, self.plain)
        types, properties = _proposal(name, draft)
        values = [
            self._operand(operand, type_, (name, i))
            for i, (operand, type_) in enumerate(zip(operands, types, strict=False))
        ]
        made = _made(name, values, properties, named(f"n{sum(1 for _ in self.block.ops)}"))
        self.block.add_op(made)
        return made

    def _block(self, pattern: BlockPattern) -> SSAValue:
        """Makes a block on the values of its inputs and the value that it starts from."""
        parts = [read.pattern for read in pattern.reads]
        parts += [pattern.init] if isinstance(pattern.init, Pattern) else []
        for part in parts:
            if not isinstance(self._chosen(part), ValuePattern):
                self.value(part)
        slots = [self._slot(self._chosen(part)) for part in parts]
        facts = self.choose, pattern, slots, self.element, self.wants, self.breadth
        plan = plan_block(*facts, self._last_shape())
        values = [self._operand(p, t) for p, t in zip(parts, plan.types, strict=False)]
        count = sum(1 for _ in self.block.ops)
        made = plan.build(values, named(f"n{count}"))
        self.block.add_ops(made)
        return made[-1].results[0]

    def _last_shape(self) -> Shape | None:
        """Gives the shape of the value that was made last."""
        last = self.block.last_op
        return None if last is None or not last.results else shape_of(last.results[0].type)

    def _chosen(self, pattern: Pattern) -> Pattern:
        """Chooses among alternatives; gives the chosen one if it is a leaf, else makes its value
        and gives the pattern.
        """
        while isinstance(pattern, AlternativesPattern) and pattern not in self.nodes:
            chosen = pick(self.choose, pattern.alternatives)
            if not isinstance(chosen, ValuePattern | AlternativesPattern):
                self.nodes[pattern] = self.value(chosen)
                return pattern
            pattern = chosen
        return pattern

    def _slot(self, pattern: Pattern) -> Slot:
        if pattern in self.nodes:
            return Slot(cast(TensorType, self.nodes[pattern].type))
        if isinstance(pattern, OpPattern):
            to = pattern.attrs.get("to")
            return Slot(None, to if isinstance(to, Attribute) else KEEP_SHAPE[pattern.name])
        assert isinstance(pattern, ValuePattern)
        return Slot(None, pattern.dtype, pattern.label, isinstance(pattern, ConstantPattern))

    def _operand(
        self, pattern: Pattern, type_: TensorType, place: tuple[str, int] = ("", 0)
    ) -> SSAValue:
        """Makes a value for an operand of this type; `place` is the op and the operand's number."""
        chosen = self._chosen(pattern)
        if isinstance(chosen, OpPattern) and chosen not in self.nodes:
            count = self.choose(chosen.required, len(chosen.operands))
            parts = chosen.name, chosen.operands[:count], chosen.attrs, chosen.label
            self.nodes[chosen] = self._op(*parts, type_).results[0]
        if chosen not in self.nodes:
            self.nodes[chosen] = self._leaf(chosen, type_, place)
        if self.nodes[chosen].type != type_:
            raise Unfit
        return self.nodes[chosen]

    def _keeps_shape(self, pattern: Pattern) -> bool:
        """Tells if a pattern stands for an op that is still to be made and has the shape of a leaf
        that is still to be made.
        """
        if not isinstance(pattern, OpPattern) or pattern in self.nodes:
            return False
        if pattern.name not in KEEP_SHAPE or not pattern.operands:
            return False
        inner = pattern.operands[0]
        is_leaf = isinstance(inner, ValuePattern) and inner not in self.nodes
        return is_leaf or self._keeps_shape(inner)

    def _any(self, pattern: AnyOperandsPattern) -> Operation:
        """Makes an op for a pattern that takes any operands; optional operands may be missing."""
        least, most = operand_range(pattern.name)
        if not most:
            raise Unfit
        count = self.choose(max(1, least), min(most, least + 2))
        leaf = pick(self.choose, (WildcardPattern, ConstantPattern))
        leaves = [WildcardPattern(None, None, ())]
        leaves += [leaf(None, None, ()) for _ in range(count - 1)]
        return self._op(pattern.name, leaves, {}, pattern.label)

    def _path(self, pattern: PathPattern) -> SSAValue:
        """Draws up to two ops after the start."""
        current = self.value(pattern.start)
        for _ in range(self.choose(0, 2)):
            name = pick(self.choose, sorted(pattern.through))
            start = WildcardPattern(None, None, ())
            self.nodes[start] = current
            current = self._op(name, [start], {}, None).results[0]
        return current

    def _leaf(
        self, pattern: Pattern, type_: TensorType, place: tuple[str, int] = ("", 0)
    ) -> SSAValue:
        if isinstance(pattern, ConstantPattern):
            if not holds_numbers(element_type_of(type_)):
                raise Unfit
            numbers = numbers_on_grid(self.choose, *place, type_)
            if numbers is None:
                numbers = _numbers(self.choose, type_, self.plain)
            array = Array.of(np.asarray(numbers).astype(dtype_of(element_type_of(type_))))
            made = tir.ConstantOp.of(array) if self.tensor_level else ConstantOp.of(array)
            self.block.add_op(made)
            return made.results[0]
        return self.block.insert_arg(type_, len(self.block.args))

    def module(self, root: Operation) -> ModuleOp:
        """Finishes the graph as `@main`, which returns what nothing uses."""
        ops = [op for op in self.block.ops if isinstance(op, tir.BlockOp) or _computes(op)]
        unused = [r for op in ops for r in op.results if not r.uses and op is not root]
        outputs = [*root.results, *unused]
        self.block.add_op(ReturnOp(*outputs))
        types = [arg.type for arg in self.block.args], [value.type for value in outputs]
        return ModuleOp([FuncOp("main", types, Region(self.block))])


def _proposal(name: str, draft: Draft) -> Proposal:
    """Draws a proposal for an op that its verifier accepts; raises Unfit if a few draws give
    none.
    """
    least, most = operand_range(name)
    if not least <= len(draft.slots) <= most:
        raise Unfit
    for _ in range(PROPOSALS_OF_OP):
        try:
            types, properties = propose(name, draft)
            operands = Block(arg_types=types).args[: len(draft.slots)]
            _made(name, operands, properties, None).erase(safe_erase=False)
        except (Unfit, IndexError):  # IndexError: an operand is not there
            continue
        return types, properties
    raise Unfit


def _made(
    name: str, values: Sequence[SSAValue], properties: Any, location: LocationAttr | None
) -> Operation:
    """Makes an op; raises Unfit where operands and attributes do not fit it, or its result is
    large.
    """
    try:
        if name == ForeignOp.name:
            made = _foreign(values, properties, location)
        else:
            kind = op_named(name)
            if kind is None:
                raise Unfit
            if _lacks(kind, properties):
                raise Unfit
            made = kind.make(*values, location=location, **properties)
            made.expect_core()
    except (VerifyException, ValueError, IndexError, KeyError) as error:
        raise Unfit from error
    if any(prod(shape_of(r.type)) > MOST_ELEMENTS for r in made.results):
        raise Unfit
    return made


def _lacks(kind: type[GraphOp], properties: Mapping[str, Any]) -> bool:
    """Tells if an op of this class needs another property, without a value of its own."""
    return any(
        not isinstance(each, OptPropertyDef) and each.default_value is None
        for name, each in kind.get_irdl_definition().properties.items()
        if name not in properties
    )


def _foreign(
    values: Sequence[SSAValue], properties: Any, location: LocationAttr | None
) -> Operation:
    """Makes an operator of which only the name is known; its result has the type of its first
    operand.
    """
    own = {key: attribute_of(value) for key, value in properties.items()}
    return ForeignOp.create(
        operands=values,
        result_types=[value.type for value in values[:1]],
        properties=ForeignOp.properties_of("Op", 1, {}) | own,
        location=location,
    )


def _computes(op: Operation) -> bool:
    return isinstance(op, GraphOp | ForeignOp) and not isinstance(op, ConstantOp)


def _numbers(choose: Choose, type_: Attribute, is_plain: bool) -> np.ndarray:
    """Draws the numbers of a constant: one for all, small ones of both signs, or positive ones;
    seldom those that fill 32 bits, and never in a plain graph.
    """
    shape, dtype = shape_of(type_), dtype_of(element_type_of(type_))
    kind, rng = choose(0, 5 if is_plain else 6) // 2, np.random.default_rng(choose(0, 99))
    is_wide = dtype.kind == "i" and dtype.itemsize >= 4
    low, high = ((1, 2), (-4, 4), (1, 100), (2**20, 2**31) if is_wide else (1, 100))[kind]
    values = rng.integers(low, high, shape)
    scaled = values / 4 if is_float(element_type_of(type_)) and kind >= 2 else values
    return np.asarray(scaled).astype(dtype)


QUANTIZE, DEQUANTIZE = "graph.quantize", "graph.dequantize"
KEEP_SHAPE: dict[str, Attribute | None] = {
    DEQUANTIZE: f32,
    QUANTIZE: i8,
    "graph.requantize": None,
    **dict.fromkeys(f"graph.{name}" for name in ("abs", "clip", "neg", "relu", "sigmoid", "tanh")),
}
"""Ops whose result has the shape of their first operand, and its element type: None for that of the
operand, or for that which an attribute `to` names."""
SCALES = (1.0, 1.0, 0.5, 0.25)
"""Powers of two: their products are often among them, and exact."""


def operand_type(
    choose: Choose, name: str, result: TensorType, wanted: Attribute | None
) -> TensorType:
    """Gives the type of the first operand of such an op for its result; `wanted` is an element type
    that the pattern asks for.
    """
    shape, element = shape_of(result), element_type_of(result)
    if name == DEQUANTIZE:  # biases are vectors of wide integers
        element = pick(choose, (i32, i32, i8) if len(shape) == 1 else (i8, i8, i8, ui8, i32))
    if name == QUANTIZE:
        element = f32
    return tensor(wanted or element, shape)


def numbers_on_grid(choose: Choose, name: str, index: int, type_: TensorType) -> np.ndarray | None:
    """Draws a scale (operand 1) or zero point (operand 2) as a quantiser would choose it, most of
    the time; None for other operands, and for any numbers.
    """
    if name not in (QUANTIZE, DEQUANTIZE) or index == 0 or not choose(0, 7):
        return None
    shape, rng = shape_of(type_), np.random.default_rng(choose(0, 99))
    if index == 1:
        one = choose(0, 1) == 0
        return np.full(shape, pick(choose, SCALES)) if one else rng.choice(SCALES, shape)
    return np.zeros(shape) if choose(0, 3) else rng.integers(1, 4, shape)
