"""The order of the house: a room imports only from the rooms before it, and no file imports one
that needs it. Read from the sources."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "byocir"

LAYERS = (
    "lazy",
    "errors",
    "arguments",
    "memory",
    "isolation",
    "files",
    "toolchain",
    "machine_sim",
    "vta_sim",
    "vendor",
    "dialects",
    "patterns",
    "frontend",
    "evaluate",
    "machine",
    "rewrites",
    "lowering",
    "targets",
    "runtime",
    "request",
    "compiler",
    "onnx_backend",
    "quantiser",
    "tuning",
    "testing",
    "cli",
)
LAZY = {Path("__init__.py"), Path("universe.py")}
"""These name what others define and import it when it is asked for; they may name all rooms."""

FILES = sorted({path.relative_to(ROOT) for path in ROOT.rglob("*.py")} - LAZY)


def room(path: Path) -> str:
    """The room that a file belongs to."""
    return path.parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def imports(path: Path, for_types: bool = False) -> list[tuple[int, str]]:
    """Line and full name of all that a file imports, inside functions, too; what it imports for
    type checking only if asked for, and never what it imports as a program."""
    tree = tree_of(path)
    ignored = ["__name__ == '__main__'", *([] if for_types else ["TYPE_CHECKING"])]
    return list(_imports(path, tree, ignored))


def _imports(path: Path, node: ast.AST, ignored: list[str]) -> Iterator[tuple[int, str]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.If) and ast.unparse(inner.test) in ignored:
            continue
        if isinstance(inner, ast.Import):
            yield from ((inner.lineno, alias.name) for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom):
            assert inner.level == 0, f"{path}:{inner.lineno}: expected an absolute import"
            assert inner.module is not None
            for alias in inner.names:
                whole = f"{inner.module}.{alias.name}"
                yield inner.lineno, whole if _file_of(whole) else inner.module
        elif not isinstance(inner, ast.expr):
            yield from _imports(path, inner, ignored)


@cache
def _file_of(module: str) -> Path | None:
    """The file of a module of byocir, from its full name."""
    path = ROOT.joinpath(*module.split(".")[1:])
    found = (path.with_suffix(".py"), path / "__init__.py")
    own = module.split(".")[0] == "byocir"
    return next((f.relative_to(ROOT) for f in found if own and f.is_file()), None)


def test_every_room_has_its_place():
    assert {room(path) for path in FILES} <= set(LAYERS)


def test_the_table_of_contributing_has_every_room_in_order():
    page = (ROOT.parents[1] / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)(?:\.py|/)`(?: \||, and)?", page, re.MULTILINE)
    assert tuple(rows) == LAYERS


@pytest.mark.parametrize("own", LAYERS)
def test_a_room_imports_from_rooms_below_only(own):
    here = LAYERS.index(own)
    for path in (path for path in FILES if room(path) == own):
        for line, module in imports(path):
            if module.split(".")[0] != "byocir":
                continue
            # The public API is as high as the highest of what it offers.
            other = module.split(".")[1] if "." in module else "compiler"
            assert other in LAYERS, f"{path}:{line}: {module} has no place in the order"
            assert LAYERS.index(other) <= here, (
                f"{path}:{line}: {own} imports {module}, of a room after it in the table of "
                f"CONTRIBUTING.md ({other})"
            )


def test_no_files_import_each_other():
    """Directly or by way of others, also where only types need it or a function."""
    needs = {path: [_file_of(module) for _, module in imports(path, True)] for path in FILES}
    order = TopologicalSorter({path: set(found) & needs.keys() for path, found in needs.items()})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(f"expected no circle of imports, found {' -> '.join(map(str, error.args[1]))}")


ALONE = {
    "machine_sim": {"machine_sim", "errors"},
    "vta_sim": {"machine_sim", "vta_sim", "lazy", "errors", "memory", "files", "toolchain"},
}
"""Simulators, and the rooms that they know beside numpy and the standard library: the engines of
any machine know of none; VTA's know how files are read and, in native code, the C toolchain."""


@pytest.mark.parametrize("own", ALONE)
def test_simulators_stand_alone(own):
    allowed = {f"byocir.{name}" for name in ALONE[own]}
    for path in (path for path in FILES if room(path) == own):
        for line, module in imports(path):
            assert module.split(".")[0] != "xdsl", f"{path}:{line}: the simulator imports xDSL"
            if module.startswith("byocir"):
                found = ".".join(module.split(".")[:2])
                assert found in allowed, f"{path}:{line}: imports {module}"
