"""The order of the house: a room imports only from the rooms before it. Read from the sources."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "byocir"

LAYERS = (
    "errors",
    "arguments",
    "memory",
    "isolation",
    "files",
    "toolchain",
    "machine_sim",
    "vta_sim",
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


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a file imports, inside functions, too. An import for type
    checking only is none."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    ignored = {id(node) for guard in ast.walk(tree) if _for_types(guard) for node in guard.body}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if id(node) in ignored:
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: expected an absolute import"
            assert node.module is not None
            # `from byocir import dialects` names a room, `from byocir.dialects import x` is in one
            for alias in node.names:
                whole = f"byocir.{alias.name}" if node.module == "byocir" else node.module
                yield node.lineno, whole


def _for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def test_every_room_has_its_place():
    assert {room(path) for path in FILES} <= set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_imports_from_rooms_below_only(path):
    here = LAYERS.index(room(path))
    for line, module in imported_modules(path):
        if module.split(".")[0] != "byocir":
            continue
        # The public API is as high as the highest of what it offers.
        other = module.split(".")[1] if "." in module else "compiler"
        assert other in LAYERS, f"{path}:{line}: {module} has no place in the order"
        assert LAYERS.index(other) <= here, f"{path}:{line}: {room(path)} imports {other}, above it"


ALONE = {
    "machine_sim": {"machine_sim", "errors"},
    "vta_sim": {"machine_sim", "vta_sim", "errors", "memory", "files", "toolchain"},
}
"""Simulators, and the rooms that they know beside numpy and the standard library: the engines of
any machine know of none; VTA's know how files are read and, in native code, the C toolchain."""


@pytest.mark.parametrize("path", [p for p in FILES if room(p) in ALONE], ids=str)
def test_simulators_stand_alone(path):
    allowed = {f"byocir.{name}" for name in ALONE[room(path)]}
    for line, module in imported_modules(path):
        assert module.split(".")[0] != "xdsl", f"{path}:{line}: the simulator imports xDSL"
        if module.startswith("byocir"):
            assert ".".join(module.split(".")[:2]) in allowed, f"{path}:{line}: imports {module}"
