"""The ONNX versions that byocir reads and writes."""

OPSET = 21
"""The working opset: models are converted to it, and exported models have it."""

OLDEST_OPSET = 13
"""Models older than this are refused: many operators then had other forms."""

IR_VERSION = 10
"""The format version of exported models, which goes with `OPSET`."""
