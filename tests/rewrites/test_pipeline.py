"""Running passes, and what happens when one fails."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from byocir.dialects.context import load_context
from byocir.dialects.graph import ConstantOp
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.verify import Verifier
from byocir.errors import ByocirError
from byocir.rewrites.pipeline import PassRunner, parse_pipeline, run_passes, with_care
from byocir.rewrites.registry import PASSES, all_passes
from byocir.rewrites.reproducer import ByocirInternalError

TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  func.return %1 : tensor<4xf32>
}"""


@dataclass(frozen=True)
class NotePass(ModulePass):
    """Adds an attribute to the module."""

    name = "note"
    text: str = "seen"

    def apply(self, ctx, op):
        op.attributes[self.text] = op.body.block.first_op.function_type


@dataclass(frozen=True)
class SwapPass(ModulePass):
    """Puts the first op behind the second, which uses it."""

    name = "swap"

    def apply(self, ctx, op):
        block = op.body.block.first_op.body.block
        first = block.first_op
        second = first.next_op
        first.detach()
        block.insert_op_after(first, second)


@dataclass(frozen=True)
class RaisePass(ModulePass):
    """Raises what it is told to."""

    name = "raise"
    kind: str

    def apply(self, ctx, op):
        errors = {
            "user": ByocirError("B999", "this model has no input"),
            "gave-up": PassFailedException("no function to work on"),
            "no-room": MemoryError("745 GiB"),
            "bug": KeyError("left"),
        }
        raise errors[self.kind]


@pytest.fixture
def module() -> ModuleOp:
    return parse_module(TEXT)


@pytest.fixture
def _temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("name", PASSES)
def test_every_registered_pass_loads_under_its_name(name):
    kind = all_passes()[name]()
    assert issubclass(kind, ModulePass)
    assert kind.name == name
    assert kind.__doc__


def test_a_pipeline_is_read_with_options():
    passes = parse_pipeline("clean-up,fix-point{rounding=half_even},fold-constants{max-growth=8}")
    assert [pass_.name for pass_ in passes] == ["clean-up", "fix-point", "fold-constants"]
    assert passes[1].rounding == "half_even"
    assert passes[2].max_growth == 8
    assert parse_pipeline("") == ()


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("clean-upp", "B221", "did you mean 'clean-up'?"),
        ("zzz", "B221", "choose from allocate-memories"),
        ("fix-point{rounds=1}", "B222", "did you mean 'rounding'?"),
        ("fold-constants{max-growth=many}", "B222", "expected fold-constants{max-growth=int}"),
        ("clean-up{", "B220", "found 'clean-up{'"),
        ("clean-up clean-up", "B220", "found 'clean-up clean-up'"),
    ],
)
def test_pipelines_with_mistakes_are_refused(text, code, part):
    with pytest.raises(ByocirError) as caught:
        parse_pipeline(text)
    assert caught.value.code == code
    assert part in str(caught.value)


def test_passes_run_in_order_and_are_reported(module):
    seen = []
    run_passes(
        module,
        load_context(),
        [NotePass("a"), NotePass("b")],
        callback=lambda pass_, now, seconds: seen.append((pass_.text, list(now.attributes))),
    )
    assert seen == [("a", ["a"]), ("b", ["a", "b"])]


def test_a_text_pipeline_runs_our_passes(module):
    run_passes(module, load_context(), "clean-up")
    assert print_module(module).count("graph.relu") == 1


def test_user_errors_of_passes_are_passed_on(module):
    with pytest.raises(ByocirError, match=r"B999.*no input"):
        run_passes(module, load_context(), [RaisePass("user")])
    with pytest.raises(ByocirError, match=r"B223.*pass raise: no function"):
        run_passes(module, load_context(), [RaisePass("gave-up")])
    with pytest.raises(ByocirError, match=r"B140.*pass raise, that fits in memory, found: 745"):
        run_passes(module, load_context(), [RaisePass("no-room")])


@pytest.mark.usefixtures("_temporary")
@pytest.mark.parametrize("later", [NotePass(), RaisePass("bug")])
@pytest.mark.parametrize("callback", [None, lambda *_: None])
def test_the_pass_that_broke_a_module_is_named_not_one_after_it(module, later, callback):
    with pytest.raises(ByocirInternalError) as caught:
        run_passes(module, load_context(), [NotePass(), SwapPass(), later], callback=callback)
    assert caught.value.pass_name == "swap"


@pytest.mark.usefixtures("_temporary")
@pytest.mark.parametrize("failing", [SwapPass(), RaisePass("bug")])
def test_a_pass_that_fails_is_named_and_can_be_reproduced(module, failing):
    before = module.clone()
    before.attributes["seen"] = before.body.block.first_op.function_type
    with pytest.raises(ByocirInternalError) as caught:
        run_passes(module, load_context(), [NotePass(), failing, NotePass("never")])
    error = caught.value
    assert error.pass_name == failing.name
    assert f"internal error in pass '{failing.name}'" in str(error)
    assert str(error.reproducer) in str(error)
    text = error.reproducer.read_text()
    assert f"byocir-opt reproducer.mlir -p {failing.name}" in text.replace("'", "")
    assert print_module(parse_module(text)) == print_module(before)


@pytest.mark.usefixtures("_temporary")
def test_a_broken_module_is_not_noticed_without_verification(module):
    run_passes(module, load_context(), [SwapPass()], verify=False)
    with pytest.raises(
        ByocirInternalError, match=r"graph\.relu \(\"second\"\) to be defined before"
    ):
        run_passes(module, load_context(), [NotePass()])


@pytest.mark.usefixtures("_temporary")
def test_a_verifier_that_saw_the_module_before_notices_what_changed_since(module):
    verifier = Verifier()
    run_passes(module, load_context(), [NotePass(), NotePass()], verifier=verifier)
    with pytest.raises(ByocirInternalError, match=r"internal error in pass 'swap'"):
        run_passes(module, load_context(), [SwapPass()], verifier=verifier)
    with pytest.raises(ByocirInternalError, match=r"internal error in pass 'note'"):
        run_passes(module, load_context(), [NotePass()], verifier=verifier)


@pytest.mark.usefixtures("_temporary")
def test_a_reproducer_has_its_weights_beside_it():
    module = ModuleOp([ConstantOp.of(np.arange(100))])
    with pytest.raises(ByocirInternalError) as caught:
        run_passes(module, load_context(), [RaisePass("bug")])
    assert Path(caught.value.reproducer).with_suffix(".safetensors").is_file()


@pytest.mark.usefixtures("_temporary")
def test_a_pass_that_fails_once_only_still_leaves_a_reproducer(module):
    @dataclass(frozen=True)
    class OncePass(ModulePass):
        name = "once"

        def apply(self, ctx, op):
            if runs:
                raise RuntimeError("second run")
            runs.append(1)

    runs: list[int] = []
    with pytest.raises(ByocirInternalError) as caught:
        run_passes(module, load_context(), [OncePass(), RaisePass("bug")])
    assert "-p 'once,raise" in caught.value.reproducer.read_text()


@pytest.mark.usefixtures("_temporary")
def test_with_care_a_failing_attempt_is_repeated_to_name_the_pass(module):
    runners: list[PassRunner] = []

    def attempt(runner: PassRunner) -> None:
        runners.append(runner)
        start = module.clone()
        runner.run(start, [NotePass()])
        runner.run(start, [NotePass(), SwapPass(), NotePass("later")])

    with pytest.raises(ByocirInternalError) as caught:
        with_care(attempt)
    assert caught.value.pass_name == "swap"
    assert "-p swap" in caught.value.reproducer.read_text().replace("'", "")
    assert [runner.keeps_start for runner in runners] == [False, True]


def test_with_care_a_sound_attempt_runs_once_and_errors_of_the_user_are_not_repeated(module):
    runs: list[int] = []

    def attempt(runner: PassRunner) -> str:
        runs.append(1)
        runner.run(module.clone(), [NotePass()] if len(runs) == 1 else [RaisePass("user")])
        return "made"

    assert with_care(attempt) == "made"
    with pytest.raises(ByocirError, match="B999"):
        with_care(attempt)
    assert len(runs) == 2


@pytest.mark.usefixtures("_temporary")
def test_with_care_stages_that_somebody_sees_are_run_once(module):
    seen: list[str] = []
    with pytest.raises(ByocirInternalError, match="pass 'swap'"):
        with_care(
            lambda runner: runner.run(module, [NotePass(), SwapPass()]),
            lambda pass_, _module, _seconds: seen.append(pass_.name),
        )
    assert seen == ["note"]
