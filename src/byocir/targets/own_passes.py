"""A target's own passes: where one fails, the target is named, and the line of its code."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from byocir.dialects.verify import verify_module
from byocir.vendor.hooks import mistakes_of


@dataclass(frozen=True)
class OwnPass(ModulePass):
    """A pass of a target from outside, under its own name. Raises ByocirError B219 where it fails,
    or leaves a module that does not verify."""

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
    """The pass as the target's own, unless it is one of byocir's or of xDSL's."""
    package = type(pass_).__module__.split(".")[0]
    return pass_ if package in ("byocir", "xdsl") else OwnPass(target, pass_)
