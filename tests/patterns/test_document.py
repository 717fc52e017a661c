"""Patterns as users read them."""

from byocir.dialects.types import i8
from byocir.patterns import (
    Composite,
    block,
    constant,
    either,
    op,
    optional,
    optional_operand,
    supports,
    wildcard,
)
from byocir.patterns.document import document, pattern_lines


def test_ops_operands_attributes_and_alternatives():
    conv = op("graph.conv", wildcard("x", dtype=i8), constant("w"), optional_operand(constant("b")))
    lines = pattern_lines(optional(conv @ "conv", lambda v: op("graph.flatten", v, axis=2)))
    assert lines == [
        "conv = graph.conv(x: i8, constant w, [constant b])",
        "%0 = graph.flatten(conv) {axis = 2} | conv",
    ]


def test_a_pattern_that_is_used_twice_is_written_once():
    inner = op("graph.relu", wildcard("x"))
    assert pattern_lines(op("graph.add", inner, inner)) == [
        "%0 = graph.relu(x)",
        "%1 = graph.add(%0, %0)",
    ]


def test_blocks_and_checkers():
    a, b = wildcard("a"), constant("b")
    product = block("*m n | k", a["*m k"], b["n k"], lambda acc, x, y: acc + x * y)
    reads = "a[*m k] as x, constant b[n k] as y"
    assert pattern_lines(product) == [
        f"%0 = block [*m n | k] reads {reads}, computes acc + (x * y)"
    ]

    named = block("*i", a["*i"], b["*i"], lambda acc, *xs: xs[0] + xs[1])
    assert pattern_lines(named) == [
        "%0 = block [*i] reads a[*i] as xs0, constant b[*i] as xs1, computes xs0 + xs1"
    ]
    assert pattern_lines(block("*i", lambda acc: 0.0)) == ["%0 = block [*i] computes 0.0"]
    (line,) = pattern_lines(block("*i", a["*i"], b["*i"], lambda acc, x0, *x: x0 - x[0]))
    assert line.endswith("reads a[*i] as x0, constant b[*i] as x1, computes x0 - x1")

    @supports("graph.relu")
    def relu(m):
        """There is one.
        Really."""
        return True, None

    assert document("npu", [relu.of_target("npu")]) == (
        "# What npu takes\n\nIn order of priority; the first that fits is taken.\n\n"
        "## npu.relu\n\nAt the graph level.\n\n```\nop = graph.relu(…)\n```\n\n"
        "- There is one. Really.\n"
    )


def test_long_alternatives_are_on_lines_of_their_own():
    def clamped(value, low, high):
        return block("*i", value["*i"], lambda acc, x: x.max(low).min(high))

    pattern = op("graph.add", wildcard("a"), wildcard("b")) @ "sum"
    one = either(clamped(pattern, 0, 6), clamped(pattern, -1, 1), pattern)
    assert (
        "\n".join(pattern_lines(one))
        == """sum = graph.add(a, b)
%0 = block [*i] reads sum[*i] as x, computes x.max(0).min(6)
   | block [*i] reads sum[*i] as x, computes x.max(-1).min(1)
   | sum"""
    )


def test_glue_says_so():
    view = Composite("npu.view", (op("graph.reshape", wildcard("x")),), glue=True)
    assert "At the graph level. Only beside other work." in document("npu", [view])
