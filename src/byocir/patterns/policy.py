"""Defines the settings by which a target says how its regions are gathered, and where their
constants go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from byocir.patterns.region_rules import RegionRule

Merge = Literal["any", "connected", "none"]

ConstantPolicy = Literal["match", "bind", "argument", "transform"]
"""Places for constants that composites use. "match": those that a pattern calls constant are part
of the region's function, others are its arguments. "bind": all are part of it. "argument": all are
arguments, so regions that differ in their weights alone share a function. "transform": as "bind",
and the target's `transform` says what is stored for each."""

CONSTANT_POLICIES: tuple[str, ...] = get_args(ConstantPolicy)


@dataclass(frozen=True)
class Quantisation:
    """Describes the form of int8 nets that a target computes best, for `byocir quantise`.

    `symmetric`: activations have no zero points; only then the rest but `per_channel` counts.
    `per_channel`: weights have a scale for each channel. `equal_terms`: the terms of a sum, and the
    parts of a concat, have one scale. `powers_of_two`: what a requantisation multiplies by is a
    power of two, so that a shift does it; weights then have one scale each.
    """

    symmetric: bool = True
    per_channel: bool = True
    equal_terms: bool = False
    powers_of_two: bool = False


@dataclass(frozen=True)
class RegionPolicy:
    """Tells how a target's composites are gathered into regions, each of which is one call.

    `merge`: "any" gathers all that can run in one call, connected or not, which gives the fewest
    calls; "connected" joins neighbours only; "none" leaves every composite alone. Smaller regions
    than `min_composites`, glue not counted, or than `min_macs` multiply-accumulates go back to the
    host, and so do those that break one of `rules` (see `byocir.patterns.region_rules`).
    """

    merge: Merge = "any"
    min_composites: int = 1
    min_macs: int = 0
    rules: tuple[RegionRule, ...] = ()

    def __post_init__(self) -> None:
        if self.merge not in ("any", "connected", "none"):
            raise ValueError(f"expected merge any, connected or none, found {self.merge!r}")
