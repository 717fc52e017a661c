"""What tests of the command line share."""

import onnx
import pytest
from qdq_models import small_net


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a quantised net of two layers, for tests that would see no more in a larger one:
    it takes `x` of 1x16x8x8 and compiles in a third of the time that the digits take."""
    path = tmp_path_factory.mktemp("small") / "small.onnx"
    onnx.save(small_net(), path)
    return str(path)
