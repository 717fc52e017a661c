"""Models compiled in several threads at once are what they are one after the other.

Threads switch as often as they can, and begin together; whatever they share without care comes out
as an error, as other bytes, or as state that stays changed.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdq_models import small_net
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, Region

import byocir
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.files import replaced
from byocir.frontend.onnx.reference import quiet_on_nothing
from byocir.patterns import composite, op, wildcard
from byocir.patterns.target_classes import find_class, register


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """What tasks return that begin together, each in a thread; raises the first error."""
    begin, made = threading.Barrier(len(tasks)), [None] * len(tasks)
    errors: list[BaseException] = []

    def run(index: int) -> None:
        begin.wait()
        try:
            made[index] = tasks[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return made


def test_compiling_for_several_targets_at_once(tmp_path: Path):
    model = small_net().SerializeToString()
    shape = tuple(d.dim_value for d in small_net().graph.input[0].type.tensor_type.shape.dim)
    x = np.random.default_rng(0).random(shape, np.float32)
    ways = [("vta", "reference"), ("", "c"), ("json", "reference")]

    def task(index: int) -> Callable[[], tuple[bytes, list[bytes]]]:
        target, host = ways[index % len(ways)]

        def run() -> tuple[bytes, list[bytes]]:
            targets = [target] if target else []
            package = byocir.compile(model, targets=targets, host=host)
            path = tmp_path / f"{threading.get_ident()}.bpkg"
            package.save(path)
            return path.read_bytes(), [y.tobytes() for y in package.run({"x": x}).values()]

        return run

    expected = [task(index)() for index in range(len(ways))]
    made = at_once(*map(task, range(len(ways))))
    assert made == expected


def test_ops_go_to_the_blocks_of_their_threads():
    """One waits in the middle of a body until the other is done with its own."""
    waiting, done = threading.Event(), threading.Event()

    def slow(x: Emitted, acc: Emitted) -> Emitted:
        waiting.set()
        done.wait()
        return acc + x.exp()

    def quick() -> Region:
        waiting.wait()
        try:
            return emit_body([f32, f32], lambda x, acc: acc + x)
        finally:
            done.set()

    regions = at_once(lambda: emit_body([f32, f32], slow), quick)
    assert [[op.name for op in region.block.ops] for region in regions] == [
        ["math.exp", "arith.addf", "tir.yield"],
        ["arith.addf", "tir.yield"],
    ]
    assert Operation.__post_init__.__module__ == "xdsl.ir.core"


def test_classes_of_one_name_belong_to_their_threads():
    """As in tests of two versions of a target."""

    def target(kind: str) -> type[byocir.Target]:
        @composite("one")
        def one():
            return op(kind, wildcard("x"))

        @dataclass(frozen=True)
        class Own(byocir.Target):
            name, patterns = "of_a_thread", (one,)

        return Own

    kinds = [target("graph.relu"), target("graph.neg")]

    def run(kind: type[byocir.Target]) -> set[type]:
        found: set[type] = set()
        for _ in range(200):
            register("of_a_thread", kind)
            found.add(find_class("of_a_thread"))
        return found

    first, second = kinds
    assert at_once(lambda: run(first), lambda: run(second)) == [{first}, {second}]
    assert at_once(lambda: find_class("of_a_thread"))[0] in kinds


def test_the_collector_is_as_it_was():
    """Whoever leaves first."""
    inside, out = threading.Event(), threading.Event()

    def first() -> None:
        with gc_paused():
            inside.set()
            out.wait()

    def second() -> None:
        inside.wait()
        with gc_paused():
            out.set()
            other.join()
            assert not gc.isenabled()

    assert gc.isenabled()
    other = threading.Thread(target=first)
    other.start()
    second()
    assert gc.isenabled()


def test_filters_of_warnings_are_as_they_were():
    """The second begins while the first is at work, and ends after it."""
    nothing = {"x": np.zeros((0, 3), np.float32)}
    inside, out = threading.Event(), threading.Event()

    def second() -> None:
        with quiet_on_nothing(nothing):
            inside.set()
            out.wait()

    before = list(warnings.filters)
    other = threading.Thread(target=second)
    with quiet_on_nothing(nothing):
        other.start()
        inside.wait(0.1)
    out.set()
    other.join()
    assert warnings.filters == before


def test_files_are_written_by_one_thread_each(tmp_path: Path):
    """To one place: it is whole, be it of one or of the other."""
    path = tmp_path / "out"
    path.write_bytes(b"")
    whole = {bytes([n]) * 2**16 for n in range(4)}

    def write(data: bytes) -> None:
        for _ in range(20):
            with replaced(path) as file:
                for begin in range(0, len(data), 2**12):
                    file.write(data[begin : begin + 2**12])
            assert path.read_bytes() in whole

    at_once(*(lambda data=data: write(data) for data in sorted(whole)))
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
