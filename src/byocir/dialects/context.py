"""Sets up the context with which every byocir tool parses: our dialects and those that they build
on, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from xdsl.ir import Dialect

from byocir.dialects.array import ByocirContext
from byocir.vendor.registry import registered_dialects

# xDSL's own dialects and ours are imported when a file first uses them.


def _builtin() -> Dialect:
    from xdsl.dialects.builtin import Builtin

    return Builtin


def _func() -> Dialect:
    from xdsl.dialects.func import Func

    return Func


def _arith() -> Dialect:
    from xdsl.dialects.arith import Arith

    return Arith


def _math() -> Dialect:
    from xdsl.dialects.math import Math

    return Math


def _memref() -> Dialect:
    from xdsl.dialects.memref import MemRef

    return MemRef


def _scf() -> Dialect:
    from xdsl.dialects.scf import Scf

    return Scf


def _affine() -> Dialect:
    from xdsl.dialects.affine import Affine

    return Affine


def _graph() -> Dialect:
    from byocir.dialects.graph import Graph

    return Graph


def _byoc() -> Dialect:
    from byocir.dialects.byoc import Byoc

    return Byoc


def _tir() -> Dialect:
    from byocir.dialects.tir import Tir

    return Tir


def _vta() -> Dialect:
    from byocir.dialects.vta import Vta

    return Vta


OWN_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "byoc": _byoc,
    "graph": _graph,
    "tir": _tir,
    "vta": _vta,
}
"""The dialects byocir defines, by name."""

BASE_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "affine": _affine,
    "arith": _arith,
    "builtin": _builtin,
    "func": _func,
    "math": _math,
    "memref": _memref,
    "scf": _scf,
}
"""The dialects of xDSL that stand beside them, by name."""


def dialects_of_targets() -> Iterable[Dialect]:
    """Gives the dialects of the targets that are registered in this process."""
    return registered_dialects().values()


def _itself(dialect: Dialect) -> Dialect:
    return dialect


def load_context() -> ByocirContext:
    """Makes a context that knows all of these dialects, and those of the targets that are
    registered in this process; each is imported at its first use.
    """
    context = ByocirContext()
    given = {dialect.name: partial(_itself, dialect) for dialect in dialects_of_targets()}
    for name, dialect in {**given, **BASE_DIALECTS, **OWN_DIALECTS}.items():
        context.register_dialect(name, dialect)
    return context
