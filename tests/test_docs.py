"""What the README and the docs show is true: their Python runs, their output is what is printed."""

import argparse
import importlib.util
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from qdq_models import small_net
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir import ByocirError, Target, machine, patterns
from byocir.cli import guard
from byocir.cli.job import FIELDS
from byocir.cli.main import build_parser
from byocir.patterns import Composite, constant, op, optional_operand, wildcard
from byocir.rewrites.byoc.count_work import MatchedOps
from byocir.rewrites.registry import PASSES
from byocir.runtime.export import export_project
from byocir.runtime.report_text import explain
from byocir.tuning.sweep import settings_of
from byocir.vta_sim import HAZARDS, assemble, sanitize

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def snippets(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("in_root")
def test_the_readmes_first_snippet_prints_what_it_says(capsys: pytest.CaptureFixture[str]):
    code = snippets(README, "python")[0]
    exec(compile(code, "README.md", "exec"), {})
    said = re.findall(r"^print.* # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.usefixtures("in_root")
def test_the_readmes_target_takes_work_and_explains_the_rest():
    code = snippets(README, "python")[1]
    assert len(code.splitlines()) <= 20
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    package = names["package"]
    assert isinstance(package, byocir.Package)
    assert package.report.macs["npu"] > 0
    assert f"```\n{explain(package.report, '/stem/conv/Conv')}\n```" in README.read_text()


def test_the_page_of_the_command_line_describes_every_verb_exit_code_and_field():
    page = ROOT / "docs" / "command-line.md"
    (job,) = snippets(page, "json")
    assert json.loads(job).keys() == FIELDS.keys()
    text = page.read_text()
    assert all(f"`{field}`" in text for field in FIELDS)
    exits = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert exits == [guard.OK, guard.USER_ERROR, 2, guard.CHECK_FAILED, guard.INTERNAL, 130]
    (verbs,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert all(
        f"| `byocir {verb} " in text or f"| `byocir {verb}`" in text for verb in verbs.choices
    )


def commands() -> list[list[str]]:
    """Gives the commands of all pages, as words."""
    pages = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = "\n".join(block for page in pages for block in snippets(page, "sh"))
    lines = blocks.replace("\\\n", " ").splitlines()
    return [
        words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))
    ]


def test_commands_in_pages_are_commands():
    found = commands()
    known = {"byocir", "byocir-opt", "project/model", "make", "pip", "pytest", ".", "$EDITOR"}
    assert [words for words in found if words[0] not in known] == []
    verbs = [words[1:] for words in found if words[0] == "byocir"]
    assert len(verbs) > 40
    parser = build_parser()
    for words in verbs:
        parser.parse_args(words)


def test_the_readmes_machines_can_all_be_compiled_for():
    (words,) = (words for words in commands() if words[:3] == ["byocir", "sweep", "model.onnx"])
    vary = settings_of(build_parser().parse_args(words[1:]).vary)
    assert [point.refusal for point in byocir.sweep(small_net(), vary)] == ["", ""]


@pytest.mark.usefixtures("in_root")
def test_the_page_of_hazards_shows_what_the_sanitizer_says(capsys: pytest.CaptureFixture[str]):
    page = ROOT / "docs" / "vta-hazards.md"
    example = re.search(r"(?s)### S201 .*?```vta\n(.*?)```\n\n```\n(.*?)```", page.read_text())
    assert example is not None
    (code,) = snippets(page, "python")
    assert example[1] in code
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out == example[2]


@pytest.mark.usefixtures("in_root")
def test_the_page_of_c_shows_what_is_printed_and_declared(capsys: pytest.CaptureFixture[str]):
    page = ROOT / "docs" / "aot.md"
    names = {"__name__": "page"}
    for code in snippets(page, "python"):
        exec(compile(code, str(page), "exec", dont_inherit=True), names)
    said = re.findall(r"<!-- output -->\n```\n(.*?)```", page.read_text(), re.DOTALL)
    assert capsys.readouterr().out == "".join(said)
    (declared,) = snippets(page, "c")
    header = (Path(byocir.__file__).parent / "runtime" / "project" / "device.h").read_text()
    assert all(line in header.splitlines() for line in declared.splitlines())


@pytest.mark.parametrize("code", HAZARDS)
def test_each_hazard_has_an_example_that_shows_it(code: str):
    kind, text = HAZARDS[code], (ROOT / "docs" / "vta-hazards.md").read_text()
    (section,) = re.findall(rf"^### {code} {kind.name}\n\n(.*?)(?=^### |\Z)", text, re.M | re.S)
    words, program, said = re.split(r"\n```(?:vta)?\n(?:\n```\n)?", section)[:3]
    meaning = kind.meaning[0].upper() + kind.meaning[1:]
    assert " ".join(words.split()) == f"{meaning}. Help: {kind.help}."
    hazards = sanitize(assemble(program), np.zeros(1 << 14, np.uint8))
    assert "\n".join(map(str, hazards)) == said
    assert {hazard.code for hazard in hazards} == {code}


def test_the_page_of_hazards_lists_every_code_once():
    text = (ROOT / "docs" / "vta-hazards.md").read_text()
    assert re.findall(r"^### (S\d+) ", text, re.M) == sorted(HAZARDS)


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            there = (page.parent / target) if target else page
            assert there.exists(), f"{page}: {target}"
            assert not heading or heading in anchors(there), f"{page}: {target}#{heading}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as links have them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def script(name: str) -> ModuleType:
    """A script beside the pages, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_differences_shows_the_rows():
    page = (ROOT / "docs" / "differences.md").read_text()
    assert script("difference_table").render(page) == page, "run: python docs/difference_table.py"


@pytest.mark.parametrize("name", ["ops", "targets-reference", "machine-reference"])
def test_the_references_say_what_the_classes_do(name: str):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert script("reference").render(page) == page, "run: python docs/reference.py"


def test_the_references_lack_nothing():
    reference = script("reference")
    page = (ROOT / "docs" / "machine-reference.md").read_text()
    described = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    assert described == set(machine.__all__)
    public = {name for name in (*vars(Target), *Target.__annotations__) if name[0] != "_"}
    assert {*reference.DECLARED, *reference.BEFORE, *reference.CALLED} == public


def test_hooks_are_called_in_the_order_of_their_reference():
    asked, target = recording_target()
    model = ROOT / "examples" / "digits" / "digits_f32.onnx"
    package = byocir.compile(
        model, targets=[target], shapes={"image": (1, 1, 8, 8)}, objective="latency"
    )
    for check in (False, True):
        with pytest.raises(ByocirError, match="B227"):
            package.run({"image": np.zeros((1, 1, 8, 8), np.float32)}, check=check)
    with pytest.raises(ByocirError):
        export_project(package)
    assert tuple(dict.fromkeys(asked)) == script("reference").CALLED


def recording_target() -> tuple[list[str], Target]:
    """A target that takes convolutions, and the hooks that it was asked so far."""
    asked: list[str] = []

    def recorded(name: str) -> Any:
        def hook(self: Target, *arguments: Any) -> Any:
            asked.append(name)
            own: Any = getattr(Convs, name)
            return own.fget(self) if isinstance(own, property) else own(self, *arguments)

        return property(hook) if isinstance(getattr(Convs, name), property) else hook

    hooks = {name: recorded(name) for name in script("reference").CALLED}
    return asked, type("Recording", (Convs,), hooks)()


CONV = wildcard("x"), constant("w"), optional_operand(constant("b"))


class Convs(Target):
    """Takes convolutions, at a cost, and makes code that does not run."""

    name, codegen_level, constants = "convs", "tensor", "transform"
    patterns = (Composite("convs.conv", (op("graph.conv", *CONV),)),)

    def cost(self, composite: str, ops: MatchedOps) -> Mapping[str, float]:
        return {"latency": 1.0}

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        return {"code": b""}


def test_the_architecture_page_shows_what_the_stages_print():
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert script("three_ops").render(page) == page, "run: python docs/three_ops.py"


def test_the_first_target_page_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "your-first-target.md").read_text()
    snippets_ = script("snippets")
    assert snippets_.render(page) == page, "run: python docs/snippets.py"
    toy = snippets_.TOY.read_text()
    assert len(snippets_.quoted(page)) == 5
    for snippet in snippets_.quoted(page):
        assert snippet in toy
    (lines,) = re.findall(r"toy_npu.py\), (\d+) lines", page)
    assert len(toy.splitlines()) == int(lines) < 120


def test_the_page_of_new_targets_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "new-target.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"


def test_the_page_of_the_tensor_level_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "tensor-level.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"


def test_the_page_of_machines_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "describe-your-machine.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"


def test_the_reference_of_targets_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "targets-reference.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"


def test_the_page_of_rewrites_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "rewrites.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"


def test_the_page_of_patterns_shows_what_its_snippets_print():
    page = (ROOT / "docs" / "patterns.md").read_text()
    assert script("snippets").render(page) == page, "run: python docs/snippets.py"
    named = set(re.findall(r"`(\w+)`", page)) | set(re.findall(r"\b(\w+)\(", page))
    constructs = {name for name in patterns.__all__ if name.islower()} - {"producer", "uses"}
    assert constructs - named == set()


def test_the_page_of_passes_describes_every_pass():
    page = (ROOT / "docs" / "passes.md").read_text()
    assert script("pass_table").render(page) == page, "run: python docs/pass_table.py"
    described = re.findall(r"^\| `([\w-]+)` \|[^|]*\| (?=\S[^|]*\. \|)", page, re.MULTILINE)
    assert described == list(PASSES)


def test_the_picture_of_double_buffering_is_up_to_date():
    double_buffering = script("double_buffering")
    assert double_buffering.PICTURE.read_text() == double_buffering.render(), (
        "run: python docs/double_buffering.py"
    )
    one, two = (double_buffering.slices(buffers)[1] for buffers in (1, 2))
    assert two < one


def test_the_page_of_errors_lists_every_code_once():
    page = re.findall(r"^\| `(B\d{3})` \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)
    sources = [path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))]
    used = {code for text in sources for code in re.findall(r'"(B\d{3})"', text)}
    assert page == sorted(used)


def test_the_diffs_show_what_the_sources_have():
    diffs = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    for part in (part for diff in diffs for part in diff.split("--- ")[1:]):
        name, *lines = part.splitlines()
        source = (ROOT / name).read_text()
        for added, run in groupby(lines, key=lambda line: line.startswith("+")):
            if added:
                shown = "\n".join(line.removeprefix("+") for line in run)
                assert shown + "\n" in source, (name, shown)
    assert len(diffs) == 6  # an op, its open sizes, a routine, a pass, a target, a rule
