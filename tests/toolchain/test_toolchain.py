"""Building shared libraries: what is kept, what is built anew, and what users are told."""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from byocir.errors import ByocirError
from byocir.toolchain import (
    build,
    build_shared,
    built_and_loaded,
    compiler,
    find_compiler,
    load_shared,
)

ANSWER = '#include "answer.h"\nint answer(void) { return ANSWER; }\n'


def files(answer: int) -> dict[str, str]:
    return {"answer.c": ANSWER, "answer.h": f"#define ANSWER {answer}\n"}


def call(path: Path) -> int:
    return load_shared(path).answer()


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BYOCIR_CACHE", str(folder))
    return folder


@pytest.fixture
def counting_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that leaves a line per run in the file returned."""
    log = tmp_path / "runs"
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    script(tmp_path / "counting-cc", f'echo run >> "{log}"\nexec "{real}" "$@"', monkeypatch)
    return log


def script(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(path))
    return path


def runs(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_a_library_is_built_once(counting_compiler: Path, cache_folder: Path) -> None:
    first = build_shared("answer", files(42))
    assert call(first) == 42
    assert build_shared("answer", files(42)) == first
    assert runs(counting_compiler) == 1
    assert [path.name for path in cache_folder.iterdir()] == [first.name]


def test_sources_headers_flags_and_compiler_decide(
    counting_compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        build_shared("answer", files(1)),
        build_shared("answer", files(2)),
        build_shared("answer", {**files(1), "answer.c": ANSWER + "\n"}),
        build_shared("answer", files(1), ["-O1"]),
        build_shared("other", files(1)),
    ]
    assert [call(path) for path in paths] == [1, 2, 1, 1, 1]
    monkeypatch.setattr(build, "processor_text", lambda: "another machine")
    assert build_shared("answer", files(1)) == paths[0]
    paths.append(build_shared("answer", files(1), ["-march=native"]))
    monkeypatch.setattr(build, "processor_text", lambda: "a third machine")
    paths.append(build_shared("answer", files(1), ["-march=native"]))
    replaced = tmp_path / "counting-cc"
    script(replaced, replaced.read_text() + "# a new version", monkeypatch)
    paths.append(build_shared("answer", files(1)))
    assert len(set(paths)) == len(paths) == runs(counting_compiler)


@pytest.mark.parametrize("place", ["kept", "own"])
def test_a_changed_header_of_a_library_is_seen(
    place: str, tmp_path: Path, cache_folder: Path, counting_compiler: Path
) -> None:
    """A library of another vendor has its headers elsewhere; so it is for those that these include,
    and for a cache that cannot be written."""
    vendor = tmp_path / "of a vendor"
    vendor.mkdir()
    (vendor / "answer.h").write_text('#include "number.h"\n')
    (vendor / "number.h").write_text("#define ANSWER 1\n")
    if place == "own":
        cache_folder.write_text("in the way")

    def built() -> Path:
        return build_shared(f"answer-{place}", {"answer.c": ANSWER}, [f"-I{vendor}"])

    assert call(built()) == 1
    count = runs(counting_compiler)
    assert call(built()) == 1
    assert runs(counting_compiler) == count
    (vendor / "number.h").write_text("#define ANSWER 2\n")
    assert call(built()) == 2
    (vendor / "number.h").unlink()
    with pytest.raises(ByocirError, match=r"number\.h"):
        built()


def test_files_and_flags_do_not_run_together() -> None:
    source = {"one.c": "int one(void) { return 1; }\n"}
    made = [
        build_shared("one", {**source, "a": "bc"}),
        build_shared("one", {**source, "ab": "c"}),
        build_shared("one", source, ["-DA", "-DB"]),
        build_shared("one", source, ["-DA-DB"]),
    ]
    assert len(set(made)) == len(made)


def test_source_that_does_not_compile() -> None:
    broken = {"broken.c": "int first(void) {\n  return missing_name;\n}\n"}
    with pytest.raises(ByocirError) as caught:
        build_shared("broken", broken)
    assert caught.value.code == "B403"
    assert "expected the C compiler to build broken.c, found exit code 1" in caught.value.message
    assert "broken.c:2" in caught.value.message
    assert "missing_name" in caught.value.message
    assert caught.value.where == str(find_compiler())


def test_messages_stay_short() -> None:
    lines = "\n".join(f"int f{i}(void) {{ return missing{i}; }}" for i in range(50))
    with pytest.raises(ByocirError) as caught:
        build_shared("broken", {"broken.c": lines})
    assert len(caught.value.message.splitlines()) <= 1 + build.ERROR_LINES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("exit 3", "exit code 3:\n    no message"),
        ("echo out of luck >&2; exit 1", "exit code 1:\n    out of luck"),
        ("exit 0", "exit code 0 and no library"),
    ],
)
def test_broken_compiler(
    text: str, found: str, tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bad-cc", text, monkeypatch)
    with pytest.raises(ByocirError) as caught:
        build_shared("answer", files(1))
    assert caught.value.code == "B403"
    assert caught.value.message.endswith(f"found {found}")
    assert not cache_folder.exists()


def test_a_program_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bad-cc", "", monkeypatch).write_text("#!/no/such/interpreter\n")
    with pytest.raises(ByocirError, match="B403"):
        build_shared("answer", files(1))


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A compiler that has another program do the work, for a minute; the end of a pipe from it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    script(tmp_path / "slow-cc", f'(echo begun; exec sleep 60) >"{pipe}" &\nwait', monkeypatch)
    yield end
    os.close(end)


def has_ended(pipe: int) -> bool:
    """Whether everybody who could write has ended, or does so within seconds."""
    while select.select([pipe], [], [], 10)[0]:
        if not os.read(pipe, 100):
            return True
    return False


def test_who_works_for_a_compiler_ends_with_its_time(
    at_work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "SECONDS", 1)
    with pytest.raises(ByocirError, match="timed out after 1 seconds") as caught:
        build_shared("answer", files(1))
    assert caught.value.code == "B403"
    assert has_ended(at_work)


def test_who_works_for_a_compiler_ends_with_an_interrupt(at_work: int) -> None:
    def interrupt() -> None:
        select.select([at_work], [], [], 10)
        time.sleep(0.2)  # the compiler may be at work before Python has its process
        os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        build_shared("answer", files(1))
    thread.join()
    assert has_ended(at_work)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler, "WHEEL", "no_such_wheel")
    with pytest.raises(ByocirError) as caught:
        build_shared("answer", files(1))
    assert caught.value.code == "B401"
    assert "found none of $CC, cc, gcc, clang, the no_such_wheel wheel" in caught.value.message
    assert "pip install 'byocir[zig]'" in caught.value.help


@pytest.mark.parametrize("value", ["no-such-compiler -O2", "'unclosed"])
def test_chosen_compiler_that_is_not_there(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", value)
    with pytest.raises(ByocirError) as caught:
        find_compiler()
    assert caught.value.code == "B402"


def test_the_wheel_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    package = tmp_path / "wheels" / "a_zig_wheel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "zig").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(compiler, "WHEEL", "a_zig_wheel")
    assert "a_zig_wheel" not in find_compiler().command
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_compiler()
    assert found.command == (sys.executable, "-m", "a_zig_wheel", "cc")
    assert str(package / "zig") in found.identity


def test_zig_spells_processors_without_hyphens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "given"
    tool = script(tmp_path / "zig", f'echo "$@" >> "{log}"\nexit 1', monkeypatch)
    monkeypatch.setenv("CC", f"{tool} cc")
    with pytest.raises(ByocirError):
        build_shared("answer", files(42), ["-march=x86-64-v3", "-march=native", "-lm"])
    assert "-march=x86_64_v3 -march=native -lm" in log.read_text()


def test_flags_in_cc_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -O1 -DEXTRA=41")
    path = build_shared("extra", {"extra.c": "int answer(void) { return EXTRA + 1; }"})
    assert call(path) == 42


def test_the_users_flags_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"extra.c": "int answer(void) { return EXTRA; }"}
    built = set[Path]()
    for number in (41, 42):
        monkeypatch.setenv("BYOCIR_CFLAGS", f"-UEXTRA '-DEXTRA={number}'")
        path = build_shared("extra", extra, ["-DEXTRA=40"])
        assert call(path) == number
        built.add(path)
    assert len(built) == 2
    monkeypatch.setenv("BYOCIR_CFLAGS", "'-DEXTRA")
    with pytest.raises(ByocirError, match="No closing quotation") as caught:
        build_shared("extra", extra)
    assert caught.value.code == "B402"


def test_an_unwritable_cache_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the folder should be: not even root can write there."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BYOCIR_CACHE", str(tmp_path / "file" / "cache"))
    path = build_shared("answer", files(7))
    assert call(path) == 7
    assert build_shared("answer", files(7)) == path
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_cache_without_room_is_left_alone(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build.shutil, "copy", full)
    path = build_shared("answer", files(11))
    assert call(path) == 11
    assert path.parent != cache_folder
    assert list(cache_folder.iterdir()) == []


def test_no_room_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(ByocirError) as caught:
        build_shared("answer", files(12))
    assert caught.value.code == "B406"


@pytest.mark.parametrize("left", [0, 3, 20, 100, 5000, -1], ids="{} bytes".format)
def test_a_library_that_was_cut_off_is_built_again(left: int) -> None:
    """Loading most of one would end the process."""
    path = build_shared("answer", files(13))
    path.write_bytes(path.read_bytes()[:left])
    assert built_and_loaded("answer", files(13)).answer() == 13
    assert call(path) == 13


def test_a_damaged_library_is_built_again() -> None:
    path = build_shared("answer", files(14))
    path.write_bytes(b"no library, but long enough" * 100)
    assert built_and_loaded("answer", files(14)).answer() == 14


def test_a_folder_in_the_place_of_a_library(cache_folder: Path) -> None:
    path = build_shared("answer", files(15))
    path.unlink()
    path.mkdir()
    assert built_and_loaded("answer", files(15)).answer() == 15
    assert list(cache_folder.iterdir()) == [path]


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert build.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("BYOCIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_folder() == tmp_path / "xdg" / "byocir"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "byocir"


def test_concurrent_processes_build_the_same_library(cache_folder: Path) -> None:
    code = (
        "import ctypes; from byocir.toolchain import build_shared\n"
        f"print(ctypes.CDLL(str(build_shared('answer', {files(9)!r}))).answer())"
    )

    def start(_: int) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(start, range(4))) == ["9\n"] * 4
    assert len(os.listdir(cache_folder)) == 1


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_text("no library")
    with pytest.raises(ByocirError, match="B404") as caught:
        load_shared(tmp_path / "library.so")
    assert caught.value.where == str(tmp_path / "library.so")


def test_a_library_with_an_undefined_symbol(cache_folder: Path) -> None:
    path = build_shared("lost", {"lost.c": "int gone(void); int f(void) { return gone(); }"}, [])
    with pytest.raises(ByocirError, match=r"B404.*undefined symbol: gone") as caught:
        load_shared(path)
    assert caught.value.help == "define it, or name the library that has it"
