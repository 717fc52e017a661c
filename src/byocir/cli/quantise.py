"""`byocir quantise`: a float model in the int8 form that a target computes best.

Prints how near the result comes to the float model on the data given, beside what ONNX Runtime's
quantiser makes with its defaults.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from byocir.cli.files import check_writable, read_arrays, write_model
from byocir.cli.guard import OK
from byocir.quantiser.accuracy import Accuracy
from byocir.quantiser.quantise import Quantised, quantise


def run(options: argparse.Namespace) -> int:
    """Writes the model; gives the exit code."""
    path: Path = options.output or Path(f"{options.model.stem}_int8.onnx")
    check_writable(path)
    data = read_arrays(options.data)
    with Console(stderr=True).status("") as status:
        made = quantise(
            options.model,
            data,
            target=options.target,
            powers_of_two=options.powers_of_two,
            per_channel=options.per_channel,
            samples=options.samples,
            labels=options.labels,
            tell=status.update,
        )
    written = write_model(path, made.model)
    print(table(made, options.target))
    print(f"wrote {', '.join(map(str, written))}")
    return OK


def table(made: Quantised, target: str) -> str:
    """Tabulates how near each model comes to the float one."""
    rows = {
        "float": made.float_accuracy,
        "ONNX Runtime's defaults": made.default,
        f"for {target}": made.accuracy,
    }
    width = max(map(len, rows))
    head = f"{made.samples:,} samples".ljust(width) + "  distance"
    head += "  same class" if made.accuracy.same is not None else ""
    head += "   top-1" if made.accuracy.right is not None else ""
    return "\n".join([head, *(f"{name:<{width}}{_row(row)}" for name, row in rows.items())])


def _row(row: Accuracy) -> str:
    text = f"  {row.distance:8.4f}"
    text += "" if row.same is None else f"  {100 * row.same:8.2f} %"
    return text + ("" if row.right is None else f"  {100 * row.right:5.2f} %")
