"""`byocir vta`: files in, files out, pipes, messages and exit codes."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quantised_nets import Net

import byocir
from byocir.cli.main import main
from byocir.cli.vta_files import Stream, the_only
from byocir.vta_sim import (
    Program,
    TimingModel,
    VTAConfig,
    assemble,
    disassemble,
    encode_uops,
    estimate,
    simulate,
    trace_events,
)

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"
PROGRAM = """\
# y = relu(x), one element
load.uop y=1 x=1
load.acc dram=0x1 y=1 x=1 stride=1
alu.max.imm uop=0,1 out=1 in=1 {push_next}
store.out dram=0x8 y=1 x=1 stride=1 {pop_prev,push_prev}
finish {pop_next}
"""
UNORDERED = PROGRAM.replace("load.acc dram=0x1 y=1 x=1 stride=1\n", "")
CONFIG = {**VTAConfig(log_block=3, log_inp_buff_size=14, log_wgt_buff_size=16,
                      log_acc_buff_size=16).to_dict(), "TARGET": "sim"}  # fmt: skip


def image() -> np.ndarray:
    dram = np.zeros(4096, np.uint8)
    dram[:4] = encode_uops([0], [0]).view(np.uint8)
    dram[64:128] = np.arange(-8, 8, dtype=np.int32).view(np.uint8)
    return dram


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a program, an image and a configuration."""
    monkeypatch.chdir(tmp_path)
    Path("p.s").write_text(PROGRAM)
    np.save("in.npy", image())
    Path("vta.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "digits.bpkg"
    byocir.compile(str(DIGITS), shapes={"image": (1, 1, 8, 8)}).save(path)
    return path


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_asm_and_dis_are_inverse(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["vta", "asm", "p.s"]) == 0
    assert capsys.readouterr().out == "wrote p.bin, 5 instructions\n"
    assert Path("p.bin").read_bytes() == assemble(PROGRAM).tobytes()
    assert main(["vta", "dis", "p.bin"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines() == disassemble(assemble(PROGRAM))
    assert main(["vta", "dis", "p.bin", "-o", "q.s"]) == 0
    assert Path("q.s").read_text() == text


@pytest.mark.usefixtures("folder")
def test_asm_and_dis_in_pipes(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    pipe(monkeypatch, PROGRAM.encode())
    assert main(["vta", "asm", "-"]) == 0
    stream = capfdbinary.readouterr().out
    assert stream == assemble(PROGRAM).tobytes()
    pipe(monkeypatch, stream)
    assert main(["vta", "dis", "-"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines() == disassemble(assemble(PROGRAM))


@pytest.mark.usefixtures("folder")
def test_the_config_decides_the_bits():
    assert main(["vta", "asm", "p.s", "-o", "other.bin", "--config", "vta.json"]) == 0
    config = VTAConfig.from_dict(CONFIG)
    other = Path("other.bin").read_bytes()
    assert other == assemble(PROGRAM, config).tobytes()
    assert main(["vta", "dis", "other.bin", "-o", "other.s", "--config", "vta.json"]) == 0
    assert Path("other.s").read_text().splitlines() == disassemble(assemble(PROGRAM))


def test_dis_of_a_package_shows_each_function_and_its_nodes(
    package: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["vta", "dis", str(package)]) == 0
    text = capsys.readouterr().out
    blobs = byocir.load(package).blobs["vta"]
    symbols = sorted(name.removesuffix(".insns") for name in blobs if name.endswith(".insns"))
    assert symbols
    stream = b"".join(blobs[f"{symbol}.insns"] for symbol in symbols)
    assert assemble(text).tobytes() == stream
    for symbol in symbols:
        assert f"# function {symbol}, 1x16_i8w8a32_15_15_18_17\n" in text
        nodes = json.loads(blobs[f"{symbol}.json"])["spans"][0][1]
        assert f"# {', '.join(nodes)}\n" in text
    assert main(["vta", "dis", str(package), "--function", symbols[0]]) == 0
    assert assemble(capsys.readouterr().out).tobytes() == blobs[f"{symbols[0]}.insns"]


def test_dis_shows_the_words_of_a_described_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, net = tmp_path / "described.bpkg", Net((1, 16, 4, 4), per_channel=False)
    module = byocir.import_onnx(net.of(net.conv(net.value, (16, 16), 1), (1, 16, 4, 4)))
    byocir.compile(module, targets=[str(ROOT / "examples" / "vta_machine.py")]).save(path)
    assert main(["vta", "dis", str(path)]) == 0
    text = capsys.readouterr().out
    assert "load.wgt" in text
    assert text.splitlines()[-1].startswith("finish {pop_next}")


@pytest.mark.parametrize("form", ["p.s", "p.bin", "p.other"])
@pytest.mark.usefixtures("folder")
def test_run_takes_text_and_instructions(form: str, capsys: pytest.CaptureFixture[str]):
    if form != "p.s":
        main(["vta", "asm", "p.s", "-o", form])
    assert main(["vta", "run", form, "--dram", "in.npy", "--output", "out.npy"]) == 0
    out = np.load("out.npy")
    assert np.array_equal(out, simulate(assemble(PROGRAM), image()).dram)
    assert out[128:144].tolist() == [0] * 8 + list(range(8))
    text = capsys.readouterr().out
    assert "instructions                         5" in text.replace("wrote", "")
    assert "acc_load_nbytes                     64" in text
    assert "cycles" not in text


@pytest.mark.usefixtures("folder")
def test_run_with_raw_images_report_and_pipes(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    Path("in.bin").write_bytes(image().tobytes())
    arguments = ["--dram", "in.bin", "--timing", "--check", "--report", "r.json", "--output", "-"]
    pipe(monkeypatch, PROGRAM.encode())
    assert main(["vta", "run", "-", *arguments, "--engine", "numpy"]) == 0
    out, err = capfdbinary.readouterr()
    expected = simulate(assemble(PROGRAM), image(), timing=True)
    assert out == expected.dram.tobytes()
    assert b"cycles" in err
    report = json.loads(Path("r.json").read_text())
    assert report["schema_version"] == 1
    assert report["cycles"] == expected.cycles
    assert report["counters"]["alu_counter"] == 1
    assert report["counters"]["instructions"]["LOAD"] == 2
    assert sum(report["busy"].values()) > 0
    assert VTAConfig.from_dict(report["config"]) == VTAConfig()


@pytest.mark.usefixtures("folder")
def test_what_only_check_refuses_exits_with_3(capsys: pytest.CaptureFixture[str]):
    Path("u.s").write_text(UNORDERED)
    assert main(["vta", "run", "u.s", "--dram", "in.npy"]) == 0
    assert main(["vta", "run", "u.s", "--dram", "in.npy", "--check"]) == 3
    assert "ACC" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["de10", "pynq"])
@pytest.mark.usefixtures("folder")
def test_trace_of_a_program(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["vta", "trace", "p.s", "--model", model]) == 0
    times = estimate(assemble(PROGRAM), model=TimingModel.named(model))
    assert capsys.readouterr().out == f"wrote trace.json, {times.cycles:,} cycles on {model}\n"
    trace = json.loads(Path("trace.json").read_text())
    assert trace == trace_events(Program(assemble(PROGRAM)), TimingModel.named(model))


def test_trace_of_a_package_shows_the_nodes(package: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["vta", "trace", str(package), "-o", "-"]) == 0
    trace = json.loads(capsys.readouterr().out)
    events = [e for e in trace["traceEvents"] if e.get("cat") == "location"]
    named = {event["name"].partition(", tile ")[0] for event in events}
    blobs = byocir.load(package).blobs["vta"]
    spans = [json.loads(blobs[name])["spans"] for name in blobs if name.endswith(".json")]
    assert named == {", ".join(nodes) for program in spans for _, nodes in program}


def test_trace_of_several_functions_asks_which():
    finish = assemble("finish")
    streams = [Stream(finish, VTAConfig(), name) for name in ("vta_0", "vta_1")]
    assert the_only(streams[:1], "x") is streams[0]
    with pytest.raises(byocir.ByocirError, match=r"B115.*--function to choose from vta_0, vta_1"):
        the_only(streams, "x")


@pytest.mark.usefixtures("folder")
def test_timing_on_another_board():
    arguments = ["run", "p.s", "--dram", "in.npy", "--timing", "--report", "r.json"]
    assert main(["vta", *arguments, "--model", "pynq"]) == 0
    report = json.loads(Path("r.json").read_text())
    expected = simulate(assemble(PROGRAM), image(), timing=TimingModel.pynq())
    assert (report["model"], report["cycles"]) == ("pynq", expected.cycles)
    assert report["units"]["store"]["busy"] > 0
    assert set(report["energy_pj"]) >= {"mac", "alu", "dram"}


def test_isa_prints_the_page_and_the_page_is_up_to_date(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["vta", "isa"]) == 0
    page = (ROOT / "docs" / "vta-isa.md").read_text()
    assert capsys.readouterr().out == page, "run: byocir vta isa > docs/vta-isa.md"
    assert main(["vta", "isa", "--config", "vta.json"]) == 0
    other = capsys.readouterr().out
    assert "`1x8_i8w8a32_15_14_16_16`" in other
    assert other != page


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["asm", "none.s"], "B101", "none.s"),
        (["asm", "."], "B101", "directory"),
        (["asm", "text.bin"], "B114", "use -o"),
        (["asm", "p.s", "-o", "no/p.bin"], "B114", "no/p.bin"),
        (["asm", "bad.s"], "V108", "bad.s:2:8: finish now"),
        (["asm", "latin.s"], "V108", "latin.s, byte 2"),
        (["asm", "p.s", "--config", "in.npy"], "V006", "in.npy"),
        (["asm", "p.s", "--config", "none.json"], "V006", "none.json"),
        (["dis", "cut.bin"], "V101", "cut.bin"),
        (["dis", "p.s", "--function", "f"], "B115", "--function"),
        (["dis", "no.bpkg"], "B130", "no.bpkg"),
        (["dis", "fake.bpkg"], "B131", "fake.bpkg"),
        (["run", "fake.bpkg", "--dram", "in.npy"], "B115", "byocir run"),
        (["run", "p.s", "--dram", "none.npy"], "B101", "none.npy"),
        (["run", "p.s", "--dram", "bad.npy"], "B117", "bad.npy"),
        (["run", "p.s", "--dram", "floats.npy"], "V002", "float64"),
        (["run", "p.s", "--dram", "in.npy", "--engine", "fast"], "V003", "'fast'"),
        (["run", "p.s", "--dram", "cut.bin"], "V202", "instruction 0"),
        (["run", "p.s", "--dram", "in.npy", "--output", "no/out"], "B114", "no/out"),
        (["run", "-", "--dram", "-"], "B115", "not both"),
        (["run", "p.s", "--dram", "in.npy", "--timing", "--model", "x"], "V009", "de10, pynq"),
        (["trace", "p.s", "--model", "x"], "V009", "de10, pynq"),
        (["trace", "p.s", "-o", "no/trace.json"], "B114", "no/trace.json"),
        (["trace", "cut.bin"], "V101", "cut.bin"),
    ],
)
def test_user_errors_are_one_message(
    arguments: list[str], code: str, words: str, capsys: pytest.CaptureFixture[str]
):
    Path("bad.s").write_text("finish\nfinish now\n")
    Path("latin.s").write_bytes(b"# \xe9\n")
    Path("text.bin").write_text(PROGRAM)
    Path("cut.bin").write_bytes(b"\0")
    Path("fake.bpkg").write_bytes(b"PK")
    Path("bad.npy").write_bytes(b"\x93NUMPY\x01\0\x02\0{}")
    np.save("floats.npy", np.zeros(4))
    assert main(["vta", *arguments]) == 1
    err = capsys.readouterr().err
    assert f"error[{code}]" in err
    assert words in err
    assert "Traceback" not in err


def test_a_package_names_its_functions_and_its_machine(
    package: Path, folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["vta", "dis", str(package), "--function", "vta_00"]) == 1
    assert "error[B116]" in (err := capsys.readouterr().err)
    assert "did you mean 'vta_0'" in err
    assert main(["vta", "dis", str(package), "--config", "vta.json"]) == 1
    assert "error[V208]: expected program vta_0 for 1x8_i8w8a32_15_14_16_16, found one for " in (
        capsys.readouterr().err
    )
    assert main(["vta", "dis", str(package), "--config", "sim"]) == 0


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run", "p.s"], ["asm"]])
def test_usage_errors_exit_with_2(arguments: list[str]):
    with pytest.raises(SystemExit) as error:
        main(["vta", *arguments])
    assert error.value.code == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=64), name=st.sampled_from(["x", "x.s", "x.bin", "x.bpkg"]))
def test_random_files_never_end_in_a_traceback(folder: Path, data: bytes, name: str):
    Path(name).write_bytes(data)
    for arguments in (["asm", name, "-o", "y"], ["dis", name], ["run", name, "--dram", "in.npy"]):
        assert main(["vta", *arguments]) in (0, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 127), byte=st.integers(0, 255))
def test_damaged_images_never_end_in_a_traceback(folder: Path, at: int, byte: int):
    data = bytearray(Path("in.npy").read_bytes())
    data[at] = byte
    Path("damaged.npy").write_bytes(bytes(data))
    assert main(["vta", "run", "p.s", "--dram", "damaged.npy"]) in (0, 1)


def test_a_run_writes_the_traces_of_its_programs(package: Path, tmp_path: Path) -> None:
    assert main(["run", str(package), "--trace", str(tmp_path / "traces")]) == 0
    alone = tmp_path / "alone.json"
    for written in (tmp_path / "traces").iterdir():
        name = written.name.removesuffix(".trace.json")
        assert main(["vta", "trace", str(package), "--function", name, "-o", str(alone)]) == 0
        assert alone.read_text() == written.read_text()
    assert alone.exists()
