"""What a change does to all that is generated: emitted C, VTA's streams and reports of a corpus.

    python benchmarks/replay.py [--base COMMIT] [--full] [--allow]

Compiles the corpus (`replays/corpus.py`) with the working tree and with another commit, and prints
what differs: digests, instructions by kind, cycles, padded multiply-accumulates, bytes of the
arena, lines of C. The other commit is HEAD while the tree has changes, else the one before it. What
a commit gives is kept in byocir's cache folder. Ends with 1 if anything differs, unless that is
allowed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from replays.corpus import Job, corpus
from replays.difference import Records, differences, sums, table

from byocir.files import replaced
from byocir.toolchain.build import cache_folder

ROOT = Path(__file__).parents[1]
RECORDER = ROOT / "benchmarks" / "replays" / "record.py"
INSIDE = ("src", "examples")
"""What of a commit decides on its records; the rest of it may change."""
LIBRARIES = ("ml_dtypes", "numpy", "onnx", "onnxruntime", "xdsl")
NEW = "working tree"


def git(*arguments: str) -> str:
    """What git prints. Ends the program with git's own message if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"replay: {done.stderr.strip()}")
    return done.stdout.strip()


def key_of(commit: str, jobs: str) -> str:
    """What the records of a commit depend on, as one digest."""
    trees = [git("rev-parse", f"{commit}:{folder}") for folder in INSIDE]
    versions = [sys.version, *(f"{name} {version(name)}" for name in LIBRARIES)]
    told = [*trees, *versions, jobs, RECORDER.read_text(encoding="utf-8")]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:32]


def written(jobs: list[Job], folder: Path) -> str:
    """Puts a corpus into a folder; gives its digest."""
    total = hashlib.sha256()
    for job in jobs:
        for name, data in job.files.items():
            (folder / name).write_bytes(data)
            total.update(hashlib.sha256(data).digest())
    text = json.dumps([job.told() for job in jobs], indent=1)
    (folder / "jobs.json").write_text(text, encoding="utf-8")
    total.update(text.encode())
    return total.hexdigest()


@contextmanager
def checked_out(commit: str) -> Generator[Path]:
    """A folder with the files of a commit, as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="byocir-replay-") as folder:
        root = Path(folder, "commit")
        git("worktree", "add", "--detach", "--quiet", str(root), commit)
        try:
            _name_targets(root)
            yield root
        finally:
            git("worktree", "remove", "--force", str(root))


def _name_targets(root: Path) -> None:
    """Has a commit's own targets be found, not those that are installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = root / "src" / f"byocir-{project['version']}.dist-info"
    folder.mkdir()
    about = f"Metadata-Version: 2.1\nName: byocir\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(about, encoding="utf-8")
    lines: list[str] = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


class Side:
    """A process that records one side, into a file of its own."""

    def __init__(self, name: str, corpus: Path, root: Path) -> None:
        self.name = name
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(RECORDER), str(corpus), str(root)]
        self.lines = corpus / f"{name}.jsonl"
        with self.lines.open("w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, env=environment, stdout=file)

    def records(self) -> Records:
        """What it recorded, when it is done."""
        if self.process.wait():
            code = self.process.returncode
            sys.exit(f"replay: expected the records of {self.name}, found exit code {code}")
        return dict(map(json.loads, self.lines.read_text(encoding="utf-8").splitlines()))


def kept(path: Path, records: Records) -> Records:
    """The same records, put into the cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        file.write(json.dumps(records).encode())
    return records


def both(base: str, dirty: bool, folder: Path, digest: str) -> tuple[Records, Records]:
    """The records of the base and of the working tree; those that are not known are made side by
    side."""
    store = cache_folder() / "replay"
    old = store / f"{key_of(base, digest)}.json"
    new = None if dirty else store / f"{key_of('HEAD', digest)}.json"
    ours = None if new and new.exists() else Side(NEW, folder, ROOT)
    if old.exists():
        before = json.loads(old.read_text(encoding="utf-8"))
    else:
        with checked_out(base) as root:
            before = kept(old, Side(base, folder, root).records())
    if ours is None:
        assert new is not None
        return before, json.loads(new.read_text(encoding="utf-8"))
    after = ours.records()
    return before, kept(new, after) if new else after


def main() -> int:
    """Prints what differs; the exit code."""
    logging.disable(logging.WARNING)  # the quantiser's advice
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="", help="the commit to compare with")
    parser.add_argument("--full", action="store_true", help="nets in full size instead")
    parser.add_argument("--allow", action="store_true", help="end with 0 whatever differs")
    options = parser.parse_args()
    dirty = bool(git("status", "--porcelain", "--", *INSIDE))
    base = options.base or ("HEAD" if dirty else "HEAD~1")
    commit = git("rev-parse", "--verify", f"{base}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="byocir-replay-") as made:
        jobs = list(corpus(full=options.full))
        before, after = both(commit, dirty, Path(made), written(jobs, Path(made)))
    head = NEW if dirty else git("log", "-1", "--format=%h %s", "HEAD")
    print(f"{git('log', '-1', '--format=%h %s', commit)}  ->  {head}")
    rows = differences(before, after)
    if not rows:
        print(f"no difference in {len(after)} jobs")
        return 0
    changed = len({row.job for row in rows})
    print(table([*rows, *sums(before, after)]))
    print(f"{changed} of {len({*before, *after})} jobs differ")
    return 0 if options.allow else 1


if __name__ == "__main__":
    sys.exit(main())
