"""What differs between two records of a corpus, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replays.record import Record

Records = Mapping[str, Record]
"""By the name of the job."""
WIDEST = 60
"""Characters of a cell."""
SUMS = ("cycles", "instructions", "padded_macs", "energy_pj")
"""Numbers that are added up over the corpus, where any of them changed."""


@dataclass(frozen=True)
class Row:
    """One thing of one job, before and after."""

    job: str
    what: str
    before: str
    after: str
    change: str = ""


def differences(before: Records, after: Records) -> list[Row]:
    """All that changed, in the order of the corpus."""
    rows: list[Row] = []
    for job in dict.fromkeys([*before, *after]):
        if job not in before or job not in after:
            rows.append(Row(job, "job", _there(job in before), _there(job in after)))
        else:
            rows += _of_job(job, before[job], after[job])
    return rows


def _there(there: bool) -> str:
    return "there" if there else "none"


def _of_job(job: str, before: Record, after: Record) -> Iterator[Row]:
    if "error" in before or "error" in after:
        # Told even if both fail alike: a job that never compiles compares nothing.
        yield Row(job, "result", *(side.get("error", "compiles") for side in (before, after)))
        return
    for what, old, new in _changes(before["parts"], after["parts"]):
        yield Row(job, what, *(one[:8] if one else "none" for one in (old, new)))
    for what, old, new in _changes(before["numbers"], after["numbers"]):
        yield _counted(job, what, old or 0, new or 0)


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[tuple]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _counted(job: str, what: str, before: int, after: int) -> Row:
    change = f"{100 * (after - before) / before:+.2f} %" if before else ""
    return Row(job, what, f"{before:,}", f"{after:,}", change)


def sums(before: Records, after: Records) -> list[Row]:
    """The sums over all jobs that both sides compile, of what changed anywhere."""
    pairs = [(before[job], after[job]) for job in before if job in after]
    both = [pair for pair in pairs if not any("error" in side for side in pair)]
    rows: list[Row] = []
    for kind in SUMS:
        each = [(_sum(old, kind), _sum(new, kind)) for old, new in both]
        if any(old != new for old, new in each):
            olds, news = zip(*each, strict=True)
            rows.append(_counted("all jobs", kind, sum(olds), sum(news)))
    return rows


def _sum(record: Record, kind: str) -> int:
    return sum(n for what, n in record["numbers"].items() if what.endswith(f", {kind}"))


def _cut(text: str) -> str:
    """The beginning of an error's message."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text; a job is named once."""
    lines, last = [("job", "what", "before", "after", "change")], ""
    for row in rows:
        job = "" if row.job == last else row.job
        before, after = (_cut(text) for text in (row.before, row.after))
        lines.append((job, row.what, before, after, row.change))
        last = row.job
    job, what, *numbers = (max(map(len, column)) for column in zip(*lines, strict=True))
    text = (
        "  ".join(
            [f"{line[0]:<{job}}", f"{line[1]:<{what}}"]
            + [f"{cell:>{width}}" for cell, width in zip(line[2:], numbers, strict=True)]
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in text)
