"""What all tests share: how random tests run, when garbage is collected, a small net, and that no
test sees the targets of another.

The profile `ci` draws the same examples each time, `fuzz` draws new ones, and more. It is chosen by
the environment variable HYPOTHESIS_PROFILE; `make fuzz` sets it, and FUZZ_SECONDS: tests run in the
random order of FUZZ_SEED, and none begins after that time.
"""

import gc
import os
import random
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from byocir.vendor import registry

_COMMON = {
    "deadline": None,  # machines under load would fail tests that are right
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("ci", max_examples=20, derandomize=True, **_COMMON)
settings.register_profile("fuzz", max_examples=500, derandomize=False, **_COMMON)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)
if _PROFILE == "ci":
    # Compiling takes longer than running what is compiled. Exported projects are built with -O3,
    # as is all C of `make fuzz`, and `make slow` optimises some.
    os.environ.setdefault("BYOCIR_CFLAGS", "-O0")
    # Hypothesis draws some numbers and texts that it reads in the modules at hand, which depend on
    # the tests that a process ran before. Without them each test has its examples in any order.
    providers._get_local_constants = providers.Constants

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background job
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which tests of interrupts need

gc.disable()  # until there are all modules and tests: nearly nothing of them is garbage

_SECONDS, _SEED = os.environ.get("FUZZ_SECONDS"), os.environ.get("FUZZ_SEED", "0")
_BEGAN = time.monotonic()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _SECONDS:
        random.Random(_SEED).shuffle(items)


def pytest_collection_finish() -> None:
    """Lets the collector look at what tests make, seldom, as most of it goes without, and once:
    what is there longer belongs to machines, for most, and stays until the end, as modules do."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(500_000, 100_000, 100_000)


def pytest_sessionfinish() -> None:
    """Spares the collections of all there is, which take seconds each, that pytest and Python end
    with."""
    gc.collect(0)
    gc.freeze()


def pytest_runtest_setup() -> None:
    if _SECONDS and time.monotonic() - _BEGAN > float(_SECONDS):
        pytest.skip("out of time")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a quantised net of two layers, for tests that would see no more in a larger one:
    it takes `x` of 1x16x8x8 and compiles in a third of the time that the digits take."""
    import onnx
    from qdq_models import small_net

    path = tmp_path_factory.mktemp("small") / "small.onnx"
    onnx.save(small_net(), path)
    return str(path)


@pytest.fixture(autouse=True)
def _own_targets() -> Iterator[None]:
    """Targets that a test makes known are forgotten after it."""
    with registry.forgetting():
        yield
