"""Machines at random whose instructions do convolutions and pools over lines of images: windows in
one call, steps between them, and rows of a memory that may hold several pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from random_machines import Drawn, multiply_add

from byocir.dialects.types import i8, i32
from byocir.machine import (
    MAIN,
    Counted,
    InOrder,
    Interlocked,
    Limit,
    Machine,
    Memory,
    Unit,
    exactly,
    multiples_of,
    up_to,
)
from byocir.patterns import Match, Pattern, block, wildcard

Choose = Callable[..., Any]


@st.composite
def window_engines(draw: st.DrawFn) -> Drawn:
    """A machine at random."""
    return engine_by(lambda options: draw(st.sampled_from(options)))


def engine_by(
    pick: Callable[[Sequence[Any]], Any], given: Mapping[str, Any] | None = None
) -> Drawn:
    """A machine that convolves and pools; `pick` chooses among options what is not given."""
    choices: dict[str, Any] = {"stores relu": False}

    def choose(name: str, *options: Any) -> Any:
        choices[name] = given[name] if given and name in given else pick(options)
        return choices[name]

    machine = Machine("random")
    units = [machine.unit("load", queue=choose("queue", 1, 4))]
    units += [machine.unit(name) for name in choose("units", (), ("core",), ("core", "store"))]
    load, core, store = units[0], units[min(1, len(units) - 1)], units[-1]
    lanes, pixels = choose("lanes", 4, 8), choose("pixels", 1, 1, 2, 4)

    def memory(name: str, element: Any, row: tuple[int, ...]) -> Memory:
        parts: dict[str, Any] = {"banks": choose(f"{name} banks", 1, 2)}
        parts["granule"] = choose(f"{name} granule", 1, 1, 4)
        parts["interleaved"] = choose(f"{name} interleaved", False, True)
        parts["inside_rows"] = choose(f"inside rows of {name}", False, False, True)
        rows = choose(f"{name} rows", 64, 256, 1024)
        return machine.memory(name, element, row=row, rows=rows, **parts)

    row = (pixels, lanes) if pixels > 1 else (lanes,)
    image, sums = memory("image", i8, row), memory("sums", i32, row)
    blocks = choose("blocks of weights", False, True)
    weights = memory("weights", i8, (lanes, lanes) if blocks else (lanes,))
    limits = choose("limits", {}, {"x": exactly(2)}, {"x": multiples_of(2, 8), "n": up_to(lanes)})
    limits = {"y": up_to(choose("lines", 1, 4)), "x": up_to(16), **limits}
    _moves(machine, choose, (load, store), (image, weights, sums))
    _convolution(machine, choose, core, (image, weights, sums), limits)
    _pools(machine, choose, (core, store), (image, sums), limits)
    orders = {"counted": Counted(), "in order": InOrder()}
    orders["interlocked"] = Interlocked(tuple(machine.memories))
    machine.order(orders[choose("order", *orders)])
    return Drawn(machine, choices)


def _moves(machine: Machine, choose: Choose, units: Any, memories: Any) -> None:
    (load, store), (image, weights, sums) = units, memories
    x, cost = wildcard("x", dtype=i8), {"cycles": lambda s: 4 + s["y"]}
    lines: dict[str, Limit] = {"y": up_to(choose("loaded lines", 1, 8)), "x": up_to(32)}
    pads = choose("pads", None, 0, "around")
    runs: dict[str, Any] = {"rows": up_to(16), "lanes": up_to(64), "cycles": lambda s: s["rows"]}

    @machine.instruction(load, into=image, **lines, **cost)
    def load_image() -> Pattern:
        read = x["y x c"] if pads is None else x["(y - top) (x - left) c"].padded(pads)
        return block("y x c", read, lambda _, x: x)

    if len(weights.row) > 1:

        @machine.instruction(load, into=weights, cycles=lambda s: s["k"])
        def load_weights() -> Pattern:
            return block("rows k n", x["rows k n"], lambda _, x: x)
    else:
        machine.copy("load_weights", MAIN, weights, unit=load, **runs)
    if choose("copies sums", False, True):
        machine.copy("store", sums, MAIN, unit=store, **runs)
    else:

        @machine.instruction(store, **lines, **cost)
        def store() -> Pattern:
            return block("y x c", sums("x")["y x c"], lambda _, x: x)


def _strided(choose: Choose, name: str, *operands: str) -> dict[str, Any]:
    return {"strided": choose(f"{name} strided", operands, operands[:1], (), operands)}


def _steps(choose: Choose, instruction: Any) -> None:
    most = choose("most step", 3, 3, 2, 1)

    @instruction.rule
    def steps_fit_their_fields(m: Match) -> tuple[bool, object]:
        """Steps fit their fields."""
        found = m.get("sh", 1), m.get("sw", 1)
        return max(found) <= most, found


def _convolution(
    machine: Machine, choose: Choose, core: Unit, memories: Any, limits: Mapping[str, Limit]
) -> None:
    image, weights, sums = memories
    windows = {"r": up_to(choose("r", 3, 2)), "s": up_to(choose("s", 3, 1))}
    starts = choose("starts", "flag", "only", "fill", "flag")
    a, w = image("a")["(y*sh + r*dh) (x*sw + s*dw) k"], weights("w")["r s k n"]
    begun = block("y x n | r s k", a, w, multiply_add)
    added = block("y x n | r s k", a, w, multiply_add, init=sums("c"))
    strided = _strided(choose, "convolution", "a", "w", "out")

    @machine.instruction(core, into=sums, **limits, **windows, **strided, cycles=lambda s: s["y"])
    def convolve() -> Pattern:
        return {"flag": added | begun, "only": begun, "fill": added}[starts]

    _steps(choose, convolve)
    if starts == "fill":

        @machine.instruction(core, into=sums, y=up_to(4), cycles=lambda s: s["y"])
        def clear() -> Pattern:
            return block("y x c", lambda _: 0)


def _pools(
    machine: Machine, choose: Choose, units: Any, memories: Any, limits: Mapping[str, Limit]
) -> None:
    (core, store), (image, sums) = units, memories
    limits = {name: limits[name] for name in "yx"} | {"r": up_to(3), "s": up_to(3)}
    windows = image("a")["(y*sh + r*dh) (x*sw + s*dw) c"]
    strided = _strided(choose, "pool", "a", "out")

    @machine.instruction(core, into=sums, **limits, **strided, cycles=lambda s: s["y"])
    def total() -> Pattern:
        return block("y x c | r s", windows, lambda old, x: old + x.to(i32))

    _steps(choose, total)
    home = choose("greatest in", MAIN, image)
    strided = strided if home == image else {"strided": strided["strided"][:1]}

    @machine.instruction(core, into=home, **limits, **strided, cycles=lambda s: s["y"])
    def greatest() -> Pattern:
        return block("y x c | r s", windows, lambda old, x: old.max(x), init=-128)

    _steps(choose, greatest)

    @machine.instruction(store, y=up_to(4), cycles=lambda s: s["y"])
    def store_bytes() -> Pattern:
        return block("y x c", image("x")["y x c"], lambda _, x: x)
