"""`python -m onnx_fuzz --graphs 1000 --seed 1`: random graphs against references.

Graphs are drawn by their seeds, run through the evaluator and through C for each --level, and
compared with what ONNX Runtime or onnx's reference makes of them. What differs is made small and
printed. Exit code 1 if anything did.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from onnx_fuzz.session import Session


def main(arguments: Sequence[str]) -> int:
    """Prints what differs, and a summary; gives the exit code."""
    given = _parse(arguments)
    session = Session(given.level, given.threads or [1], given.op, given.evaluator)
    began, found = time.monotonic(), Counter[str]()
    print(f"seed {given.seed}: {', '.join(session.ways)}", flush=True)
    if session.skipped:
        print(f"this machine cannot run {', '.join(session.skipped)}", flush=True)
    with suppress(KeyboardInterrupt):  # which ends a long run, and what it found is summed up
        for finding in session.run(range(given.seed, given.seed + given.graphs), given.seconds):
            found[finding.way] += 1
            print(finding.text(), flush=True)
    told = ", ".join(f"{count} on {way}" for way, count in found.items()) or "no differences"
    print(
        f"{session.count} graphs of {len(session.operators)} operators from seed {given.seed}, "
        f"{time.monotonic() - began:.0f} s: {told}"
    )
    if session.crashed:
        print(f"references crashed on {len(session.crashed)} more: {session.crashed}")
    if given.operators:
        print("\n".join(f"{n:6} {name}" for name, n in session.operators.most_common()))
    return int(bool(found))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m onnx_fuzz", description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after that")
    parser.add_argument("--level", action="append", default=[], help="a processor, or 'all'")
    parser.add_argument("--threads", type=int, action="append", help="of C; 1 by default")
    parser.add_argument("--op", default="", help="the operator of each graph's first node")
    parser.add_argument("--no-evaluator", dest="evaluator", action="store_false")
    parser.add_argument("--operators", action="store_true", help="print how often each was drawn")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main(sys.argv[1:]))
