"""Tuning: the best schedules of composites, the same ones whoever judges them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import knobbed
import numpy as np
import pytest
from knobbed import Knobbed
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.cli.main import main
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.byoc.tuned import Tuned, TunedTable, load_tuned, read_tuned
from byocir.targets.tuned import places_in
from byocir.tuning.judge import CompileJob

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS = str(EXAMPLES / "digits" / "digits_int8.onnx")
SHAPES = {"image": (1, 1, 8, 8)}
SIZES = range(4, 14)


def relus(*types: str) -> str:
    inputs = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(types))
    lines = (f"%y{i} = graph.relu %x{i} : ({t}) -> {t}" for i, t in enumerate(types))
    outputs = ", ".join(f"%y{i}" for i in range(len(types)))
    listed = ", ".join(types)
    body = "\n".join([*lines, f"func.return {outputs} : {listed}"])
    return f"func.func @main({inputs}) -> ({listed}) {{\n{body}\n}}\n"


RELU = relus("tensor<8xf32>")
IMAGE = relus("tensor<1x16x40x16xi8>")


@pytest.fixture(scope="module")
def net(tmp_path_factory) -> list[str]:
    """Ten layers and a target in a file, as the command line is given them."""
    path = tmp_path_factory.mktemp("net") / "net.mlir"
    path.write_text(relus(*(f"tensor<{size}xf32>" for size in SIZES)))
    return [str(path), "--target", f"{knobbed.__file__}:Knobbed"]


def tuned(net: list[str], **options) -> TunedTable:
    return byocir.tune(net[0], targets=net[2], **options)


@pytest.fixture(scope="module")
def table(net) -> TunedTable:
    """What tuning finds that tries one schedule after the other."""
    return tuned(net)


def cycles(package: byocir.Package) -> int:
    return sum(profile["cycles"] for profile in package.report.device.values())


def best_of(table: TunedTable) -> Tuned:
    (found,) = table.entries.values()
    return found


# -- whoever judges


def test_the_best_is_found_and_compiled(table, net):
    assert len(table.entries) == 10
    plain = byocir.compile(net[0], targets=net[2])
    chosen = byocir.compile(net[0], targets=net[2], tuned=table)
    least = 10 * sum(SIZES)
    assert (cycles(plain), cycles(chosen)) == (least + sum(n % 3 + 5 for n in SIZES), least)
    schedules = [each.schedule for each in chosen.report.regions[0].composites]
    assert schedules == [f"lanes = {n % 3}; order = 'nm'" for n in SIZES]
    assert chosen.report.notes == plain.report.notes


def test_two_jobs_find_the_same(table, net, tmp_path, capsys):
    path = tmp_path / "tuned.json"
    assert main(["tune", *net, "--jobs", "2", "-o", str(path)]) == 0
    assert path.read_text() == table.to_json()
    assert load_tuned(path) == table
    assert list(tmp_path.iterdir()) == [path]
    told = capsys.readouterr()
    assert "10 of 10 composites cost less than before, by up to " in told.out
    assert "[10/10]" in told.err
    package = tmp_path / "net.bpkg"
    assert main(["compile", *net, "--tuned", str(path), "-o", str(package)]) == 0
    assert cycles(byocir.load(package)) == 10 * sum(SIZES)


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a cluster: a scheduler and a worker, threads here that pass jobs as bytes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=None,
        silence_logs=50,
    ) as made:
        yield made.scheduler_address.replace("tcp://", "dask://")


def test_a_cluster_finds_the_same(table, net, tmp_path):
    path = tmp_path / "tuned.json"
    with cluster() as address:
        assert main(["tune", *net, "--executor", address, "-o", str(path)]) == 0
    assert path.read_text() == table.to_json()


class Failing(Executor):
    """Does some jobs and fails in the next one."""

    def __init__(self, jobs: int, error: BaseException | None = None) -> None:
        self.left, self.error = jobs, error
        self.done: list[CompileJob] = []

    def submit(self, fn, /, job):
        future: Future = Future()
        self.left -= 1
        if self.left < 0:
            future.set_exception(self.error)
        else:
            self.done.append(job)
            future.set_result(fn(job))
        return future


def test_an_interrupted_run_goes_on(table, net, tmp_path):
    journal = tmp_path / "part"
    first, rest = Failing(20, KeyboardInterrupt()), Failing(1000)
    with pytest.raises(KeyboardInterrupt):
        tuned(net, executor=first, journal=journal)
    text = journal.read_text()
    assert text.count('"job"') == 20
    journal.write_text(text[:-5])  # as where the power fails
    told: list[str] = []
    assert tuned(net, executor=rest, journal=journal, tell=told.append) == table
    assert told[0] == "goes on after 19 schedules that were judged before"
    assert rest.done[0] == first.done[-1]
    assert not {*rest.done} & {*first.done[:-1]}
    assert not journal.exists()


def test_ctrl_c_ends_all_processes_and_the_next_run_goes_on(table, net, tmp_path):
    path, part = tmp_path / "tuned.json", tmp_path / "tuned.json.part"
    command = [sys.executable, "-m", "byocir.cli.main", "tune", *net, "--jobs", "2", "-o", path]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True)
    until = time.monotonic() + 60
    while not part.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)  # to the end of the last that holds the pipe
    assert process.returncode == 130, told
    assert f"the same command goes on with what is in {part}" in told
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert not path.exists()
    assert main(["tune", *net, "-o", str(path)]) == 0
    assert path.read_text() == table.to_json()
    assert not part.exists()


def test_what_an_executor_had_not_done_is_done_again(table, net):
    told: list[str] = []
    error = BrokenExecutor("a process was killed")
    assert tuned(net, executor=Failing(20, error), tell=told.append) == table
    (note,) = (line for line in told if "executor" in line)
    assert note == (
        "the executor failed (BrokenExecutor: a process was killed): its work is done again in "
        "this process"
    )


def test_an_end_of_the_time_leaves_what_is_known(net):
    assert tuned(net, seconds=1e-6).entries == {}


# -- what is tuned


def products(*sizes: tuple[int, int, int]) -> ModuleOp:
    """Products of bytes, each of two arguments."""
    inputs, lines, results, types = [], [], [], []
    for i, (m, k, n) in enumerate(sizes):
        inputs += [f"%a{i}: tensor<{m}x{k}xi8>", f"%b{i}: tensor<{k}x{n}xi8>"]
        lines.append(f"""
      %zero{i} = tir.fill 0 : i32 : tensor<{m}x{n}xi32>
      %y{i} = tir.block [i: {m}, j: {n} | r: {k}] ins(%a{i}[i, r] : tensor<{m}x{k}xi8>,
          %b{i}[r, j] : tensor<{k}x{n}xi8>) outs(%zero{i}[i, j] : tensor<{m}x{n}xi32>) {{
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }} loc("product{i}")""")
        results.append(f"%y{i}")
        types.append(f"tensor<{m}x{n}xi32>")
    listed = ", ".join(types)
    return parse_module(f"""
    func.func @main({", ".join(inputs)}) -> ({listed}) {{{"".join(lines)}
      func.return {", ".join(results)} : {listed}
    }}""")


def engine_class() -> type[byocir.Target]:
    """The target of the example of a described machine."""
    spec = importlib.util.spec_from_file_location("engine", EXAMPLES / "counted_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, byocir.Target)
    )


def assert_tuned(model: ModuleOp, target: str | byocir.Target, trials: int) -> Tuned:
    """Tunes a model of one composite; what is found costs less, and computes the same."""
    table = byocir.tune(model, targets=target, trials=trials)
    plain = byocir.compile(model, targets=target)
    chosen = byocir.compile(model, targets=target, tuned=table)
    found = best_of(table)
    assert (cycles(plain), cycles(chosen)) == (found.default, found.cost)
    assert found.cost < found.default
    assert chosen.report.regions[0].composites[0].schedule == found.schedule
    feeds = random_feeds(model)
    expected = evaluate(model, feeds)
    for name, array in chosen.run(feeds).items():
        np.testing.assert_array_equal(array, expected[name])
    return found


def test_composites_on_the_same_work_are_judged_once():
    model, executor = parse_module(relus(*["tensor<8xf32>"] * 4)), Failing(1000)
    table = byocir.tune(model, targets=[Knobbed()], trials=6, executor=executor)
    assert len(table.entries) == 1
    assert len(executor.done) == len({*executor.done})
    assert len(executor.done) == 6 + 2


def test_a_described_machine_is_tuned():
    assert_tuned(products((40, 8, 56)), engine_class()(), 3)


def test_vtas_tiles_are_tuned():
    found = assert_tuned(parse_module(IMAGE), "vta", 4)
    assert found.schedule.startswith("c = 1; n = 1; h = ")


@pytest.mark.slow
def test_the_net_of_digits_is_tuned_the_same_way_everywhere(tmp_path):
    own = ["tune", DIGITS, "--shape", "image=1,1,8,8", "--target", "vta", "--trials", "8", "-o"]
    paths = [tmp_path / f"{i}.json" for i in range(3)]
    assert main([*own, str(paths[0])]) == 0
    assert main([*own, str(paths[1]), "--jobs", "2"]) == 0
    with cluster() as address:
        assert main([*own, str(paths[2]), "--executor", address]) == 0
    assert len({path.read_text() for path in paths}) == 1
    table = load_tuned(paths[0])
    assert len(table.entries) == 13
    assert all(each.cost <= each.default for each in table.entries.values())
    plain, chosen = (
        byocir.compile(DIGITS, targets="vta", shapes=SHAPES, tuned=each) for each in (None, table)
    )
    assert cycles(chosen) < cycles(plain)


HOLES = (
    "product, = blocks(); stored = cache_write(product); i, j = tile(stored, d0={m}, d1={n}, "
    'remainder="overlap"); compute_at(product, j); stage(product, 2, engine.sums, at=j); '
    "stage(product, 0, engine.near, at=i); stage(product, 1, engine.near, at=j)"
)


def with_holes(knobs) -> byocir.Target:
    own = {"schedule": lambda self, composite: HOLES, "knobs": lambda self, composite: knobs}
    return type("Holes", (engine_class(),), own)()


def test_a_script_with_holes_is_tuned():
    target = with_holes({"m": (8, 16), "n": (16, 8)})
    found = assert_tuned(products((16, 32, 16)), target, 30)
    assert "d0=16, d1=16" in found.schedule


def test_a_hole_without_values_is_told():
    with pytest.raises(ByocirError) as error:
        byocir.compile(products((16, 32, 16)), targets=[with_holes({"m": (4, 8)})])
    assert error.value.code == "B265"
    assert "values for the hole {n}, found none" in error.value.message


def test_knobs_of_a_target_are_tuned():
    found = best_of(byocir.tune(parse_module(RELU), targets=[Knobbed()]))
    assert found == Tuned("lanes = 2; order = 'nm'", 80, 87, "cycles")


def test_a_large_space_is_sampled_the_same_way_each_time():
    pytest.importorskip("optuna")
    model, own = parse_module(RELU), {"targets": [Knobbed(wide=20)], "trials": 24, "seed": 1}
    with ThreadPoolExecutor(2) as executor:
        found = [byocir.tune(model, **own, executor=each) for each in (None, executor)]
    assert found[0] == found[1]
    assert best_of(found[0]).cost < best_of(found[0]).default


@pytest.mark.parametrize("knobs", [{"a b": (1,)}, {"a": ()}, {"a": (1.5,)}, [1]])
def test_what_is_no_knob_is_told(knobs):
    target = type("Wrong", (Knobbed,), {"knobs": lambda self, composite: knobs})()
    with pytest.raises(ByocirError) as error:
        byocir.compile(parse_module(RELU), targets=[target])
    assert error.value.code == "B265"


def test_time_is_measured_where_no_cycles_are_told():
    def load(self, blobs):
        return lambda symbol, inputs: [np.maximum(inputs[0], 0)]

    own = {"profile": byocir.Target.profile, "load": load}
    target = type("Timed", (Knobbed,), own)()
    found = best_of(byocir.tune(parse_module(RELU), targets=[target], trials=20))
    assert found.unit == "seconds"
    assert 0 < found.cost <= found.default < 1


# -- what does not fit


@pytest.mark.parametrize("schedule", ["i = 999; n = 1", "m, = tile(gemm, m=4)", "("])
def test_what_no_longer_fits_is_left_out_with_a_note(schedule):
    model = parse_module(IMAGE)
    partitioned = model.clone()
    byocir.partition(partitioned, "vta")
    (place,) = places_in(partitioned)
    table = TunedTable({place.key: Tuned(schedule, 1, 2, "cycles")}, "0.0.1")
    package = byocir.compile(model, targets="vta", tuned=table)
    version, note = package.report.notes[-2:]
    assert version.startswith("schedules were tuned by byocir 0.0.1, not by ")
    assert note.startswith("a tuned schedule of vta.relu does not fit any more")
    assert "(B261)" in note
    assert package.report.regions[0].composites[0].schedule == ""


def refused(text: str) -> str:
    with pytest.raises(ByocirError) as error:
        read_tuned(text, "tuned.json")
    assert error.value.code == "B264"
    return error.value.message


def test_other_files_are_refused(table):
    data = json.loads(table.to_json())
    assert "expected JSON" in refused("{")
    assert "expected schema_version 1" in refused(json.dumps({**data, "schema_version": 2}))
    assert "expected tuned as a list" in refused(json.dumps({**data, "tuned": {}}))
    for name, value in (("schedule", 1), ("cost", "1"), ("ops", [1]), ("unit", None)):
        rows = [{**data["tuned"][0], name: value}]
        assert f"expected {name} as" in refused(json.dumps({**data, "tuned": rows}))
    twice = {**data, "tuned": [data["tuned"][0]] * 2}
    assert "each composite on the same ops once" in refused(json.dumps(twice))


def test_tables_for_something_else_are_refused(table):
    with pytest.raises(ByocirError, match="composites of this model, found none") as error:
        byocir.compile(parse_module(relus("tensor<99xf32>")), targets=[Knobbed()], tuned=table)
    assert error.value.code == "B264"
    with pytest.raises(ByocirError, match=r"tuned schedules for #byoc.target<.*wide = 9"):
        byocir.compile(parse_module(RELU), targets=[Knobbed(wide=9)], tuned=table)


def test_where_nothing_can_be_chosen_tune_says_so():
    with pytest.raises(ByocirError) as error:
        byocir.tune(parse_module(RELU), targets="ort")
    assert error.value.code == "B265"


def test_composites_that_cannot_be_judged_say_why():
    own = {"emit": byocir.Target.emit, "profile": byocir.Target.profile}
    with pytest.raises(ByocirError) as error:
        byocir.tune(parse_module(RELU), targets=[type("Mute", (Knobbed,), own)()])
    assert error.value.code == "B265"
    assert "its target makes no code for it, and does not profile it" in error.value.help


@pytest.mark.parametrize(
    ("address", "found"),
    [("slurm://x", "expected an executor as dask://HOST:PORT"), ("dask://", "expected a dask")],
)
def test_an_executor_that_there_is_not(address, found, net, tmp_path, capsys):
    path = tmp_path / "tuned.json"
    assert main(["tune", *net, "--executor", address, "-o", str(path)]) == 1
    assert f"error[B266]: {found}" in capsys.readouterr().err
