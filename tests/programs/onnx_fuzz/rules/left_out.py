"""Lists the parts of ONNX's schemas that no rule draws, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

_RANDOM = "gives other numbers in each run"
_OPTIONAL = "ONNX Runtime takes no optional values from Python; onnx's node cases have it"
_MAP = "is of maps, which have no tensors"
_MODEL = "its attributes are a whole trained model; onnx's node cases have some"

OPERATORS: Mapping[str, str] = {
    **dict.fromkeys(["Bernoulli", "Multinomial"], _RANDOM),
    **dict.fromkeys(["RandomNormal", "RandomNormalLike"], _RANDOM),
    **dict.fromkeys(["RandomUniform", "RandomUniformLike"], _RANDOM),
    **dict.fromkeys(["Optional", "OptionalGetElement", "OptionalHasElement"], _OPTIONAL),
    "ImageDecoder": "decoders of pictures need not agree on every bit",
    **dict.fromkeys(["ai.onnx.ml.CastMap", "ai.onnx.ml.DictVectorizer"], _MAP),
    "ai.onnx.ml.ZipMap": _MAP,
    **dict.fromkeys(["ai.onnx.ml.SVMClassifier", "ai.onnx.ml.TreeEnsemble"], _MODEL),
    "ai.onnx.ml.TreeEnsembleClassifier": _MODEL,
    "ai.onnx.ml.TreeEnsembleRegressor": _MODEL,
}
"""Operators; outside ONNX's default domain they are `domain.operator`."""

FORMS: Mapping[tuple[str, int], str] = {
    ("Scan", 8): "scans batches of sequences, and neither reference runs it",
}
"""Versions of operators."""

DOMAINS: Mapping[str, str] = {
    "ai.onnx.preview": "not part of a released standard",
    "ai.onnx.preview.training": "trains models",
}

ATTRIBUTES: Mapping[tuple[str, str], str] = {
    ("BatchNormalization", "spatial"): "0 is of opset 7 and 8 alone, and no reference runs it",
    ("Constant", "sparse_value"): "no reference runs it",
    ("StringNormalizer", "locale"): "which there are is the machine's",
    ("TfIdfVectorizer", "max_gram_length"): "is the length of the words that there are",
    ("TfIdfVectorizer", "pool_strings"): "is another form of pool_int64s",
    ("ai.onnx.ml.LabelEncoder", "default_tensor"): "is another form of default_*",
    ("ai.onnx.ml.LabelEncoder", "keys_tensor"): "is another form of keys_*",
    ("ai.onnx.ml.LabelEncoder", "values_tensor"): "is another form of values_*",
    (
        "ai.onnx.ml.LinearRegressor",
        "post_transform",
    ): "ONNX Runtime takes NONE alone for regressions",
    ("ai.onnx.ml.SVMRegressor", "post_transform"): "ONNX Runtime takes NONE alone for regressions",
    ("TopK", "sorted"): "0 leaves the order open",
}
"""Attributes that are always the same, or left out."""
