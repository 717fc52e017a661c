"""Reads and makes locations, which say from which ONNX nodes an op came.

An op's location is the name of its node, or the fused names of all nodes it stands for. Rewrites
join the locations of what they replace; nothing is dropped on the way to an instruction. What a
loop makes several times can say which time it was: its nodes are a callee, called at a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

TILE = "tile"


@lru_cache(maxsize=1 << 16)
def named(name: str) -> NameLoc:
    """Gives the location of the node with this name."""
    return NameLoc(StringAttr(name), NoneAttr())


def names(location: LocationAttr) -> tuple[str, ...]:
    """Gives the node names of a location, each once, in order; empty when it is unknown."""
    if isinstance(location, NameLoc):  # the common case first
        return (location.desc.data,)
    found: dict[str, None] = {}
    shared: set[int] = set()
    left: list[Attribute] = [location]
    while left:  # no recursion: what rewrites join gets as deep as a graph
        part = left.pop()
        if isinstance(part, NameLoc):
            found.setdefault(part.desc.data)
        elif isinstance(part, CallSiteLoc):
            left.append(part.callee)
        elif isinstance(part, FusedLoc) and id(part) not in shared:
            shared.add(id(part))
            left += reversed(_parts(part))
    return tuple(found)


def _parts(location: FusedLoc) -> tuple[Attribute, ...]:
    return cast("ArrayAttr[Attribute]", location.locations).data


def of_names(all_names: Iterable[str]) -> LocationAttr:
    """Gives the location of an op that stands for these nodes."""
    unique = tuple(dict.fromkeys(all_names))
    if not unique:
        return UNKNOWN_LOC
    if len(unique) == 1:
        return named(unique[0])
    return FusedLoc(ArrayAttr([named(name) for name in unique]), NoneAttr())


def place(location: LocationAttr) -> str:
    """Words the nodes of a location, as messages say where something is."""
    return ", ".join(f"node '{name}'" for name in names(location))


def at_tile(location: LocationAttr, tile: Sequence[int]) -> LocationAttr:
    """Gives the location of an op that was made for one tile: it adds the indices of the loops
    around it, outermost first. Outside of loops it is the location itself.
    """
    if not tile:
        return location
    return CallSiteLoc(location, named(" ".join([TILE, *map(str, tile)])))


def tile_of(location: LocationAttr) -> tuple[int, ...]:
    """Gives the tile of a location, if it has one."""
    if not isinstance(location, CallSiteLoc) or not isinstance(location.caller, NameLoc):
        return ()
    word, *indices = location.caller.desc.data.split(" ")
    numbers = word == TILE and all(index.isdecimal() for index in indices)
    return tuple(map(int, indices)) if numbers else ()


def fuse(*parts: LocationAttr | Operation) -> LocationAttr:
    """Makes the location of an op that replaces these ops, or stands for these locations: it names
    the nodes of all of them.
    """
    locations = (part.location if isinstance(part, Operation) else part for part in parts)
    return of_names(name for location in locations for name in names(location))


def join(parts: Iterable[LocationAttr]) -> LocationAttr:
    """Joins locations as `fuse` does, but keeps them as parts instead of listing all names anew:
    that is quicker where locations are joined again and again. `flat` makes one list of names in
    the end.
    """
    known = {id(part): part for part in parts if part != UNKNOWN_LOC}
    if len(known) < 2:
        return next(iter(known.values()), UNKNOWN_LOC)
    return FusedLoc(ArrayAttr(known.values()), NoneAttr())


def flat(location: LocationAttr) -> LocationAttr:
    """Makes one list of names of a location that `join` made, as `fuse` would have."""
    if not isinstance(location, FusedLoc):
        return location
    parts, found = _parts(location), names(location)
    is_flat = len(found) == len(parts) and all(isinstance(part, NameLoc) for part in parts)
    return location if is_flat else of_names(found)
