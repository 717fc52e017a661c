"""Code of targets that crashes, hangs, eats memory or writes its inputs is an error."""

from __future__ import annotations

import gc
import json
import os
import platform
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import byocir
from byocir.cli.main import main
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.isolation import Child, Died, Limits, go_on, isolated
from byocir.vendor.user_code import import_file

FILE = Path(__file__).parent / "programs" / "faulty_npu.py"
FAULTS = import_file(FILE, "B217").FAULTS
NET = """func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
  %1 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32> loc("exp_1")
  %2 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32> loc("neg_1")
  %3 = graph.add %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add_1")
  func.return %3 : tensor<4xf32>
}
"""


ON_X86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="divisions by zero give a number"
)


def package_of(target: str) -> byocir.Package:
    return byocir.compile(parse_module(NET, load_context()), targets=[f"{FILE}:{target}"])


def feeds(fault: str) -> dict[str, np.ndarray]:
    return {"arg0": np.array([FAULTS.index(fault), 1, 2, 3], np.float32)}


def told(run) -> str:
    with pytest.raises(ByocirError) as caught:
        run()
    return str(caught.value)


def written(net: str, folder: Path) -> str:
    (folder / "net.mlir").write_text(net)
    return str(folder / "net.mlir")


def children() -> list[str]:
    gc.collect(0)  # what is new: all that tests made before takes a second
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def check_fault(fault: str, found: str, seconds: float = 60.0) -> None:
    """Each run comes after what the last one did."""
    package = package_of("Faulty")
    with byocir.isolate(seconds=seconds, nbytes="30M"):
        text = told(lambda: package.run(feeds(fault)))
    wanted = "expected the code of region faulty_0, of target 'faulty', to give its outputs"
    assert text.startswith(f"error[B314]: {wanted}, found {found}\n  at    neg_1\n")
    given = feeds("none")
    x = given["arg0"]
    np.testing.assert_allclose(package.run(given)["res0"], np.exp(x) - x, rtol=1e-6)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("crash", "Segmentation fault (SIGSEGV)"),
        ("abort", "Aborted (SIGABRT)"),
        ("eat", "more than 31,457,280 bytes taken"),
        ("exit", "the end of its process, exit code 3"),
        pytest.param("divide", "Floating point exception (SIGFPE)", marks=ON_X86),
    ],
)
def test_a_fault_is_an_error_and_the_next_run_is_right(fault, found):
    check_fault(fault, found)


def test_a_loop_without_end_is_an_error():
    check_fault("loop", "no end within 1 s", seconds=1)


def test_a_written_input_is_an_error_and_does_not_reach_others():
    given, package = feeds("write"), package_of("Faulty")
    with byocir.isolate():
        text = told(lambda: package.run(given))
    assert "to keep its inputs, found it to write input 0\n  at    neg_1" in text
    assert given["arg0"][1] == 1


@pytest.mark.parametrize("options", [[], ["--no-isolate"]])
def test_targets_of_files_run_in_a_process_of_their_own(options, tmp_path):
    net, out = tmp_path / "net.mlir", tmp_path / "out.npz"
    net.write_text(NET)
    given = tmp_path / "in.npz"
    np.savez(given, arg0=np.full(4, -1000, np.float32))  # of which the exponentials are 0
    command = ["run", str(net), "--target", f"{FILE}:Dying{{fault=none}}", "--input", str(given)]
    before = children()
    assert main([*command, "--output", str(out), *options]) == 0
    is_own = np.load(out)["res0"][0] != os.getpid()
    assert is_own == (not options)
    assert children() == before


def test_targets_that_are_shipped_run_here_unless_asked():
    package = package_of("Dying{fault=none}")
    with byocir.isolate(only_files=True):
        assert package.run_region("dying_0", [np.zeros(4, np.float32)])[0][0] != os.getpid()
    net = parse_module(NET, load_context())
    for only_files in (True, False):
        before = children()
        shipped = byocir.compile(net.clone(), targets=["json"])
        with byocir.isolate(only_files=only_files):
            shipped.run(feeds("none"))
        assert (children() == before) == only_files


def test_errors_of_a_target_are_the_same_in_its_process():
    package = package_of("Dying{fault=raise}")
    here = told(lambda: package.run_region("dying_0", [np.zeros(4, np.float32)]))
    with byocir.isolate():
        apart = told(lambda: package.run_region("dying_0", [np.zeros(4, np.float32)]))
    assert here == apart
    place = r"faulty_npu.py:\d+, region dying_0 of neg_1\n"
    assert re.match(rf"error\[B219\]: .*no device\n  at    .*{place}", here)
    package = package_of("Dying{fault=list}")
    here = told(lambda: package.run(feeds("none")))
    with byocir.isolate():
        assert here == told(lambda: package_of("Dying{fault=list}").run(feeds("none")))


def limits(fault: str = "none") -> tuple[str, ...]:
    """Only what has no end is ended by time: a loaded machine takes long for the rest."""
    seconds = "0.2" if fault.endswith("loop") else "60"
    return ("--region-seconds", seconds, "--region-bytes", "30M")


TOLD = {
    "crash": "Segmentation fault (SIGSEGV)",
    "loop": "no end within 0.2 s",
    "eat": "more than 31,457,280 bytes taken",
    "write": "it to write input 0",
}
EMITTING = "expected emit of target 'dying' to give the code of region dying_0, found "


@pytest.mark.parametrize("fault", TOLD)
def test_run_and_bisect_blame_the_region_and_the_next_run_is_right(fault, tmp_path, capsys):
    net, target = tmp_path / "net.mlir", f"{FILE}:Dying{{fault={fault}}}"
    net.write_text(NET)
    code = "B315" if fault == "write" else "B314"
    assert main(["run", str(net), "--target", target, *limits(fault)]) == 1
    told = f"error[{code}]: expected the code of region dying_0, of target 'dying', to "
    found = re.search(rf"{re.escape(told)}.*, found (.*)\n  at    neg_1\n", capsys.readouterr().err)
    assert found[1] == TOLD[fault]
    assert main(["bisect", str(net), "--target", target, *limits(fault)]) == 3
    out, err = capsys.readouterr()
    assert out.startswith(f"code of dying_0 is the first step that fails\n{told}")
    assert "code of dying_0                  FAILED" in err
    assert main(["run", str(net), "--target", f"{FILE}:Dying{{fault=none}}", *limits()]) == 0


@pytest.mark.parametrize("verb", [["run"], ["compile"], ["export"], ["explain", "--code"]])
def test_an_emit_that_dies_is_an_error(verb, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = ["-o", "out"] if verb[0] in ("compile", "export") else []
    target = f"{FILE}:Dying{{fault=emit-crash}}"
    assert main([*verb, written(NET, tmp_path), "--target", target, *out]) == 1
    wanted = f"error[B314]: {EMITTING}Segmentation fault (SIGSEGV)\n  at    neg_1\n"
    assert wanted in capsys.readouterr().err
    assert not Path("out").exists()


def test_bisect_blames_an_emit_without_end(tmp_path, capsys):
    target = f"{FILE}:Dying{{fault=emit-loop}}"
    assert main(["bisect", written(NET, tmp_path), "--target", target, *limits("emit-loop")]) == 3
    out, err = capsys.readouterr()
    told = f"error[B314]: {EMITTING}no end within 0.2 s\n  at    neg_1\n"
    assert out.startswith(f"emit is the first step that fails\n{told}")
    assert re.search(r"\] emit +FAILED", err)


def test_errors_of_an_emit_are_the_same_in_its_process():
    here = told(lambda: package_of("Dying{fault=emit-raise}"))
    with byocir.isolate():
        assert here == told(lambda: package_of("Dying{fault=emit-raise}"))
    assert re.match(r"error\[B219\]: .*no license\n  at    .*faulty_npu.py:\d+\n", here)


def test_what_emit_gives_in_its_process():
    here = package_of("Dying{fault=none}").blobs
    before = children()
    with byocir.isolate():
        assert package_of("Dying{fault=none}").blobs == here
    assert here["dying"] == {"text": b"none", "nothing": b""}
    assert children() == before


def test_a_model_that_a_toolkit_dies_of_is_named():
    module = parse_module(
        """func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
          %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32> loc("first")
          %2 = graph.exp %1 : (tensor<4xf32>) -> tensor<4xf32> loc("between")
          %3 = graph.neg %2 : (tensor<4xf32>) -> tensor<4xf32> loc("second")
          %4 = graph.neg %3 : (tensor<4xf32>) -> tensor<4xf32> loc("third")
          func.return %4 : tensor<4xf32>
        }""",
        load_context(),
    )
    with byocir.isolate():
        text = told(lambda: byocir.compile(module, targets=[f"{FILE}:Building"]))
    wanted = "emit of target 'building' to give the code of region building_1, found Aborted"
    assert f"{wanted} (SIGABRT)\n  at    second, third\n" in text


def test_conform_names_the_region_whose_code_dies_as_it_is_loaded(tmp_path, capsys):
    target = f"{FILE}:Dying{{fault=load-crash}}"
    assert main(["conform", target, "--rounds", "1", "-o", str(tmp_path), *limits()]) == 3
    wanted = "expected the code of region dying_0, of target 'dying', to be run, found Segmentation"
    assert capsys.readouterr().out.startswith(f"error[B381]: {wanted}")


def test_conform_goes_on_behind_an_emit_that_dies(tmp_path, capsys):
    target = f"{FILE}:Dying{{fault=emit-crash}}"
    assert main(["conform", target, "--rounds", "1", "-o", str(tmp_path), *limits()]) == 3
    out = capsys.readouterr().out
    assert out.startswith("error[B381]: expected what patterns take to be compiled, found error[B3")
    assert f"{EMITTING}Segmentation fault (SIGSEGV)\n" in out
    assert len([*tmp_path.glob("*.mlir")]) == 1


def test_bisect_blames_the_region_that_dies_in_json(tmp_path, capsys):
    net = tmp_path / "net.mlir"
    net.write_text(NET)
    assert main(["bisect", str(net), "--target", f"{FILE}:Dying", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)["found"]
    assert (found["step"], found["code"]) == ("code of dying_0", "B314")
    assert found["ops"] == "the ops of neg_1"


@pytest.mark.parametrize("fault", TOLD)
def test_conform_goes_on_behind_what_dies(fault, tmp_path, capsys):
    target = f"{FILE}:Dying{{fault={fault}}}"
    assert main(["conform", target, "--rounds", "1", "-o", str(tmp_path), *limits(fault)]) == 3
    out = capsys.readouterr().out
    code, wanted = "B381", "region dying_0, of target 'dying', to be run"
    if fault == "write":
        code, wanted = "B383", "dying_0 to keep its inputs"
    wanted = f"expected the code of {wanted}, found {TOLD[fault]}"
    assert out.startswith(f"error[{code}]: {wanted}\n  at    dying.neg, in a match, ")
    assert re.search(r"patterns 1/1, rules 0/0, \d cases, [1-9] wrong, 0 never reached\n$", out)
    (case,) = tmp_path.glob("*.mlir")
    assert main(["conform", target, "--case", str(case), *limits(fault)]) == 3


def test_limits_that_are_none(capsys):
    with pytest.raises(SystemExit):
        main(["run", "net.onnx", "--region-seconds", "-1"])
    assert "expected a number of seconds above 0, found '-1'" in capsys.readouterr().err
    assert main(["run", "net.onnx", "--region-bytes", "x"]) == 1
    assert "error[B141]" in capsys.readouterr().err
    with pytest.raises(ByocirError, match="B142"), byocir.isolate(seconds=0):
        pass


def test_a_function_in_a_process_of_its_own():
    assert isolated(lambda: [1, "two"], Limits()) == [1, "two"]
    with pytest.raises(Died, match="SIGKILL"):
        isolated(lambda: os.kill(os.getpid(), signal.SIGKILL), Limits())
    with pytest.raises(Died, match=r"no end within 0\.05 s"):
        isolated(lambda: time.sleep(60), Limits(0.05))


def test_threads_of_openmp_go_on_in_a_process_of_their_own():
    """Those that this process had are not forked: code that waited for them waited forever."""
    code = """func.func @main(%0: tensor<128x128xf32>) -> tensor<128x128xf32> {
      %1 = graph.matmul %0, %0 : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
      func.return %1 : tensor<128x128xf32>
    }"""
    package = byocir.compile(parse_module(code, load_context()), host="c{threads=2}")
    given = {"arg0": np.ones((128, 128), np.float32)}

    def run() -> float:
        return float(package.run(given)["res0"].sum())

    assert run() == isolated(run, Limits(20)) == 128.0**3


def test_isolation_needs_processes_that_are_forked(monkeypatch, tmp_path, capsys):
    monkeypatch.delattr(os, "fork")
    net = tmp_path / "net.mlir"
    net.write_text(NET)
    command = ["run", str(net), "--target", f"{FILE}:Dying{{fault=none}}"]
    assert main([*command, "--isolate"]) == 1
    assert "error[B143]: expected a system that forks processes to run targets apart, found " in (
        capsys.readouterr().err
    )
    assert main(command) == 0


def test_each_call_of_a_function_has_its_time():
    def calls() -> str:
        for _ in range(2):
            time.sleep(0.6)
            go_on()
        return "all"

    assert isolated(calls, Limits(1)) == "all"


@pytest.mark.parametrize("end", [os.abort, lambda: time.sleep(60)])
def test_what_a_function_did_last_is_known_when_it_dies(end):
    def calls() -> None:
        go_on("first")
        go_on("second")
        end()

    with pytest.raises(Died) as caught:
        isolated(calls, Limits(0.2))
    assert caught.value.during == "second"


def test_arrays_of_any_kind_and_size_pass():
    before = children()
    child = Child(lambda data, arrays: (data, [each[::-1] for each in arrays]), Limits())
    arrays = [
        np.arange(3, dtype=">i2"),
        np.zeros((2, 0), np.float64),
        np.array(["a", "b"], object),
        np.array(7, np.uint64).reshape(1),
        np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
    ]
    for more in (0, 1 << 20, 3):
        given = [*arrays, np.arange(more)]
        told, results, written = child.ask({"more": more}, given)
        assert (told, written) == ({"more": more}, [])
        for array, result in zip(given, results, strict=True):
            np.testing.assert_array_equal(result, array[::-1])
    child.close()
    assert children() == before


def test_arrays_without_elements_alone_pass():
    child = Child(lambda data, arrays: (data, arrays), Limits())
    told, (result,), written = child.ask("", [np.zeros((0, 3), np.float32)])
    assert (told, result.shape, written) == ("", (0, 3), [])
    child.close()
