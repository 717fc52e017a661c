"""Starts both tools. It imports nothing until it can report an interrupt in one line."""

INTERRUPTED = 130
"""The exit code of a tool that was interrupted."""


def byocir() -> int:
    """Runs the command `byocir`; gives the exit code."""
    return _run("byocir.cli.main")


def byocir_opt() -> int:
    """Runs the command `byocir-opt`; gives the exit code."""
    return _run("byocir.cli.opt")


def _run(tool: str) -> int:
    try:
        from byocir.cli.interrupts import begin

        begin()
        from importlib import import_module

        code = import_module(tool).main()
        _skip_last_collection()
        return code
    except KeyboardInterrupt:
        import sys

        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _skip_last_collection() -> None:
    """Keeps all objects until the process ends, so that the interpreter's last collection does not
    walk through them. That took a tenth of the time of `byocir targets`.
    """
    import gc

    gc.freeze()
