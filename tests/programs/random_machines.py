"""Described machines at random, and products for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import (
    MAIN,
    Counted,
    InOrder,
    Interlocked,
    Limit,
    Machine,
    Memory,
    Tokens,
    Unit,
    exactly,
    multiples_of,
    up_to,
)
from byocir.patterns import Pattern, ScalarPattern, block, composite, number, wildcard
from byocir.patterns.target_classes import register


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


@composite("random.gemm")
def gemm() -> Pattern:
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add) @ "gemm"


@composite("random.gemm_relu")
def gemm_relu() -> Pattern:
    sums = gemm.patterns[0]
    return block("m n", sums["m n"], lambda _, x: x.max(0)) @ "relu"


@composite("random.pool")
def pool() -> Pattern:
    windows = wildcard("x", dtype=i8)["(h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(-128)
    return block("h w c | r s", windows, lambda old, x: old.max(x), init=-128) @ "pool"


@composite("random.sum_pool")
def sum_pool() -> Pattern:
    windows = wildcard("x", dtype=i8)["(h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    return block("h w c | r s", windows, lambda old, x: old + x.to(i32)) @ "pool"


@composite("random.conv")
def conv() -> Pattern:
    window = wildcard("x", dtype=i8)["(h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded("around")
    weights = wildcard("w", dtype=i8)["r s c o"]
    return block("h w o | r s c", window, weights, multiply_add) @ "conv"


@dataclass
class Drawn:
    """A machine that was drawn, with the choices that made it."""

    machine: Machine
    choices: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.choices}"

    def register(self) -> type[byocir.Target]:
        class Random(byocir.Target):
            name, machine = "random", self.machine
            products = (gemm_relu, gemm) if self.choices["stores relu"] else (gemm,)
            patterns = (*products, pool, sum_pool, conv)

        register("random", Random)
        return Random


@st.composite
def machines(draw: st.DrawFn) -> Drawn:
    """A machine at random."""
    return machine_by(lambda options: draw(st.sampled_from(options)))


def machine_by(
    pick: Callable[[Sequence[Any]], Any], given: Mapping[str, Any] | None = None
) -> Drawn:
    """A machine with one or two operand memories and one for sums, some of which may be FIFOs or
    all others views of one, each way to start sums, copies in one or two steps, and each kind of
    order; `pick` chooses among options what is not given."""
    choices: dict[str, Any] = {}

    def choose(name: str, *options: Any) -> Any:
        choices[name] = given[name] if given and name in given else pick(options)
        return choices[name]

    machine = Machine("random")
    units = [machine.unit("load", queue=choose("queue", 1, 2, 8))]
    units += [machine.unit(name) for name in choose("units", (), ("core",), ("core", "store"))]
    load, core, store = units[0], units[min(1, len(units) - 1)], units[-1]
    lanes = choose("lanes", 4, 8, 16)
    fifos = choose(
        "fifos", *[()] * 4, ("near",), ("weights",), ("shared", "out"), ("out", "near"), ("sums",)
    )

    views = choose("views", False, False, True)

    def memory(name: str, element: FixedBitwidthType, least: int) -> Memory:
        rows = choose(f"{name} rows", 4 * least, 16 * least, 256)
        if name in fifos:
            return machine.memory(name, element, row=(lanes,), rows=rows, fifo=True)
        shown = next((each for each in machine.memories if views and not each.fifo), None)
        if shown is not None:
            return machine.view(name, shown, element, row=(shown.row_bytes // element.size,))
        banks, granule = choose(f"{name} banks", 1, 2), choose(f"{name} granule", 1, 2, 4)
        parts = {"banks": banks, "granule": granule}
        parts["inside_rows"] = choose(f"inside rows of {name}", False, True)
        parts["interleaved"] = choose(f"{name} interleaved", False, True)
        return machine.memory(name, element, row=(lanes,), rows=rows, **parts)

    size = choose("size", 2, 4, 8)
    near = memory("near", i8, size)
    weights = memory("weights", i8, size) if choose("own weights", False, True) else near
    sums = memory("sums", i32, size)
    _copies(machine, choose, memory, (load, store), (near, weights, sums), size, lanes)
    _product(machine, choose, core, (near, weights, sums), size)
    _pools(machine, choose, (load, core, store), (near, sums), size, lanes)
    _order(machine, choose, (load, core, store))
    return Drawn(machine, choices)


def _copies(
    machine: Machine, choose: Any, memory: Any, units: Any, memories: Any, size: int, lanes: int
):
    (load, store), (near, weights, sums) = units, memories
    rows, wide = choose("copy rows", 1, size, 16), choose("wide", 1, 4) * lanes
    even = choose("even copies", *[()] * 4, ("rows",), ("lanes",))
    sizes = {"rows": up_to(rows), "lanes": up_to(wide)}
    sizes |= {name: multiples_of(2, max(sizes[name].most, 2)) for name in even}

    pads = choose("pads", "", "rows", "boxes", "lines")

    def copy(name: str, source: Memory, into: Memory, unit: Unit) -> None:
        if pads and source.is_main and into.element == i8:
            _padded_load(machine, pads, name, into, unit, sizes)
        else:
            machine.copy(name, source, into, unit=unit, cycles=lambda s: 4 + s["rows"], **sizes)

    if choose("two steps in", False, True):
        shared = memory("shared", i8, 2 * size)
        copy("bring", MAIN, shared, load)
        copy("near", shared, near, load)
        if weights is not near:
            copy("weights", shared, weights, load)
    else:
        copy("near", MAIN, near, load)
        if weights is not near:
            copy("weights", MAIN, weights, load)
    if choose("two steps out", False, True):
        out = memory("out", i32, size)
        copy("move", sums, out, store)
        copy("store", out, MAIN, store)
    else:
        copy("store", sums, MAIN, store)
    if choose("stores relu", False, True):
        limits = {"r": up_to(16), "c": up_to(lanes)}

        @machine.instruction(store, cycles=lambda s: 4 + s["r"], **limits)
        def store_relu() -> Pattern:
            return block("r c", sums("x")["r c"], lambda _, x: x.max(0))


def _padded_load(
    machine: Machine, pads: str, name: str, into: Memory, unit: Unit, sizes: dict[str, Limit]
) -> None:
    """Declares a load that sets what is around an image to zeros: rows of one memory, boxes, or
    lines of an image."""
    x, (rows, lanes) = wildcard("x", dtype=i8), sizes.values()
    index, names, limits = {
        "rows": ("(y - top) c", "y c", {"y": rows, "c": lanes}),
        "boxes": ("(y - top) (x - left) c", "y x c", {"y": rows, "x": rows, "c": lanes}),
        "lines": ("(y - top) (x - left)", "y x", {"y": rows, "x": Limit(lanes.most * 8)}),
    }[pads]

    def load() -> Pattern:
        return block(names, x[index].padded(0), lambda _, x: x)

    load.__name__ = name
    machine.instruction(unit, into=into, cycles=lambda s: 4 + s["y"], **limits)(load)


def _product(machine: Machine, choose: Any, core: Unit, memories: Any, size: int) -> None:
    near, weights, sums = memories
    limits: dict[str, Limit] = {
        name: choose(f"limit {name}", *[up_to(size)] * 6, exactly(size), multiples_of(2, size))
        for name in "mnk"
    }
    kept = choose("keeps", {}, {"keeps": "w", "kept_cycles": lambda s: max(s["m"] - 1, 1)})
    accesses = near("a")["m k"], weights("w")["k n"]
    added = block("m n | k", *accesses, multiply_add, init=sums("c"))
    begun = block("m n | k", *accesses, multiply_add)
    forms = choose("starts", *("flag", "own", "fill", "zeros") * 2, "only")

    def instruction(name: str, pattern: Pattern) -> None:
        def build() -> Pattern:
            return pattern

        build.__name__ = name
        cycles = {"cycles": lambda s: s["m"] + 2, **kept}
        machine.instruction(core, into=sums, **cycles, **limits)(build)

    if forms == "own":
        instruction("begin", begun)
    if forms == "fill":

        @machine.instruction(core, into=sums, cycles=lambda s: s["r"], r=up_to(size))
        def clear() -> Pattern:
            return block("r c", lambda _: 0)

    if forms == "zeros":
        machine.copy(
            "sums", MAIN, sums, unit=machine.units[0], cycles=lambda s: s["rows"],
            rows=up_to(16), lanes=up_to(64),
        )  # fmt: skip
    instruction(
        "product", begun if forms == "only" else added | begun if forms == "flag" else added
    )


def _pools(machine: Machine, choose: Any, units: Any, memories: Any, size: int, lanes: int) -> None:
    """Vectors of sums that take the greater or the total of two, or their total with a number, in
    place."""
    (load, core, store), (near, sums) = units, memories
    if not choose("pools", False, True):
        return
    sizes: dict[str, Limit] = {"r": up_to(size), "c": up_to(lanes)}
    cycles = {"cycles": lambda s: 2 + s["r"]}
    source = choose("widens", wildcard("x", dtype=i8), near("x"))
    stepping = {"strided": ("y", *choose("steps over", ("out",), ()))}

    @machine.instruction(load, into=sums, **cycles, **sizes)
    def widen() -> Pattern:
        return block("r c", source["r c"], lambda _, x: x.to(i32))

    @machine.instruction(core, into=sums, **cycles, **sizes, **stepping)
    def greatest() -> Pattern:
        return block("r c", sums("y")["(r*step) c"], lambda x, y: x.max(y), init=sums("x"))

    @machine.instruction(core, into=sums, **cycles, **sizes, **stepping)
    def total() -> Pattern:
        return block("r c", sums("y")["(r*step) c"], lambda x, y: x + y, init=sums("x"))

    @machine.instruction(store, **cycles, **sizes)
    def narrow() -> Pattern:
        return block("r c", sums("x")["r c"], lambda _, x: x.to(i8))

    if choose("adds numbers", True, False):

        @machine.instruction(core, into=sums, **cycles, **sizes)
        def plus() -> Pattern:
            return block("r c", lambda x: x + number("n"), init=sums("x"))


def _order(machine: Machine, choose: Any, units: Any) -> None:
    kind = choose("order", "in order", "counted", "tokens", "all tokens", "interlocked")
    load, core, store = units
    pairs = [(load, core), (core, load), (core, store), (store, core)]
    if kind == "all tokens":
        pairs += [(load, store), (store, load)]
    pairs = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    tokens = Tokens(tuple(pairs), choose("capacity", 256, 1, 2) if "tokens" in kind else 256)
    machine.order(
        {
            "in order": InOrder(),
            "counted": Counted(),
            "tokens": tokens,
            "all tokens": tokens,
            "interlocked": Interlocked(tuple(machine.memories)),
        }[kind]
    )


def product_module(m: int, n: int, k: int, *, relu: bool) -> ModuleOp:
    """A product of two inputs of `@main`."""
    last = f"""
      %e = tir.empty : tensor<{m}x{n}xi32>
      %z = tir.block [i: {m}, j: {n}] ins(%y[i, j] : tensor<{m}x{n}xi32>)
          outs(%e[i, j] : tensor<{m}x{n}xi32>) {{
      ^bb0(%p: i32, %q: i32):
        %c = arith.constant 0 : i32
        %0 = arith.maxsi %p, %c : i32
        tir.yield %0 : i32
      }} loc("relu")"""
    return parse_module(f"""
    func.func @main(%a: tensor<{m}x{k}xi8>, %b: tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> {{
      %zero = tir.fill 0 : i32 : tensor<{m}x{n}xi32>
      %y = tir.block [i: {m}, j: {n} | r: {k}]
          ins(%a[i, r] : tensor<{m}x{k}xi8>, %b[r, j] : tensor<{k}x{n}xi8>)
          outs(%zero[i, j] : tensor<{m}x{n}xi32>) {{
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }} loc("gemm"){last if relu else ""}
      func.return %{"z" if relu else "y"} : tensor<{m}x{n}xi32>
    }}""")


def pool_module(
    shape: Sequence[int], window: Sequence[Sequence[int]], *, summed: bool = False
) -> ModuleOp:
    """The greatest bytes in windows of an image with channels last, or the sums of these: for each
    side of a window its size, step, dilation, and the pads before and behind."""
    index, sizes = list[str](), list[int]()
    for extent, (name, inner), (size, step, by, low, high) in zip(
        shape, ("hr", "ws"), window, strict=False
    ):
        sizes.append((extent + low + high - by * (size - 1) - 1) // step + 1)
        index.append(f"{step} * {name} + {by} * {inner} - {low}")
    element, least = ("i32", 0) if summed else ("i8", -128)
    given, made = ("x".join(map(str, n)) for n in (shape, (*sizes, shape[-1])))
    given, made = f"tensor<{given}xi8>", f"tensor<{made}x{element}>"
    (h, w), c, (r, s) = sizes, shape[-1], (side[0] for side in window)
    return parse_module(f"""
    func.func @main(%x: {given}) -> {made} {{
      %first = tir.fill {least} : {element} : {made}
      %y = tir.block [h: {h}, w: {w}, c: {c} | r: {r}, s: {s}]
          ins(%x[{", ".join(index)}, c] pad {least} : i8 : {given})
          outs(%first[h, w, c] : {made}) {{
      ^bb0(%p: i8, %old: {element}):
        {"%1 = arith.extsi %p : i8 to i32" if summed else ""}
        %0 = {"arith.addi %old, %1" if summed else "arith.maxsi %old, %p"} : {element}
        tir.yield %0 : {element}
      }} loc("pool")
      func.return %y : {made}
    }}""")


def conv_module(
    shape: Sequence[int], window: Sequence[Sequence[int]], outputs: int, *, around: int = 0
) -> ModuleOp:
    """A convolution of an image with channels last, with zeros, or another number, around it: for
    each side of a window its size, step, dilation, and how many are before and behind."""
    index, sizes = list[str](), list[int]()
    for extent, (name, inner), (size, step, by, low, high) in zip(
        shape, ("hr", "ws"), window, strict=False
    ):
        sizes.append((extent + low + high - by * (size - 1) - 1) // step + 1)
        index.append(f"{step} * {name} + {by} * {inner} - {low}")
    (h, w), c, (r, s) = sizes, shape[-1], (side[0] for side in window)
    x, k = f"tensor<{'x'.join(map(str, shape))}xi8>", f"tensor<{r}x{s}x{c}x{outputs}xi8>"
    y = f"tensor<{h}x{w}x{outputs}xi32>"
    return parse_module(f"""
    func.func @main(%x: {x}, %k: {k}) -> {y} {{
      %zero = tir.fill 0 : i32 : {y}
      %y = tir.block [h: {h}, w: {w}, o: {outputs} | r: {r}, s: {s}, c: {c}]
          ins(%x[{", ".join(index)}, c] pad {around} : i8 : {x}, %k[r, s, c, o] : {k})
          outs(%zero[h, w, o] : {y}) {{
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }} loc("conv")
      func.return %y : {y}
    }}""")
