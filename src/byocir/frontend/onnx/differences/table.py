"""The table: what is known to differ, by operator.

A row is no excuse for a bug of ours: the standard says what byocir gives, or says nothing.
`docs/differences.md` is made from these rows, and a test shows each of them.
"""

from __future__ import annotations

from byocir.frontend.onnx.differences.movement import MOVEMENT
from byocir.frontend.onnx.differences.numbers import NUMBERS
from byocir.frontend.onnx.differences.windows import WINDOWS

TABLE = (*WINDOWS, *MOVEMENT, *NUMBERS)
