"""Helpers of the tests of JSON: what was emitted, and whether it is what the schema says."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import numpy as np

import byocir

SCHEMA = json.loads((files("byocir.targets.json") / "program.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def strict(text: bytes) -> Any:
    """JSON without bare Infinity or NaN."""

    def refuse(token: str) -> None:
        raise AssertionError(f"a bare {token}")

    return json.loads(text, parse_constant=refuse)


def program_of(package: byocir.Package, target: str = "json") -> Any:
    """What was emitted for a target, checked against the schema."""
    program = strict(package.blobs[target]["program.json"])
    VALIDATOR.validate(program)
    return program


def same_bits(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> bool:
    return list(ours) == list(theirs) and all(
        (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        for a, b in zip(ours.values(), theirs.values(), strict=True)
    )
