"""Operators of ai.onnx.ml on numbers."""

from __future__ import annotations

from onnx_fuzz.draft import Draft, kind_of
from onnx_fuzz.rules.registry import rule

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def table(d: Draft, name: str = "X") -> tuple[int, int]:
    """Gives an operand of rows and columns; gives how many."""
    x = d.take(name, shape=[d.draws.upto(4), d.draws.upto(5)])
    return x.shape[0], x.shape[1]


@rule("ai.onnx.ml.Binarizer")
def binarize(d: Draft) -> None:
    table(d)
    d.attr("threshold", 0.5, 0.0)


@rule("ai.onnx.ml.Normalizer")
def normalise(d: Draft) -> None:
    table(d)
    d.attr("norm", d.draws.one(["MAX", "L1", "L2"]), "MAX")


@rule("ai.onnx.ml.Scaler")
def scaler(d: Draft) -> None:
    _, columns = table(d)
    count = d.draws.one([1, columns])
    d.attributes["scale"] = [d.draws.one([0.5, 2.0]) for _ in range(count)]
    d.attributes["offset"] = [d.draws.one([0.0, -1.5]) for _ in range(count)]


@rule("ai.onnx.ml.Imputer")
def imputer(d: Draft) -> None:
    _, columns = table(d)
    count = d.draws.one([1, columns])
    whole = kind_of(d.bind("X")) == "i"
    d.left_out |= set(d.schema.attributes)
    d.attributes["imputed_value_int64s" if whole else "imputed_value_floats"] = [
        7 if whole else 0.5
    ] * count
    d.attributes["replaced_value_int64" if whole else "replaced_value_float"] = 2 if whole else 1.0


@rule("ai.onnx.ml.FeatureVectorizer")
def features(d: Draft) -> None:
    rows, columns = table(d)
    widths = [columns]
    for _ in range(d.draws.upto(2, 0)):
        widths.append(d.draws.upto(3))
        d.take("X", shape=[rows, widths[-1]])
    d.attributes["inputdimensions"] = widths


@rule("ai.onnx.ml.OneHotEncoder")
def one_hot(d: Draft) -> None:
    d.left_out |= set(d.schema.attributes)
    if kind_of(d.bind("X")) == "s":
        d.take("X", rank=(1, 2))
        d.attributes["cats_strings"] = ["a", "b", "", "ü", "ab c", "A,b", "x" * 20]
    else:
        d.take("X", shape=[d.draws.upto(4)], low=0, high=2)
        d.attributes["cats_int64s"] = [0, 1, 2]
    if d.maybe():
        d.attributes["zeros"] = 1


@rule("ai.onnx.ml.LinearRegressor")
def regressor(d: Draft) -> None:
    _, columns = table(d)
    targets = d.attr("targets", d.draws.upto(2), 1)
    d.attributes["coefficients"] = [d.draws.one([0.5, -1.0, 2.0]) for _ in range(targets * columns)]
    if d.maybe():
        d.attributes["intercepts"] = [0.25] * targets
    d.left_out.add("intercepts")
    d.attr("post_transform", "NONE", "NONE")


@rule("ai.onnx.ml.LinearClassifier")
def classifier(d: Draft) -> None:
    _, columns = table(d)
    classes = 3
    d.attributes["coefficients"] = [
        d.draws.one([0.5, -1.0, 2.0, 0.75]) for _ in range(classes * columns)
    ]
    d.attributes["intercepts"] = d.draws.one([[0.25, 0.1, -0.3], [0.0, 0.0, 0.5]])
    d.attr("multi_class", d.draws.upto(1, 0), 0)
    d.attr("post_transform", d.draws.one(TRANSFORMS), "NONE")
    if d.maybe():
        d.attributes["classlabels_ints"] = [3, 5, 7]
    else:
        d.attributes["classlabels_strings"] = ["a", "b", "c"]
    d.left_out |= set(d.schema.attributes)
    d.outputs = 2


@rule("ai.onnx.ml.SVMRegressor")
def svm(d: Draft) -> None:
    _, columns = table(d)
    count = d.draws.upto(3)
    d.attributes |= {
        "coefficients": [d.draws.one([0.5, -1.0]) for _ in range(count)],
        "support_vectors": [d.draws.one([0.5, -1.0, 2.0]) for _ in range(count * columns)],
        "n_supports": count,
        "rho": [d.draws.one([0.25, -1.0])],
        "kernel_type": d.draws.one(["LINEAR", "POLY", "RBF", "SIGMOID"]),
        "kernel_params": [d.draws.one([0.3, 0.5]), 0.1, 2.0],
        "post_transform": "NONE",
    }
    d.attr("one_class", d.draws.upto(1, 0), 0)
