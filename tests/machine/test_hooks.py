"""Hooks of descriptions that fail, or give what is no code, are told with their line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from random_machines import gemm, multiply_add, product_module

import byocir
from byocir.dialects.types import i8, i32
from byocir.errors import ByocirError
from byocir.machine import MAIN, Machine, Register, up_to
from byocir.patterns import Pattern, block


def target(**hooks: Any) -> byocir.Target:
    """A target whose machine has these hooks for its product."""
    npu = Machine("random")
    unit = npu.unit("core")
    near = npu.memory("near", i8, row=(8,), rows=64)
    sums = npu.memory("sums", i32, row=(8,), rows=64)
    moved: dict[str, Any] = {"rows": up_to(8), "lanes": up_to(8), "cycles": lambda s: 1}
    npu.copy("load", MAIN, near, unit=unit, **moved)
    npu.copy("store", sums, MAIN, unit=unit, **moved)

    @npu.instruction(unit, into=sums, cycles=lambda s: 1, **hooks)
    def product() -> Pattern:
        return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add)

    kind = type("Random", (byocir.Target,), {"name": "random", "machine": npu, "patterns": (gemm,)})
    return kind()


CORE = Machine("random").unit("core")
SILENT = Register("silent", CORE, lambda value: None)
RAISING = Register("mode", CORE, lambda value: value[0])


def words(_: Any) -> int:
    return 1


HOOKS: list[tuple[dict[str, Callable[..., Any]], str]] = [
    (
        {"encode": lambda call: call.sizes["x"]},
        "encode of random.product failed with KeyError",
    ),
    ({"encode": lambda: 1}, "encode of random.product failed with TypeError: <lambda>() takes 0"),
    (
        {"encode": lambda call: {1, 2}},
        "code of random to be bytes, or what JSON can hold, foun",
    ),
    ({"encode": lambda call: [].append(1)}, "encode of random.product to give code, found None"),
    (
        {"encode": words, "registers": lambda call: {SILENT: 3}},
        "encode of register silent to give code, found None",
    ),
    ({"encode": words, "registers": lambda call: 1 / 0}, "registers of random.product failed with"),
    ({"encode": words, "registers": lambda call: 3}, "to give a value for each Register, found 3"),
    (
        {"encode": words, "registers": lambda call: {"mode": 3}},
        "for each Register, found {'mode'",
    ),
    (
        {"encode": words, "registers": lambda call: {RAISING: 3}},
        "encode of register mode failed w",
    ),
]


@pytest.mark.parametrize(("hooks", "told"), HOOKS, ids=lambda each: "")
def test_a_hook_that_fails_is_told(hooks: dict[str, Any], told: str) -> None:
    module = product_module(4, 4, 4, relu=False)
    with pytest.raises(ByocirError) as caught:
        byocir.compile(module, targets=[target(**hooks)], levels=("tensor",))
    assert caught.value.code == "B270"
    assert told in caught.value.message


FILES: list[tuple[Any, str]] = [
    (
        lambda function, code: b"x",
        "expected assemble of random to give files, as bytes by name, fo",
    ),
    (lambda code: {}, "assemble of random failed with TypeError: <lambda>() takes 1 positional"),
    (lambda function, code: code[9], "assemble of random failed with IndexError"),
]


@pytest.mark.parametrize(("assemble", "told"), FILES, ids=lambda each: "")
def test_a_hook_that_gives_no_files_is_told_with_its_line(assemble: Any, told: str) -> None:
    given = target(encode=words)
    assert isinstance(given.machine, Machine)
    given.machine.assemble = assemble
    with pytest.raises(ByocirError) as caught:
        byocir.compile(product_module(4, 4, 4, relu=False), targets=[given], levels=("tensor",))
    assert caught.value.code == "B270"
    assert told in caught.value.message
    assert caught.value.where.startswith(f"{__file__}:")
