"""Quantises float models for a target: `byocir.quantise`, by ONNX Runtime's static quantiser.

The quantiser measures ranges and writes the net; what the target wants (`Target.quantisation`)
chooses its settings and, beyond them, the scales (`scales`). Needs the extra `byocir[ort]`.
"""
