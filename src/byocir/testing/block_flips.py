"""Changes to block patterns: body, indices, the number it starts from, pads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from inspect import Parameter, Signature, signature

from xdsl.ir import SSAValue

from byocir.dialects import tir
from byocir.patterns import Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.differences import body_differs, indices_differ
from byocir.patterns.index import Group
from byocir.patterns.match import python_value
from byocir.patterns.nodes import WildcardPattern
from byocir.patterns.same_blocks import Facts
from byocir.patterns.scalars import ScalarPattern
from byocir.testing.blocks import Guarded
from byocir.testing.choose import Choose
from byocir.testing.draft import Unfit
from byocir.testing.rebuilding import Change, Told, changed


def block_changes(part: BlockPattern) -> Iterator[Change]:
    """Lists the changes that a block pattern allows."""
    yield from (_other_body(part), _other_index(part), _one_input_more(part), _guarded(part))
    if part.init is not None and not isinstance(part.init, Pattern):
        yield _other_init(part, part.init)
    for i, read in enumerate(part.reads):
        if read.pad is not None and not isinstance(read.pad, str):
            yield _other_pad(part, i, read.pad)


def _block_of(value: SSAValue) -> tir.BlockOp:
    assert isinstance(value.owner, tir.BlockOp)
    return value.owner


def _other_body(part: BlockPattern) -> Change:
    """Gives a block that computes something else."""

    @wraps(part.body)  # messages show the names of its parameters
    def body(*arguments: ScalarPattern) -> ScalarPattern:
        return part.body(*arguments) + 1

    def told(value: SSAValue) -> str:
        return body_differs(_block_of(value), part.body)

    return lambda choose: (changed(part, body=body), told)


def _one_input_more(part: BlockPattern) -> Change:
    """Gives a block that reads one array more, as it reads its first."""
    first, names = part.reads[0], [*signature(part.body).parameters, "more"]

    def body(*arguments: ScalarPattern) -> ScalarPattern:
        return part.body(*arguments[:-1]) + arguments[-1]

    kind = Parameter.POSITIONAL_OR_KEYWORD
    vars(body)["__signature__"] = Signature([Parameter(name, kind) for name in names])

    def change(choose: Choose) -> tuple[Pattern, Told]:
        if first.whole:
            raise Unfit
        reads = (*part.reads, replace(first, pattern=WildcardPattern(None, None, ())))
        indices = (*part.indices, part.indices[0])
        more = changed(part, reads=reads, indices=indices, body=body)
        return more, lambda value: part.refusal(Facts.of(_block_of(value)))

    return change


def _guarded(part: BlockPattern) -> Change:
    """Gives a block with a guard."""
    return lambda choose: (Guarded(part), lambda value: part.refusal(Facts.of(_block_of(value))))


def _other_index(part: BlockPattern) -> Change:
    """Gives a block that reads elsewhere: with two dimensions swapped, or broadcast."""

    def told(value: SSAValue) -> str:
        return indices_differ(_block_of(value), [read.index for read in part.reads], part.result)

    def change(choose: Choose) -> tuple[Pattern, Told]:
        i = choose(0, len(part.indices) - 1)
        if not part.indices[i]:
            raise Unfit
        index = list(part.indices[i])
        at = choose(0, len(index) - 1)
        kind = index[at]
        if isinstance(kind, Group) and not kind.broadcast:
            index[at] = replace(kind, broadcast=True)
        else:
            index.insert(choose(0, len(index) - 1), index.pop(at))
        if tuple(index) == part.indices[i]:
            raise Unfit
        indices = (*part.indices[:i], tuple(index), *part.indices[i + 1 :])
        return changed(part, indices=indices), told

    return change


def _other_init(part: BlockPattern, init: float) -> Change:
    """Gives a result that starts from another number."""

    def told(value: SSAValue) -> str:
        start = _block_of(value).outs[0].owner
        found = python_value(start.value) if isinstance(start, tir.FillOp) else None
        return f"expected the result to start from {init}, found {found}"

    return lambda choose: (changed(part, init=init + 1), told)


def _other_pad(part: BlockPattern, i: int, pad: float) -> Change:
    """Gives another number read outside an input."""
    read = part.reads[i]
    others = (*part.reads[:i], replace(read, pad=pad + 1), *part.reads[i + 1 :])

    def told(value: SSAValue) -> str:
        found = [python_value(each) for each in _block_of(value).pad_values if each is not None]
        if pad + 1 not in found:  # no draw reads outside there
            return ""
        return f"expected pad {pad} at [{read.index}], found {found[found.index(pad + 1)]}"

    return lambda choose: (changed(part, reads=others), told)
