"""`byocir targets` and `byocir patterns`: what can be given as `--target`, and what it takes."""

from __future__ import annotations

import json
from typing import Any

from xdsl.utils.arg_spec import ArgSpec

from byocir.patterns.document import document
from byocir.patterns.targets import composites_of, find_class, names, parse_targets
from byocir.targets.files import named_target


def list_targets(*, as_json: bool) -> str:
    """Every target with its options and their defaults, and its composites with their rules."""
    entries = [_entry(name) for name in names()]
    if as_json:
        return json.dumps(entries, indent=1, sort_keys=True)
    return "\n".join(line for entry in entries for line in _lines(entry))


def supported_operators(target: str) -> str:
    """Lists the composites that each of these targets takes, as markdown."""
    attributes = parse_targets(named_target(target))
    return "\n".join(document(a.target_name.data, composites_of(a)) for a in attributes)


def _entry(name: str) -> dict[str, Any]:
    kind = find_class(name)
    target = kind.from_spec(ArgSpec(name, {}))
    options = target.spec(include_default=True).parameters
    composites = [
        {
            "name": pattern.name,
            "level": pattern.level,
            "rules": [f"{rule.sentence}." for rule in pattern.rules],
        }
        for pattern in (entry.of_target(name) for entry in target.composites())
    ]
    return {
        "name": name,
        "summary": (kind.__doc__ or "").strip().splitlines()[0],
        "options": {option: list(values) for option, values in options.items()},
        "composites": composites,
    }


def _lines(entry: dict[str, Any]) -> list[str]:
    lines = [f"{entry['name']}  {entry['summary']}"]
    for option, values in entry["options"].items():
        lines.append(f"  option {option} = {', '.join(map(str, values))}")
    for composite in entry["composites"]:
        lines.append(f"  {composite['level']:<6} {composite['name']}")
        lines += [f"           {rule}" for rule in composite["rules"]]
    return lines
