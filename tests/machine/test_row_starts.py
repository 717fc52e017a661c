"""Calls begin with rows of memories, as code names these, unless a memory says that they may begin
inside one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from quantised_nets import Net
from random_machines import machine_by, product_module

import byocir
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine.calls import calls_in
from byocir.targets.described import functions_of

GEMMINI = str(Path(__file__).parents[2] / "examples" / "gemmini.py")


def products_of_channels() -> onnx.ModelProto:
    """A net whose channels, last in memory, are a batch of products."""
    net = Net((1, 2, 5, 6), per_channel=False)
    value = net.conv(net.value, (2, 4), 1)
    turned = net.node("Transpose", [value], perm=[0, 1, 3, 2])
    product = net.node("MatMul", [turned, value])
    return net.of(net.requantize(product, net.scale * net.scale * 20), (1, 4, 6, 6))


def test_products_whose_batch_lies_in_rows_are_refused() -> None:
    """Each would begin inside of a row: the lanes are those of the batch."""
    module = byocir.import_onnx(products_of_channels())
    package = byocir.compile(module, targets=[GEMMINI], levels=("tensor",))
    told = "found [k, b1], [k, n, b1] for [n, b1]; w differs; see gemmini.py:"
    refused = [each for each in package.report.decisions if told in each.reason]
    assert {each.pattern for each in refused} == {"gemmini.matmul"}
    assert package.report.macs["gemmini"] == 5 * 6 * 2 * 4


def test_batches_whose_weights_lie_apart_are_taken_one_by_one() -> None:
    """Weights of a batch lie between the rows of one product, in a tile of several."""
    net = Net((2, 6, 7, 4), per_channel=False)
    weights, _ = net.weights((2, 6, 4, 5), per_channel=False, axis=0)
    product = net.node("MatMul", [net.value, weights])
    model = net.of(net.requantize(product, net.scale), (2, 6, 7, 5))
    package = byocir.compile(byocir.import_onnx(model), targets=[GEMMINI], levels=("tensor",))
    assert package.report.macs["gemmini"] == 2 * 6 * 7 * 4 * 5


@pytest.mark.parametrize("inside", [False, True])
def test_calls_of_half_a_row_begin_with_one(inside: bool) -> None:
    """Products of four numbers, in rows of eight: a tile of more would begin inside."""
    given = {"lanes": 8, "size": 4, "own weights": True, "sums rows": 64, "near rows": 256}
    given |= {f"inside rows of {name}": inside for name in ("near", "weights", "sums")}
    drawn = machine_by(lambda options: options[0], given)
    module = product_module(7, 10, 12, relu=False)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    package = byocir.compile(module, targets=[drawn.register()()], levels=("tensor",))
    np.testing.assert_array_equal(package.run(feeds, check=True)["res0"], expected)
    (function,) = functions_of(package.blobs["random"]).values()
    calls = calls_in(drawn.machine, function.body.block)
    lanes = {place.lane for call in calls for place in call.places.values()}
    assert lanes == ({0, 4} if inside else {0})
