"""Writes packages to files, and checks a file before a byte of it is believed.

Reading one reads the manifest and the report, and checks version, names and sizes of all members.
The others are read, and their digests checked, when somebody asks for their bytes: to look at a
package, and to run it by a plan of the cache, takes few of them.

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
import os
import zipfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast
from weakref import finalize

from byocir.errors import ByocirError
from byocir.files import replaced
from byocir.memory import expect_memory
from byocir.runtime.interface import Interface
from byocir.runtime.report import Report

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


class _File:
    """Keeps a package file open as long as somebody may ask for its bytes, so that another file in
    its place does not change what is read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file, self._lock = path, path.open("rb"), Lock()
        finalize(self, self._file.close)
        self._spans: dict[str, tuple[int, int]] = {}
        self._digests: dict[str, object] = {}
        self._read: dict[str, bytes] = {}

    @property
    def size(self) -> int:
        """Counts the bytes of the whole file."""
        return os.fstat(self._file.fileno()).st_size

    def as_zip(self) -> zipfile.ZipFile:
        """Gives the file as a zip."""
        return zipfile.ZipFile(self._file)

    def expect(self, info: zipfile.ZipInfo, entry: Mapping[str, Any]) -> None:
        """Notes where a member is and which digest it must have. Raises ByocirError B134 for a
        member of another size than the manifest lists.
        """
        if info.file_size != entry.get("size"):
            raise self._changed(info.filename)
        # Before its bytes: a header of 30 bytes, a name and a field, whose lengths it ends in.
        header = self._bytes(info.header_offset, 30)
        lengths = (int.from_bytes(header[i : i + 2], "little") for i in (26, 28))
        self._spans[info.filename] = info.header_offset + 30 + sum(lengths), info.file_size
        self._digests[info.filename] = entry.get("sha256")

    def read(self, name: str) -> bytes:
        """Reads the bytes of a member, once. Raises ByocirError B130 or B134."""
        if name not in self._read:
            with reported(self.path):
                data = self._bytes(*self._spans[name])
            if hashlib.sha256(data).hexdigest() != self._digests[name]:
                raise self._changed(name)
            self._read[name] = data
        return self._read[name]

    def _bytes(self, start: int, size: int) -> bytes:
        if not hasattr(os, "pread"):  # Windows lacks it; elsewhere forks share the file's position
            with self._lock:
                self._file.seek(start)
                return self._file.read(size)
        parts: list[bytes] = []
        while size and (part := os.pread(self._file.fileno(), size, start)):
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _changed(self, name: str) -> ByocirError:
        return ByocirError(
            "B134",
            f"expected the bytes of {name} that the manifest lists, found others",
            where=str(self.path),
            help="the package was changed or damaged: compile the model again",
        )


class Members(Mapping[str, bytes]):
    """Gives members of a package file by names that may be shorter than those in the file. Each is
    read and checked when it is asked for, which raises ByocirError B130 or B134.
    """

    def __init__(self, file: _File, names: Mapping[str, str]) -> None:
        """`names` maps each name to that of the member."""
        self._file, self._names = file, names

    def __getitem__(self, name: str) -> bytes:
        return self._file.read(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Contents(NamedTuple):
    """Holds the contents of a package: its module as text and weights, by member, what the manifest
    says of it, the files of each target by name, the report, and its golden members, if any.
    """

    texts: Mapping[str, bytes]
    interface: Interface
    blobs: dict[str, Mapping[str, bytes]]
    report: Report
    golden: Mapping[str, bytes]


@contextmanager
def as_written(where: str) -> Generator[None]:
    """Raises ByocirError B135, inside of a `with`, for members that hold something else than they
    should.
    """
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


@contextmanager
def reported(path: Path) -> Generator[None]:
    """Raises ByocirError B130, inside of a `with`, for a file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise ByocirError(
            "B130", f"cannot read the package: {error.strerror}", where=str(path)
        ) from error


def read_archive(path: Path) -> Contents:
    """Reads the contents of a package file; nothing of it is used before version, names and sizes
    of all members were checked, and no member before its digest was."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ByocirError("B131", "expected a file, found a device or a pipe", where=str(path))
    try:
        with reported(path):
            file = _File(path)
            with file.as_zip() as archive:
                _check_sizes(archive, file.size, path)
                manifest, names = _checked_members(archive, file)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ByocirError(
            "B131", "expected a byocir package, found another or a damaged file", where=str(path)
        ) from error
    with as_written(str(path)):
        interface = Interface.read(manifest)
        report = Report.from_dict(json.loads(file.read(REPORT)))
    blobs: dict[str, dict[str, str]] = {}
    for name in names:
        parts = name.split("/")
        if parts[0] == "blobs":
            blobs.setdefault(parts[1], {})[parts[2]] = name
    texts, golden = (
        Members(file, {name: name for name in group if name in names})
        for group in ((MODULE, WEIGHTS), (GOLDEN, GOLDEN_ARRAYS))
    )
    return Contents(
        texts, interface, {t: Members(file, n) for t, n in blobs.items()}, report, golden
    )


def _check_sizes(archive: zipfile.ZipFile, size: int, path: Path) -> None:
    """Raises ByocirError for members that overlap, by which a small file could hold a lot."""
    total = sum(info.file_size for info in archive.infolist())
    if total > size:
        raise ByocirError(
            "B133",
            f"expected members beside each other, found {total:,} bytes of them in {size:,}",
            where=str(path),
            help=NOT_OURS,
        )
    expect_memory(total, "a package", str(path))


def _checked_members(archive: zipfile.ZipFile, file: _File) -> tuple[dict[str, Any], list[str]]:
    """Reads the manifest, and the names of the members that it lists."""
    infos, path = archive.infolist(), file.path
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
    for name, entry in expected.items():
        file.expect(archive.getinfo(name), entry)
    return manifest, [*expected]


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
