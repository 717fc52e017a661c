"""Mistakes in descriptions: one message each, when the target is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType

import byocir
from byocir.dialects.types import i8, i32
from byocir.errors import ByocirError
from byocir.machine import (
    MAIN,
    Channel,
    Counted,
    Interlocked,
    Machine,
    Memory,
    Tokens,
    Transfer,
    exactly,
    multiples_of,
    up_to,
)
from byocir.machine.checks import check_machine
from byocir.machine.checks.parts import check_views
from byocir.patterns import Pattern, block, constant, number, wildcard

OPTIONAL = ("keeps", "kept_cycles", "strided", "encode", "into")


def test_a_forgotten_bar_is_told() -> None:
    """Without it each product would be added in place, point by point."""

    def forgotten(machine: Machine) -> None:
        near, core = machine.memories[0], machine.units[1]
        parts = near("a")["m k"], near("w")["k n"], lambda acc, x, w: acc + x * w

        @machine.instruction(core, into=near, cycles=lambda s: 1)
        def product() -> Pattern:
            return block("m n k", *parts, out="m n")

    with pytest.raises(ByocirError, match="product to say what its result begins with") as told:
        check_machine(described(more=forgotten))
    assert told.value.code == "B270"
    assert 'found block("m n k", …) without init' in told.value.message
    assert "behind a bar" in str(told.value.help)


def described(**changes: Any) -> Machine:
    """A machine without a mistake, but for what is changed."""
    machine = Machine("npu")
    dma, core = machine.unit("dma"), machine.unit("core")
    parts = {name: changes.get(name, 1) for name in ("banks", "granule")}
    parts["fifo"] = changes.get("fifo", False)
    parts |= {"rows": changes.get("rows", 8), "row": changes.get("row", (4,))}
    near = machine.memory(changes.get("called", "near"), changes.get("element", i8), **parts)
    moved: dict[str, Any] = {"cycles": lambda s: 1, "rows": up_to(4), "lanes": up_to(4)}
    if "unfed" not in changes:
        machine.copy("load", MAIN, near, unit=dma, opcode=1, **moved)
    if "lost" not in changes:
        machine.copy("store", near, MAIN, unit=dma, opcode=2, **moved)
    unit = dma if "idle" in changes else core
    limits = {changes.get("limited", "m"): changes.get("limit", up_to(4))}
    given = {"cycles": lambda s: s["m"], "opcode": 3, "into": near}
    given |= {name: changes[name] for name in (*given, *OPTIONAL) if name in changes}

    @machine.instruction(unit, **given, **limits)
    def double() -> Any:
        return block("m n", near("x")["m n"], lambda _, x: x + x)

    changes.get("more", lambda machine: None)(machine)
    return machine


def reading(pattern: Pattern) -> Callable[[Machine], None]:
    """An instruction that reads a pattern beside what lies in a memory."""

    def add(machine: Machine) -> None:
        near, unit = machine.memories[0], machine.units[0]

        @machine.instruction(unit, into=near, n=up_to(4), cycles=lambda s: 1)
        def scaled() -> Any:
            return block("n", near("x")["n"], pattern["n"], lambda _, x, s: x * s)

    return add


def viewing(
    row: tuple[int, ...] = (1,), of: Memory | None = None, again: bool = False
) -> Callable[[Machine], None]:
    """Declares a view of the memory, or of another one, as sums; with `again`, a view of that."""

    def view(machine: Machine) -> None:
        made = machine.view("sums", of or machine.memories[0], i32, row=row)
        if again:
            machine.view("bytes", made, i8, row=(4,))

    return view


def elsewhere(machine: Machine) -> None:
    """An instruction that writes another memory than the one that it begins with."""
    near, unit = machine.memories[0], machine.units[0]
    far = machine.memory("far", i8, row=(4,), rows=8)

    @machine.instruction(unit, into=far, m=up_to(4), n=up_to(4), cycles=lambda s: 1)
    def relu() -> Any:
        return block("m n", lambda x: x.max(0), init=near("x"))


def second(machine: Machine) -> None:
    machine.unit("core")


def ordered_by_a_class(machine: Machine) -> None:
    machine.order(Counted)


def without_tokens(machine: Machine) -> None:
    machine.order(Tokens((tuple(machine.units),), capacity=0))


def ordered(kind: Callable[[Any, Any, Any], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.order(kind(*machine.units, machine.memories[0]))


def issued_by_a_number(machine: Machine) -> None:
    machine.issue = 3


def sharing(**declared: Any) -> Callable[[Machine], None]:
    """Adds a channel, and a copy over it, or over another one, with this transfer."""

    def add(machine: Machine) -> None:
        given = {name: each for name, each in declared.items() if name != "called"}
        given = {"channel": machine.channel(declared.get("called", "port"))} | given
        costs = dict[str, Any](cycles=lambda s: 3 + s["rows"], transfer=Transfer(**given))
        unit, near = machine.units[0], machine.memories[0]
        machine.copy("other", MAIN, near, unit=unit, rows=up_to(4), lanes=up_to(4), **costs)

    return add


def padding(number: float) -> Callable[[Machine], None]:
    """Adds a load into `near` that reads a number around an array in main memory."""

    def add(machine: Machine) -> None:
        near = machine.memories[0]
        x = wildcard("x", dtype=i8)

        @machine.instruction(
            machine.units[0], into=near, y=up_to(2), x=up_to(4), cycles=lambda s: 1
        )
        def pad() -> Any:
            return block("y x", x["(y - top) x"].padded(number), lambda _, x: x)

    return add


def never_begun(machine: Machine) -> None:
    sums, x = machine.memory("sums", i8, row=(4,), rows=8), machine.memories[0]("x")["m n"]
    machine.copy(
        "out", sums, MAIN, unit=machine.units[0], cycles=lambda s: 1, rows=up_to(4), lanes=up_to(4)
    )

    @machine.instruction(machine.units[0], cycles=lambda s: 1)
    def add() -> Any:
        return block("m n", x, lambda old, x: old + x, init=sums("sums"))


def computing(body: Callable[[Any, Any], Any]) -> Callable[[Machine], None]:
    """Adds an instruction with this body, from bytes to sums."""

    def add(machine: Machine) -> None:
        near, dma = machine.memories[0], machine.units[0]
        sums = machine.memory("sums", i32, row=(4,), rows=8)
        moved: dict[str, Any] = {"cycles": lambda s: 1, "rows": up_to(4), "lanes": up_to(4)}
        machine.copy("out", sums, MAIN, unit=dma, **moved)

        @machine.instruction(dma, into=sums, cycles=lambda s: 1)
        def compute() -> Any:
            return block("m | k", near("x")["m k"], body)

    return add


def setting_registers(machine: Machine) -> None:
    near, dma = machine.memories[0], machine.units[0]
    moved: dict[str, Any] = {"cycles": lambda s: 1, "rows": up_to(4), "lanes": up_to(4)}
    machine.copy("other", MAIN, near, unit=dma, registers=lambda call: {}, **moved)


def one_in_rows(machine: Machine) -> None:
    near = machine.memories[0]

    @machine.instruction(machine.units[0], into=near, cycles=lambda s: 1)
    def scale() -> Any:
        return block("m n", near("x")["m n"], near("by")[""], lambda _, x, by: x * by)


def ruled(look: Callable[[Any], Any]) -> Callable[[Machine], None]:
    """Adds an instruction with unknowns of each kind, and a rule that looks at its match."""

    def add(machine: Machine) -> None:
        x = wildcard("x", dtype=i8)["(y - top) (x*step)"].padded("around")

        @machine.instruction(machine.units[0], into=machine.memories[0], cycles=lambda s: 1)
        def pad() -> Any:
            return block("y x", x, lambda _, e: e + number("more").max(number("least")))

        @pad.rule
        def small(m: Any) -> Any:
            """It is small."""
            return look(m), m["x"]

    return add


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"unfed": True}, "an instruction that brings what npu.double reads into npu.near, found none"),
    (
        {"more": never_begun},
        "brings what npu.add reads into npu.sums, found none that anything feeds",
    ),
    (
        {"more": one_in_rows},
        "npu.scale to read a single number where an instruction writes one, found it in npu.near",
    ),
    (
        {"more": computing(lambda acc, x: acc + x)},
        "the body of npu.compute to fit the types of its memories, found (acc + x) for x of i8 in "
        "npu.near, acc of i32 in npu.sums",
    ),
    (
        {"more": computing(lambda acc, x: acc + x.to(i32).exp())},
        "the body of npu.compute to fit the types of its memories, found (acc + x.to(i32).exp())",
    ),
    (
        {"more": computing(lambda acc, x: x + x)},
        "npu.compute to write i32, which npu.sums holds, found a body that gives i8",
    ),
    ({"more": setting_registers}, "encode of npu.other, which sets registers, found none"),
    ({"lost": True}, "an instruction that brings what npu.load writes from npu.near back, found"),
    (
        {"cycles": lambda s: s["m"] - 2},
        "cycles of npu.double of at least 0 at {'m': 1, 'n': 1}",
    ),
    (
        {"cycles": lambda s: (s["m"] - 2) ** 2 - 1},
        "of at least 0 at {'m': 2, 'n': 1}, found -1",
    ),
    (
        {"cycles": lambda s: "3"},
        "cycles of npu.double to be a number at {'m': 1, 'n': 1}, found '3'",
    ),
    (
        {"cycles": lambda s: None},
        "cycles of npu.double to be a number at {'m': 1, 'n': 1}, found N",
    ),
    ({"idle": True}, "an instruction of unit core, found none"),
    ({"rows": 3, "limit": exactly(4)}, "npu.near to hold the smallest tile of npu.double, found 4"),
    (
        {"cycles": lambda s: float("inf")},
        "of at least 0 at {'m': 1, 'n': 1}, found inf",
    ),
    (
        {"cycles": lambda s: 10**30},
        "of at most 2**40 at {'m': 1, 'n': 1}, found 1000",
    ),
    ({"more": without_tokens}, "a capacity of Tokens of at least 1, found 0"),
    ({"keeps": "y"}, "npu.double to keep one of its operands: x, found y"),
    ({"keeps": "x"}, "kept_cycles of npu.double, which keeps x, found none"),
    ({"keeps": "x", "kept_cycles": lambda s: -1}, "kept_cycles of npu.double of at least 0"),
    ({"opcode": 2}, "one pattern for opcode 2, found npu.store and npu.double"),
    ({"limited": "k"}, "limits of npu.double for m, n, found k"),
    ({"limit": up_to(0)}, "m of npu.double that allows a size, found up to 0"),
    ({"limit": exactly(0)}, "m of npu.double that allows a size, found exactly 0"),
    ({"limit": multiples_of(8, 7)}, "that allows a size, found up to 7 in steps of 8"),
    (
        {"banks": 2, "limit": exactly(9)},
        "tile of npu.double, found 9 rows for 9x1 and 8 there in 2",
    ),
    ({"banks": 3}, "rows of npu.near to be 3 equal banks of whole granules of 1, found 8"),
    ({"granule": 3}, "rows of npu.near to be 1 equal banks of whole granules of 3, found 8"),
    ({"rows": 0}, "rows of npu.near of at least 1, found 0"),
    ({"rows": 2.5}, "rows of npu.near to be a whole number, found 2.5"),
    ({"limit": 4}, "the limit of m of npu.double to be a limit, such as up_to(16), found 4"),
    ({"opcode": "3"}, "opcode of npu.double to be a whole number, found '3"),
    ({"cycles": 20}, "cycles of npu.double to be a function, found 20"),
    ({"more": ordered_by_a_class}, "the order to be a kind of order, such as Counted(), found"),
    ({"fifo": True, "banks": 2}, "as they came, without banks and granules, found banks=2"),
    (
        {"fifo": True},
        "one unit that writes npu.near, whose rows leave it as they came, found dma (npu.load) and "
        "core (npu.double)",
    ),
    ({"more": viewing((4,))}, "rows of npu.sums of 4 bytes, as npu.near has, found 16"),
    ({"more": viewing(again=True)}, "npu.bytes to be a view of a memory of the machine, found one"),
    (
        {"more": viewing(of=Memory("other.near", i8, (4,), 8))},
        "npu.sums to be a view of a memory of the machine, found other.near",
    ),
    ({"more": viewing(of=MAIN)}, "a view of a memory of the machine, found main memory"),
    (
        {"more": viewing(), "fifo": True},
        "a view of a memory of the machine whose rows stay in it, found one of the FIFO npu.near",
    ),
    ({"more": second}, "units with names of their own, found two called core"),
    ({"called": "my memory"}, "near_1 for the machine and memories, found 'my memory'"),
    ({"rows": -8}, "rows of npu.near of at least 1, found -8"),
    ({"row": (4.0,)}, "a side of a row of npu.near to be a whole number, found 4.0"),
    ({"fifo": "no"}, "fifo of npu.near to be True or False, found 'no'"),
    ({"limit": up_to("4")}, "the limit of m of npu.double to be a whole number, found '4'"),
    ({"limit": up_to}, "the limit of m of npu.double to be a limit, such as up_to(16), found <fu"),
    ({"strided": "x"}, "strided of npu.double to be a tuple of names, found 'x'"),
    ({"strided": ("sums",)}, "strided of npu.double among x, out, found 'sums'"),
    ({"encode": "words"}, "encode of npu.double to be a function, found 'words'"),
    ({"into": Memory("other.near", i8)}, "npu.double to name memories of the machine, found other"),
    ({"into": "near"}, "what npu.double writes to be a memory of the machine, found 'near'"),
    ({"more": issued_by_a_number}, "what issue is to be text, found 3"),
    ({"more": ordered(lambda a, b, m: "tokens")}, "the order to be a kind of order, such as Coun"),
    ({"more": ordered(lambda a, b, m: Interlocked(m))}, "memories of Interlocked to be a tuple"),
    ({"more": ordered(lambda a, b, m: Interlocked((a,)))}, "Interlocked to be a memory of the ma"),
    ({"more": ordered(lambda a, b, m: Tokens((a, b)))}, "a pair of Tokens to be a tuple, found U"),
    ({"more": ordered(lambda a, b, m: Tokens((("a", "b"),)))}, "Tokens to be a unit of the machi"),
    ({"more": ordered(lambda a, b, m: Tokens(((a, b, a),)))}, "Tokens to be two units, found 3"),
    ({"more": sharing(called="dma")}, "units and channels with names of their own, found two call"),
    ({"more": sharing(called=3)}, "the name of a channel to be text, found 3"),
    ({"more": sharing(channel="port")}, "channel of npu.other to be a channel of the machine, fou"),
    (
        {"more": sharing(channel=Channel("bus"))},
        "npu.other to name a channel of the machine, fou",
    ),
    ({"more": sharing(lead=-1)}, "a lead of npu.other of at least 0, found -1"),
    ({"more": sharing(lead=0.5)}, "the lead of npu.other to be a whole number, found 0.5"),
    ({"more": sharing(rank="low")}, "the rank of npu.other to be a whole number, found 'low'"),
    (
        {"more": sharing(lead=5)},
        "a lead of npu.other within its 4 cycles at {'rows': 1, 'lanes': 1}, found 5",
    ),
    (
        {"more": lambda machine: machine.channel("port")},
        "an instruction that moves data over port, found none",
    ),
    ({"more": padding(300)}, "the pad of npu.pad to be a number of i8, found 300"),
    ({"more": padding(0.5)}, "the pad of npu.pad to be a number of i8, found 0.5"),
    ({"more": elsewhere}, "npu.relu to begin with what lies in npu.far, which it writes, found in"),
    ({"more": reading(constant("scale"))}, "of npu.scaled to be those of memories, or wildcards, "),
    (
        {"more": ordered(lambda a, b, m: Tokens(((a, b),)))},
        "tokens that lead from unit core to unit dma, on which npu.double and then npu.load access "
        "npu.near, found none",
    ),
    (
        {"more": ruled(lambda m: m["work"].extents["y"] + m["tpo"] < m["top"])},
        "rule small of npu.pad to look up what its pattern has, found 'tpo'",
    ),
    (
        {"more": ruled(lambda m: m["x"].tpye.shape[0] < 8)},
        "rule small of npu.pad to look up what its pattern has, found 'tpye'",
    ),
]


@pytest.mark.parametrize(
    ("kind", "help"),
    [
        (lambda a, b, m: Interlocked(m), "a comma makes a tuple of one thing: Interlocked((near"),
        (lambda a, b, m: Tokens((a, b)), "a comma makes a tuple of one thing: "),
        (lambda a, b, m: Counted, "write Counted()"),
        (lambda a, b, m: Tokens, "write Tokens(…)"),
    ],
    ids=["memory", "pair", "class", "class with pairs"],
)
def test_what_was_forgotten_in_an_order_is_told(kind: Any, help: str) -> None:
    with pytest.raises(ByocirError, match="machine npu") as caught:
        check_machine(described(more=ordered(kind)))
    assert caught.value.help.startswith(help)
    assert caught.value.where.startswith(f"{__file__}:")


@pytest.mark.parametrize(("changes", "told"), MISTAKES, ids=lambda each: "")
def test_a_mistake_is_told_when_the_target_is_loaded(changes: dict[str, Any], told: str) -> None:
    machine = described(**changes)
    with pytest.raises(ByocirError, match="machine npu") as caught:
        type("Npu", (byocir.Target,), {"name": "npu", "machine": machine})
    assert caught.value.code == "B270"
    assert told in caught.value.message
    parts = r"npu\.[a-z]|unit core|channel port|\border\b|Tokens|Interlocked"
    names_a_part = re.search(parts, caught.value.message)
    assert (f"{__file__}:" in caught.value.where) == (names_a_part is not None)


def test_a_view_with_other_rows_is_told_how_many_lanes_would_do() -> None:
    machine = Machine("npu")
    near = machine.memory("near", i8, row=(64,), rows=8)
    machine.view("sums", near, i32, row=(8,))
    with pytest.raises(ByocirError) as caught:
        check_views(machine)
    assert (
        caught.value.message == "expected rows of npu.sums of 64 bytes, as npu.near has, found 32"
    )
    assert caught.value.where.startswith(f"{__file__}:")
    assert caught.value.help == "row=(16,) has as many"


def test_a_hook_of_costs_that_fails_is_told_with_its_line_and_the_sizes() -> None:
    with pytest.raises(ByocirError) as caught:
        check_machine(described(cycles=lambda s: s["k"]))
    assert caught.value.code == "B270"
    assert caught.value.message == "cycles of npu.double failed with KeyError: 'k'"
    assert caught.value.where.startswith(f"{__file__}:")
    assert caught.value.help == "it is given sizes by name: m, n, such as s['m']"


def names_its_numbers(m: Any) -> Any:
    numbers = [m[name] for name in ("top", "step", "around", "more", "least")]
    return sum(numbers[1:], numbers[0]).bit_length() >> 2 == 0


def handles_what_is_not_there(m: Any) -> Any:
    try:
        return m["bias"]
    except KeyError:
        return m.get("bias") is None and "bias" not in m


def looks_on_where_a_match_tells_more(m: Any) -> Any:
    if isinstance(m["x"].type.element, str) or m["top"] > 3 or max(m["top"], m["step"]):
        return m["bias"]
    return any(m["bias"] for n in m["x"].type.shape)


def goes_from_one_to_the_next(m: Any) -> Any:
    op = m["x"].op
    while op is not None:
        op = op.next_op
    return m["bias"]


@pytest.mark.parametrize(
    "look",
    [
        names_its_numbers,
        handles_what_is_not_there,
        looks_on_where_a_match_tells_more,
        goes_from_one_to_the_next,
    ],
)
def test_rules_are_followed_as_far_as_they_do_the_same_for_all_matches(look: Any) -> None:
    check_machine(described(more=ruled(look)))


def test_costs_may_be_numbers_of_numpy() -> None:
    check_machine(described(cycles=lambda s: np.float32(s["m"])))


def test_a_body_may_wrap_in_the_type_of_its_operands() -> None:
    check_machine(described(more=computing(lambda acc, x: acc + (x * x).to(i32))))


def test_tokens_may_lead_by_way_of_another_unit() -> None:
    def add(machine: Machine) -> None:
        third = machine.unit("third")
        dma, core, _ = machine.units
        moved: dict[str, Any] = {"cycles": lambda s: 1, "rows": up_to(4), "lanes": up_to(4)}
        machine.copy("other", MAIN, machine.memories[0], unit=third, **moved)
        machine.order(Tokens(((dma, core), (core, third), (third, dma))))

    check_machine(described(more=add))


DECLARED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: m.memory("far", i8, row=16, rows=8), "row of npu.far to be a tuple, such as (16,)"),
    (lambda m: m.memory("far", "i8", row=(4,), rows=8), "element of npu.far to be a type, such as"),
    (lambda m: m.view("sums", "near", i32, row=(1,)), "the memory of npu.sums to be a memory of"),
    (
        lambda m: m.view("sums", m.memories[0], TensorType(i32, [4]), row=(1,)),
        "element of npu.sums to be a type, such as i8, found tensor<4xi32>",
    ),
    (lambda m: m.view("sums", m.memories[0], i32, row=1), "row of npu.sums to be a tuple, such as"),
    (lambda m: m.instruction(m.units[0], cycles=abs)(3), "a function that gives the pattern, foun"),
    (
        lambda m: m.copy("c", "main", m.memories[0], unit=m.units[0], cycles=abs, rows=1, lanes=1),
        "c to copy from a memory into one, found 'main'",
    ),
    (
        lambda m: m.copy("c", MAIN, MAIN, unit=m.units[0], cycles=abs, rows=1, lanes=1),
        "c to copy into another memory, found main memory twice",
    ),
    (lambda m: m.memories[0]["m k"], "a name for what lies in npu.near, found an index alone"),
]


@pytest.mark.parametrize(("declare", "told"), DECLARED, ids=lambda each: "")
def test_what_cannot_be_declared_is_told_at_once(declare: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(ByocirError) as caught:
        declare(described())
    assert caught.value.code == "B270"
    assert told in caught.value.message


@pytest.mark.parametrize("machine", [Machine, None, 3, "npu"], ids=str)
def test_a_machine_is_one_that_was_made(machine: object) -> None:
    with pytest.raises(ByocirError, match="machine of class Npu to be a Machine, found") as caught:
        type("Npu", (byocir.Target,), {"name": "npu", "machine": machine})
    assert caught.value.code == "B270"


def test_a_description_without_mistakes_makes_a_target() -> None:
    check_machine(described())
