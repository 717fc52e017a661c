"""Defines the attributes that record a hand-off: targets, the model's nodes, decisions, what calls
stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from byocir.dialects.decisions import Cut, Decision, Gap, Node, Padded, RuleResult, Taken
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.locations import named, names

TARGET = "byoc.target"
"""Function attribute: the target that a region function was handed to."""
KEPT = "byoc.kept_bytes"
"""Function attribute: the bytes that its composites hand on without moving them to main memory."""
LEVELS = ("graph", "tensor")
"""The levels at which work is handed over."""
LEVELS_LEFT = "byoc.levels"
"""Module attribute: the levels at which work has still to be handed over."""
TARGETS = "byoc.targets"
"""Module attribute: the targets in order of preference."""
WHOLE = "byoc.whole"
"""Marks functions of foreign ops that run as one model."""

IN_CODE = "byoc.in_code"
"""Module attribute: targets' passes are making code of their regions; the names of those that have
run, in order."""
SPLIT = "byoc.split"
"""Module attribute, beside `IN_CODE`: the nodes that the host has a part of, as passes that make
code leave it arrays to pack."""
OBJECTIVE = "byoc.objective"
"""Module attribute: what targets compete on, "latency", "energy" or "bytes"."""
COSTS = "byoc.costs"
"""Module attribute: measured costs that targets compete with, as JSON text."""
HOST_CODE = "byoc.host"
"""Module attribute: what the host's C code is made for, as a target attribute of name "c"."""
PLACEMENT = "byoc.placement"
"""Module attribute: which of the model's nodes are placed where by hand, in order of priority."""
PLACE = "byoc.place"
"""Op attribute: the target, or "host", that an op is placed on by hand."""
GROUP = "byoc.group"
"""Op attribute, beside `PLACE`, and function attribute, beside `TARGET`: the group whose regions
have no other op in them."""
PADDED = "byoc.padded"
"""Module attribute: the layers that got more channels than the model gives them."""
NAME = "byoc.name"
"""Argument and result attribute: the name of a model's input or output."""
DIMS = "byoc.dims"
"""Argument attribute: the sizes of an input, those that the model leaves open by name or as "?"."""
DECLARED = "byoc.declared"
"""Result attribute: the sizes that the model gives an output, where they are others than it has."""
DEFAULT = "byoc.default"
"""Argument attribute: the array that an input has where it is not fed."""
INITIALISED = "byoc.initialised"
"""Function attribute: inputs of the model with values of their own, which are constants here."""


@lru_cache(maxsize=4096)
def shared_text(text: str) -> StringAttr:
    """Gives the attribute of a text that is used again and again, such as a pattern's name. It is
    one object each time, so that checks which compare by identity are quick.
    """
    return StringAttr(text)


@lru_cache(maxsize=256)
def _number(number: int) -> IntAttr:
    return IntAttr(number)


def node_names(found: Sequence[str]) -> ArrayAttr[StringAttr]:
    """Gives the attribute of the names of some nodes. Most are of one node, of which there are
    several records: these share it.
    """
    return _name_alone(*found) if len(found) == 1 else _names(found)


@lru_cache(maxsize=1 << 16)
def _name_alone(name: str) -> ArrayAttr[StringAttr]:
    return _names([name])


def _names(found: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([named(name).desc for name in found])


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """Names a target with its options, e.g. `#byoc.target<"vta", {rounding = "half_up"}>`."""

    name = "byoc.target"

    target_name: StringAttr
    options: DictionaryAttr

    @staticmethod
    def of(name: str, options: dict[str, Attribute]) -> TargetAttr:
        return TargetAttr(StringAttr(name), DictionaryAttr(dict(sorted(options.items()))))


@irdl_attr_definition
class PlaceAttr(ParametrizedAttribute):
    """Places nodes by hand: it has a name, or a regular expression for whole names, a target or
    "host", and the group that shares no region with other ops, if there is one, e.g.
    `#byoc.placed<"conv.*", "host">` or `#byoc.placed<"conv_1", "npu", "stem">`.
    """

    name = "byoc.placed"

    nodes: StringAttr
    place: StringAttr
    group: StringAttr

    @staticmethod
    def of(nodes: str, place: str, group: str = "") -> PlaceAttr:
        return PlaceAttr(StringAttr(nodes), StringAttr(place), StringAttr(group))

    def print_parameters(self, printer: Printer) -> None:
        texts = [self.nodes, self.place, *([self.group] if self.group.data else ())]
        with printer.in_angle_brackets():
            printer.print_list(texts, printer.print_attribute)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            nodes = parser.parse_str_literal()
            parser.parse_punctuation(",")
            place = parser.parse_str_literal()
            given = parser.parse_optional_punctuation(",") is not None
            group = parser.parse_str_literal() if given else ""
        return [StringAttr(nodes), StringAttr(place), StringAttr(group)]


@irdl_attr_definition
class NodeAttr(ParametrizedAttribute):
    """Describes a node of the original model: name, op type, multiply-accumulates per inference,
    and, of a node that only quantises, the name of the op that it belongs to, e.g. `#byoc.node<"q",
    "QuantizeLinear", #builtin.int<0>, "conv">`.
    """

    name = "byoc.node"

    node_name: StringAttr
    op_type: StringAttr
    macs: IntAttr
    belongs_to: StringAttr

    @staticmethod
    def of(node: Node) -> NodeAttr:
        texts = StringAttr(node.name), shared_text(node.op_type)
        return NodeAttr(*texts, IntAttr(node.macs), shared_text(node.belongs_to))

    @property
    def plain(self) -> Node:
        """Gives the node as plain data."""
        texts = self.node_name.data, self.op_type.data
        return Node(*texts, self.macs.data, self.belongs_to.data)

    def print_parameters(self, printer: Printer) -> None:
        belongs_to = [self.belongs_to] if self.belongs_to.data else []
        with printer.in_angle_brackets():
            parts = [self.node_name, self.op_type, self.macs, *belongs_to]
            printer.print_list(parts, printer.print_attribute)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            at = parser.pos
            parts = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_attribute)
            if len(parts) not in (3, 4):
                parser.raise_error(
                    "expected a node's name, op type, multiply-accumulates, and maybe the op that "
                    f"it belongs to, found {len(parts)} parts",
                    at,
                    parser.pos,
                )
        return parts if len(parts) > 3 else [*parts, StringAttr("")]


@irdl_attr_definition
class RuleAttr(ParametrizedAttribute):
    """Records a rule of a pattern as it was evaluated: its sentence, whether it held, what was
    seen, and what a user can do about it, if the rule knows."""

    name = "byoc.rule"

    sentence: StringAttr
    outcome: StringAttr
    seen: StringAttr
    fix: StringAttr

    @staticmethod
    def of(rule: RuleResult) -> RuleAttr:
        outcome = "holds" if rule.holds else "fails"
        return RuleAttr(*map(shared_text, (rule.sentence, outcome, rule.seen, rule.fix)))

    @property
    def plain(self) -> RuleResult:
        """Gives the rule as plain data."""
        holds = self.outcome.data == "holds"
        return RuleResult(self.sentence.data, holds, self.seen.data, self.fix.data)


_NO_RULES = ArrayAttr[RuleAttr]([])


@irdl_attr_definition
class DecisionAttr(ParametrizedAttribute):
    """Records the outcome of one pattern at one place in the program.

    `nodes` are the model's nodes of the ops it reached; `outcome` is "taken", or "refused"
    where the pattern matched, or "misses" with the gap; `matched` of `total` ops fitted; `reason`
    says where it stopped, empty when all ops fitted.
    """

    name = "byoc.decision"

    target: StringAttr
    level: StringAttr
    pattern: StringAttr
    outcome: StringAttr
    nodes: ArrayAttr[StringAttr]
    matched: IntAttr
    total: IntAttr
    reason: StringAttr
    rules: ArrayAttr[RuleAttr]

    @staticmethod
    def of(decision: Decision) -> DecisionAttr:
        return DecisionAttr(
            shared_text(decision.target),
            shared_text(decision.level),
            shared_text(decision.pattern),
            shared_text(_outcome(decision)),
            node_names(decision.nodes),
            _number(decision.matched),
            _number(decision.total),
            shared_text(decision.reason),
            ArrayAttr(map(RuleAttr.of, decision.rules)) if decision.rules else _NO_RULES,
        )

    @property
    def plain(self) -> Decision:
        """Gives the decision as plain data."""
        return Decision(
            self.target.data,
            self.level.data,
            self.pattern.data,
            self.taken,
            [node.data for node in self.nodes],
            self.matched.data,
            self.total.data,
            self.reason.data,
            [rule.plain for rule in self.rules],
            self.gap,
        )

    @property
    def taken(self) -> bool:
        """Tells if the target took the ops that the pattern matched."""
        return self.outcome.data == "taken"

    @property
    def gap(self) -> Gap:
        """Gives what kept the pattern from matching as a whole."""
        _, _, gap = self.outcome.data.partition("misses ")
        untold = self.outcome.data == "declined"  # older versions told matches and misses so
        return Gap(gap or (Gap.UNTOLD if untold else Gap.NONE))


def _outcome(decision: Decision) -> str:
    if decision.gap != Gap.NONE:
        return f"misses {decision.gap}"
    return "taken" if decision.taken else "refused"


@irdl_attr_definition
class TakenAttr(ParametrizedAttribute):
    """Records a composite that a target took: its pattern, the level of the match, the model's
    nodes."""

    name = "byoc.taken"

    pattern: StringAttr
    level: StringAttr
    nodes: ArrayAttr[StringAttr]

    def plain(self, schedule: str) -> Taken:
        """Gives the record as plain data, with the script by which the target runs the composite's
        blocks.
        """
        nodes = [name.data for name in self.nodes]
        return Taken(self.pattern.data, self.level.data, nodes, schedule)


@irdl_attr_definition
class PaddedAttr(ParametrizedAttribute):
    """Records that a layer, the op of `nodes`, got more channels: those that it reads, those that
    it gives and what it multiplies and accumulates, each before and after, e.g.
    `#byoc.padded<["conv"], [#builtin.int<3>, #builtin.int<16>], [#builtin.int<24>,
    #builtin.int<32>], [#builtin.int<72>, #builtin.int<512>]>`.
    """

    name = "byoc.padded"

    nodes: ArrayAttr[StringAttr]
    inputs: ArrayAttr[IntAttr]
    outputs: ArrayAttr[IntAttr]
    macs: ArrayAttr[IntAttr]

    @staticmethod
    def of(nodes: Sequence[str], padded: Padded) -> PaddedAttr:
        numbers = (padded.inputs, padded.outputs, padded.macs)
        return PaddedAttr(node_names(nodes), *(ArrayAttr(map(_number, each)) for each in numbers))

    @property
    def plain(self) -> Padded:
        """Gives the record as plain data."""
        numbers = (self.inputs, self.outputs, self.macs)
        return Padded(*([number.data for number in each] for each in numbers))


@irdl_attr_definition
class CutAttr(ParametrizedAttribute):
    """Says why a region is apart from an earlier one of its target: a path leads from nodes of the
    earlier one (`leaves`) through nodes outside both (`first` … `last`) into this one (`enters`).
    `by` is the first thing that the path passes: an op of the host, or another target's region.
    """

    name = "byoc.cut"

    by: StringAttr
    leaves: ArrayAttr[StringAttr]
    first: ArrayAttr[StringAttr]
    last: ArrayAttr[StringAttr]
    enters: ArrayAttr[StringAttr]

    @staticmethod
    def of(by: str, *ops: Operation) -> CutAttr:
        """Makes a cut from the ops on its path: leaves, first, last, enters."""
        leaves, first, last, enters = (node_names(names(op.location)) for op in ops)
        return CutAttr(StringAttr(by), leaves, first, last, enters)

    @property
    def plain(self) -> Cut:
        """Gives the cut as plain data."""
        parts = (self.leaves, self.first, self.last, self.enters)
        return Cut(self.by.data, *([name.data for name in part] for part in parts))


@irdl_attr_definition
class HandedOffAttr(ParametrizedAttribute):
    """Lists the work that a call runs on its target: the composites in order, the types of the
    values that cross, and the cuts that kept it apart from earlier calls.
    """

    name = "byoc.handed_off"

    target: StringAttr
    composites: ArrayAttr[TakenAttr]
    inputs: ArrayAttr
    outputs: ArrayAttr
    cuts: ArrayAttr[CutAttr]

    def with_input(self, number: int, type_: Attribute) -> HandedOffAttr:
        """Gives the record of the same work where input `number` has another type."""
        inputs = [type_ if i == number else each for i, each in enumerate(self.inputs)]
        return HandedOffAttr(
            self.target, self.composites, ArrayAttr(inputs), self.outputs, self.cuts
        )


@irdl_op_definition
class SourceOp(IRDLOperation):
    """Lists the nodes of the original model in their order, for reports, e.g. `byoc.source
    [#byoc.node<"relu", "Relu", #builtin.int<0>>]`.
    """

    name = "byoc.source"

    nodes = prop_def(ArrayAttr[NodeAttr])
    per_turn = opt_prop_def(ArrayAttr[StringAttr])
    """Nodes in loops of which only the run tells how many turns they take: what is counted of these
    is one turn."""
    assembly_format = "$nodes (`per_turn` $per_turn^)? attr-dict"

    @staticmethod
    def of(nodes: Iterable[Node], per_turn: Sequence[str] = ()) -> SourceOp:
        """Makes the list from nodes and the names of those whose MACs are those of one turn of a
        loop.
        """
        properties: dict[str, Attribute] = {"nodes": ArrayAttr(map(NodeAttr.of, nodes))}
        if per_turn:
            properties["per_turn"] = ArrayAttr([StringAttr(name) for name in per_turn])
        return SourceOp.create(properties=properties)

    def entries(self) -> list[Node]:
        return [node.plain for node in self.nodes]


@irdl_op_definition
class TrailOp(IRDLOperation):
    """Lists every decision of the matchers so far, in order, e.g. `byoc.trail
    [#byoc.decision<"vta", "graph", "vta.relu", "taken", ["relu"], #builtin.int<1>, #builtin.int<1>,
    "", []>]`.
    """

    name = "byoc.trail"

    decisions = prop_def(ArrayAttr[DecisionAttr])
    assembly_format = "$decisions attr-dict"

    @staticmethod
    def of(decisions: Sequence[DecisionAttr]) -> TrailOp:
        return TrailOp.create(properties={"decisions": ArrayAttr(decisions)})
