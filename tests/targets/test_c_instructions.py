"""C targets that schedule: they give the text of their instructions, byocir writes the rest."""

from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from c_host import STRICT

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import f32
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns import block, composite, wildcard
from byocir.targets.c import SOURCE, CTarget
from byocir.toolchain import built_and_loaded


def multiply_add(acc: Any, x: Any, w: Any) -> Any:
    return acc + x * w


@composite("mac.gemm")
def gemm() -> Any:
    """A product."""
    factors = wildcard("a", dtype=f32)["m k"], wildcard("b")["k n"]
    return block("m n | k", *factors, multiply_add) @ "gemm"


@composite("mac.mma")
def mma() -> Any:
    """Adds the product of two tiles."""
    factors = wildcard("a")["m k"], wildcard("b")["k n"]
    return block("m n | k", *factors, multiply_add, init=wildcard("sums"))


HEADER = """
static int mac_count;
static inline void mac(const float *a, const float *b, float *y, int m, int n, int k)
{
    mac_count++;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < k; l++) y[i * n + j] += a[i * k + l] * b[l * n + j];
}
"""
RUN = """
int mac_calls_of_a_run(void)
{{
    static float x[64], y[{0}], z[{1}], u[{0}];
    const int code = mac_0((const void *[]){{x}}, (void *[]){{y}});
    return code + mac_1((const void *[]){{y, z}}, (void *[]){{u}}) == 0 ? mac_count : -1;
}}
"""
STAGED = "stage(gemm, 2, mac.y{0}); stage(gemm, 0, mac.a{1}); stage(gemm, 1, mac.b{1})"
TILED = (
    "m, n, k = tile(gemm, m=4, n=4, k=4); "
    f"{STAGED.format(', at=n', ', at=k')}; tensorise(gemm, mac.mma)"
)
WHOLE = f"{STAGED.format('', '')}; tensorise(gemm, mac.mma)"
"""Copies whole arrays, which are too large for a block of C: they need an arena."""


@dataclass(frozen=True)
class Mac(CTarget):
    name, constants = "mac", "bind"
    patterns, instructions = (gemm,), (mma,)
    library, preamble = {"mac.h": HEADER}, '#include "mac.h"'
    script: str = TILED
    text: str = "mac(x0, x1,\n    y0, {}, {}, {});"

    def schedule(self, composite):
        return self.script or None

    def instruction(self, op):
        return self.text.format(*op.body.block.first_op.extents) or None


def net(n):
    """Two products, the first with weights."""
    weights = (np.arange(8 * n) % 7 * 0.25).tolist()
    return parse_module(f"""
    func.func @main(%x: tensor<8x8xf32>, %z: tensor<{n}x{n}xf32>) -> tensor<8x{n}xf32> {{
      %w = graph.constant #graph.array<{weights} : tensor<8x{n}xf32>>
      %y = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x{n}xf32>) -> tensor<8x{n}xf32>
      %r = graph.relu %y : (tensor<8x{n}xf32>) -> tensor<8x{n}xf32>
      %u = graph.matmul %r, %z
          : (tensor<8x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<8x{n}xf32>
      func.return %u : tensor<8x{n}xf32>
    }}""")


def compiled(n, *options):
    module = net(n)
    target = Mac(*options)
    package = byocir.compile(module, targets=[target])
    feeds = {name: np.rint(4 * array) for name, array in random_feeds(module, 1).items()}
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])
    return package


@pytest.mark.parametrize(("n", "script", "calls"), [(16, TILED, 2 * 4 * (2 + 4)), (40, WHOLE, 2)])
def test_instructions_run_where_byocir_writes_loops_copies_and_buffers(n, script, calls):
    blobs = compiled(n, script).blobs["mac"]
    source = blobs[SOURCE] + RUN.format(32 * n, 4 * n * n).encode()
    built = built_and_loaded("mac", {SOURCE: source, "mac.h": blobs["mac.h"]}, STRICT)
    assert built.mac_calls_of_a_run() == calls


def test_blocks_of_instructions_without_text_are_loops():
    assert b"mac(" not in compiled(16, TILED, "").blobs["mac"][SOURCE]


def test_what_is_not_scheduled_has_no_c():
    with pytest.raises(ByocirError, match=r"B219.*does not say how regions become C"):
        compiled(16, "")


def test_instructions_are_text():
    class Wrong(Mac):
        def instruction(self, op):
            return 3

    with pytest.raises(ByocirError, match=r"B228.*instruction of target 'mac' to give C as text"):
        byocir.compile(net(16), targets=[Wrong()])


PRODUCT = """
static void engine_product(const int8_t *a, const int8_t *b, int32_t *y, const int *s)
{
    for (int i = 0; i < s[0]; i++)
        for (int j = 0; j < s[1]; j++) {
            int32_t sum = s[6] ? 0 : y[i * s[5] + j];
            for (int l = 0; l < s[2]; l++) sum += a[i * s[3] + l] * b[l * s[4] + j];
            y[i * s[5] + j] = sum;
        }
}
"""


FILE = Path(__file__).parents[2] / "examples" / "counted_engine.py"
DESCRIBED = run_path(str(FILE))["Engine"]


class Engine(CTarget):
    """A described machine, of which C says what its products do."""

    name, machine, patterns = "engine", DESCRIBED.machine, DESCRIBED.patterns
    preamble = PRODUCT

    def instruction(self, op):
        if op.callee.data != "engine.product":
            return None
        blocks = list(op.body.block.ops)
        sizes = dict(zip(blocks[-1].names, blocks[-1].extents, strict=True))
        assert max(sizes.values()) <= 16
        rows = [value.type.get_shape()[-1] for value in (*blocks[-1].ins, *blocks[-1].outs)]
        numbers = [*(sizes.get(name, 1) for name in "mnk"), *rows, len(blocks) - 1]
        return f"engine_product(x0, x1, y0, (const int[]){{{', '.join(map(str, numbers))}}});"


def test_instructions_of_a_described_machine_are_text_call_by_call():
    module = parse_module("""
    func.func @main(%x: tensor<20x40xi8>, %w: tensor<40x24xi8>) -> tensor<20x24xi32> {
      %a = graph.matmul %x, %w : (tensor<20x40xi8>, tensor<40x24xi8>) -> tensor<20x24xi32>
      func.return %a : tensor<20x24xi32>
    }""")
    feeds = random_feeds(module, 1)
    package = byocir.compile(module, targets=[Engine()])
    source = package.blobs["engine"][SOURCE]
    assert source.count(b"engine_product(x0") > 1
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])
