"""How both tools end where their streams are closed or full."""

import sys

import pytest

from byocir.cli.guard import guarded
from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.errors import ByocirError


def speak() -> int:
    print("results")
    return 0


def fail() -> int:
    raise ByocirError("B101", "expected a file, found none")


def test_a_full_output_is_told(monkeypatch, capsys):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert guarded(speak, ["byocir"]) == 1
        assert "error[B112]: expected standard output that" in capsys.readouterr().err


def test_a_closed_output_is_told_where_there_is_something_to_say(monkeypatch, capsys):
    for tool, code in ((speak, 1), (lambda: 0, 0)):
        monkeypatch.setattr(sys, "stdout", None)
        assert guarded(tool, ["byocir"]) == code
        sys.stdout.close()
        assert ("error[B112]" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("stream", ["full", "closed"])
def test_without_an_error_stream_the_exit_code_tells(stream, monkeypatch):
    place = open("/dev/full", "w", encoding="utf-8") if stream == "full" else None  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", place)
    assert guarded(fail, ["byocir"]) == 1
    sys.stderr.close()


def test_no_input_is_an_empty_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["vta", "asm", "-", "-o", "none/x"]) == 1
    assert "error[B114]" in capsys.readouterr().err
    sys.stdin.close()


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["run", "--help"]])
@pytest.mark.parametrize("stream", ["full", "closed"])
def test_help_that_cannot_be_written_is_an_error(words, stream, monkeypatch, capsys):
    place = open("/dev/full", "w", encoding="utf-8") if stream == "full" else None  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", place)
    assert main(words) == 1
    sys.stdout.close()
    assert "error[B112]: expected standard output that" in capsys.readouterr().err


def test_help_of_the_other_tool_that_cannot_be_written_is_an_error(monkeypatch, capsys):
    """It is longer than what a stream keeps before it writes."""
    monkeypatch.setattr(sys, "stdout", open("/dev/full", "w", encoding="utf-8"))  # noqa: SIM115
    assert run_opt(["--help"]) == 1
    sys.stdout.close()
    assert "error[B112]: expected standard output that" in capsys.readouterr().err


def test_usage_errors_are_short_and_printable(capsys):
    with pytest.raises(SystemExit):
        main(["run", "m.onnx", "--seed", "\x1b[2J" + "9" * 5000])
    err = capsys.readouterr().err
    assert "\\x1b[2J" in err
    assert "\x1b" not in err
    assert len(err.splitlines()[-1]) < 1024


def test_an_unknown_option_is_told_by_its_verb_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "model.onnx", "--inputs=a.npz"])
    err = capsys.readouterr().err
    assert err.startswith("usage: byocir run")
    assert err.endswith(
        "byocir run: error: unrecognized arguments: --inputs=a.npz; did you mean '--input'?\n"
    )
    with pytest.raises(SystemExit, match="2"):
        main(["run", "model.onnx", "other.onnx"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: other.onnx\n")
