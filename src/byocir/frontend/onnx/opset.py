"""Names the ONNX versions that byocir reads and writes."""

OPSET = 21
"""The working opset: the op table reads and writes nodes in the form they have there."""

OLDEST_OPSET = 1
"""ONNX's first; nodes of other opsets are adapted one by one, or stay as they are."""

IR_VERSION = 10
"""The format version of exported models, which goes with `OPSET`."""

RUNTIME_OPSET = 26
"""The newest opset that ONNX Runtime 1.31 reads; exported models stay below it if they can."""
