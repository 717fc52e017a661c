"""Conditions around statements and loops in C, written so that compilers keep elements apart.

gcc before 14 drops the order of elements that it reads under a condition where several such reads
became one vector (PR 114375: masked loads with AVX or SVE). There are several where a loop was
unrolled before vectors are made, so a loop is kept from that if something in it is read under a
condition, and a condition around a whole loop is kept from being made a mask. Other compilers see
plain C.
"""

from __future__ import annotations

from collections.abc import Sequence

APART = {
    "!apart": (
        "/* gcc before 14 confuses elements that it reads under a condition where it has unrolled\n"
        "   the loop around them (PR 114375): KEPT_APART conditions become no masks, and loops up\n"
        "   to apart(n) are not unrolled before vectors are made of them. */\n"
        "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14\n"
        '#define KEPT_APART __asm__ volatile("")\n'
        "/* A call, made once before the loops: gcc 12 misaligns arrays of functions without any\n"
        "   (PR 109780). */\n"
        "__attribute__((noinline, noclone, const, unused)) static ptrdiff_t apart(ptrdiff_t n)\n"
        '{\n    __asm__("" : "+r"(n));\n    return n;\n}\n'
        "#else\n#define KEPT_APART (void)0\n#define apart(n) (n)\n#endif\n"
    )
}
"""The definitions that the lines of this module need, as one that comes before all others."""

KEPT_APART = "KEPT_APART;"
"""The statement that keeps what is around it from becoming vectors before others are made."""
MOST_UNROLLED = 32
"""Longer loops are not unrolled by gcc before vectors are made: its limit there is about 16."""
_TAB = "    "


def when(condition: str, lines: Sequence[str]) -> list[str]:
    """Statements, loops among them, that a condition guards."""
    return [f"if ({condition}) {{", *_kept(lines), "}"]


def either(condition: str, lines: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """Statements where a condition holds, and others where it does not."""
    return [f"if ({condition}) {{", *_kept(lines), "} else {", *_kept(otherwise), "}"]


def _kept(lines: Sequence[str]) -> list[str]:
    return [f"{_TAB}{KEPT_APART}", *(_TAB + line for line in lines)]


def apart(extent: int) -> str:
    """The bound of a loop in which elements are read under a condition. Where it is inside of
    another, `KEPT_APART` stands before it, so that turns of the outer one are not joined."""
    return f"apart({extent})" if extent <= MOST_UNROLLED else str(extent)
