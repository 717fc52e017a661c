"""The report as a web page: whole, self-contained, and safe whatever names a model has."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser

from byocir.dialects.byoc import Node
from byocir.dialects.decisions import Decision, RuleResult, Taken
from byocir.runtime.page import page
from byocir.runtime.report import Region, Report
from byocir.runtime.report_text import node_lines

VOID = {"meta", "input"}


class Page(HTMLParser):
    """The tags of a page with their attributes, the texts of its `pre`s, and whether all tags that
    open are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [tag] if tag not in VOID else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "pre":
            self.blocks.append(data)


def report(name: str = "dense") -> Report:
    taken = Region("npu_0", "npu", "graph", [Taken("npu.dense", "graph", [name])], [name],
                   ["tensor<1x8xf32>"], ["tensor<1x4xf32>"], 48, [])  # fmt: skip
    rule = RuleResult("Rows are < 4 & even.", False, "'<5>'", "")
    missed = Decision("npu", "graph", "npu.soft", False, ["soft"], 1, 1, "a rule fails", [rule])
    nodes = [Node(name, "Gemm", 32), Node("soft", "Softmax", 0), Node("w", "Add", 0)]
    return Report(nodes, ["npu"], [taken], ["soft"], ["w"], [missed], notes=["a < b"])


def test_every_node_has_a_row_with_its_place_and_all_that_explain_says():
    made = report()
    parsed = Page(page(made, "net.onnx"))
    rows = [attrs for tag, attrs in parsed.tags if attrs.get("class") == "node"]
    assert [row["data-place"] for row in rows] == ["npu", "host", "folded"]
    said = ["\n".join(lines) for lines in node_lines(made, verbose=True).values()]
    assert parsed.blocks[-3:] == said
    assert "Rows are < 4 & even." in said[1]
    assert "'<5>'" in said[1]


def test_every_bar_of_the_strip_leads_to_its_node():
    parsed = Page(page(report(), "net.onnx"))
    links = [attrs["href"] for tag, attrs in parsed.tags if tag == "a"]
    ids = {attrs["id"] for _, attrs in parsed.tags if "id" in attrs}
    assert len(links) == 3
    assert all(link is not None and link[1:] in ids for link in links)


def test_a_page_needs_nothing_else():
    text = page(report(), "net.onnx")
    assert not any(what in text for what in ("http:", "https:", "src=", "@import", "url("))


def test_names_of_a_model_are_text_and_not_markup():
    name = '</details><script>alert("1")</script>$title'
    parsed = Page(page(report(name), f"<b>{name}"))
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert any(name in block for block in parsed.blocks)


def test_a_model_without_nodes_has_a_page():
    Page(page(Report([], ["npu"], [], [], [], []), "empty.onnx"))
