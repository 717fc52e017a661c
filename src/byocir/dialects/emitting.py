"""Keeps the place where ops are emitted, one for each thread.

xDSL's `ImplicitBuilder` inserts all ops that are made, by replacing a method of `Operation` for a
while. As it does so for the whole process, ops of other threads are inserted twice. Here an op is
inserted only by `emit`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from xdsl.ir import Block, Operation

_Op = TypeVar("_Op", bound=Operation)


class _Place(threading.local):
    block: Block | None = None


_place = _Place()


@contextmanager
def emitting_to(block: Block) -> Generator[Block]:
    """Makes `emit` append to a block, in this thread and until the end of the `with`."""
    before, _place.block = _place.block, block
    try:
        yield block
    finally:
        _place.block = before


def emit(op: _Op) -> _Op:
    """Appends an op to the block of the innermost `emitting_to`."""
    assert _place.block is not None, "expected `with emitting_to(block)` around `emit`"
    _place.block.add_op(op)
    return op
