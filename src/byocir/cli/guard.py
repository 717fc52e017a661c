"""What ends both tools: every error becomes one message and an exit code, never a traceback.

Exit codes: 0 ok, 1 user error, 2 usage, 3 a check failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence

from byocir.errors import ByocirError, CheckFailed

OK, USER_ERROR, CHECK_FAILED, INTERNAL, INTERRUPTED = 0, 1, 3, 70, 130


def guarded(tool: Callable[[], int], command: Sequence[str]) -> int:
    """Runs a tool and reports what it raises on stderr; `command` is what the user typed. Gives
    the exit code."""
    from byocir.patterns.hooks import DEBUG
    from byocir.rewrites.reproducer import ByocirInternalError
    from byocir.vta_sim.errors import CODES, VTAError

    try:
        code = tool()
        sys.stdout.flush()
        return code
    except CheckFailed as error:
        print(error, file=sys.stderr)
        return CHECK_FAILED
    except ByocirError as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error, file=sys.stderr)
        print(error, file=sys.stderr)
        return USER_ERROR
    except VTAError as error:
        print(error, file=sys.stderr)
        return CHECK_FAILED if CODES[error.code].checked else USER_ERROR
    except ByocirInternalError as error:
        print(error, file=sys.stderr)
        return INTERNAL
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return OK
    except Exception as error:
        _report_crash(error, command)
        return INTERNAL


def _report_crash(error: Exception, command: Sequence[str]) -> None:
    from byocir.rewrites.reproducer import write_crash

    try:
        where = str(write_crash(error, command))
    except OSError as unwritten:
        where = f"none, as they cannot be written: {unwritten.strerror}"
    print(
        f"internal error: {type(error).__name__}: {error}\n"
        f"  details  {where}\n"
        "  help  this is a bug: please report it with that file",
        file=sys.stderr,
    )
