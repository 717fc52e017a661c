"""Puts tuned schedules that still fit into a partitioned module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CallOp, CompositeOp, TargetAttr
from byocir.dialects.context import load_context
from byocir.errors import ByocirError
from byocir.patterns.targets import targets_of
from byocir.rewrites.byoc.single_composite import alone
from byocir.rewrites.byoc.tuned import Key, TunedTable, key_of
from byocir.rewrites.pipeline import run_passes
from byocir.rewrites.schedule.composites import record, region_functions
from byocir.targets.base import target_of
from byocir.targets.hand_off_passes import code_pipeline


class TakenComposite(NamedTuple):
    """Describes a composite that a target took, in a region's function on tensors."""

    function: FuncOp
    composite: CompositeOp
    target: TargetAttr
    key: Key


def places_in(module: ModuleOp) -> Iterator[TakenComposite]:
    """Yields the composites of a partitioned module, in order."""
    for function, target in region_functions(module):
        for op in list(function.body.block.ops):
            if isinstance(op, CompositeOp):
                yield TakenComposite(function, op, target, key_of(op, target))


def follow_tuned(module: ModuleOp, table: TunedTable) -> list[str]:
    """Gives the composites of a partitioned module the schedules of a table, after trying each
    schedule alone; notes those that do not fit any more. Raises ByocirError B264 for a table
    without any entry for the module.
    """
    notes: list[str] = []
    tried: dict[Key, str] = {}
    places = list(places_in(module))
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    for place in places:
        tuned = table.entries.get(place.key)
        if tuned is None:
            continue
        if place.key not in tried:
            tried[place.key] = _refusal(place.composite, tuned.schedule)
            if tried[place.key]:
                notes.append(
                    f"a tuned schedule of {place.composite.pattern.data} does not fit any more, "
                    f"and its target's own is taken: {tried[place.key]}"
                )
        if tuned.schedule and not tried[place.key]:
            place.composite.schedule = StringAttr(tuned.schedule)
            record(calls, place.function)
    if not tried:
        raise _of_another_model(places, table)
    return [*_about(table), *notes]


def _refusal(composite: CompositeOp, schedule: str) -> str:
    """Gives the reason why a composite cannot run by a schedule, or ""."""
    if not schedule or composite.schedule == StringAttr(schedule):
        return ""
    module = alone(composite, schedule)
    instances = [target_of(attribute) for attribute in targets_of(module)]
    try:
        run_passes(module, load_context(), code_pipeline(module, instances))
    except ByocirError as error:
        return f"{error.message} ({error.code})"
    return ""


def _of_another_model(places: list[TakenComposite], table: TunedTable) -> ByocirError:
    known = {work for _, work in table.entries}
    same = next((place.key[0] for place in places if place.key[1] in known), "")
    what = f"schedules for {same}" if same else "schedules for composites of this model"
    return ByocirError(
        "B264",
        f"expected a table of tuned {what}, found none among its {len(table.entries)} entries",
        help="tune this model for these targets, with their options: byocir tune",
    )


def _about(table: TunedTable) -> list[str]:
    own = TunedTable().byocir
    if table.byocir == own:
        return []
    return [f"schedules were tuned by byocir {table.byocir}, not by {own}: others may be best now"]
