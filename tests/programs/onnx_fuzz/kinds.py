"""Marks operators that are exact, and those that jump, which schemas do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXACT = _words(
    """
    Abs Add And ArgMax ArgMin ArrayFeatureExtractor Binarizer BitCast BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike CategoryMapper Ceil CenterCropPad Clip Compress
    Concat ConcatFromSequence Constant ConstantOfShape ConvInteger DepthToSpace DequantizeLinear
    Div Dropout Equal Expand EyeLike FeatureVectorizer Flatten Floor Gather GatherElements GatherND
    GlobalMaxPool Greater GreaterOrEqual Hardmax Identity Imputer IsInf IsNaN LabelEncoder Less
    LessOrEqual MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Min Mod Mul Neg NonMaxSuppression
    NonZero Not OneHotEncoder Or PRelu Pad QuantizeLinear Range ReduceMax ReduceMin RegexFullMatch
    Relu Reshape ReverseSequence Round Scatter ScatterElements ScatterND SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Sign Size
    Slice SpaceToDepth Split SplitToSequence Squeeze Sqrt StringConcat StringNormalizer StringSplit
    Sub TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze
    Where Xor
    """
)
"""Operators whose every result is one of their inputs, or is rounded once."""

STEPPING = _words(
    """
    ArgMax ArgMin ArrayFeatureExtractor Binarizer BitCast Cast CastLike Ceil Dropout
    DynamicQuantizeLinear DynamicQuantizeMatMul Equal Floor Greater GreaterOrEqual GridSample
    Hardmax Imputer IsInf IsNaN
    LabelEncoder Less LessOrEqual LinearClassifier MaxPool MaxRoiPool Mod NonMaxSuppression NonZero
    OneHot OneHotEncoder QLinearConv QLinearMatMul QuantizeLinear Range RoiAlign Round SVMRegressor
    Shrink Sign Size TfIdfVectorizer ThresholdedRelu TopK Unique
    """
)
"""Operators whose results jump: of a number that may be off a little, another may come."""

UNMOVED: Mapping[str, Sequence[int]] = {"Resize": (1, 2), "Upsample": (1,), "Attention": (3,)}
"""Inputs of floats that say what is done instead of being numbers."""

STEPS = 8
"""Units of the last place that results may be off at once."""

LOOSE: Mapping[str, float] = {"DFT": 16, "Resize": 4, "STFT": 16}
"""Operators that may be off so many times more: their factors are off themselves."""

CURVES = _words("Celu Elu Erf GRU Gelu LSTM RNN Selu Sigmoid Tanh")
"""Operators whose small results others compute from numbers of about 1."""

STASHED = _words("GroupNormalization LayerNormalization RMSNormalization")
"""Operators that compute in f32 unless `stash_type` says another, whatever their type."""
