"""Packages as files: what is written, and what is checked before a byte of it is believed.

| code | what is wrong |
| --- | --- |
| B130 | no such file, or it cannot be written |
| B131 | not a package, or cut short |
| B132 | a version that this byocir does not read |
| B133 | a member that is missing, unknown, compressed or has a path that leaves the package |
| B134 | a member whose bytes are not those that were written |
| B135 | a member that does not hold what its name says |
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights, read_weights
from byocir.errors import ByocirError
from byocir.files import replaced
from byocir.memory import ask
from byocir.runtime.report import Report

SCHEMA_VERSION = 1
MANIFEST, MODULE, WEIGHTS, REPORT = (
    "manifest.json",
    "module.mlir",
    "weights.safetensors",
    "report.json",
)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold: the same for every member."""


def write_archive(
    path: Path,
    module: ModuleOp,
    blobs: Mapping[str, Mapping[str, bytes]],
    report: Report,
    about: Mapping[str, Any],
) -> None:
    """Writes a package file; the same contents give the same bytes. `about` is what the manifest
    says of the package beside its members: plain data."""
    members = texts_of(module, report)
    for target, files in sorted(blobs.items()):
        members.update({f"blobs/{target}/{name}": files[name] for name in sorted(files)})
    manifest = {
        **about,
        "schema_version": SCHEMA_VERSION,
        "members": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in members.items()
        },
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    try:
        with replaced(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in {MANIFEST: text.encode(), **members}.items():
                info = zipfile.ZipInfo(name, EPOCH)
                info.create_system, info.external_attr = 3, 0o644 << 16
                archive.writestr(info, data)
    except OSError as error:
        raise ByocirError(
            "B130", f"cannot write the package: {error.strerror}", where=str(path)
        ) from error


def texts_of(module: ModuleOp, report: Report) -> dict[str, bytes]:
    """The members that are not a target's."""
    return {
        MODULE: print_module(module).encode(),
        WEIGHTS: dump_weights(module),
        REPORT: report.to_json().encode(),
    }


def read_archive(path: Path) -> tuple[ModuleOp, dict[str, dict[str, bytes]], Report]:
    """The module, blobs and report of a package file; nothing of it is used before version, names,
    sizes and digests of all members were checked."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ByocirError("B131", "expected a file, found a device or a pipe", where=str(path))
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, path)
            members = _checked_members(archive, path)
    except OSError as error:
        raise ByocirError(
            "B130", f"cannot read the package: {error.strerror}", where=str(path)
        ) from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ByocirError(
            "B131", "expected a byocir package, found another or a damaged file", where=str(path)
        ) from error
    module, report = parsed(members, str(path))
    blobs: dict[str, dict[str, bytes]] = {}
    for name, data in members.items():
        parts = name.split("/")
        if parts[0] == "blobs":
            blobs.setdefault(parts[1], {})[parts[2]] = data
    return module, blobs, report


def parsed(members: Mapping[str, bytes], where: str) -> tuple[ModuleOp, Report]:
    """The module and the report of members as `texts_of` gives them; raises ByocirError B135."""
    context = load_context()
    read_weights(members[WEIGHTS], context.arrays, where)
    try:
        module = parse_module(members[MODULE].decode(), context)
        return module, Report.from_dict(json.loads(members[REPORT]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ByocirError(
            "B135",
            f"expected members that byocir wrote, found {type(error).__name__}: {error}",
            where=where,
            help="this file was not written by byocir; do not use it",
        ) from error


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuses members that lie on top of each other, so that a small file holds a lot."""
    total, size = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > size:
        raise ByocirError(
            "B133",
            f"expected members beside each other, found {total:,} bytes of them in {size:,}",
            where=str(path),
            help="this file was not written by byocir; do not use it",
        )
    ask(total, "a package", str(path))


def _checked_members(archive: zipfile.ZipFile, path: Path) -> dict[str, bytes]:
    infos = archive.infolist()
    names = [info.filename for info in infos]
    plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
    if len(set(names)) != len(names) or not plain or not all(map(_is_member, names)):
        raise ByocirError(
            "B133",
            "expected stored members with plain names, each once, found other ones",
            where=str(path),
            help="this file was not written by byocir; do not use it",
        )
    manifest = _manifest(archive, names, path)
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise ByocirError(
            "B132",
            f"expected package version {SCHEMA_VERSION}, found {manifest.get('schema_version')}",
            where=str(path),
            help="compile the model again with this byocir",
        )
    expected: dict[str, dict[str, Any]] = manifest["members"]
    if set(expected) != set(names) - {MANIFEST} or not {MODULE, WEIGHTS, REPORT} <= set(expected):
        raise ByocirError(
            "B133", "expected the members that the manifest lists, found others", where=str(path)
        )
    return {name: _checked(archive, name, entry, path) for name, entry in expected.items()}


def _is_member(name: str) -> bool:
    if name in (MANIFEST, MODULE, WEIGHTS, REPORT):
        return True
    parts = name.split("/")
    return (
        len(parts) == 3
        and parts[0] == "blobs"
        and all(part not in ("", ".", "..") and "\\" not in part for part in parts)
    )


def _manifest(archive: zipfile.ZipFile, names: list[str], path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(archive.read(MANIFEST)) if MANIFEST in names else None
    except ValueError:
        manifest = None
    if isinstance(manifest, dict):
        members: object = cast(Any, manifest).get("members")
        if isinstance(members, dict) and all(
            isinstance(entry, dict) for entry in cast("dict[str, object]", members).values()
        ):
            return cast(dict[str, Any], manifest)
    raise ByocirError("B131", "expected a byocir package, found no manifest", where=str(path))


def _checked(archive: zipfile.ZipFile, name: str, entry: dict[str, Any], path: Path) -> bytes:
    data = archive.read(name) if archive.getinfo(name).file_size == entry.get("size") else b""
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ByocirError(
            "B134",
            f"expected the bytes of {name} that the manifest lists, found others",
            where=str(path),
            help="the package was changed or damaged: compile the model again",
        )
    return data
