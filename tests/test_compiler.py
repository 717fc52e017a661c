"""The whole way: every level, every stage, the same integers and the same bytes."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from qdq_models import small_net

import byocir
from byocir.compiler import generate
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights, read_weights
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime.report_of_module import report_of
from byocir.targets.hand_off_passes import partition_pipeline

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
LEVELS = [("graph",), ("tensor",), ("graph", "tensor")]
MODELS = ["digits_int8.onnx", "digits_int8_per_channel.onnx"]


def images(count: int) -> list[np.ndarray]:
    with np.load(DIGITS / "digits_test.npz") as data:
        test = [data["image"][i : i + 1] for i in range(count)]
    extremes = [np.full((1, 1, 8, 8), value, np.float32) for value in (-9.0, 0.0, 9.0)]
    return test + extremes


@cache
def compiled(model: str, levels: tuple[str, ...]) -> byocir.Package:
    return byocir.compile(DIGITS / model, shapes=SHAPES, levels=levels)


def after_fix_point(model: str, rounding: str = "floor"):
    module = byocir.import_onnx(DIGITS / model, shapes=SHAPES)
    rewrites = "fold-constants,clean-up,normalize-qdq,qdq-to-integer,fold-constants,clean-up"
    run_passes(module, load_context(), f"{rewrites},fix-point{{rounding={rounding}}}")
    return module


@pytest.mark.parametrize("levels", LEVELS, ids="+".join)
@pytest.mark.parametrize("model", MODELS)
def test_every_level_gives_the_evaluators_integers(model: str, levels: tuple[str, ...]):
    package = compiled(model, levels)
    reference = after_fix_point(model)
    for image in images(1):
        ours = package.run({"image": image}, check=True)
        expected = evaluate(reference, {"image": image})
        assert np.array_equal(ours["logits"], expected["logits"])


@pytest.mark.parametrize("levels", LEVELS, ids="+".join)
def test_the_report_shows_which_level_took_which_node(levels: tuple[str, ...]):
    report = compiled(MODELS[0], levels).report
    assert {region.level for region in report.regions} == {levels[0]}
    assert report.macs["vta"] == sum(node.macs for node in report.nodes) > 0
    placement = report.placement
    for node in report.nodes:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            assert placement[node.name] == "vta_0", node
    assert report.host == ["image_QuantizeLinear", "logits_DequantizeLinear"]


def test_half_even_rounding_is_exact_and_costs_cycles():
    even = byocir.compile(DIGITS / MODELS[0], shapes=SHAPES, targets=[byocir.Vta("half_even")])
    up = compiled(MODELS[0], LEVELS[-1])
    reference = after_fix_point(MODELS[0], "half_even")
    for image in images(2):
        expected = evaluate(reference, {"image": image})
        assert np.array_equal(even.run({"image": image})["logits"], expected["logits"])
    cycles = [sum(profile.cycles for profile in package.profile()) for package in (up, even)]
    assert cycles[0] < cycles[1]
    (profile,) = up.profile()
    assert {sum(causes.values()) for causes in profile.units.values()} == {profile.cycles}
    assert 0 < max(profile.bounds.values()) < profile.cycles
    busy = sum(cycles for _, _, cycles in profile.by_node)
    assert busy == sum(profile.units[unit]["busy"] for unit in ("load", "compute", "store"))


def reparsed(module):
    """The module printed and read back, with its weights beside it."""
    context, text = load_context(), print_module(module)
    read_weights(dump_weights(module), context.arrays, "weights")
    copy = parse_module(text, context)
    assert print_module(copy) == text
    return copy


@pytest.mark.parametrize("levels", LEVELS[1:], ids="+".join)
def test_each_stage_reads_back_and_goes_on_to_the_same_bytes(
    levels: tuple[str, ...], tmp_path: Path
):
    straight = byocir.compile(small_net(), levels=levels)
    straight.save(tmp_path / "straight.bpkg")

    module = byocir.import_onnx(small_net())
    for pass_ in partition_pipeline(module, ["vta"], levels):
        module = reparsed(module)
        run_passes(module, load_context(), [pass_])
    module = reparsed(module)
    report = report_of(module)
    each = (lambda _p, stage, _s: reparsed(stage) and None) if levels == ("tensor",) else None
    generated = generate(module, report, runner=PassRunner(each))
    generated.save(tmp_path / "reparsed.bpkg")

    assert (tmp_path / "straight.bpkg").read_bytes() == (tmp_path / "reparsed.bpkg").read_bytes()
    assert generated.report.to_json() == straight.report.to_json()


ALL_KINDS = """
import sys
from pathlib import Path
import byocir
from byocir.runtime.native import host_code

model, folder = sys.argv[1], Path(sys.argv[2])
byocir.compile(model).save(folder / "vta.bpkg")
byocir.compile(model, targets="json").save(folder / "json.bpkg")
code = host_code(byocir.compile(model, host="c").module)
(folder / "model.c").write_text(code.source + code.header)
(folder / "weights").write_bytes(bytes(code.weights))
"""


def test_bytes_do_not_depend_on_the_hash_seed(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Strings hash in another way in each process, unless the variable says how: programs of VTA
    and in JSON, and C."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    subprocess.run(
        [sys.executable, "-c", ALL_KINDS, small, str(other)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    monkeypatch.setattr(sys, "argv", ["", small, str(own)])
    exec(ALL_KINDS, {})
    for path in other.iterdir():
        assert path.read_bytes() == (own / path.name).read_bytes(), path.name


def test_levels_must_be_known():
    module = byocir.import_onnx(DIGITS / MODELS[0], shapes=SHAPES)
    with pytest.raises(byocir.ByocirError, match="B212"):
        byocir.partition(module, ["vta"], levels=["loops"])


def test_the_host_is_no_target_and_needs_none():
    model, shapes = DIGITS / "digits_int8.onnx", {"image": (1, 1, 8, 8)}
    with pytest.raises(byocir.ByocirError, match="unknown target 'host'") as error:
        byocir.compile(model, targets=["host"], shapes=shapes)
    assert error.value.code == "B210"
    assert "targets=[] in Python" in error.value.help
    assert byocir.compile(model, targets=[], shapes=shapes).report.macs == {"host": 361792}


def test_a_float_model_says_what_to_do():
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    report = byocir.partition(module, ["vta"])
    assert report.regions == []
    assert "byocir quantise MODEL --data SAMPLES.npz --target vta" in report.notes[0]
    assert all(node.name in report.reasons for node in report.nodes if node.macs)
