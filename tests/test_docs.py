"""What the README and the docs show is true: their Python runs, their output is what is printed."""

import importlib.util
import re
from pathlib import Path

import pytest

import byocir
from byocir.runtime.explain import explain

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
    (said,) = re.findall(r"# (\{.*\})", code)
    assert capsys.readouterr().out.strip() == said


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


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_architecture_page_shows_what_the_stages_print():
    spec = importlib.util.spec_from_file_location("three_ops", ROOT / "docs" / "three_ops.py")
    assert spec is not None
    assert spec.loader is not None
    three_ops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(three_ops)
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert three_ops.render(page) == page, "run: python docs/three_ops.py"
