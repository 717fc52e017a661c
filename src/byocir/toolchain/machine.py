"""Asks this machine's processor what it can run."""

from __future__ import annotations

from functools import cache

from byocir.errors import ByocirError
from byocir.toolchain.cpu import VNNI, Cpu, fitting

_PROBE = """/* The x86-64 level of this processor and operating system; 0 elsewhere. */
int x86_64_level(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 1;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")
        || !__builtin_cpu_supports("bmi2")) return 2;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")
        || !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq")
        || !__builtin_cpu_supports("avx512vl")) return 3;
    return 4;
#else
    return 0;
#endif
}

int has_avx512vnni(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return !!__builtin_cpu_supports("avx512vnni");
#else
    return 0;
#endif
}
"""


@cache
def x86_64_level() -> int:
    """Gives the highest level of x86-64 that this machine runs, 1 to 4 as the psABI numbers them; 0
    for other processors, and where no C compiler is there to ask with.
    """
    return _asked("x86_64_level")


@cache
def x86_64_features() -> frozenset[str]:
    """Lists the features of processors in the table that no level includes and that this machine
    has.
    """
    return frozenset(name for name in (VNNI,) if _asked(f"has_{name}"))


def _asked(function: str) -> int:
    from byocir.toolchain.build import built_and_loaded

    try:
        return int(built_and_loaded("machine", {"machine.c": _PROBE})[function]())
    except ByocirError:
        return 0


def check_runs(cpu: Cpu) -> None:
    """Raises ByocirError B405 where this machine cannot run code that is built for a processor."""
    level, features = x86_64_level(), x86_64_features()
    if not cpu.runs_on(level, features):
        found = fitting(level, features).name
        raise ByocirError(
            "B405",
            f"expected a machine that runs {cpu.name}, found one for {found}",
            help="compile with host c{cpu=native}, or c{cpu=generic} for any machine",
        )
