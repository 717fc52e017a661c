"""Hooks that encode many calls at once give the code that they give one call after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from random_machines import product_module
from test_hooks import target

import byocir
from byocir.errors import ByocirError
from byocir.machine import Call, Machine, Register, up_to

MODE = Register("mode", Machine("random").unit("core"), lambda value: [value])


def code_of(encode: Callable[[Call], Any], *, in_columns: bool) -> list[Any]:
    """The code of products of 40 by 24 with 16, of 2 by 8 sums each."""
    limits = {"m": up_to(2), "n": up_to(8)}
    npu = target(encode=encode, registers=registers, **limits)
    machine: Any = npu.machine
    machine.in_columns = in_columns
    module = product_module(40, 24, 16, relu=False)
    package = byocir.compile(module, targets=[npu], levels=("tensor",))
    files = package.blobs["random"]
    return json.loads(next(files[name] for name in files if name.endswith(".json")))


def registers(call: Call) -> dict[Register, Any]:
    return {MODE: (7, call.places["w"].row % 3)}


def words(call: Call) -> list[Any]:
    a, w = call.places["a"], call.places["w"]
    flags = call.is_first << 1 | call.is_last << 2 | (call.start is None)
    return [1 << 70 | a.address << 60, (w.row, [a.lane, 5]), "w", (), flags, a == call.result]


def test_columns_have_the_code_of_each_call() -> None:
    asked: list[int] = []

    def counted(call: Call) -> list[Any]:
        asked.append(1)
        return words(call)

    expected = code_of(counted, in_columns=False)
    alone = len(asked)
    assert code_of(counted, in_columns=True) == expected
    assert 0 < len(asked) - alone < alone
    assert len({str(entry) for entry in expected}) > 10


@pytest.mark.parametrize(
    ("encode", "code", "told"),
    [
        (lambda call: call.places["a"].box, "B271", "found box"),
        (lambda call: call.places["a"].rows(), "B271", "found rows()"),
        (lambda call: call.places["a"].address[:1], "B270", "to give arrays of"),
        (lambda call: 1 if call.places["a"].address else 2, "B270", "ValueError"),
    ],
    ids=lambda each: "",
)
def test_what_is_no_column_is_refused(encode: Any, code: str, told: str) -> None:
    def several(call: Call) -> Any:
        return encode(call) if not (call.is_first or call.is_last) else 1

    with pytest.raises(ByocirError) as caught:
        code_of(several, in_columns=True)
    assert (caught.value.code, told in caught.value.message) == (code, True)
