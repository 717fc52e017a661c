"""How long compiling takes: from a file to the first result, once more, and from a package.

    python benchmarks/compile.py [NET ...]

For each net (default ResNet-50, MobileNetV2, encoder), with the host as C and an empty cache:
seconds of every step beside ONNX Runtime's, which opens a session on the same file in the same run.
Then the whole pipeline on a chain of 5 000 nodes that a toy target takes. Seconds are those of the
processor, the C compiler's included; loading, and loading and running by the plan of the cache, are
also timed in new processes, from where these have imported numpy, once more where all of the net is
a region of ONNX Runtime's. At last what a call of a region's
code takes on the clock, in this process and in one of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import numpy as np
import onnxruntime
from nets.classic_nets import FULL, NETS
from nets.growing_graphs import Npu, growing

import byocir
from byocir.compiler import partition
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.targets.load_code import load_code

NEG = """func.func @main(%0: tensor<?xf32>) -> tensor<?xf32> {
  %1 = graph.neg %0 : (tensor<?xf32>) -> tensor<?xf32>
  func.return %1 : tensor<?xf32>
}"""
CHOSEN = ("ResNet-50", "MobileNetV2", "encoder")


def now() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Watch:
    """Prints how long each step took."""

    def __init__(self) -> None:
        self.began = self.last = now()

    def tell(self, what: str) -> float:
        """Prints the seconds since the last step; gives those since the first."""
        last, self.last = self.last, now()
        print(f"  {what:<44}{self.last - last:>8.2f} s")
        return self.last - self.began


def compare(name: str, folder: Path) -> None:
    """Prints the steps for one net, and the ratio to ONNX Runtime."""
    path, saved = folder / f"{name}.onnx", folder / f"{name}.bpkg"
    path.write_bytes(NETS[name](FULL))
    print(f"{name}, {path.stat().st_size / 2**20:.0f} MB")
    watch = Watch()
    package = byocir.compile(path, targets=[], host="c")
    watch.tell("file to package")
    feeds = {n: np.zeros(t.shape, np.float32) for n, t in package.inputs.items()}
    package.run(feeds)
    cold = watch.tell("first result, with the C compiler")
    watch = Watch()
    package = byocir.compile(path, targets=[], host="c")
    watch.tell("file to package again")
    package.run(feeds)
    cached = watch.tell("first result, C code cached")
    package.save(saved)
    watch.tell("save the package")
    watch = Watch()
    again = byocir.load(saved)
    watch.tell("package to callable")
    again.run(feeds)
    warm = watch.tell("first result, C code cached")
    watch = Watch()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    watch.tell("ONNX Runtime: file to session")
    session.run(None, feeds)
    theirs = watch.tell("ONNX Runtime: first result")
    for what, code in (("callable", ""), ("result", RUN)):
        label = f"package to {what}, new process, beyond numpy"
        print(f"  {label:<44}{in_new_process(code, saved):>8.3f} s")
    regions = byocir.compile(path, targets=["ort"], host="c")
    regions.save(saved)
    byocir.load(saved).run(feeds)  # which keeps the plan
    label = "the same, as regions of ort"
    print(f"  {label:<44}{in_new_process(RUN, saved):>8.3f} s")
    print(f"  file to result, cold {cold:.2f} s: {cold / theirs:.1f} x ONNX Runtime")
    print(f"  file to result, cached {cached:.2f} s: {cached / theirs:.1f} x ONNX Runtime")
    print(f"  package to result, cached {warm:.2f} s: {warm / theirs:.1f} x ONNX Runtime")


LOAD = """import sys, numpy
from time import process_time
began = process_time()
import byocir
package = byocir.load(sys.argv[1])
{}
print(process_time() - began)
"""
RUN = "package.run({n: numpy.zeros(t.shape, t.dtype) for n, t in package.inputs.items()})"


def in_new_process(code: str, package: Path) -> float:
    """The least seconds of a few that loading a package, and code that uses it, take beyond numpy's
    import."""
    command = [sys.executable, "-c", LOAD.format(code), str(package)]
    runs = (subprocess.run(command, check=True, capture_output=True) for _ in range(5))
    return min(float(each.stdout) for each in runs)


def chain(nodes: int) -> None:
    """Prints how long the whole pipeline takes on a chain."""
    module = byocir.import_onnx(growing("chain", nodes))
    began = now()
    partition(module, Npu())
    whole = now() - began
    print(f"chain of {nodes} nodes, whole pipeline: {whole:.2f} s")


ROUNDS = 300


def calls(count: int) -> None:
    """Prints how long a call of a region on `count` floats takes, here and isolated."""
    module = parse_module(NEG.replace("?", str(count)), load_context())
    given, spent = [np.ones(count, np.float32)], list[float]()
    for isolation in (nullcontext, byocir.isolate):
        package = byocir.compile(module.clone(), targets=["ort"])
        (region,) = package.report.regions
        with isolation():
            run = load_code(package.target("ort"), package.blobs["ort"])
        run(region.symbol, given)
        began = perf_counter()
        for _ in range(ROUNDS):
            run(region.symbol, given)
        spent.append((perf_counter() - began) / ROUNDS * 1e6)
    print(f"call on {4 * count:,} bytes: {spent[0]:.0f} us here, {spent[1]:.0f} us isolated")


def main(nets: list[str]) -> None:
    """Prints all comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BYOCIR_CACHE"] = folder
        for name in nets:
            compare(name, Path(folder))
    chain(5000)
    for count in (256, 1 << 20):
        calls(count)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CHOSEN))
