"""Where nobody asks why instructions do not do a block, those on other memories are left out: what
the others do is the same.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i32
from byocir.machine import MAIN, Machine, up_to
from byocir.machine.cut_plans import plans_of
from byocir.patterns import Pattern, block, wildcard

SCOPES = ("", "two.left", "two.right")


def machine() -> Machine:
    """A machine with two memories that loads, stores and adds from either."""
    made = Machine("two")
    core = made.unit("core")
    left, right = (made.memory(name, i32, row=(4,), rows=64) for name in ("left", "right"))
    sizes = {"i": up_to(8), "j": up_to(4)}
    for one, other in ((MAIN, left), (MAIN, right), (left, right), (right, MAIN)):
        name = f"{one.scope[4:] or 'main'}_to_{other.scope[4:] or 'main'}"
        limits = {"rows": up_to(8), "lanes": up_to(4)}
        made.copy(name, one, other, unit=core, cycles=lambda _: 1, **limits)

    @made.instruction(core, into=left, cycles=lambda _: 2, **sizes)
    def add() -> Pattern:
        x, y = left("x")["i j"], right("y")["i j"]
        return block("i j", x, y, lambda _, x, y: x + y)

    @made.instruction(core, into=right, cycles=lambda _: 3, **sizes)
    def add_outside() -> Pattern:
        x = wildcard("x", dtype=i32)["i j"]
        return block("i j", x, lambda old, x: old + x, init=right("sum"))

    return made


TWO = machine()


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(SCOPES), min_size=2, max_size=3),
    st.sampled_from([(5, 3), (1, 4), (16, 8)]),
    st.booleans(),
)
def test_plans_are_the_same_whether_reasons_are_told(scopes, extents, adds):
    m, n = extents
    types = [
        f'memref<{m}x{n}xi32, "{each}">' if each else f"memref<{m}x{n}xi32>" for each in scopes
    ]
    *ins, out = [f"%v{i}[m, n] : {type_}" for i, type_ in enumerate(types)]
    arguments = ", ".join(f"%v{i}: {type_}" for i, type_ in enumerate(types))
    read = [f"%a{i}" for i in range(len(scopes))]
    body = f"%s = arith.addi {read[0]}, {read[-2 if len(ins) > 1 else -1]} : i32"
    ends = "%s" if adds else read[0]
    (op,) = (
        op
        for op in parse_module(f"""
      func.func @main({arguments}) {{
        tir.block [m: {m}, n: {n}] ins({", ".join(ins)}) outs({out}) {{
        ^bb0({", ".join(f"{each}: i32" for each in read)}):
          {body}
          tir.yield {ends} : i32
        }}
        func.return
      }}""").walk()
        if isinstance(op, BlockOp)
    )
    reasons: list[str] = []
    told = plans_of(TWO, op, op.extents, "memories", reasons)
    assert plans_of(TWO, op, op.extents, "memories", every=True) == told
    assert told or reasons
