"""`byocir targets`: lists what can be given as `--target`, with options and patterns."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from byocir.cli.guard import OK
from byocir.dialects.byoc import TargetAttr
from byocir.dialects.gc_pause import gc_paused
from byocir.patterns.target_classes import names
from byocir.patterns.targets import composites_of, parse_targets
from byocir.targets.base import target_of
from byocir.targets.resolve_targets import named_target


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "target", nargs="*", help="only these: names, or files, npu.py:Npu (default: all installed)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Lists the targets; gives the exit code."""
    with gc_paused():  # the modules of targets are no garbage
        print(list_targets(options.target, as_json=options.json))
    return OK


def list_targets(chosen: Sequence[str] = (), *, as_json: bool) -> str:
    """Describes these targets, or all that are installed: options with their meanings, composites
    with their rules.
    """
    texts = [*map(named_target, chosen)] or names()
    entries = [_entry(attribute) for text in texts for attribute in parse_targets(text)]
    if as_json:
        return json.dumps(entries, indent=1, sort_keys=True)
    return "\n".join(line for entry in entries for line in _lines(entry))


def _entry(attribute: TargetAttr) -> dict[str, Any]:
    name, target = attribute.target_name.data, target_of(attribute)
    options = target.spec(include_default=True).parameters
    composites = [
        {
            "name": pattern.name,
            "level": pattern.level,
            "rules": [f"{rule.sentence}." for rule in pattern.rules],
        }
        for pattern in composites_of(attribute)
    ]
    return {
        "name": name,
        "summary": (type(target).__doc__ or "").strip().partition("\n")[0],
        "options": {option: list(values) for option, values in options.items()},
        "notes": {f.name: f.metadata["doc"] for f in fields(target) if "doc" in f.metadata},
        "composites": composites,
    }


def _lines(entry: dict[str, Any]) -> list[str]:
    lines = [f"{entry['name']}  {entry['summary']}"]
    for option, values in entry["options"].items():
        lines.append(f"  option {option} = {', '.join(map(str, values))}".rstrip())
        note = entry["notes"].get(option.replace("-", "_"), "")
        lines += [f"           {line}" for line in textwrap.wrap(note, 88)]
    for composite in entry["composites"]:
        lines.append(f"  {composite['level']:<6} {composite['name']}")
        lines += [f"           {rule}" for rule in composite["rules"]]
    return lines
