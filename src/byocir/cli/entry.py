"""Starts both tools: an interrupt is handled during their imports, too, and while native code runs.

Python looks at signals between steps of its own. A loop without end in ONNX Runtime or in the
host's C never comes back to one, so that a thread ends the program then.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

INTERRUPTED = 130
SEEN_BEFORE_COLLECTION = 20_000
"""New objects after which Python looks for cycles: nearly all that imports make stays, and its own
700 took an eighth of the time of `byocir targets`."""


GRACE = 2.0
"""Seconds that the tools have to end by themselves."""


def byocir() -> int:
    """The command `byocir`; gives the exit code."""
    try:
        _begin()
        from byocir.cli.main import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def byocir_opt() -> int:
    """The command `byocir-opt`; gives the exit code."""
    try:
        _begin()
        from byocir.cli.opt import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def _begin() -> None:
    gc.set_threshold(SEEN_BEFORE_COLLECTION)
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_interrupt, args=(told,), daemon=True).start()


def _end_after_interrupt(told: int) -> None:
    """Waits for an interrupt, and ends a program that did not end because of it."""
    while os.read(told, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(GRACE)
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED
