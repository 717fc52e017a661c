"""Random graphs, each told by its seed: operators are drawn from ONNX's schemas, one is added after
the other, and each is kept if a reference runs it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from onnx import defs

from onnx_fuzz.cases import Case, Value, version_of
from onnx_fuzz.draft import Draft
from onnx_fuzz.draws import Draws, Unfit
from onnx_fuzz.reference import compute, is_float
from onnx_fuzz.rules import RULES
from onnx_fuzz.rules.left_out import FORMS
from onnx_fuzz.rules.microsoft import SCHEMAS

OLDEST, NEWEST = 7, defs.onnx_opset_version()
COUNTS = (1, 1, 1, 1, 1, 2, 2, 3, 4, 6)
"""Nodes of a graph."""
TRIES = 8
"""Draws of an operator before another is taken."""
LARGEST, MOST = 1e4, 6000
"""Numbers and elements that are worth going on with."""


@lru_cache(maxsize=64)
def schemas(opset: int) -> tuple[defs.OpSchema, ...]:
    """Lists the schemas that may be drawn at an opset, in order of names."""
    found: list[defs.OpSchema] = []
    for key in sorted(RULES):
        schema = schema_of(key, opset)
        if schema and not schema.deprecated and (key, schema.since_version) not in FORMS:
            found.append(schema)
    return tuple(found)


def schema_of(key: str, opset: int) -> defs.OpSchema | None:
    """Gives the schema of an operator, named with its domain, at an opset of ONNX's own domain."""
    if key in SCHEMAS:
        return SCHEMAS[key]
    domain, _, name = key.rpartition(".")
    try:
        return defs.get_schema(name, version_of(domain) if domain else opset, domain)
    except defs.SchemaError:
        return None


def random_case(seed: int, operator: str = "") -> Case:
    """Draws the graph of a seed; the first of its nodes is of this operator, if one is named."""
    draws = Draws(seed)
    draws.special, draws.empty = draws.chance(0.08), draws.chance(0.06)
    opset = draws.one([21, 21, 22, 18, NEWEST, draws.upto(NEWEST, OLDEST)])
    case = Case(opset, shaped=draws.chance(0.8))
    known = schemas(opset)
    named = [schema for schema in known if schema.name == operator]
    wanted = draws.one(COUNTS)
    for _ in range(20 * wanted):
        if len(case.nodes) == wanted:
            break
        schema = named[0] if named and not case.nodes else draws.one(known)
        for _ in range(TRIES):
            if add(case, schema, draws):
                break
    for name in case.made:
        if draws.chance(0.15):
            case.shown.add(name)
    return case.without_unused()


def add(case: Case, schema: defs.OpSchema, draws: Draws) -> bool:
    """Adds a node; whether that came to something."""
    draft = Draft(case, schema, draws)
    key = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
    try:
        RULES[key](draft)
        node = draft.node()
        values = compute(case, node)
        if not all(_worth_it(value, draws.special) for value in values):
            raise Unfit
    except Unfit:
        for name in draft.added:
            case.given.pop(name, None)
            case.constants.pop(name, None)
        return False
    case.nodes.append(node)
    names = [name for name in node.output if name]
    case.made.update(zip(names, values, strict=True))
    return True


def _worth_it(value: Value, special: bool) -> bool:
    """Tells whether others may go on from a value: one that is not huge, nor anything."""
    if value.is_sequence:
        return True
    if value.data.size > MOST:
        return False
    if not is_float(value.dtype) or special or value.dtype.itemsize < 2:
        return True
    numbers = np.abs(value.data.astype(np.float64))
    if not np.isfinite(numbers).all() or numbers.max(initial=0) > LARGEST:
        return False
    spread = 1e-2 if value.dtype.itemsize == 2 else 1e-3
    if value.slack is None:
        return True
    limit = 10 * spread * (numbers.max(initial=0) + 1e-30)
    return bool(
        (value.slack[np.isfinite(value.slack)] <= limit).all() and np.isfinite(value.slack).all()
    )
