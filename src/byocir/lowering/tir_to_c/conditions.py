"""Writes conditions around statements and loops in C so that compilers keep elements apart.

gcc before 14 drops the order of elements that it reads under a condition where several such reads
became one vector (PR 114375: masked loads with AVX or SVE). There are several where a loop was
unrolled before vectors are made, so a loop is kept from that if something in it is read under a
condition, and a condition around a whole loop is kept from being made a mask. Other compilers see
plain C.
"""

from __future__ import annotations

from byocir.lowering.tir_to_c.tree import For, If, Nodes

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


def when(condition: str, body: Nodes) -> If:
    """Makes statements, loops among them, run only where a condition holds."""
    return If(condition, [KEPT_APART, *body])


def either(condition: str, body: Nodes, otherwise: Nodes) -> If:
    """Makes some statements run where a condition holds, and others where it does not."""
    return If(condition, [KEPT_APART, *body], [KEPT_APART, *otherwise])


def loop_over(name: str, extent: int, body: Nodes, varies: bool = False) -> For:
    """Makes a loop from 0 on. If what it does `varies` with conditions under which elements are
    read, and it is short and stands in another loop, `KEPT_APART` is put before it, so that
    compilers do not join turns of the outer one.
    """
    return For(name, extent, body, is_apart=varies and extent <= MOST_UNROLLED)
