"""Runs passes: one way for the command line, the compiler and tests.

The module is verified, definitions before uses included, and a pass that leaves a broken module is
named.

| code | what is wrong |
| --- | --- |
| B220 | the text of a pipeline cannot be read |
| B221 | a pass that is not known |
| B222 | an option that a pass does not have, or a value that does not fit it |
| B223 | a pass gave up on a module it cannot handle |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.arg_spec import parse_pipeline as parse_specs
from xdsl.utils.exceptions import ArgSpecParseError, PassFailedException, ShrinkException

from byocir.dialects.context import load_context
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.verify import InvalidOp, Verifier
from byocir.errors import ByocirError, OwnMistake, did_you_mean
from byocir.memory import refused
from byocir.rewrites.registry import PASSES, PassThunk, all_passes
from byocir.rewrites.reproducer import ByocirInternalError, write_reproducer

Pipeline = str | Sequence[ModulePass]
"""Passes in order, or their text: `a,b{c=1}`."""

_QUOTE = "'"  # quotes types that were written as text

AfterPass = Callable[[ModulePass, ModuleOp, float], None]
"""Called after each pass with the pass, the module and the seconds the pass took."""

T = TypeVar("T")


def parse_pipeline(
    text: str, available: Mapping[str, PassThunk] | None = None
) -> tuple[ModulePass, ...]:
    """Parses the passes of a pipeline text; raises ByocirError B220 to B222."""
    known = all_passes() if available is None else available
    try:
        specs = _specs_of(text)
    except (ArgSpecParseError, ValueError) as error:  # ValueError: a number of many digits
        raise ByocirError(
            "B220",
            f"expected passes as name{{option=value …}},name…, found '{text}'",
            help=str(error).splitlines()[-1].strip(),
        ) from error
    return tuple(_make_pass(spec, known) for spec in specs)


@lru_cache(maxsize=256)
def _specs_of(text: str) -> tuple[ArgSpec, ...]:
    """Reads a pipeline text once: each compilation asks for the same dozens."""
    return tuple(parse_specs(text))


def _make_pass(spec: ArgSpec, available: Mapping[str, PassThunk]) -> ModulePass:
    if spec.name not in available:
        hint = did_you_mean(spec.name, list(available))
        if not hint.startswith("did"):  # nothing like it: list ours, not all of xDSL's
            hint = did_you_mean(spec.name, list(PASSES))
        raise ByocirError("B221", f"unknown pass '{spec.name}'", help=hint)
    kind = available[spec.name]()
    if not spec.parameters and not kind.required_fields():
        return kind()  # reading the types of its options takes longer than many passes
    options = {info.name.replace("_", "-"): info for info in get_pass_option_infos(kind)}
    for given in spec.parameters:
        if given.replace("_", "-") not in options:
            raise ByocirError(
                "B222",
                f"pass {spec.name} has no option '{given}'",
                help=did_you_mean(given, list(options)),
            )
    try:
        return kind.from_pass_spec(spec)
    except ValueError as error:
        expected = " ".join(
            f"{name}={info.expected_type.strip(_QUOTE)}" for name, info in options.items()
        )
        raise ByocirError("B222", f"expected {spec.name}{{{expected}}}, found {spec}") from error


class _Broken(Exception):
    """Says that a pipeline failed which did not keep the module that it began with."""


@dataclass
class PassRunner:
    """Runs the pipelines of one compilation, as `run_passes` does. Without `keeps_start` it takes
    no copies and cannot tell which pass broke a module: `with_care` sees to that."""

    after_pass: AfterPass | None = None
    keeps_start: bool = True
    _verifier: Verifier = field(default_factory=Verifier)

    def run(self, module: ModuleOp, pipeline: Pipeline) -> None:
        """Runs passes on a module in place; raises as `run_passes`."""
        run_passes(
            module,
            load_context(),
            pipeline,
            callback=self.after_pass,
            verifier=self._verifier,
            keeps_start=self.keeps_start,
        )


def with_care(attempt: Callable[[PassRunner], T], after_pass: AfterPass | None = None) -> T:
    """Runs an attempt, which begins from the same module each time. The first time it runs without
    copies of modules, which take time and keep large constants alive. If a pass fails, it runs
    again with copies, to find which pass it was and where its reproducer is.
    """
    with gc_paused():  # its end walks all new objects: what a runner noted is gone by then
        try:
            return attempt(PassRunner(after_pass, keeps_start=after_pass is not None))
        except _Broken:
            return attempt(PassRunner(after_pass))


def run_passes(
    module: ModuleOp,
    context: Context,
    pipeline: Pipeline,
    *,
    callback: AfterPass | None = None,
    verify: bool = True,
    verifier: Verifier | None = None,
    keeps_start: bool = True,
) -> None:
    """Runs passes on a module in place and verifies it unless `verify` is false; a `verifier` that
    saw the module before need only look at what changed since.

    With a `callback`, which sees every stage, each is verified. Without, the last one is; where
    that fails, or a pass does, passes run again with each stage verified, so that the one that
    broke the module is named and not one that stumbled over it.

    The module must be valid. Raises the ByocirError of a pass that cannot go on with what the user
    gave, and ByocirInternalError, naming the pass and a reproducer, when a pass fails in any other
    way or leaves a module that does not verify.
    """
    passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else tuple(pipeline)
    with gc_paused():
        start = module.clone() if passes and keeps_start else None
    verifier, each = verifier or Verifier(), callback is not None
    for index, pass_ in enumerate(passes):
        check = verify and (each or index == len(passes) - 1)
        try:
            with refused(f"a model, for pass {pass_.name},"):
                seconds = run_pass(pass_, context, module, verifier if check else None)
        except (ByocirInternalError, ShrinkException):
            raise
        except PassFailedException as error:
            raise ByocirError("B223", f"pass {pass_.name}: {error}") from error
        except Exception as error:
            if isinstance(error, ByocirError) and not isinstance(error, OwnMistake):
                raise
            if start is None:
                raise _Broken from error
            blamed, run = _blamed(error, start, context, passes[: index + 1])
            raise _internal_error(blamed, start, context, run) from error
        if callback is not None:
            callback(pass_, module, seconds)


def run_pass(
    pass_: ModulePass, context: Context, module: ModuleOp, verifier: Verifier | None
) -> float:
    """Runs a pass and lets the verifier check what it left; gives the seconds that the pass
    took.
    """
    began = perf_counter()
    with gc_paused():  # most objects that passes make are no garbage
        pass_.apply(context, module)
    seconds = perf_counter() - began
    if verifier is not None:
        verifier.verify(module)
    return seconds


def _blamed(
    error: Exception, start: ModuleOp, context: Context, passes: Sequence[ModulePass]
) -> tuple[Exception, Sequence[ModulePass]]:
    """Finds the first error, and the passes up to it: a pass that left a broken module is to blame,
    not one that stumbled over it later.
    """
    module, verifier = start.clone(), Verifier()
    for index, pass_ in enumerate(passes):
        try:
            pass_.apply(context, module)
            verifier.verify(module)
        except InvalidOp as earlier:
            return earlier, passes[: index + 1]
        except Exception:  # fails as before, or the pass is not deterministic
            break
    return error, passes


def _internal_error(
    error: Exception, start: ModuleOp, context: Context, passes: Sequence[ModulePass]
) -> ByocirInternalError:
    """Makes the error of a failed pass, with a reproducer. It replays all passes but the last, so
    that passes which succeed need no copy.
    """
    is_told = isinstance(error, OwnMistake)
    problem = error.message if is_told else f"{type(error).__name__}: {error}"
    before = start.clone()
    try:
        for pass_ in passes[:-1]:
            pass_.apply(context, before)
        path = write_reproducer(before, passes[-1:], problem)
    except Exception:  # the pass is not deterministic; the whole pipeline may still show the bug
        path = write_reproducer(start, passes, problem)
    return ByocirInternalError(passes[-1].name, problem, path)
