"""raise-scf-to-tir on tiles that copies stage: accessed at home where that is the same program."""

import numpy as np
import pytest
from pass_checks import run_on
from raised import contents_after, reasons
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp

X, T = "memref<6xf32>", "memref<2xf32>"


def program(*lines: str) -> str:
    """Three steps over tiles of two elements of x and y."""
    numbers = [f"%c{i} = arith.constant {i} : index" for i in range(4)]
    ports = ", ".join(f'%{name}: {X} {{byoc.name = "{name}"}}' for name in "xyz")
    return "\n".join(
        [
            f"func.func public @main({ports}) {{",
            *numbers,
            "%one = arith.constant 1.0 : f32",
            "scf.for %i = %c0 to %c3 step %c1 {",
            "%at = arith.muli %i, %c2 : index",
            f"%t = tir.alloc : {T}",
            *lines,
            "}",
            "func.return }",
        ]
    )


def load(name: str, at: str = "at") -> str:
    return f"tir.copy %{name}[%{at}] to %t sizes [2] : {X} to {T}"


def store(name: str) -> str:
    return f"tir.copy %t to %{name}[%at] sizes [2] : {T} to {X}"


def loop(*body: str) -> str:
    return "\n".join(["scf.for %j = %c0 to %c2 step %c1 {", *body, "}"])


def update(element: str, source: str, type_: str = X) -> str:
    """Adds an element, and one, to another."""
    return f"""%old = memref.load %{element} : {T if element[0] == "t" else X}
      %more = memref.load %{source} : {type_}
      %half = arith.addf %old, %more : f32
      %new = arith.addf %half, %one : f32
      memref.store %new, %{element} : {T if element[0] == "t" else X}"""


HERE = "%k = arith.addi %at, %j : index"
OTHER = "%l = arith.subi %c1, %j : index"
READ_AT_SOURCE = [load("x"), loop(HERE, update("y[%k]", "t[%j]", T))]
KEPT_IN_PLACE = [load("y"), loop(HERE, update("t[%j]", "x[%k]")), store("y")]
OTHERS = {
    "the source is written": [
        load("x"),
        loop(HERE, update("x[%k]", "z[%k]")),
        loop(HERE, update("y[%k]", "t[%j]", T)).replace("%j", "%g"),
    ],
    "home is read": [
        load("y"),
        loop(HERE, update("t[%j]", "x[%k]")),
        loop(HERE.replace("%k", "%h"), update("z[%h]", "y[%h]")).replace("%j", "%g"),
        store("y"),
    ],
    "loaded again in each step": [loop(load("y"), update("t[%c0]", "x[%j]")), store("y")],
    "loaded by and by": [
        loop(
            HERE,
            OTHER,
            f"%e = memref.load %y[%k] : {X}\nmemref.store %e, %t[%j] : {T}",
            update("t[%l]", "x[%k]"),
        ),
        store("y"),
    ],
    "loaded from elsewhere in y": [
        "%away = arith.subi %c3, %c3 : index",
        load("y", "away"),
        loop(HERE, update("t[%j]", "x[%k]")),
        store("y"),
    ],
}


STAGES = [READ_AT_SOURCE, KEPT_IN_PLACE]


def raised(lines: list[str]) -> ModuleOp:
    """The blocks of a program, which leave the same numbers everywhere."""
    arrays = {
        name: np.random.default_rng(i).integers(-9, 9, 6).astype(np.float32)
        for i, name in enumerate("xyz")
    }
    module = run_on(parse_module(program(*lines)), "raise-scf-to-tir")
    expected = contents_after(parse_module(program(*lines)), arrays)
    for name, array in contents_after(module, arrays).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    return module


@pytest.mark.parametrize("lines", STAGES, ids=["read at its source", "kept where it is stored"])
def test_a_tile_is_accessed_at_home(lines: list[str]):
    module = raised(lines)
    (made,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    assert made.extents == (6,)


@pytest.mark.parametrize("why", OTHERS)
def test_what_would_be_another_program_stays(why: str):
    raised(OTHERS[why])


def test_large_products_are_raised_though_their_tiles_together_are_too_large():
    """All tiles of a factor together are as many as there are steps."""
    text = program(*KEPT_IN_PLACE).replace("c3 step", "n step").replace(X, f"memref<{2 << 24}xf32>")
    text = text.replace("%one =", f"%n = arith.constant {1 << 24} : index\n%one =")
    module = run_on(parse_module(text), "raise-scf-to-tir")
    assert not reasons(module)
