"""Defines `Schedule`: the blocks and loops of a function, and all that can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from byocir.arguments import check, instance_of
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp, ForOp
from byocir.errors import did_you_mean
from byocir.patterns import Composite
from byocir.rewrites.schedule import kinds
from byocir.rewrites.schedule.access import loops_of
from byocir.rewrites.schedule.cache_write import cache_write
from byocir.rewrites.schedule.compute_at import compute_at
from byocir.rewrites.schedule.fuse import fuse
from byocir.rewrites.schedule.iterations import iterations
from byocir.rewrites.schedule.pack import pack
from byocir.rewrites.schedule.reorder import reorder
from byocir.rewrites.schedule.requests import refused
from byocir.rewrites.schedule.split import split
from byocir.rewrites.schedule.stage import stage
from byocir.rewrites.schedule.tensorise import Emit, tensorise
from byocir.rewrites.schedule.tile import Remainder, tile

PRIMITIVES: dict[str, tuple[type, ...]] = {
    "block": (str,),
    "blocks": (str,),
    "loops": (BlockOp,),
    "tile": (BlockOp,),
    "stage": (BlockOp, int, str),
    "compute_at": (BlockOp, ForOp),
    "cache_write": (BlockOp,),
    "pack": (BlockOp, int, dict),
    "tensorise": (BlockOp, Composite),
    "split": (ForOp, int),
    "reorder": (),
    "fuse": (ForOp, ForOp),
    "iterations": (ForOp,),
    "unroll": (ForOp,),
    "vectorise": (ForOp,),
    "parallel": (ForOp,),
    "vthread": (ForOp,),
}
"""The methods of `Schedule`, which scripts can call, and what they take; `reorder` takes loops."""

OPTIONS: dict[str, type] = {"at": ForOp, "guard": bool, "remainder": str, "strided": bool}
"""The types of options by name; other names are iterators, with sizes."""

WORDS: dict[type, str] = {
    str: "a name",
    int: "a number",
    bool: "True or False",
    dict: "a table of sizes",
    BlockOp: "a block",
    ForOp: "a loop",
    Composite: "a pattern",
}
"""The words for kinds of arguments in messages."""

_CHECKED: dict[type, tuple[type, ...]] = {
    str: (str,),
    int: (int, np.integer),
    bool: (bool,),
    dict: (Mapping,),
    Composite: (Composite,),
}
"""The kinds that are checked for all primitives alike, with their types in Python."""

P = ParamSpec("P")
R = TypeVar("R")


def _checked(primitive: Callable[P, R]) -> Callable[P, R]:
    """Checks the numbers, words and options that a primitive is given before it begins: raises
    ByocirError B142. Blocks and loops it checks itself, as they may be there no more.
    """
    _, *names = signature(primitive).parameters
    kinds = {**OPTIONS, **dict(zip(names, PRIMITIVES[primitive.__name__], strict=False))}

    @wraps(primitive)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        given = {**dict(zip(names, arguments[1:], strict=False)), **options}
        for name, value in given.items():
            kind = kinds.get(name, int)  # sizes have the names of iterators
            if kind in _CHECKED and (name in kinds or name not in names):
                check(**{name: (value, instance_of(WORDS[kind], *_CHECKED[kind]))})
        return primitive(*arguments, **options)

    return call


class Schedule:
    """Schedules a function or composite in buffer form.

    A block is named by the node it comes from, its location. All methods raise ByocirError B251 for
    a block or loop that is no longer there.
    """

    def __init__(self, root: Operation, scopes: Sequence[str] = ()) -> None:
        self.root = root
        self.scopes = scopes
        """The memories beside main memory in which buffers may be staged; if none is named, all."""

    def blocks(self, name: str | None = None) -> list[BlockOp]:
        """Lists the blocks of a node, in order; without a name all of them."""
        found = [op for op in self.root.walk() if isinstance(op, BlockOp)]
        return [op for op in found if name is None or name in names(op.location)]

    def block(self, name: str, others: Collection[str] = ()) -> BlockOp:
        """Gives the only block of a node. Raises ByocirError B250 where it has none or several; the
        help lists `others`, too, by which the caller knows blocks.
        """
        found = self.blocks(name)
        if len(found) == 1:
            return found[0]
        known = sorted({*others, *(n for op in self.blocks() for n in names(op.location))})
        raise refused(
            "B250",
            f"expected one block named '{name}', found {len(found) or 'none'}",
            help=_help(name, known, several=bool(found)),
        )

    def loops(self, block: BlockOp) -> list[ForOp]:
        """Lists the loops around a block, outermost first."""
        return loops_of(block)

    @_checked
    def tile(self, block: BlockOp, *, remainder: Remainder = "refuse", **sizes: int) -> list[ForOp]:
        """Puts loops over tiles of these iterators around a block, the first one outermost; gives
        the loops. See `byocir.rewrites.schedule.tile`."""
        return tile(block, sizes, remainder=remainder)

    @_checked
    def stage(
        self,
        block: BlockOp,
        operand: int,
        scope: str,
        *,
        at: ForOp | None = None,
        strided: bool = False,
    ) -> SSAValue:
        """Makes a block access an operand through a buffer in another memory. See
        `byocir.rewrites.schedule.stage`. Raises ByocirError B250 for a memory that is not there.
        """
        if scope and self.scopes and scope not in self.scopes:
            help = did_you_mean(scope, self.scopes)
            raise refused("B250", f"expected the name of a memory, found '{scope}'", help=help)
        return stage(block, operand, scope, at=at, strided=strided)

    def compute_at(self, block: BlockOp, loop: ForOp) -> None:
        """Computes in a loop the part of a block's result that the loop reads. See
        `byocir.rewrites.schedule.compute_at`."""
        compute_at(block, loop)

    def cache_write(self, block: BlockOp) -> BlockOp:
        """Computes a result in a buffer of its own; gives the block that stores it. See
        `byocir.rewrites.schedule.cache_write`.
        """
        return cache_write(block)

    @_checked
    def pack(self, block: BlockOp, operand: int, tiles: Mapping[int, int]) -> SSAValue:
        """Packs an operand into tiles. See `byocir.rewrites.schedule.pack`."""
        return pack(block, operand, tiles)

    @_checked
    def tensorise(
        self, block: BlockOp, pattern: Composite, emit: Emit | None = None
    ) -> Sequence[Operation]:
        """Replaces a block by an instruction. See `byocir.rewrites.schedule.tensorise`."""
        return tensorise(block, pattern, emit)

    @_checked
    def split(self, loop: ForOp, factor: int, *, guard: bool = False) -> tuple[ForOp, ForOp]:
        """Makes two loops of one, the inner one over `factor` iterations. See
        `byocir.rewrites.schedule.split`."""
        return split(loop, factor, guard=guard)

    def reorder(self, *loops: ForOp) -> None:
        """Puts nested loops into this order. See `byocir.rewrites.schedule.reorder`."""
        reorder(*loops)

    def fuse(self, outer: ForOp, inner: ForOp) -> ForOp:
        """Makes one loop of two nested ones. See `byocir.rewrites.schedule.fuse`."""
        return fuse(outer, inner)

    def iterations(self, loop: ForOp) -> list[ForOp]:
        """Makes a loop of each iteration that a loop has, and gives these loops. See
        `byocir.rewrites.schedule.iterations`.
        """
        return iterations(loop)

    def unroll(self, loop: ForOp) -> None:
        """Marks a loop whose iterations are to be written out. See
        `byocir.rewrites.schedule.kinds`.
        """
        kinds.unroll(loop)

    def vectorise(self, loop: ForOp) -> None:
        """Marks a loop whose iterations are to be lanes of vectors. See
        `byocir.rewrites.schedule.kinds`.
        """
        kinds.vectorise(loop)

    def parallel(self, loop: ForOp) -> None:
        """Marks a loop whose iterations may run on several threads. See
        `byocir.rewrites.schedule.kinds`.
        """
        kinds.parallel(loop)

    def vthread(self, loop: ForOp) -> None:
        """Marks a loop whose iterations take turns. See `byocir.rewrites.schedule.kinds`."""
        kinds.vthread(loop)


def _help(name: str, known: list[str], *, several: bool) -> str:
    if several:
        return "blocks(name) gives them all"
    if not known:
        return f'give the block a location: loc("{name}") after it'
    return did_you_mean(name, known)
