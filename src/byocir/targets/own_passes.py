"""Runs the passes that targets bring along, at their points. Where one fails, the error names the
target and the line of its code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from byocir.dialects.byoc import TargetAttr
from byocir.dialects.verify import verify_module
from byocir.rewrites.pipeline import parse_pipeline
from byocir.targets.base import Point, Target, target_of
from byocir.vendor.hooks import ask, expect_given, mistakes_of


@dataclass(frozen=True)
class OwnPass(ModulePass):
    """Runs a pass of a target from outside, under its own name. Raises ByocirError B219 where it
    fails, or leaves a module that does not verify."""

    target: str
    inner: ModulePass

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.inner.name)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kind = type(self.inner)
        with mistakes_of(self.target, kind, f"pass {self.inner.name}", kind.apply):
            self.inner.apply(ctx, op)
            verify_module(op)

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        return self.inner.spec(include_default=include_default)


def owned(target: str, pass_: ModulePass) -> ModulePass:
    """Wraps a pass as the target's own, unless it is one of byocir's or of xDSL's."""
    package = type(pass_).__module__.split(".")[0]
    return pass_ if package in ("byocir", "xdsl") else OwnPass(target, pass_)


def passes_at(targets: Sequence[Target], point: Point) -> list[ModulePass]:
    """Lists the targets' own passes at a point. Raises ByocirError B228 for what is no pass."""
    passes: list[ModulePass] = []
    for target in targets:
        for entry in passes_of(target, point):
            made = parse_pipeline(entry) if isinstance(entry, str) else [entry]
            passes += [owned(target.name, pass_) for pass_ in made]
    return passes


def _given(kind: type[ModulePass]) -> type[ModulePass]:
    return kind


def own_passes(attribute: TargetAttr) -> dict[str, Callable[[], type[ModulePass]]]:
    """Lists the passes that a target brings along, by name, as functions that give their
    classes.
    """
    target = target_of(attribute)
    found: dict[str, Callable[[], type[ModulePass]]] = {}
    for point in get_args(Point):
        for entry in passes_of(target, point):
            if isinstance(entry, ModulePass):
                found[entry.name] = partial(_given, type(entry))
    return found


def passes_of(target: Target, point: Point) -> Sequence[str | ModulePass]:
    """Lists a target's passes at a point, where it may give one pass, or None, in place of a list.
    Raises ByocirError B228 for what is no pass.
    """
    given: Any = ask(target, "passes", point)
    listed = cast("Sequence[object]", given) if isinstance(given, (list, tuple)) else [given]
    found = [each for each in listed if each is not None]
    for each in found:
        fits = isinstance(each, str | ModulePass)
        expect_given(target, "passes", fits, f"pipeline text or ModulePass {point}", each)
    return cast("Sequence[str | ModulePass]", found)
