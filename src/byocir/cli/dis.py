"""`byocir dis`: lists the programs of a package's targets, or of a model that it compiles."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from byocir.cli.arguments import add_isolation, add_model, count
from byocir.cli.guard import OK
from byocir.cli.steps import hand_over_as_asked, is_package, load_package, shapes_of
from byocir.compiler import generate
from byocir.errors import ByocirError, did_you_mean, escaped
from byocir.machine import Machine
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model
from byocir.runtime.report import REFERENCE, layer_of
from byocir.runtime.report_text import known_node
from byocir.targets.listing import Command, Listing, Listings, listings_of_machine, listings_of_vta
from byocir.targets.vta_emit import programs_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "a package, an ONNX file or a module (.mlir)")
    parser.add_argument("--function", metavar="NAME", help="only the program of this region")
    parser.add_argument("--node", help="only commands that were made for this node")
    parser.add_argument("--first", type=count, metavar="N", help="at most N of a program")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each command")
    add_isolation(parser)
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Prints the listings, line by line."""
    package = load_package(options) if is_package(options.model) else _compiled(options)
    if options.node is not None:
        known_node(package.report, options.node)
    for symbol, made in _chosen(package, options).items():
        listing = made()
        wanted = (each for each in listing.commands if _is_for(each, options.node))
        commands = islice(wanted, options.first)
        lines = _json(symbol, commands) if options.json else _text(symbol, listing, commands)
        for line in lines:
            print(line)
    return OK


def _compiled(options: argparse.Namespace) -> Package:
    module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
    report = hand_over_as_asked(options, module, PassRunner())
    return generate(module, report, host=REFERENCE)


def _is_for(command: Command, node: str | None) -> bool:
    return node is None or node in command["nodes"]


def _chosen(package: Package, options: argparse.Namespace) -> Listings:
    """Gives the listings that are asked for. Raises ByocirError B116 where there are none."""
    found, wanted, where = _listings(package), options.function, str(options.model)
    if not found:
        told = "expected programs of described machines or VTA, found none"
        raise ByocirError("B116", told, where=where)
    if wanted is not None and wanted not in found:
        told = f"expected a program of the package, found '{wanted}'"
        raise ByocirError("B116", told, where=where, help=did_you_mean(wanted, list(found)))
    return found if wanted is None else {wanted: found[wanted]}


def _listings(package: Package) -> Listings:
    """Gives the listings of all programs: where a description of VTA made words, these."""
    words = programs_of(package.module, package.blobs)
    found = dict(listings_of_vta(words))
    for name, blobs in package.blobs.items():
        machine = package.target(name).machine
        if isinstance(machine, Machine):
            found = {**listings_of_machine(machine, blobs), **found}
    return found


def _json(symbol: str, commands: Iterator[Command]) -> Iterator[str]:
    for command in commands:
        yield json.dumps({"function": symbol, **command})


def _text(symbol: str, listing: Listing, commands: Iterator[Command]) -> Iterator[str]:
    yield f"# function {symbol}, {listing.machine}, {listing.count:,} commands"
    width = max(map(len, listing.instructions), default=0)
    for name, (times, unit, where) in listing.instructions.items():
        yield f"#   {name:<{width}}  {times:>7,} on {unit}, {Path(where).name}"
    before = ""
    for command in commands:
        layer = layer_of(", ".join(command["nodes"]))
        if layer != before:
            yield f"# {escaped(layer)}"
            before = layer
        yield from _wrapped(f"{command['number']:>6}  ", _line(command))
        yield from _wrapped(" " * 8, " ".join(map(_words, command["code"])))


def _wrapped(begin: str, text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=begin, subsequent_indent=" " * 8)


def _line(command: Command) -> str:
    """Words a command but for its code."""
    parts = [command["instruction"]]
    if "form" in command:
        parts.append(f"form={command['form']}")
    named = {**command.get("sizes", {}), **command.get("numbers", {})}
    parts += [f"{name}={value}" for name, value in named.items()]
    for name, place in command.get("operands", {}).items():
        lane = f":{place['lane']}" if "lane" in place else ""
        parts.append(f"{name}={place['memory']}[{place['address']}{lane}]")
    parts += [f"waits({unit}={most})" for unit, most in command.get("waits", {}).items()]
    parts += [f"{kind}({unit})" for kind in ("pops", "pushes") for unit in command.get(kind, ())]
    return " ".join(parts)


def _words(code: Any) -> str:
    if isinstance(code, list):
        return f"({' '.join(map(_words, code))})"
    return code if isinstance(code, str) else json.dumps(code)
