"""Operators on text."""

from __future__ import annotations

import numpy as np

from onnx_fuzz.draft import Draft, kind_of
from onnx_fuzz.rules.registry import rule


@rule("StringSplit")
def split(d: Draft) -> None:
    d.take("X", rank=(0, 3))
    d.attr("delimiter", d.draws.one([" ", ",", "b"]), "")
    if d.maybe():
        d.attributes["maxsplit"] = d.draws.upto(2, 0)
    d.left_out |= {"maxsplit", "delimiter"}
    d.outputs = 2


@rule("StringNormalizer")
def normalise(d: Draft) -> None:
    d.take("X", shape=d.draws.one([[d.draws.upto(4)], [1, d.draws.upto(4)]]))
    d.attr("case_change_action", d.draws.one(["LOWER", "UPPER", "NONE"]), "NONE")
    d.attr("is_case_sensitive", d.draws.upto(1, 0), 0)
    d.left_out.add("locale")  # which are installed is the machine's
    if d.maybe():
        d.attributes["stopwords"] = ["a", "A,b"]
    d.left_out.add("stopwords")


@rule("RegexFullMatch")
def match(d: Draft) -> None:
    d.take("X", rank=(0, 3))
    d.attributes["pattern"] = d.draws.one(["a", "[a-z ]*", ".*b", "x+"])


@rule("TfIdfVectorizer")
def tf_idf(d: Draft) -> None:
    """Draws a TfIdfVectorizer of single numbers and pairs; weights are by word."""
    kind = d.bind("X", "i")
    d.put("X", d.draws.array(kind, d.draws.one([[d.draws.upto(6)], [2, d.draws.upto(6)]]), 0, 5))
    singles = d.draws.upto(3)
    d.attributes |= {
        "mode": d.draws.one(["TF", "IDF", "TFIDF"]),
        "ngram_counts": [0, singles],
        "ngram_indexes": d.draws.one([[0, 1, 2, 4, 3], [4, 3, 2, 1, 0]])[: singles + 2],
        "pool_int64s": [*[1, 2, 3][:singles], *d.draws.one([[1, 2, 4, 5], [0, 0, 3, 1]])],
        "min_gram_length": d.draws.upto(2),
        "max_gram_length": 2,
        "max_skip_count": d.draws.upto(1, 0),
    }
    if d.maybe():
        d.attributes["weights"] = [0.5, 1.0, 2.0, 0.25, 4.0][: singles + 2]
    d.left_out |= {"weights", "pool_strings"}


@rule("ai.onnx.ml.LabelEncoder")
def labels(d: Draft) -> None:
    """Draws a LabelEncoder from and to numbers or text, by lists of their own or by tensors."""
    d.left_out |= set(d.schema.attributes)
    source = d.bind("X")
    target = d.draws.one([np.dtype(np.int64), np.dtype(np.float32), np.dtype(object)])
    kinds = {
        "int64": ("int64s", [1, 2, 3], 7),
        "float32": ("floats", [1.0, 2.0, 0.5], 0.75),
        "object": ("strings", ["a", "b", "ü"], "?"),
    }
    if source.name not in kinds:
        source = np.dtype(np.int64)
    keys, values = kinds[source.name], kinds[target.name]
    d.attributes |= {f"keys_{keys[0]}": keys[1], f"values_{values[0]}": values[1]}
    if d.maybe():
        d.attributes[f"default_{values[0][:-1]}"] = values[2]
    drawn = d.draws.rng.integers(0, 3, d.draws.shape(1, 3))
    d.put("X", np.array(keys[1], source)[drawn])


@rule("ai.onnx.ml.CategoryMapper")
def categories(d: Draft) -> None:
    d.attributes |= d.draws.one(
        [
            {"cats_int64s": [1, 2, 3], "cats_strings": ["a", "b", "ü"]},
            {"cats_int64s": [4, 0], "cats_strings": ["", "A,b"]},
        ]
    )
    d.attr("default_int64", 9, -1)
    d.attr("default_string", "?", "_Unused")
    if kind_of(d.bind("X")) == "s":
        d.take("X", rank=(1, 2))
    else:
        d.take("X", rank=(1, 2), low=0, high=4)
