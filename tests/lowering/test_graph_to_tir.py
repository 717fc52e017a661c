"""Every lowering computes what the graph op computes."""

import numpy as np
import pytest
from family_checks import each_family
from graph_ops import Case, examples_of
from graph_oracle import SUMS, by_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from byocir.dialects import graph, locations, tir
from byocir.dialects.graph import ConstantOp
from byocir.dialects.graph.base import Way, is_defined
from byocir.dialects.text import parse_module, print_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate_function
from byocir.lowering.graph_to_tir import ConvertGraphToTirPass
from byocir.lowering.graph_to_tir.lower_op import STAYS, Definitions

TOLERANCE = {"float64": 1e-6, "float32": 2e-5, "float16": 1e-2}


def lower(module):
    ConvertGraphToTirPass().apply(Context(), module)
    module.verify()
    return module


def oracle(module, arrays):
    """What the only op of a function computes, beside constants, by others than its definition."""
    ops = [op for op in module.walk() if isinstance(op, graph.GraphOp)]
    constants = {op.result: op.value.data.values() for op in ops if isinstance(op, ConstantOp)}
    (op,) = (op for op in ops if not isinstance(op, ConstantOp))
    known = {**constants, **dict(zip(op.parent.args, arrays, strict=True))}
    return by_oracle(op, [known[value] for value in op.operands])


def check(case):
    module = case.module()
    module.verify()
    expected = oracle(module, case.arrays)
    found = evaluate_function(lower(module), "main", case.arrays)
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f":
            tolerance = TOLERANCE[left.dtype.name]
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(left, right)
    for op in module.walk():
        assert not isinstance(op, graph.GraphOp)
        if op.name.startswith(("tir.", "arith.", "math.")):
            assert locations.names(op.location) == ("node",), op.name


@pytest.mark.hypothesis
@each_family
def test_lowering_computes_what_the_op_computes(cases):
    @settings(max_examples=settings.default.max_examples // 3)
    @given(cases())
    def check_cases(case):
        check(case)

    check_cases()


def defined(module, definitions):
    for op in [op for op in module.walk() if is_defined(type(op))]:
        definitions.lower(op)
    return print_module(module)


@pytest.mark.hypothesis
@each_family
def test_copies_of_a_definition_equal_it(cases):
    @settings(max_examples=settings.default.max_examples // 10)
    @given(cases())
    def check_cases(case):
        module, definitions = case.module(), Definitions()
        first, second, copy = (defined(module.clone(), definitions) for _ in range(3))
        assert first == second == copy

    check_cases()


POWERS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = graph.constant #graph.array<[2.0] : tensor<f32>>
  %three = graph.constant #graph.array<[3.0] : tensor<f32>>
  %a = graph.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.pow %a, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c = graph.pow %b, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %d = graph.pow %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = graph.pow %c, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = graph.pow %e, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %f : tensor<4xf32>
}
"""


def test_the_third_op_that_is_alike_is_a_copy(monkeypatch):
    """With the same constants, and the same operands equal: %c and %f are like %a."""
    seen, define = [], graph.PowOp.define
    monkeypatch.setattr(graph.PowOp, "define", lambda op, emit: seen.append(op) or define(op, emit))
    module = parse_module(POWERS)
    ops = [op for op in module.walk() if isinstance(op, graph.PowOp)]
    defined(module, Definitions())
    assert seen == ops[:5]


NORMS = {graph.InstanceNormOp: {}, graph.GroupNormOp: {"num_groups": 2}, graph.BatchNormOp: {}}
ALONG = {graph.SoftmaxOp: {}, graph.LogSoftmaxOp: {}, graph.LpNormOp: {"p": 2}}


@st.composite
def long_sums(draw, kind):
    """An op that sums many floats."""
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float16, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = (draw(st.integers(1, 2)), 4, draw(st.integers(1, 9)), draw(st.integers(3, 20)))

    def positive(*own):
        return rng.uniform(0.5, 2, own).astype(dtype)

    x, axis = rng.normal(size=shape).astype(dtype), draw(st.integers(0, 3))
    if issubclass(kind, graph.ReduceOp):
        x = np.abs(x) if kind is graph.ReduceLogSumOp else x
        axes = sorted(draw(st.sets(st.integers(0, 3), min_size=1)))
        return Case(kind, [x], axes=axes, keepdims=draw(st.integers(0, 1)))
    if kind in ALONG:
        return Case(kind, [x], axis=axis, **ALONG[kind])
    if kind in NORMS:
        count = 4 if kind is graph.BatchNormOp else 2
        return Case(kind, [x, *(positive(4) for _ in range(count))], epsilon=1e-3, **NORMS[kind])
    if kind is graph.GlobalAveragePoolOp:
        return Case(kind, [x])
    if kind is graph.LrnOp:
        return Case(kind, [x], alpha=0.5, beta=0.75, bias=1.0, size=draw(st.integers(1, 5)))
    given = [positive(*shape[axis:]) for _ in range(1 + (kind is graph.LayerNormOp))]
    return Case(kind, [x, *given], axis=axis, epsilon=1e-3)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", SUMS, ids=lambda kind: kind.name)
def test_floats_are_summed_in_one_order(kind):
    """Bit for bit: what is quantised next is the same integer."""

    @settings(max_examples=settings.default.max_examples // 10)
    @given(long_sums(kind))
    def check_cases(case):
        (expected,) = oracle(case.module(), case.arrays)
        (found,) = evaluate_function(lower(case.module()), "main", case.arrays)
        np.testing.assert_array_equal(found, expected)

    check_cases()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0), (1, 2)])
def test_weights_that_are_no_numbers_meet_the_same_zeros(stride, dilation, pads):
    """Those around the input, not those between its elements."""
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    window = {"strides": [stride], "dilations": [dilation], "pads": list(pads)}
    for place in range(3):
        w = np.array([[[1, 2, 3]]], np.float32)
        w[0, 0, place] = np.nan
        more = {"output_padding": [0], "group": 1}
        check(Case(graph.ConvTransposeOp, [x, w], **window, **more))


def test_hard_swish_rounds_alike():
    case = Case(graph.HardSwishOp, [np.linspace(-4, 4, 1001, dtype=np.float32)])
    (expected,) = evaluate_function(case.module(), "main", case.arrays)
    (found,) = evaluate_function(lower(case.module()), "main", case.arrays)
    np.testing.assert_array_equal(found, expected)


def test_integers_to_negative_powers_are_cut_towards_zero():
    base = np.array([[-3], [-1], [0], [1], [7]], np.int32)
    check(Case(graph.PowOp, [base, np.arange(-5, 4, dtype=np.int32)]))


def test_the_largest_unsigned_number_is_no_unit():
    """Its bits are those of -1, its inverse is next to nothing."""
    case = Case(graph.PowOp, [np.array([2**64 - 1, 2, 1], np.uint64), np.array([-1, -2, -3])])
    for module in (case.module(), lower(case.module())):
        (found,) = evaluate_function(module, "main", case.arrays)
        assert found.tolist() == [0, 0, 1]


def test_squares_of_halves_add_up_in_floats_of_32_bits():
    """Those of 300 are beyond what f16 holds."""
    x = np.full((1, 3, 1, 1), 300, np.float16)
    case = Case(graph.LrnOp, [x], alpha=1.0, beta=0.5, bias=1.0, size=3)
    for module in (case.module(), lower(case.module())):
        (found,) = evaluate_function(module, "main", case.arrays)
        np.testing.assert_allclose(found.ravel(), [1.2247, 1, 1.2247], rtol=1e-3)


def test_all_ops_are_defined_but_for_those_that_say_why():
    assert {op for op in graph.Graph.operations if not is_defined(op)} == set(STAYS)


def test_each_way_is_what_it_says():
    """Of an example of each op, told by its description; targets of other tests bring their own."""
    for op in graph.Graph.operations:
        if op is graph.ConstantOp or not issubclass(op, graph.GraphOp):
            continue
        module = examples_of([op])
        lower(module)
        assert not [inner for inner in module.walk() if isinstance(inner, graph.GraphOp)], op.name
        found = {type(inner) for inner in module.walk()} & {tir.ForOp, tir.ExternOp}
        allowed = {Way.BLOCKS: set(), Way.LOOP: {tir.ForOp}, Way.EXTERN: {tir.ExternOp}}[op.WAY]
        said = f"{op.name} says WAY = Way.{op.WAY.name}, found {found or 'blocks alone'}"
        assert found <= allowed, said
        if op is not graph.ModOp:  # of floats only
            assert found == allowed, said


INSIDE = """
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = byoc.region #byoc.target<"vta", {}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %1 = byoc.composite "any.relu" at "graph" (%b = %a : tensor<4xi8>) -> tensor<4xi8> {
      %c = graph.constant #graph.array<[1, 2, 3, 4] : tensor<4xi8>>
      %2 = graph.relu %b : (tensor<4xi8>) -> tensor<4xi8>
      %3 = graph.mul %2, %c : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
      byoc.yield %3 : tensor<4xi8>
    }
    byoc.yield %1 : tensor<4xi8>
  }
  %4 = byoc.call @any_0(%0) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %4 : tensor<4xi8>
}

func.func private @any_0(%x: tensor<4xi8>) -> tensor<4xi8>
    attributes {byoc.target = #byoc.target<"vta", {}>} {
  %0 = graph.add %x, %x : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}
"""


def test_ops_inside_composites_and_region_functions_are_lowered():
    module = lower(parse_module(INSIDE))
    assert not [op for op in module.walk() if isinstance(op, graph.GraphOp)]
    (found,) = evaluate_function(module, "main", [np.array([-1, 2, 3, 40], np.int8)])
    np.testing.assert_array_equal(found, np.array([0, 8, 18, 64], np.int8))


def test_the_result_survives_printing():
    lowered = print_module(lower(parse_module(INSIDE)))
    assert print_module(parse_module(lowered)) == lowered


def f32(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    "case",
    [
        Case(graph.AddOp, [f32(0, 3), f32(1, 3)]),
        Case(graph.MatmulOp, [f32(2, 0), f32(0, 3)]),
        Case(graph.ReshapeOp, [f32(0, 3)], shape=[3, 0, 2]),
        Case(graph.ConcatOp, [f32(2, 0), f32(2, 3)], axis=1),
        Case(graph.ReluOp, [f32()]),
    ],
    ids=repr,
)
def test_arrays_without_elements_or_dimensions(case):
    check(case)


FOREIGN = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.foreign "Foo" 1 (%x) {} : (tensor<4xf32>) -> tensor<4xf32> loc("node")
  func.return %0 : tensor<4xf32>
}
"""


def test_an_op_that_has_no_lowering_is_named():
    op = parse_module(FOREIGN).body.block.first_op.body.block.first_op
    with pytest.raises(ByocirError, match=r"B305.*graph.foreign.*\n.*node"):
        Definitions().lower(op)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(t, n) for t in (np.int8, np.int16) for n in (0, 3, -3)] + [(np.uint8, 0), (np.uint8, 3)],
)
def test_values_far_outside_saturate(dtype, number):
    """Also beyond what 32 bits hold, where a conversion to integers would go wrong; NaN, too."""
    x = np.array([-np.inf, -1e20, -1e5, np.nan, 0.3, 1e5, 1e20, np.inf], np.float32)
    inputs = [x, np.float32(0.5).reshape(()), np.array(number, dtype)]
    case = Case(graph.QuantizeOp, inputs, axis=1)
    (expected,) = evaluate_function(case.module(), "main", inputs)
    (found,) = evaluate_function(lower(case.module()), "main", inputs)
    np.testing.assert_array_equal(found, expected)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert found.tolist() == [low, low, low, low, 1 + number, high, high, high]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_infinity_counts_where_the_numpy_rule_counts_it(mode):
    """Not in sums in which it has no part, and twice where an edge repeats it."""
    x = np.zeros((1, 1, 1, 5), np.float32)
    x[..., 0], x[..., 3] = np.inf, -np.inf
    shape = {"sizes": (1, 1, 1, 9), "coordinate_transformation_mode": "half_pixel"}
    modes = {"mode": mode, "nearest_mode": "floor", "cubic_coeff_a": -0.75, "exclude_outside": 0}
    case = Case(graph.ResizeOp, [x], **shape, **modes, extrapolation_value=0.0, antialias=0)
    (expected,) = oracle(case.module(), case.arrays)
    (found,) = evaluate_function(lower(case.module()), "main", case.arrays)
    np.testing.assert_array_equal(found, expected)
    assert np.isinf(found).any()
