"""Other programs that run ONNX models on CPUs, as functions from feeds to outputs.

Each is used as its users get it, for this machine's processor and so many threads. IREE
(`pip install iree-base-compiler iree-base-runtime`) and TVM (`pip install apache-tvm`), untuned,
take part where they are installed; byocir needs neither.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime

Feeds = Mapping[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]


def ort(path: str, threads: int, *, spins: bool, optimise: bool = True) -> Run:
    """ONNX Runtime, with its graph optimisations unless told otherwise; `spins` tells whether its
    threads spin for a while before they sleep."""
    options = onnxruntime.SessionOptions()
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spins)))
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def iree(path: str, threads: int) -> Run:
    """IREE's llvm-cpu backend, compiled with all of its optimisations."""
    from iree import compiler, runtime
    from iree.compiler.tools.import_onnx import __main__ as importer

    text = f"{path}.mlir"
    importer.main(importer.parse_arguments([path, "-o", text]))
    options = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
    code = compiler.compile_file(
        text, input_type="onnx", target_backends=["llvm-cpu"], extra_args=options
    )
    Path(text).unlink()
    runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")
    config = runtime.Config("local-sync" if threads == 1 else "local-task")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code))
    (function,) = (
        context.modules.module[name]
        for name in context.modules.module.vm_module.function_names
        if not name.startswith("__") and not name.endswith("$async")
    )
    return lambda feeds: [np.asarray(function(*feeds.values()))]


def tvm(path: str, threads: int) -> Run:
    """TVM's default pipeline for CPUs."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import onnx
    from tvm import compile, cpu, runtime
    from tvm.relax import VirtualMachine
    from tvm.relax.frontend.onnx import from_onnx
    from tvm.target import Target
    from tvm.target.codegen import llvm_get_system_cpu

    target = Target({"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": threads})
    machine = VirtualMachine(compile(from_onnx(onnx.load(path)), target), cpu())

    def run(feeds: Feeds) -> list[np.ndarray]:
        return [machine["main"](*map(runtime.tensor, feeds.values())).numpy()]

    return run


INSTALLED = {
    name: make
    for name, package, make in (("IREE", "iree.compiler", iree), ("TVM", "tvm", tvm))
    if importlib.util.find_spec(package.split(".")[0]) and importlib.util.find_spec(package)
}
"""Those of the two that are installed, by name."""
