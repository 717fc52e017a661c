"""Programs of machines that describe VTA, as its instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quantised_nets import Net
from xdsl.dialects.func import FuncOp

import byocir
from byocir.dialects.vta import LoadMemory
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.described import Step, blocks_of, program_of_steps
from byocir.machine.calls import calls_in
from byocir.machine.encoding import Encoder
from byocir.targets.described import functions_of
from byocir.vendor.user_code import import_file
from byocir.vta_sim import Decoded, Memory, Opcode, decode

EXAMPLE = Path(__file__).parents[2] / "examples" / "vta_machine.py"


@pytest.fixture(scope="module")
def program() -> tuple[FuncOp, Sequence[Step]]:
    """A convolution of 3x3, and what its calls are."""
    target = import_file(EXAMPLE, "B217").Vta16()
    net = Net((1, 16, 4, 4), per_channel=True)
    module = byocir.import_onnx(net.of(net.conv(net.value, (16, 32)), (1, 32, 4, 4)))
    package = byocir.compile(module, targets=[target], levels=("tensor",))
    (function,) = functions_of(package.blobs["vta16"]).values()
    return function, Encoder(target.machine).code(calls_in(target.machine, function.body.block))


def words_of(function: FuncOp, steps: Sequence[Step]) -> Decoded:
    return decode(program_of_steps(function, steps).insns.data.values())


def test_its_words_end_when_all_have_ended(program) -> None:
    words = words_of(*program)
    columns = words.columns
    assert words.opcode[-1] == Opcode.FINISH
    pushed, popped = (
        sum(columns[name].sum() for name in names)
        for names in (("push_next", "push_prev"), ("pop_prev", "pop_next"))
    )
    assert pushed == popped
    assert columns["pop_next"][-1]


def test_equal_micro_ops_are_loaded_once(program) -> None:
    words = words_of(*program)
    columns = words.columns
    loads = (words.opcode == Opcode.LOAD) & (columns["memory_type"] == Memory.UOP)
    places = {*zip(*(columns[name][loads] for name in ("sram_base", "x_size")), strict=True)}
    assert len(places) == loads.sum()


def test_a_call_on_another_unit_than_vta_has_is_refused(program) -> None:
    function, steps = program
    wrong = [replace(s, kind=LoadMemory.ACC) if s.kind is LoadMemory.INP else s for s in steps]
    expected = "expected vta16.load_inp on unit compute, found it on load"
    with pytest.raises(ByocirError, match=expected) as error:
        program_of_steps(function, wrong)
    assert error.value.code == "B271"


def test_weights_are_packed_as_blocks_of_outputs_and_inputs() -> None:
    weights = np.arange(3 * 4 * 6).reshape(3, 4, 6)
    blocks = blocks_of(weights, 2)
    assert blocks.shape == (2 * 3 * 3, 2, 2)
    for k, n, point, i, o in np.ndindex(2, 3, 3, 2, 2):
        found = blocks[(k * 3 + n) * 3 + point, o, i]
        assert found == weights[point, 2 * k + i, 2 * n + o]


def test_vectors_are_packed_as_diagonals() -> None:
    blocks = blocks_of(np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int8), 2)
    diagonals = [np.diag(each).tolist() for each in ([1, 2], [5, 6], [3, 4], [7, 8])]
    assert blocks.tolist() == diagonals
    assert blocks.dtype == np.int8
