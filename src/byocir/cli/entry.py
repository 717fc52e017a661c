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
from types import FrameType

INTERRUPTED = 130
SEEN_BEFORE_COLLECTION = 20_000
"""New objects after which Python looks for cycles: nearly all that imports make stays, and its own
700 took an eighth of the time of `byocir targets`."""

GRACE = 2.0
"""Seconds that the tools have to end by themselves."""
SWALLOW = ("numpy", "ml_dtypes")
"""Modules whose C code takes an interrupt of what it imports for a module that is not there."""


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
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not of a background job
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises the interrupt, or ends the program where it would not arrive."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] in SWALLOW:
            _end()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_after_interrupt(told: int) -> None:
    """Waits for an interrupt, and ends a program that did not end because of it."""
    while os.read(told, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(GRACE)
    _end()


def _end() -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED
