"""Train, export and quantise the digits example: a small residual CNN on 8x8 images.

Writes `digits_f32.onnx`, the quantised models of `QUANTISED` and `digits_test.npz` beside this
file. With `--quantise` it does not train but quantises the `digits_f32.onnx` that is there. The
README says which packages it needs.
"""

from __future__ import annotations

import argparse
import io
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantType,
    quantize_static,
)
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.fusion import fuse_conv_bn_eval

SEED = 2024
TEST_IMAGES = 450
BATCH = 64
NOISE = 0.1  # chosen by cross-validation on the training images
OPSET = 21
IR_VERSION = 10
EXPORTER_OPSET = 20  # the highest that torch's TorchScript exporter writes
MAX_FILE_BYTES = 500_000
MIN_F32_ACCURACY = 0.98
MAX_INT8_LOSS = 0.005


@dataclass(frozen=True)
class Split:
    """Training and test images as float32 [N,1,8,8] with int64 labels [N]."""

    train_image: np.ndarray
    train_label: np.ndarray
    test_image: np.ndarray
    test_label: np.ndarray


def load_split() -> Split:
    """Return the stratified, seeded split of scikit-learn's digits, pixels scaled to 0..1."""
    digits = load_digits()
    image = (digits.images[:, None] / 16).astype(np.float32)
    label = digits.target.astype(np.int64)
    train_image, test_image, train_label, test_label = train_test_split(
        image, label, test_size=TEST_IMAGES, stratify=label, random_state=SEED
    )
    return Split(train_image, train_label, test_image, test_label)


class ConvBn(nn.Module):
    """Convolution and batch normalisation; `fold` turns the pair into one convolution."""

    def __init__(self, cin: int, cout: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, padding=kernel // 2, bias=False)
        self.bn: nn.Module = nn.BatchNorm2d(cout)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x))

    def fold(self) -> None:
        """Fold the batch normalisation into the convolution, for inference."""
        if isinstance(self.bn, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.bn)
            self.bn = nn.Identity()


class Residual(nn.Module):
    """Two 3x3 convolutions plus a shortcut, a 1x1 convolution where the shape changes."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = ConvBn(cin, cout, 3, stride)
        self.conv2 = ConvBn(cout, cout, 3)
        same = cin == cout and stride == 1
        self.shortcut = nn.Identity() if same else ConvBn(cin, cout, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.relu(self.conv1(x)))
        return self.relu(y + self.shortcut(x))


class DigitsNet(nn.Module):
    """Stem, residual block, max and average pool, strided residual block, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBn(1, 16, 3)
        self.relu = nn.ReLU()
        self.block1 = Residual(16, 16)
        self.max_pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.avg_pool = nn.AvgPool2d(2, stride=1)
        self.block2 = Residual(16, 32, stride=2)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.block1(self.relu(self.stem(image)))
        x = self.block2(self.avg_pool(self.max_pool(x)))
        return self.classifier(torch.flatten(self.global_pool(x), 1))


def jitter(image: Tensor, generator: torch.Generator) -> Tensor:
    """Add pixel noise to a batch, the training set's only augmentation."""
    return image + NOISE * torch.randn(image.shape, generator=generator)


def train(split: Split, epochs: int) -> DigitsNet:
    """Train from `SEED` and return the net in inference form, batch normalisation folded."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    net = DigitsNet()
    images, labels = torch.from_numpy(split.train_image), torch.from_numpy(split.train_label)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        total = 0.0
        for index in torch.randperm(len(images), generator=generator).split(BATCH):
            logits = net(jitter(images[index], generator))
            loss = cross_entropy(logits, labels[index], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(index)
        schedule.step()
        if epoch % 10 == 0 or epoch == epochs - 1:
            print(f"epoch {epoch:3d}  loss {total / len(images):.4f}")
    net.eval()
    for module in net.modules():
        if isinstance(module, ConvBn):
            module.fold()
    return net


def clean(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fix the IR version and drop doc strings and metadata, which may name local paths."""
    model.ir_version = IR_VERSION
    model.doc_string = model.graph.doc_string = ""
    del model.metadata_props[:], model.graph.metadata_props[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    return model


def export(net: DigitsNet) -> onnx.ModelProto:
    """Export the net as f32 at `OPSET`, with a symbolic batch dimension."""
    buffer = io.BytesIO()
    torch.onnx.export(
        net,
        (torch.zeros(1, 1, 8, 8),),
        buffer,
        dynamo=False,
        opset_version=EXPORTER_OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    exported = onnx.load_from_string(buffer.getvalue())
    converted = version_converter.convert_version(exported, OPSET)
    return clean(onnx.shape_inference.infer_shapes(converted, strict_mode=True))


class Reader(CalibrationDataReader):
    """Feeds calibration images to ONNX Runtime's quantiser, a batch at a time."""

    def __init__(self, image: np.ndarray) -> None:
        self.batches: Iterator[np.ndarray] = iter(
            image[start : start + BATCH] for start in range(0, len(image), BATCH)
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


SYMMETRIC = {"extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}}
QUANTISED: dict[str, dict[str, Any]] = {
    "digits_int8": SYMMETRIC,
    "digits_int8_per_channel": {**SYMMETRIC, "per_channel": True},
    "digits_int8_default": {},
    "digits_u8": {"activation_type": QuantType.QUInt8},
}
"""What ONNX Runtime's quantiser is asked for beyond its defaults: QDQ, signed bytes for weights and
activations, of which the latter have zero points."""


def quantize(f32: Path, image: np.ndarray, options: dict[str, Any]) -> onnx.ModelProto:
    """Quantise, activation ranges taken from `image`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_static(f32, path, Reader(image), **options)
        return clean(onnx.load(path))


def accuracy(model: onnx.ModelProto, split: Split) -> float:
    """Return top-1 on the test images: ONNX Runtime, one thread, no graph optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (logits,) = session.run(["logits"], {"image": split.test_image})
    return float((logits.argmax(axis=1) == split.test_label).mean())


def check(accuracies: dict[str, float], folder: Path) -> None:
    """Stop with an error where a model is worse, or a file larger, than it should be."""
    floor = accuracies["digits_f32"] - MAX_INT8_LOSS
    for name, value in accuracies.items():
        least = MIN_F32_ACCURACY if name == "digits_f32" else floor
        if value < least and not math.isclose(value, least):
            raise SystemExit(f"{name}: accuracy {value:.4f} is below {least:.4f}")
    for path in sorted(folder.glob("digits_*")):
        size = path.stat().st_size
        print(f"{path.name}: {size} bytes")
        if size >= MAX_FILE_BYTES:
            raise SystemExit(f"{path.name}: {size} bytes is too large")


def describe(name: str, model: onnx.ModelProto, split: Split) -> float:
    """Print a model's accuracy and operators; return the accuracy."""
    value = accuracy(model, split)
    right = round(value * len(split.test_label))
    print(f"{name}: top-1 {100 * value:.2f} % ({right}/{len(split.test_label)})")
    ops = Counter(node.op_type for node in model.graph.node)
    print("  " + ", ".join(f"{op} {count}" for op, count in sorted(ops.items())))
    return value


def main() -> None:
    """Train, export, quantise, save and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--quantise", action="store_true", help="quantise the f32 model there is")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    split = load_split()
    np.savez_compressed(
        args.out / "digits_test.npz", image=split.test_image, label=split.test_label
    )
    f32 = args.out / "digits_f32.onnx"
    if not args.quantise:
        onnx.save(export(train(split, args.epochs)), f32)
    models = {"digits_f32": onnx.load(f32)}
    for name, options in QUANTISED.items():
        models[name] = quantize(f32, split.train_image, options)
    for name, model in models.items():
        onnx.save(model, args.out / f"{name}.onnx")
    check({name: describe(name, model, split) for name, model in models.items()}, args.out)

    print("nodes of digits_int8.onnx:")
    for node in models["digits_int8"].graph.node:
        print(f"  {node.op_type:18} {node.name}")


if __name__ == "__main__":
    main()
