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
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from byocir.errors import ByocirError
from byocir.files import replaced
from byocir.memory import ask
from byocir.runtime.interface import Interface
from byocir.runtime.report import Report

if TYPE_CHECKING:
    pass

SCHEMA_VERSION = 3
MANIFEST, MODULE, WEIGHTS, REPORT = (
    "manifest.json",
    "module.mlir",
    "weights.safetensors",
    "report.json",
)
GOLDEN, GOLDEN_ARRAYS = "golden.json", "golden.safetensors"
"""The members that only packages with golden inputs and outputs have."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold: the same for every member."""
NOT_OURS = "this file was not written by byocir; do not use it"


class Contents(NamedTuple):
    """The contents of a package: its module as text and weights, by member, what the manifest tells
    of it, the files of each target by name, the report, and its golden members, if any."""

    texts: Mapping[str, bytes]
    interface: Interface
    blobs: dict[str, dict[str, bytes]]
    report: Report
    golden: Mapping[str, bytes]


@contextmanager
def as_written(where: str) -> Generator[None]:
    """Raises ByocirError B135 for members that turn out to hold something else."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ByocirError(
            "B135",
            f"expected members that byocir wrote, found {type(error).__name__}: {error}",
            where=where,
            help=NOT_OURS,
        ) from error


def write_archive(
    path: Path,
    texts: Mapping[str, bytes],
    interface: Interface,
    report: Report,
    blobs: Mapping[str, Mapping[str, bytes]],
) -> None:
    """Writes a package file; the same contents give the same bytes. `texts` are those of the
    module, and its golden members."""
    members = {**texts, REPORT: report.to_json().encode()}
    for target, files in sorted(blobs.items()):
        members.update({f"blobs/{target}/{name}": files[name] for name in sorted(files)})
    manifest = {
        **interface.to_dict(),
        "schema_version": SCHEMA_VERSION,
        "members": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in members.items()
        },
    }
    text = json.dumps(manifest, indent=1) + "\n"
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


def read_archive(path: Path) -> Contents:
    """The contents of a package file; nothing of it is used before version, names,
    sizes and digests of all members were checked."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ByocirError("B131", "expected a file, found a device or a pipe", where=str(path))
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, path)
            manifest, members = _checked_members(archive, path)
    except OSError as error:
        raise ByocirError(
            "B130", f"cannot read the package: {error.strerror}", where=str(path)
        ) from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ByocirError(
            "B131", "expected a byocir package, found another or a damaged file", where=str(path)
        ) from error
    with as_written(str(path)):
        interface = Interface.read(manifest)
        report = Report.from_dict(json.loads(members[REPORT]))
    texts = {name: members[name] for name in (MODULE, WEIGHTS)}
    blobs: dict[str, dict[str, bytes]] = {}
    for name, data in members.items():
        parts = name.split("/")
        if parts[0] == "blobs":
            blobs.setdefault(parts[1], {})[parts[2]] = data
    golden = {name: members[name] for name in (GOLDEN, GOLDEN_ARRAYS) if name in members}
    return Contents(texts, interface, blobs, report, golden)


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuses members that lie on top of each other, so that a small file holds a lot."""
    total, size = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > size:
        raise ByocirError(
            "B133",
            f"expected members beside each other, found {total:,} bytes of them in {size:,}",
            where=str(path),
            help=NOT_OURS,
        )
    ask(total, "a package", str(path))


def _checked_members(
    archive: zipfile.ZipFile, path: Path
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the members that it lists."""
    infos = archive.infolist()
    names = [info.filename for info in infos]
    plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
    if len(set(names)) != len(names) or not plain or not all(map(_is_member, names)):
        raise ByocirError(
            "B133",
            "expected stored members with plain names, each once, found other ones",
            where=str(path),
            help=NOT_OURS,
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
    return manifest, {
        name: _checked(archive, name, entry, path) for name, entry in expected.items()
    }


def _is_member(name: str) -> bool:
    if name in (MANIFEST, MODULE, WEIGHTS, REPORT, GOLDEN, GOLDEN_ARRAYS):
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
