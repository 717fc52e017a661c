"""What users read of a decision: closest misses, fixes, cuts, the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantised_nets import Net
from xdsl.ir import Operation

import byocir
from byocir.dialects.byoc import Node
from byocir.dialects.decisions import Decision, Gap, RuleResult, Taken
from byocir.dialects.types import i8
from byocir.patterns import (
    Composite,
    RegionPolicy,
    composite,
    constant,
    op,
    optional_operand,
    wildcard,
)
from byocir.runtime.report import Region, Report
from byocir.runtime.report_text import by_op_type, closest_miss, explain, summary
from byocir.targets.base import MatchedOps
from byocir.vendor.user_code import import_file

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def model() -> onnx.ModelProto:
    """Two products with a softmax between them, an add that is folded, and a sum beside it."""
    weights = numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")
    nodes = [
        helper.make_node("Add", ["w", "w"], ["ww"], "fold"),
        helper.make_node("MatMul", ["x", "ww"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["h"], "soft"),
        helper.make_node("Add", ["h", "h"], ["s"], "sum"),
        helper.make_node("MatMul", ["s", "w"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product(least: int = 1) -> Composite:
    @composite("npu.product")
    def made():
        return op("graph.matmul", wildcard("x"), constant("w"))

    @made.rule(fix=lambda m: f"pad the rows to {least}")
    def enough_rows(m):
        """There are enough rows."""
        return m["x"].type.shape[0] >= least, m["x"].type.shape[0]

    return made


def report(*composites: Composite, refuses: str = "") -> byocir.Report:
    @dataclass(frozen=True)
    class Npu(byocir.Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = composites

        def refusal(self, ops: Sequence[Operation]) -> str:
            return refuses

    return byocir.partition(byocir.import_onnx(model()), [Npu()])


def test_every_node_has_a_line_also_what_is_folded_away():
    lines = explain(report(product())).splitlines()
    assert lines[:5] == [
        "fold  Add  folded at compile time",
        "first  MatMul  npu_0 (graph level, npu.product)",
        "soft  Softmax  host",
        "  npu: no pattern has such an op",
        "sum  Add  host",
    ]


def test_a_cut_is_told_with_the_host_op_that_causes_it():
    found = report(product())
    way = "graph.softmax (soft) lies between, first → soft … sum → second"
    cut = f"  npu_1 is apart from npu_0: {way}"
    assert cut in explain(found).splitlines()
    assert explain(found, "second").splitlines()[-1] == cut
    assert cut not in explain(found, "first")


def test_a_failed_rule_says_what_would_fix_it():
    lines = explain(report(product(16)), "first").splitlines()
    assert lines[2].split() == ["rule", "fails:", "There", "are", "enough", "rows", "seen", "4"]
    assert lines[3].strip() == "to fix it: pad the rows to 16"


def test_the_closest_miss_comes_first():
    far = op("graph.relu", op("graph.add", op("graph.matmul", wildcard(), wildcard()), constant()))
    found = report(Composite("npu.far", (far,)), product(16))
    lines = explain(found, "first").splitlines()
    assert "npu.product" in lines[1]
    assert lines[-1] == "  closest: npu.product"


def test_what_matched_as_a_whole_is_closer_whatever_it_was_refused_for():
    """Here for a value that is used outside, where the pattern has no rules that could be asked."""

    def told(pattern: str, matched: int, total: int, reason: str, gap: Gap) -> Decision:
        return Decision("npu", "graph", pattern, False, ["soft"], matched, total, reason, [], gap)

    told_all = [
        told("npu.long", 3, 6, "expected graph.add, found graph.mul", Gap.PART),
        told("npu.soft", 2, 2, "graph.matmul (first) is also used outside the match", Gap.NONE),
    ]
    found = replace(report(), decisions=told_all)
    assert explain(found, "soft").splitlines()[-1] == "  closest: npu.soft"


def test_a_refusal_is_short_in_the_table_and_whole_at_the_node():
    """What instructions say to a block is a line each, of which the node's own view has all; the
    pattern did match, whatever words the refusal has."""
    far = op("graph.relu", op("graph.add", op("graph.matmul", wildcard(), wildcard()), constant()))
    said = [f"npu.{name}: expected k, found n" for name in ("dot", "sum", "max" * 300)]
    found = report(
        Composite("npu.far", (far,)), product(), refuses="\n".join(["expected room", *said])
    )
    short = "1/1 ops matched, npu refuses it: expected room"
    table = explain(found).splitlines()
    line = next(i for i, text in enumerate(table) if text.startswith("first ")) + 1
    assert table[line].endswith(f"{short}; {said[0]} (and 2 more)")
    assert table[line + 1] == "  closest: npu.product; 1 more were tried, see --node first"
    lines = explain(found, "first").splitlines()
    assert lines[1].endswith(short)
    assert [text.strip() for text in lines[2:5]] == said
    assert lines[-1] == "  closest: npu.product"


def test_a_refusal_that_is_shortened_tells_where_all_of_it_is():
    found = report(product(), refuses="no room\nof rows\nof columns")
    assert "  closest: npu.product; see --node first" in explain(found).splitlines()
    assert "closest" not in explain(found, "first")


def test_a_pattern_that_did_not_match_never_matched_all_its_ops():
    bytes_alone = Composite("npu.bytes", (op("graph.matmul", wildcard("x", dtype=i8), wildcard()),))
    lines = explain(report(bytes_alone), "first").splitlines()
    assert lines[1].split(maxsplit=2)[1:] == [
        "npu.bytes",
        "0/1 ops matched, expected x of i8, found f32",
    ]


def test_what_matched_more_ops_is_closer_however_long_it_is():
    value = op("graph.matmul", wildcard(), wildcard())
    short = op("graph.relu", value)
    for name in ("softmax", "exp", "abs", "tanh"):
        value = op(f"graph.{name}", value)
    found = report(Composite("npu.long", (value,)), Composite("npu.short", (short,)))
    lines = explain(found, "first").splitlines()
    assert [line.split()[1:3] for line in lines[1:3]] == [["npu.long", "2/5"], ["npu.short", "1/2"]]
    assert lines[-1] == "  closest: npu.long"


def test_of_patterns_that_came_as_far_the_first_in_the_targets_order_is_closest():
    """Whichever was tried first: a pattern with such an op inside is held against it at the end."""

    def told(pattern: str) -> Decision:
        return Decision("npu", "graph", pattern, False, ["soft"], 1, 2, "expected graph.add", [])

    alike = [told("npu.second"), told("npu.first")]
    found = replace(report(), decisions=alike, patterns=["npu.first", "npu.second"])
    assert explain(found, "soft").splitlines()[-1] == "  closest: npu.first"
    assert report(product()).patterns == ["npu.product"]


def test_a_placement_that_cannot_be_names_the_pattern_that_explain_calls_closest():
    value = op("graph.matmul", wildcard(), wildcard())
    short = Composite("npu.short", (op("graph.relu", value),))
    for name in ("softmax", "exp", "abs", "tanh"):
        value = op(f"graph.{name}", value)

    @dataclass(frozen=True)
    class Npu(byocir.Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = (short, Composite("npu.long", (value,)))

    with pytest.raises(byocir.ByocirError, match=r"npu\.long") as error:
        byocir.partition(byocir.import_onnx(model()), [Npu()], placement={"first": "npu"})
    assert error.value.code == "B244"


CONCAT = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
net (int8[1, 16, 2, 2] a, int8[1, 16, 2, 2] b) => (int8[1, 32, 2, 2] c)
<float s = {0.1}, float t = {0.07}, int8 z = {3}> {
  [join] c = com.microsoft.QLinearConcat <axis = 1> (s, z, a, s, z, b, t, z)
}"""


def test_what_the_host_does_of_a_node_in_part_is_told():
    """One part of a concat needs another grid, which VTA takes; the host puts both together."""
    found = byocir.partition(byocir.import_onnx(onnx.parser.parse_model(CONCAT)), ["vta"])
    first, second, *_ = explain(found, "join").splitlines()
    assert first.endswith("(graph level, vta.requantize, partly on the host)")
    assert second == "  on the host: copy"
    assert found.host_parts == {"join": ["copy"]}


def test_a_pattern_that_shares_no_op_is_never_called_close():
    """Blocks are all of one kind: one that computes something else is no part of the pattern."""

    def told(pattern: str, matched: int, reason: str, gap: Gap) -> Decision:
        return Decision("npu", "tensor", pattern, False, ["soft"], matched, 2, reason, [], gap)

    far = told("npu.window_max", 1, "expected body acc.max(x), found x + 1", Gap.KIND)
    other = told("npu.product", 0, "expected a block of 2 inputs, found 1", Gap.KIND)
    found = replace(report(), decisions=[far, other])
    lines = explain(found).splitlines()
    first = lines.index("soft  Softmax  host")
    assert lines[first : first + 3] == [
        "soft  Softmax  host",
        "  npu: no pattern has such an op",
        "sum  Add  host",
    ]
    assert "closest" not in explain(found, "soft")
    assert closest_miss(found, "soft") == ""
    for reason in ("expected x of i8, found f32", "expected body acc + x, found acc - x"):
        found = replace(report(), decisions=[far, told("npu.bound", 1, reason, Gap.PART)])
        assert "npu.bound" in closest_miss(found, "soft")


def shared() -> Report:
    """Four convolutions, each between a dequantize and a quantize node: one of a target, three that
    it declines for a zero point."""
    names = [f"{kind}{i}" for i in range(4) for kind in ("dq", "conv", "q")]
    kinds = {"dq": "DequantizeLinear", "conv": "Conv", "q": "QuantizeLinear"}
    convs = {name: f"conv{name[-1]}" for name in names}
    nodes = [
        Node(name, kinds[name[:-1]], 100 * (name == conv), conv if name != conv else "")
        for name, conv in convs.items()
    ]
    each = [[f"q{i}", f"conv{i}", f"dq{i}"] for i in range(4)]
    decisions = [Decision("npu", "graph", "npu.conv", True, each[0], 2, 2, "", [])]
    for i in range(1, 4):
        rules = [
            RuleResult("It has rows", True, "4", ""),
            RuleResult("It is 0", False, str(i % 2), "calibrate"),
        ]
        reason = "1 of 2 rules fail"
        decisions.append(Decision("npu", "graph", "npu.conv", False, each[i], 2, 2, reason, rules))
    taken = [Taken("npu.conv", "graph", each[0])]
    region = Region("npu_0", "npu", "graph", taken, each[0], [], [], 0, [])
    return Report(nodes, ["npu"], [region], names[3:], [], decisions)


def test_what_many_nodes_share_is_told_once_with_what_it_would_gain():
    assert explain(shared()).splitlines() == [
        "conv0  Conv  npu_0 (graph level, npu.conv)",
        "  with dq0, q0",
        *(
            line
            for i in (1, 2, 3)
            for line in (
                f"conv{i}  Conv  host",
                f"  with dq{i}, q{i}",
                "  for reason 1, below",
            )
        ),
        "reason 1: 3 Conv, 300 MACs (75.0 %)",
        "  graph npu.conv",
        "         rule fails: It is 0" + 38 * " " + "seen 1; 0",
        "         to fix it: calibrate",
    ]


def test_a_miss_that_many_nodes_share_is_told_once():
    names = [f"conv{i}" for i in range(4)]
    reasons = ["expected x of f32, found ui8"] * 3 + ["expected a constant, found a value"]
    decisions = [
        Decision("npu", "graph", "npu.conv", False, [name], 1, 2, reason, [])
        for name, reason in zip(names, reasons, strict=True)
    ]
    nodes = [Node(name, "Conv", 100) for name in names]
    told = explain(Report(nodes, ["npu"], [], names, [], decisions)).splitlines()
    once = "  graph  npu.conv           1/2 ops matched, expected x of f32, found ui8"
    assert told[1:6:2] == ["  for reason 1, below"] * 3
    assert told[-2:] == ["reason 1: 3 Conv, 300 MACs (75.0 %)", once]
    assert told.count(once) == 1


def test_a_node_that_quantises_has_lines_of_its_own_where_its_op_went_elsewhere():
    kinds = {"dq": "DequantizeLinear", "conv": "Conv", "q": "QuantizeLinear"}
    nodes = [Node(n, kind, 0, "conv" if n != "conv" else "") for n, kind in kinds.items()]
    taken = [Taken("npu.conv", "graph", ["dq", "conv"])]
    region = Region("npu_0", "npu", "graph", taken, ["dq", "conv"], [], [], 0, [])
    assert explain(Report(nodes, ["npu"], [region], ["q"], [], [])).splitlines() == [
        "conv  Conv  npu_0 (graph level, npu.conv)",
        "  with dq",
        "q  QuantizeLinear  host",
        "  npu: no pattern has such an op",
    ]


@dataclass(frozen=True)
class Convolutions(byocir.Target):
    """Takes convolutions, as they are."""

    name: ClassVar[str] = "npu"
    conv = op("graph.conv", wildcard(), constant(), optional_operand(constant()))
    patterns: ClassVar[tuple[Composite, ...]] = (Composite("npu.conv", (conv,)),)


@pytest.mark.parametrize(
    ("targets", "alone"),
    [
        ([], []),
        (["json"], []),
        ([Convolutions()], ["image_QuantizeLinear"]),
        (["vta"], ["image_QuantizeLinear", "logits_DequantizeLinear"]),
    ],
)
@pytest.mark.parametrize("name", ["digits_int8_default", "digits_int8_per_channel"])
def test_nodes_that_quantise_are_listed_with_their_op_whatever_was_tried(name, targets, alone):
    """All but those that are on the host while a target has their op."""
    model = byocir.import_onnx(DIGITS / f"{name}.onnx", shapes={"image": (1, 1, 8, 8)})
    lines = explain(byocir.partition(model, targets)).splitlines()
    own = [line.split("  ")[0] for line in lines if "Linear  " in line]
    assert own == alone


def test_heavy_nodes_on_the_host_are_named_never_silent():
    add = Composite("npu.add", (op("graph.add", wildcard(), wildcard()),))
    found = report(product(16), add)
    assert found.notes == [
        "100.0 % of the multiply-accumulates stay on the host: first (256), second (256); "
        "`explain` says why"
    ]
    assert summary(found).splitlines()[0] == f"note: {found.notes[0]}"


def test_as_many_nodes_are_named_as_a_note_has_room_for():
    text = """<ir_version: 9, opset_import: ["" : 17]> net (float[4, 4] x) => (float[4, 4] y) {
        [a] p = MatMul(x, x) [b] q = MatMul(p, x) [c] r = MatMul(q, x) [d] s = MatMul(r, x)
        [e] y = MatMul(s, x)
    }"""
    found = byocir.partition(byocir.import_onnx(onnx.parser.parse_model(text)), [Convolutions()])
    told = "stay on the host: a (64), b (64), c (64) and 2 more; `explain` says why"
    assert found.notes == [f"100.0 % of the multiply-accumulates {told}"]


def one_convolution(zero: np.int8 | np.uint8) -> onnx.ModelProto:
    net = Net((1, 16, 4, 4), zero=zero)
    return net.of(net.conv(net.value, (16, 16)), (1, 16, 4, 4))


@pytest.mark.parametrize("left_out", ["signed_bytes", "channels_last", "fixed_point"])
def test_a_note_says_what_a_class_could_ask_for(left_out):
    example = import_file(DIGITS.parent / "vta_machine.py", "B217")
    nothing: dict[str, object] = {"signed_bytes": False, "channels_last": False, "fixed_point": ""}

    def note(**changed: object) -> list[str]:
        target: type[byocir.Target] = type("Changed", (example.Vta16,), changed)
        model = byocir.import_onnx(one_convolution(np.uint8(121)))
        notes = byocir.partition(model, [target()], levels=("tensor",)).notes
        return [note for note in notes if "its class can ask for" in note]

    assert note() == []
    (told,) = note(**{left_out: nothing[left_out]})
    asked = told.split("model: ")[1]
    assert asked.split()[0] == left_out
    assert "," not in asked


def test_a_machine_of_floats_is_not_told_to_ask_for_integers():
    example = import_file(DIGITS.parent / "float_npu.py", "B217")

    def notes(model: onnx.ModelProto) -> list[str]:
        module = byocir.import_onnx(model)
        return byocir.partition(module, [example.FloatNpu()], levels=("tensor",)).notes

    for zero in (np.uint8(121), np.int8(0)):
        found = notes(one_convolution(zero))
        assert not any("its class can ask for" in note for note in found), found
        told = "fnpu has memories for floats alone, and the model is quantised: "
        assert told + "give it the model before quantisation" in found
    text = """<ir_version: 9, opset_import: ["" : 17]>
        net (float[1,4,4,4] x, float[4,4,1,1] w) => (float[1,4,4,4] y) { y = Conv(x, w) }"""
    floats = notes(onnx.parser.parse_model(text))
    assert not any("memories for floats" in note for note in floats)


def test_a_note_says_what_splits_convolutions_in_groups():
    example = import_file(DIGITS.parent / "vta_machine.py", "B217")
    net = Net((1, 8, 4, 4))
    model = net.of(net.conv(net.value, (8, 8), group=2), (1, 8, 4, 4))

    def notes(groups: int) -> list[str]:
        target = type("Changed", (example.Vta16,), {"split_groups": groups})()
        notes = byocir.partition(byocir.import_onnx(model), [target], levels=("tensor",)).notes
        return [note for note in notes if "split_groups splits its convolutions in groups" in note]

    assert len(notes(0)) == 1
    assert notes(16) == []


def competing(*costs: dict[str, float]) -> list[str]:
    """Notes of a compilation for energy with two targets that take products."""

    def target(named: str, told: dict[str, float]) -> byocir.Target:
        @dataclass(frozen=True)
        class Npu(byocir.Target):
            name: ClassVar[str] = named
            patterns: ClassVar[tuple[Composite, ...]] = (Composite("product", product().patterns),)

            def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
                return told

        return Npu()

    targets = [target(f"npu{i}", cost) for i, cost in enumerate(costs)]
    return byocir.partition(byocir.import_onnx(model()), targets, objective="energy").notes


def test_an_objective_that_decided_nothing_is_told():
    assert competing({}, {}) == [
        "no target tells its energy; the order of targets decided: first, second"
    ]
    assert competing({"energy": 1}, {"latency": 1}) == [
        "npu1 tells no energy; the order of targets decided: first, second"
    ]
    assert competing({"energy": 1}) == [
        "energy decided nothing: no later target covers just what an earlier one's pattern takes"
    ]


def test_costs_are_asked_with_the_figures_of_the_report():
    seen: list[tuple[int, int]] = []

    @dataclass(frozen=True)
    class Npu(byocir.Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = (Composite("product", product().patterns),)
        region_policy: ClassVar[RegionPolicy] = RegionPolicy("none")  # type: ignore[misc]

        def cost(self, composite: str, ops: MatchedOps) -> Mapping[str, float]:
            seen.append((ops.macs, ops.bytes))
            return {}

    found = byocir.partition(byocir.import_onnx(model()), [Npu()], objective="bytes")
    assert sorted(size for _, size in seen) == sorted(region.bytes for region in found.regions)
    assert sum(macs for macs, _ in seen) == found.macs["npu"] > 0


def test_an_objective_that_decided_needs_no_note():
    assert competing({"energy": 2}, {"energy": 1}) == []


def test_the_summary_counts_bytes_that_cross():
    found = report(product())
    assert [region.bytes for region in found.regions] == [256, 256]
    assert any(
        line.split() == ["npu", "bytes", "crossing", "512"] for line in summary(found).splitlines()
    )


def test_the_table_counts_by_op_type():
    lines = [line.split() for line in by_op_type(report(product())).splitlines()]
    assert lines == [
        ["op", "type", "npu", "host", "folded", "MACs", "offloaded"],
        ["MatMul", "2", "0", "0", "512", "100.0", "%"],
        ["Add", "0", "1", "1", "0"],
        ["Softmax", "0", "1", "0", "0"],
    ]


def test_a_report_with_cuts_and_fixes_reads_back():
    found = report(product(16))
    assert byocir.Report.from_dict(found.to_dict()).to_json() == found.to_json()
    found = report(product())
    assert byocir.Report.from_dict(found.to_dict()).to_json() == found.to_json()


def test_work_of_unknown_size_is_not_counted_as_none():
    """A convolution on a batch that is open stays an ONNX operator: nobody knows its size."""
    info = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "open",
        [info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report = byocir.compile(model, targets=["vta"]).report
    assert report.unknown_macs == ["conv"]
    assert any("not known" in note and "conv" in note for note in report.notes)
    host = next(line for line in summary(report).splitlines() if line.startswith("host MACs"))
    assert host.endswith("and 1 operators of unknown size")
    table = next(line for line in by_op_type(report).splitlines() if line.startswith("Conv"))
    assert table.split()[-1] == "unknown"
    assert Report.from_dict(report.to_dict()) == report


def test_a_rule_of_a_rewrite_is_no_reason_where_a_target_took_other_nodes_all_the_same():
    """A product whose scale only a run tells: a target that gives sums of i32 takes it, and leaves
    another one for what its pattern lacks."""
    rule = RuleResult("The scale is known", False, "a scale that q computes", "quantise it")
    decisions = [
        Decision("", "graph", "product", False, [name], 1, 1, "1 of 1 rules fail", [rule], Gap.NONE)
        for name in ("conv", "depthwise")
    ]
    why = "expected group 1"
    missed = Decision("npu", "graph", "npu.conv", False, ["depthwise"], 1, 2, why, [], Gap.PART)
    decisions.append(missed)
    nodes = [Node(name, "ConvInteger", 100) for name in ("conv", "depthwise")]
    taken = [Taken("npu.conv", "graph", ["conv"])]
    region = Region("npu_0", "npu", "graph", taken, ["conv"], [], [], 0, [])
    for regions, host in (([region], ["depthwise"]), ([], ["conv", "depthwise"])):
        told = explain(Report(nodes, ["npu"], regions, host, [], decisions))
        assert ("The scale is known" in told) == (not regions)
        assert why in told


def test_a_node_of_symbolic_size_is_told_with_what_pins_it() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "Relu_1")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 4]) for n in "xy"]
    graph = helper.make_graph([node], "net", ports[:1], ports[1:])
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    report = byocir.partition(byocir.import_onnx(model), ["vta"])
    assert "--shape" in explain(report, "Relu_1").splitlines()[0]
