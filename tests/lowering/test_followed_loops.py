"""Blocks whose reads step by a power of two along the last dimension: another loop goes innermost.

Compilers use no vectors for such reads, and their lines displace each other in caches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from c_host import SANITIZED, run_c

from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function
from byocir.runtime.native import host_code


def turned(points: int, channels: int, step: int, framed: bool = False):
    """`points` numbers of each channel, `step` apart, with the channels last."""
    out = f"{points + 1}x{channels}" if framed else f"{points}x{channels}"
    row = "i + 1" if framed else "i"
    return parse_module(f"""
func.func @main(%x: tensor<{channels}x{step}xi32>, %y: tensor<{out}xi32>) -> tensor<{out}xi32> {{
  %z = tir.block [i: {points}, c: {channels}] ins(%x[c, i] : tensor<{channels}x{step}xi32>)
      outs(%y[{row}, c] : tensor<{out}xi32>) {{
  ^bb0(%v: i32, %o: i32):
    %w = arith.addi %v, %v : i32
    tir.yield %w : i32
  }}
  func.return %z : tensor<{out}xi32>
}}
""")


def loops(module) -> list[str]:
    """The loops of the first kernel: their variables and ends, outer ones first."""
    kernel = re.search(r"void k0\(.*?\n}", host_code(module).source, re.S)
    assert kernel is not None
    return [
        f"{i}<{end}"
        for i, end in re.findall(r"for \(ptrdiff_t (\w+) = \w+; \w+ < (\d+)", kernel[0])
    ]


@pytest.mark.parametrize(
    ("points", "channels", "step", "expected"),
    [
        (64, 24, 64, ["i1<24", "i0<64"]),
        (256, 24, 256, ["s0<256", "i1<24", "j<64"]),
        (100, 24, 128, ["s0<64", "i1<24", "j<64", "i1<24", "j<36"]),
        (100, 24, 100, ["i0<100", "i1<24"]),
        (64, 3, 64, ["i0<64", "i1<3"]),
        (4, 24, 64, ["i0<4", "i1<24"]),
        (64, 24, 2**13, ["i0<64", "i1<24"]),
    ],
)
def test_reads_go_along_memory(points, channels, step, expected):
    for framed in (False, True):
        module = turned(points, channels, step, framed)
        assert loops(module) == expected
        rng = np.random.default_rng(0)
        types = module.body.block.first_op.function_type.inputs
        arrays = [rng.integers(-9, 9, type_.get_shape(), np.int32) for type_ in types]
        _, found = run_c(module, arrays, SANITIZED)
        np.testing.assert_array_equal(found[0], evaluate_function(module, "main", arrays)[0])
