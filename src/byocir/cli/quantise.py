"""`byocir quantise`: turns a float model into the int8 form that a target computes best.

Prints how near the result comes to the float model on the data given, beside what ONNX Runtime's
quantiser makes with its defaults.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

from byocir.cli.arguments import count
from byocir.cli.guard import OK
from byocir.cli.user_files import check_writable, read_arrays, write_model
from byocir.frontend.onnx.load import load_model
from byocir.quantiser.accuracy import Accuracy
from byocir.quantiser.data import Samples
from byocir.quantiser.quantise import Quantised, quantise
from byocir.targets.ort_session import hide_messages


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("model", type=Path, help="an ONNX file, in float")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="samples by input (.npz), which set the ranges; labels beside them are found",
    )
    parser.add_argument(
        "--target", default="vta", metavar="T", help="a target, or one in a file (default: vta)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the model (default: MODEL_int8.onnx)"
    )
    parser.add_argument(
        "--powers-of-two",
        action=argparse.BooleanOptionalAction,
        help="scales whose quotients are powers of two (default: as the target asks)",
    )
    parser.add_argument(
        "--per-channel",
        action=argparse.BooleanOptionalAction,
        help="a scale for each channel of weights (default: as the target asks)",
    )
    parser.add_argument(
        "--samples", type=count, default=512, help="samples that set the ranges (default: 512)"
    )
    parser.add_argument("--labels", metavar="NAME", help="the array of labels in the file")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the model; gives the exit code."""
    path: Path = options.output or Path(f"{options.model.stem}_int8.onnx")
    check_writable(path)
    data = _data(options)
    hide_messages()
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
    for note in made.notes:
        print(f"note: {note}")
    print(table(made, options.target))
    print(f"wrote {', '.join(map(str, written))}")
    return OK


def _data(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Reads the arrays of the inputs and those that may be labels; arrays that do not fit the model
    are refused before they are read. Raises ByocirError B101 to B105, B111, B392.
    """
    shapes = read_arrays(options.data, look=lambda name, array: False)
    samples = Samples.of(load_model(options.model).proto, shapes)

    def look(name: str, array: np.ndarray) -> bool:
        return name in samples.arrays or samples.may_be_labels(name, array)

    return read_arrays(options.data, look=look)


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
