"""Instructions of two blocks: one call makes whole sums and goes on with them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from narrowing_engine import added as clamped_sum
from narrowing_engine import (
    layer,
    layer_text,
    multiply_add,
    narrowed,
    net,
    strided_layer,
    sum_text,
    total,
)
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i16, i32
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import (
    MAIN,
    Call,
    Counted,
    InOrder,
    Interlocked,
    Machine,
    Tokens,
    Unit,
    exactly,
    multiples_of,
    up_to,
)
from byocir.machine.checks import check_machine
from byocir.patterns import (
    Composite,
    Pattern,
    ScalarPattern,
    block,
    composite,
    constant,
    wildcard,
)

ORDERS = ("in order", "interlocked", "tokens", "counted")


def told(call: Call) -> list[Any]:
    """What an encoder is told of a call: its sizes, where operands begin, and in which memories."""
    places = [[name, at.memory.called, at.address] for name, at in call.places.items()]
    sizes, numbers = ([list(each) for each in told.items()] for told in (call.sizes, call.numbers))
    return [call.instruction.name, sizes, places, numbers, str(call.start)]


def described(
    *,
    order: str = "counted",
    lanes: int = 8,
    rows: int = 256,
    most: int = 16,
    step: int = 1,
    keeps: bool = False,
    windows: bool = False,
    in_columns: bool = False,
    fifo: bool = False,
    wide: bool = False,
) -> Machine:
    """An engine whose core multiplies, sums up and narrows in one go, into the memory of images. It
    takes rows of an image or, with `windows`, boxes of it and all of its window. Weights may come
    in by a `fifo`, and sums of images may have a `wide` block of their own."""
    engine = Machine("narrowing", in_columns=in_columns)
    dma, core = engine.unit("dma", queue=8), engine.unit("core", queue=2)
    near = engine.memory("near", i8, row=(lanes,), rows=rows, interleaved=windows)
    factors = engine.memory("factors", i8, row=(lanes,), rows=rows, fifo=fifo)
    pairs = ((dma, core), (core, dma))
    kinds = (InOrder(), Interlocked((near, factors)), Tokens(pairs), Counted())
    engine.order(dict(zip(ORDERS, kinds, strict=True))[order])
    moved = {"rows": up_to(16), "lanes": up_to(64), "cycles": lambda s: 20 + s["rows"]}
    moved["encode"] = told
    for memory in (near, factors):
        engine.copy(f"load_{memory.called.split('.')[1]}", MAIN, memory, unit=dma, **moved)
    engine.copy("store", near, MAIN, unit=dma, **moved)
    kept = {"keeps": "w", "kept_cycles": lambda s: 2} if keeps else {}
    sizes = {"n": multiples_of(step, 16), "k": up_to(256)}
    sizes |= {"y": up_to(4), "x": up_to(most)} if windows else {"m": up_to(most)}

    def product() -> Pattern:
        sums = block("m n | k", near("a")["m k"], factors("w")["k n"], multiply_add)
        return block("m n", sums["m n"], narrowed)

    def convolution() -> Pattern:
        a, w = near("a")["(y*sh + r) (x*sw + s) k"], factors("w")["r s k n"]
        sums = block("y x n | r s k", a, w, multiply_add)
        return block("y x n", sums["y x n"], narrowed)

    engine.instruction(
        core,
        into=near,
        inside=i32,
        strided=("a", "w", "out"),
        encode=told,
        cycles=lambda s: 4 + s["n"],
        **sizes,
        **kept,
    )(convolution if windows else product)

    def add() -> Pattern:
        return block("r c", near("x")["r c"], near("y")["r c"], clamped_sum)

    def add_wide() -> Pattern:
        x, y = near("x")["r c"], near("y")["r c"]
        sums = block("r c", x, y, lambda _, x, y: x.to(i32) + y.to(i32))
        return block("r c", sums["r c"], lambda _, x: x.clamp(-128, 127).to(i8))

    box = {"r": up_to(16), "c": up_to(16), "cycles": lambda s: 4 + s["r"]}
    inside = i32 if wide else None
    engine.instruction(core, into=near, inside=inside, **box)(add_wide if wide else add)
    return engine


def compiled(machine: Machine, module: ModuleOp, *taken: Composite) -> byocir.Package:
    engine = machine

    class Engine(byocir.Target):
        name, patterns = "narrowing", taken or (layer, total)
        machine = engine

    return byocir.compile(module.clone(), targets=[Engine()], levels=("tensor",))


def code_of(package: byocir.Package) -> list[Any]:
    (files,) = package.blobs.values()
    return json.loads(next(blob for name, blob in files.items() if name.endswith(".json")))


def computes(machine: Machine, module: ModuleOp, *taken: Composite) -> bool:
    """Tells if the machine took a module, and expects the evaluator's integers."""
    package = compiled(machine, module, *taken)
    feeds = random_feeds(module)
    found = package.run(feeds, check=True)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found[name], expected)
    decisions = package.report.decisions
    assert all(each.taken or each.reason for each in decisions)
    return all(each.taken for each in decisions)


MACHINES = st.fixed_dictionaries(
    {
        "order": st.sampled_from(ORDERS),
        "lanes": st.sampled_from([4, 8, 16]),
        "rows": st.sampled_from([64, 256, 1024]),
        "most": st.sampled_from([1, 3, 16]),
        "step": st.sampled_from([1, 4]),
        "keeps": st.booleans(),
        "windows": st.booleans(),
    }
)


@settings(max_examples=6 if settings.default.max_examples < 100 else 300, deadline=None)
@given(MACHINES, st.integers(1, 9), st.integers(1, 20), st.sampled_from([1, 3]), st.integers(1, 2))
@example({"windows": True}, 9, 16, 3, 2)
@example({"windows": True, "rows": 64}, 9, 20, 1, 1)
@example({"keeps": True, "order": "tokens", "most": 3}, 5, 20, 1, 1)
def test_layers_are_computed_or_refused_with_a_reason(
    drawn: dict[str, Any], side: int, channels: int, window: int, stride: int
) -> None:
    taken = computes(described(**drawn), strided_layer(side, channels, window, stride))
    event("taken" if taken else "refused")


@pytest.mark.parametrize("order", ORDERS)
def test_nets_run_whole_in_each_kind_of_order(order: str) -> None:
    module = net(6, 16, [(0, 3), (1, 1), (0, 1, 2)])
    assert computes(described(order=order, windows=True), module)


def test_first_blocks_need_no_sums() -> None:
    """Where an array stays on the chip, both blocks of an instruction are selected anew."""
    assert computes(described(windows=True, wide=True), net(4, 8, [(0, 1), (0, 0, 1)]))


def test_first_blocks_may_read_a_fifo() -> None:
    assert computes(described(windows=True, fifo=True), strided_layer(4, 8, 1, 1))


def test_a_call_is_told_what_both_blocks_do() -> None:
    """Sums stay inside: no call reads or writes them, and each has all sums of its points."""
    package = compiled(described(windows=True, most=4), strided_layer(6, 16, 3, 1))
    calls = [each for each in code_of(package) if each[0] == "narrowing.convolution"]
    assert {tuple(size for _, size in each[1]) for each in calls} == {
        (y, x, 8, 3, 3, 16) for y in (4, 2) for x in (4, 2)
    }
    for _, sizes, places, numbers, start in calls:
        assert [name for name, _ in sizes] == ["y", "x", "n", "r", "s", "k"]
        near, factors = "narrowing.near", "narrowing.factors"
        assert [each[:2] for each in places] == [["a", near], ["w", factors], ["out", near]]
        assert (numbers, start) == ([["sh", 1], ["sw", 1]], "0 : i32")


def test_calls_may_be_told_in_columns() -> None:
    """Hooks that are asked once about many calls say the same of both blocks."""
    module = strided_layer(9, 16, 3, 1)
    one, other = (
        code_of(compiled(described(windows=True, most=2, in_columns=columns), module))
        for columns in (False, True)
    )
    assert one == other


def test_multiplications_of_both_blocks_are_counted() -> None:
    package = compiled(described(windows=True), strided_layer(6, 16, 3, 1))
    (profile,) = package.profile()
    assert profile.details["padded_macs"] == 6 * 6 * 16 * 9 * 16


def narrowed_less(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return (x >> 3).clamp(-128, 127).to(i8)


@composite("narrowing.twice")
def narrowed_twice() -> Pattern:
    """A convolution whose sums are narrowed in two ways, which are added."""
    x = wildcard("x", dtype=i8)["n (h*sh + r - ph) (w*sw + s - pw) c"].padded(0)
    y = block("n h w o | r s c", x, wildcard("w", dtype=i8)["r s c o"], multiply_add)["n h w o"]
    one, other = (block("n h w o", y, each)["n h w o"] for each in (narrowed, narrowed_less))
    return block("n h w o", one, other, clamped_sum)


def test_sums_that_two_blocks_read_are_refused() -> None:
    """They are inside of a unit for as long as a call takes."""
    machine = described()
    core, near, factors = machine.units[1], *machine.memories[:2]

    @machine.instruction(core, into=near, inside=i32, cycles=lambda s: 1, m=up_to(16), n=up_to(16))
    def either() -> Pattern:
        sums = block("m n | k", near("a")["m k"], factors("w")["k n"], multiply_add)["m n"]
        return block("m n", sums, narrowed) | block("m n", sums, narrowed_less)

    class Engine(byocir.Target):
        name, patterns = "narrowing", (narrowed_twice,)

    Engine.machine = machine
    first = layer_text(0, "%x", 2, 8, 1)
    other = first[first.index("%e0 =") :].replace("constant 4", "constant 3")
    other = other.replace("%e0", "%e1").replace("%y0", "%y1")
    image = "tensor<1x2x2x8xi8>"
    module = parse_module(f"""func.func @main(%x: {image}, %w0: tensor<1x1x8x8xi8>) -> {image} {{
      {first} {other} {sum_text(2, "%y0", "%y1", 2, 8)}
      func.return %y2 : {image}
    }}""")
    package = byocir.compile(module, targets=[Engine()], levels=("tensor",))
    told = "either_first: expected one block that goes on with its result, found 2"
    assert [told in each.reason for each in package.report.decisions] == [True]


def test_sums_that_one_call_does_not_make_are_refused() -> None:
    """A call begins its sums: it cannot go on with those of another."""
    module = strided_layer(4, 20, 3, 1)
    for windows in (True, False):
        (decision,) = compiled(described(windows=windows), module).report.decisions
        assert decision.taken == windows
        assert windows or "product_first" in decision.reason


def mistaken(pattern: Callable[[Machine], Callable[[], Pattern]], **given: Any) -> str:
    """The message about an instruction that is wrong."""
    machine = Machine("wrong")
    core = machine.unit("core")
    near = machine.memory("near", i8, row=(8,), rows=64)
    moved = {"rows": up_to(8), "lanes": up_to(8), "cycles": lambda s: 1, "unit": core}
    machine.copy("load", MAIN, near, **moved)
    machine.copy("store", near, MAIN, **moved)
    function = pattern(machine)
    function.__name__ = "work"
    limits = {"m": exactly(8), **given}
    with pytest.raises(ByocirError) as raised:
        _declared(machine, core, limits, function)
    assert raised.value.code == "B270"
    return f"{raised.value.message} {raised.value.help}"


def _declared(
    machine: Machine, core: Unit, given: Mapping[str, Any], function: Callable[[], Pattern]
) -> None:
    machine.instruction(core, into=machine.memories[0], cycles=lambda s: 1, **given)(function)
    check_machine(machine)


def rectified(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return x.max(0)


def _sums(machine: Machine) -> Pattern:
    near = machine.memories[0]
    return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add)


def test_mistakes_are_told_when_the_target_is_loaded() -> None:
    def moved(index: str) -> Callable[[Machine], Callable[[], Pattern]]:
        return lambda machine: lambda: block("m n", _sums(machine)[index], narrowed)

    assert mistaken(moved("n m"), inside=i32) == (
        "expected wrong.work to go on with what a block makes, at the same index, found "
        "results at m n, then n m "
    )
    assert "found blocks that read the results of several others" in mistaken(
        lambda machine: (
            lambda: block("m n", _sums(machine)["m n"], _sums(machine)["m n"], clamped_sum)
        ),
        inside=i32,
    )
    assert "found one block" in mistaken(lambda machine: lambda: _sums(machine), inside=i32)
    assert "inside=i32" in mistaken(moved("m n"))
    assert "two at most" in mistaken(
        lambda machine: (
            lambda: block("m n", block("m n", _sums(machine)["m n"], rectified)["m n"], narrowed)
        ),
        inside=i32,
    )
    assert "acc of i16 in wrong.work_first" in mistaken(moved("m n"), inside=i16)
    assert "element of wrong.work_first" in mistaken(moved("m n"), inside="i32")
    assert "strided of wrong.work among a, w, out, found 'b'" in mistaken(
        moved("m n"), inside=i32, strided=("a", "b", "out")
    )
    assert "limits of wrong.work for k, m, n, found kk" in mistaken(
        moved("m n"), inside=i32, kk=exactly(8)
    )


@pytest.mark.parametrize("name", ["a", "first"])
def test_a_call_has_each_name_once(name: str) -> None:
    """Places of operands are told by name: those of both blocks together."""

    def added(machine: Machine) -> Callable[[], Pattern]:
        image = machine.memories[0](name)["m n"]
        return lambda: block(
            "m n", _sums(machine)["m n"], image, lambda _, x, y: (x + y.to(i32)).to(i8)
        )

    assert f"found {name} in both" in mistaken(added, inside=i32)


def scaling(most: int, *, windows: bool) -> Machine:
    """An engine whose core multiplies its sums by a factor of each channel before it narrows them.
    It takes rows of an image or, with `windows`, boxes of it."""
    engine = Machine("scaling")
    dma, core = engine.unit("dma"), engine.unit("core")
    near = engine.memory("near", i8, row=(4,), rows=1024)
    weights = engine.memory("weights", i8, row=(4,), rows=256)
    scales = engine.memory("scales", i32, row=(4,), rows=64)
    for memory in (near, weights, scales):
        moved = {"rows": up_to(16), "lanes": up_to(64), "cycles": lambda s: 20 + s["rows"]}
        engine.copy(f"load_{memory.called.split('.')[1]}", MAIN, memory, unit=dma, **moved)
    engine.copy("store", near, MAIN, unit=dma, **moved)
    index = "y x n" if windows else "m n"
    sizes = {"n": up_to(4), **{name: up_to(most) for name in index.split()[:-1]}}

    @engine.instruction(
        core, into=near, inside=i32, strided=("a", "w", "out"), cycles=lambda s: 4, **sizes
    )
    def product() -> Pattern:
        pixels, w = near("a")[index.replace("n", "k")], weights("w")["k n"]
        sums = block(f"{index} | k", pixels, w, multiply_add)
        return block(index, sums[index], scales("f")["n"], scaled)

    return engine


def scaled(_: ScalarPattern, x: ScalarPattern, f: ScalarPattern) -> ScalarPattern:
    return ((x * f) >> 4).clamp(-128, 127).to(i8)


@composite("narrowing.scaled")
def scaled_layer() -> Pattern:
    x, w = wildcard("x", dtype=i8)["n h w c"], wildcard("w", dtype=i8)["c o"]
    y = block("n h w o | c", x, w, multiply_add)
    return block("*i *o", y["*i *o"], constant("factor")["~o"], scaled)


def scaled_text(shape: Sequence[int], dims: int) -> str:
    """A product of pixels with weights, and a factor for each point of the last few dimensions."""
    n, h, w, o = shape
    side, names = f"{n}x{h}x{w}", ", ".join("nhwo"[4 - dims :])
    row = "x".join(map(str, shape[4 - dims :]))
    factors = [*range(math.prod(shape[4 - dims :]))]
    given = f"%x: tensor<{side}x5xi8>, %w: tensor<5x{o}xi8>"
    return f"""func.func @main({given}) -> tensor<{side}x{o}xi8> {{
      %z = tir.fill 0 : i32 : tensor<{side}x{o}xi32>
      %s = tir.block [n: {n}, h: {h}, w: {w}, o: {o} | c: 5]
          ins(%x[n, h, w, c] : tensor<{side}x5xi8>, %w[c, o] : tensor<5x{o}xi8>)
          outs(%z[n, h, w, o] : tensor<{side}x{o}xi32>) {{
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }}
      %f = tir.constant <{factors} : tensor<{row}xi32>> : tensor<{row}xi32>
      %e = tir.empty : tensor<{side}x{o}xi8>
      %y = tir.block [n: {n}, h: {h}, w: {w}, o: {o}]
          ins(%s[n, h, w, o] : tensor<{side}x{o}xi32>, %f[{names}] : tensor<{row}xi32>)
          outs(%e[n, h, w, o] : tensor<{side}x{o}xi8>) {{
      ^bb0(%p: i32, %q: i32, %old: i8):
        %four = arith.constant 4 : i32
        %low = arith.constant -128 : i32
        %high = arith.constant 127 : i32
        %0 = arith.muli %p, %q : i32
        %1 = arith.shrsi %0, %four : i32
        %2 = arith.maxsi %1, %low : i32
        %3 = arith.minsi %2, %high : i32
        %4 = arith.trunci %3 : i32 to i8
        tir.yield %4 : i8
      }}
      func.return %y : tensor<{side}x{o}xi8>
    }}"""


SHAPE = st.tuples(*(st.integers(1, 5) for _ in range(3)), st.integers(1, 9))


@settings(max_examples=8 if settings.default.max_examples < 100 else 300, deadline=None)
@given(st.sampled_from([1, 4]), st.booleans(), SHAPE, st.integers(1, 4))
@example(4, True, (1, 4, 3, 2), 2)
def test_what_follows_sums_is_done_in_their_calls_or_refused(
    most: int, windows: bool, shape: tuple[int, int, int, int], dims: int
) -> None:
    """A row over two dimensions of a result may be one for a block alone, but not in the calls that
    make its sums."""
    machine = scaling(most, windows=windows)
    module = parse_module(scaled_text(shape, dims))
    taken = computes(machine, module, scaled_layer)
    event(f"{dims} {'taken' if taken else 'refused'}")
    assert taken or dims > 1


def ruled(rule: Callable[[Any], bool]) -> Machine:
    """The engine with a rule for the instruction that convolves."""
    engine = described(windows=True)

    def small(m: Any) -> tuple[bool, str]:
        """Steps are small."""
        return rule(m), "others"

    next(each for each in engine.instructions if each.first is not None).rule(small)
    return engine


def test_a_rule_is_asked_about_the_block_whose_names_it_looks_up() -> None:
    narrow = strided_layer(6, 16, 3, 1)
    assert computes(ruled(lambda m: m["sh"] == 1), narrow)
    (refused,) = compiled(ruled(lambda m: m["sh"] > 1), narrow).report.decisions
    assert "convolution_first: Steps are small, found others" in refused.reason


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (lambda m: m["stride"] == 1, "what its pattern has, found 'stride'"),
        (
            lambda m: m["sh"] + m["first"] == 1,
            "what its pattern has of one block, found 'sh' and 'first', which are of both",
        ),
    ],
    ids=["neither", "both"],
)
def test_a_rule_looks_up_names_of_one_block(rule: Callable[[Any], bool], found: str) -> None:
    with pytest.raises(ByocirError) as caught:
        check_machine(ruled(rule))
    assert caught.value.message == (
        f"expected rule small of narrowing.convolution to look up {found}"
    )


def test_the_memory_inside_is_none_of_the_machine() -> None:
    machine = described()

    class Engine(byocir.Target):
        name, patterns = "narrowing", (layer,)

    Engine.machine = machine
    assert Engine().resources()["memory_bits"] == 2 * 256 * 8 * 8
