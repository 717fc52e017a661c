"""Reports: their schema, and what they say of each node."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import jsonschema
import onnx
import pytest

import byocir
from byocir.patterns import Composite, RegionPolicy, op, wildcard
from byocir.runtime.report import Report
from byocir.runtime.report_text import explain, summary

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}


@pytest.fixture(scope="module")
def report() -> Report:
    return byocir.compile(DIGITS / "digits_int8.onnx", shapes=SHAPES).report


@pytest.fixture(scope="module")
def float_report() -> Report:
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    return byocir.partition(module, ["vta"])


def test_reports_meet_the_schema(report: Report, float_report: Report):
    schema = json.loads((files("byocir.runtime") / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for each in (report, float_report):
        jsonschema.validate(json.loads(each.to_json()), schema)


def test_a_report_reads_back(report: Report):
    assert Report.from_dict(json.loads(report.to_json())).to_json() == report.to_json()


@pytest.mark.parametrize("gap", ["other", 3, None])
def test_a_report_of_words_that_nobody_knows_is_refused(float_report: Report, gap: object):
    data = json.loads(float_report.to_json())
    data["decisions"][0]["gap"] = gap
    expected = "expected one of none, dimensions, part, kind, untold as report.decisions.gap, found"
    with pytest.raises(ValueError, match=expected):
        Report.from_dict(data)


def test_every_node_has_one_place(report: Report):
    assert set(report.placement) == {node.name for node in report.nodes}
    assert sum(report.macs.values()) == sum(node.macs for node in report.nodes)


def test_a_node_of_several_regions_is_in_all_of_them():
    sizes = {"a": [2], "b": [2], "c": [1], "y": [2]}
    kind = onnx.TensorProto.FLOAT
    value = [onnx.helper.make_tensor_value_info(n, kind, size) for n, size in sizes.items()]
    node = onnx.helper.make_node("Max", ["a", "b", "c"], ["y"], "max")
    graph = onnx.helper.make_graph([node], "g", value[:3], value[3:])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )

    @dataclass(frozen=True)
    class Npu(byocir.Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = (
            Composite("max", (op("graph.max", wildcard("x"), wildcard("y")),)),
        )
        region_policy: ClassVar[RegionPolicy] = RegionPolicy("none")  # type: ignore[misc]

    report = byocir.partition(byocir.import_onnx(model), [Npu()])
    assert {region.symbol for region in report.regions} == {"npu_0", "npu_1"}
    assert report.placement == {"max": "npu_0, npu_1"}
    assert report.places == {"max": "npu"}


def test_padded_macs_stand_beside_the_models_own(report: Report):
    padded = sum(device["padded_macs"] for device in report.device.values())
    assert padded > report.macs["vta"] == 361_792
    assert "361,792" in summary(report)
    assert f"{padded:,}" in summary(report)


def test_a_float_models_first_line_says_what_to_do(float_report: Report):
    first = explain(float_report).splitlines()[0]
    assert first.startswith("note: nothing was offloaded to vta: the model's tensors are f32")
    assert "quantise" in first
    assert summary(float_report).splitlines()[0] == first


def test_floats_that_rules_alone_keep_out_need_no_quantisation():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[4] x, float[4, 3] w) => (float[3] y) { y = MatMul (x, w) }"""
    (note,) = byocir.partition(byocir.import_onnx(onnx.parser.parse_model(text)), ["dnnl"]).notes
    assert note == (
        "100.0 % of the multiply-accumulates stay on the host: MatMul_0 (12); `explain` says why"
    )


UNSIGNED = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 4] x) => (float[1, 3] y)
<float s = {0.5}, uint8 z = {128}, int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  wf = DequantizeLinear (w, s)
  y = MatMul (xf, wf)
}"""


def test_sums_that_nothing_quantises_hear_of_it():
    model = onnx.parser.parse_model(UNSIGNED)
    first, second = byocir.partition(byocir.import_onnx(model), ["vta"]).notes
    assert first.startswith("nothing was offloaded to vta: the model is quantised")
    assert "expected graph.quantize to use its result, found func.return" in second
    assert second.endswith("MatMul_3; quantise what they read and what they give")


SUMS_BESIDE_A_MEAN = """<ir_version: 10, opset_import: ["" : 21]>
net (int8[1, 4] x) => (int8[1, 3] y)
<float s = {0.5}, int8 z = {0}, int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
 float[4] one = {1, 1, 1, 1}> {
  xf = DequantizeLinear (x, s, z)
  nf = LayerNormalization (xf, one)
  n = QuantizeLinear (nf, s, z)
  mf = DequantizeLinear (n, s, z)
  wf = DequantizeLinear (w, s)
  p = MatMul (mf, wf)
  y = QuantizeLinear (p, s, z)
}"""


def test_integer_sums_beside_sums_of_floats_are_not_called_floats():
    """A mean is a sum of floats that nothing would quantise."""

    class Npu(byocir.Target):
        name, fixed_point = "npu", "half_up"
        patterns = (Composite("max", (op("graph.max", wildcard("x"), wildcard("y")),)),)

    module = byocir.import_onnx(onnx.parser.parse_model(SUMS_BESIDE_A_MEAN))
    (note,) = byocir.partition(module, [Npu()]).notes
    assert note.startswith("100.0 % of the multiply-accumulates stay on the host: MatMul_5 (12)")


ASYMMETRIC = """<ir_version: 10, opset_import: ["" : 21]>
net (uint8[1, 4] x) => (uint8[1, 3] y)
<float s = {0.5}, uint8 z = {128}, int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
  xf = DequantizeLinear (x, s, z)
  wf = DequantizeLinear (w, s)
  p = MatMul (xf, wf)
  y = QuantizeLinear (p, s, z)
}"""


def test_sums_with_zero_points_are_offloaded():
    module = byocir.import_onnx(onnx.parser.parse_model(ASYMMETRIC))
    report = byocir.partition(module, ["vta"])
    assert (report.macs, report.notes) == ({"vta": 12, "host": 0}, [])


FLOATS = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 4] x) => (float[1, 4] y)
<float s = {0.5}, uint8 z = {128}, int16 v = {0}, int8 o = {0},
 int16[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  wf = DequantizeLinear (w, s, v)
  p = MatMul (xf, wf)
  q = QuantizeLinear (p, s, o)
  r = DequantizeLinear (q, s, o)
  t = MatMul (r, wf)
  y = Softmax (t)
}"""


def test_a_node_that_stayed_in_float_says_why():
    """The cause stands before what patterns on integers miss for it, also where a placement asks
    for more."""
    module = byocir.import_onnx(onnx.parser.parse_model(FLOATS))
    report = byocir.partition(module.clone(), ["vta"])
    lines = explain(report, "MatMul_3").splitlines()
    assert lines[1] == "  stays float: qdq-to-integer.quantized_matmul"
    _, _, rule = lines[2].split(maxsplit=2)
    sentence = "The weight has 8 bits, with its zero point and without it, and one scale or one"
    assert rule.startswith(sentence)
    assert rule.endswith("seen i16 with scale 0.5 and zero point 0")
    assert "to fix it: quantise weights to QInt8" in lines[3]
    assert "expected x of i8, found f32" in lines[4]
    why = "expected graph.quantize to use its result, found graph.softmax"
    assert f"stays float: qdq-to-integer.quantized_matmul, {why}" in explain(report, "MatMul_6")
    assert not any("stays float" in line for line in explain(report, "Softmax_7").splitlines())
    with pytest.raises(byocir.ByocirError) as raised:
        byocir.partition(module, ["vta"], placement={"MatMul_3": "vta"})
    assert raised.value.message.startswith("expected vta to take MatMul_3 (MatMul), as placed")
    assert "seen i16 with scale 0.5 and zero point 0" in raised.value.message


ONE_OF_TWO = """<ir_version: 10, opset_import: ["" : 21]>
net (int8[1, 4] x) => (int8[1, 4] y)
<float s = {0.5}, float t = {0.25}, float u = {0.7}, float v = {0.1}, int8 z = {3}, int8 o = {0},
 int8[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}, int32[4] b = {1, 2, 3, 4},
 int32 p = {0}> {
  xf = DequantizeLinear (x, s, z)
  wf = DequantizeLinear (w, t, o)
  h = MatMul (xf, wf)
  hq = QuantizeLinear (h, s, z)
  hf = DequantizeLinear (hq, s, z)
  vf = DequantizeLinear (w, t, o)
  bf = DequantizeLinear (b, u, p)
  r = MatMul (hf, vf)
  a = Add (r, bf)
  y = QuantizeLinear (a, v, z)
}"""


def test_what_keeps_one_node_in_float_is_told_though_another_was_taken():
    """A bias that would be rounded to a step of its sums, which are coarser than the result."""
    module = byocir.import_onnx(onnx.parser.parse_model(ONE_OF_TWO))
    report = byocir.partition(module, ["vta"])
    assert (report.places["MatMul_2"], report.places["MatMul_7"]) == ("vta", "host")
    lines = explain(report, "MatMul_7").splitlines()
    assert lines[1] == "  stays float: qdq-to-integer.quantized_matmul"
    assert lines[2].endswith("seen i32 with scale 0.7 and zero point 0 for 0.125")
    assert lines[3].startswith("         to fix it: quantise the bias to int32 with the scale of")
    (note,) = (note for note in report.notes if "stay in float" in note)
    assert note.startswith("16 multiply-accumulates stay in float because of their quantisation")
    assert "MatMul_7 has i32 with scale 0.7 and zero point 0 for 0.125; quantise the bias" in note
    assert note in summary(report)


def test_a_sum_that_stays_in_float_names_the_grid_that_keeps_it():
    """Also behind fix-point, which takes sums to integers."""
    net = """<ir_version: 10, opset_import: ["" : 21]>
net (int8[1, 2] x) => (int8[1, 2] y)
<float s = {0.5}, float[2] t = {0.5, 0.25}, int8 z = {3}, int8[2] o = {0, 0}> {
  a = DequantizeLinear <axis = 1> (x, t, o)
  b = DequantizeLinear (x, s, z)
  c = Add (a, b)
  y = QuantizeLinear (c, s, z)
}"""
    report = byocir.partition(byocir.import_onnx(onnx.parser.parse_model(net)), ["vta"])
    text = explain(report, "Add_2")
    assert "stays float: fix-point.residual_add" in text
    assert "seen i8 with scale 0.25 to 0.5 on axis 1 and zero point 0" in text
    assert "to fix it: quantise activations to 8 bits" in text


def test_a_host_node_lists_every_pattern_once(float_report: Report):
    lines = explain(float_report, "/stem/conv/Conv").splitlines()
    assert lines[0] == "/stem/conv/Conv  Conv  host"
    assert any("vta.conv" in line and "expected x of i8, found f32" in line for line in lines)
    patterns = [line.split()[1] for line in lines[1:] if "closest" not in line]
    assert len(patterns) == len(set(patterns))


def test_an_unknown_node_is_an_error(report: Report):
    with pytest.raises(byocir.ByocirError, match="did you mean '/stem/conv/Conv'"):
        explain(report, "/stem/conv/Con")
