"""Ends the tools where Python would not see an interrupt, and where it would lose one.

Python handles signals only between steps of its own, and an endless loop in ONNX Runtime or in the
host's C never comes back to one. So a thread ends the program then.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from types import FrameType

SEEN_BEFORE_COLLECTION = 20_000
"""New objects after which Python looks for cycles: nearly all that imports make stays, and its own
700 took an eighth of the time of `byocir targets`."""

GRACE = 2.0
"""Seconds that the tools have to end by themselves."""


def begin() -> None:
    """Starts to watch for interrupts."""
    gc.set_threshold(SEEN_BEFORE_COLLECTION)
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_interrupt, args=(told,), daemon=True).start()
    # Not in a background job, which ignores SIGINT.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises the interrupt, or ends the program where it is importing a module: there C code of
    numpy would take the interrupt for a missing module, and Python for an error of the class that
    it defines.
    """
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
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
    os._exit(128 + signal.SIGINT)
