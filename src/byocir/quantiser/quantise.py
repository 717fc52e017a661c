"""Defines `byocir.quantise`: ONNX Runtime's static quantiser, told what a target wants.

The net is quantised twice: with the quantiser's own defaults, which tells the ranges and is what
the result is compared with, and as the target wants it, with scales that these ranges give.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter

from byocir.arguments import CALL, COUNT, FLAG, TEXT, check, instance_of, names_to
from byocir.errors import ByocirError
from byocir.frontend.onnx.load import load_model
from byocir.patterns.policy import Quantisation
from byocir.quantiser.accuracy import Accuracy, compared, labels_in, outputs_of
from byocir.quantiser.data import Samples
from byocir.quantiser.notes import notes
from byocir.quantiser.scales import chosen, ranges_in
from byocir.targets.base import Target
from byocir.targets.ort_session import not_installed, reported
from byocir.targets.resolve_targets import the_target
from byocir.vendor.hooks import ask, expect_given

CALIBRATED_WITH = 512
"""The samples that ranges are taken from, unless asked for another number."""

LEAST_OPSET = 13
"""The first opset in which DequantizeLinear has an axis, which biases of channels need."""

PREPARED = "prepared.onnx"

Tell = Callable[[str], None]
"""Hears what is being done."""


@dataclass(frozen=True)
class Quantised:
    """Holds a quantised model, and how near it comes to the float one on the data that was
    given."""

    model: onnx.ModelProto
    """The net in QDQ form."""
    form: Quantisation
    accuracy: Accuracy
    default: Accuracy
    """The same of what ONNX Runtime's quantiser writes with its defaults."""
    float_accuracy: Accuracy
    samples: int
    """Samples that were compared."""
    notes: Sequence[str] = ()
    """Sentences for the user about operators that became others."""


def quantise(
    model: str | Path,
    data: Mapping[str, np.ndarray],
    *,
    target: str | Target = "vta",
    powers_of_two: bool | None = None,
    per_channel: bool | None = None,
    samples: int = CALIBRATED_WITH,
    labels: str | None = None,
    tell: Tell = lambda _: None,
) -> Quantised:
    """Quantises a float model for a target.

    `data` has an array for each input of the model, its samples along the first axis; the first
    `samples` of them set the ranges, all are used to compare. Labels are an array of whole numbers
    beside them, the only one there is or that named `labels`. `powers_of_two` and `per_channel`
    stand for what the target asks for (`Target.quantisation`). Raises ByocirError B118 without ONNX
    Runtime, B101 to B105 for a model that cannot be read, B392 for data that do not fit, B393 for
    a model that the quantiser does not take, B210 and B213 for a target that there is not."""
    check(
        model=(model, instance_of("the path of an ONNX file", str, Path)),
        data=(data, names_to("a mapping of names to arrays", '{"x": samples}', np.ndarray)),
        samples=(samples, COUNT),
        labels=(labels, TEXT.or_none()),
        powers_of_two=(powers_of_two, FLAG.or_none()),
        per_channel=(per_channel, FLAG.or_none()),
        tell=(tell, CALL),
    )
    form = _form(target, powers_of_two, per_channel)
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        return _quantised_in(Path(folder), Path(model), data, form, samples, labels, tell)


def _quantised_in(
    folder: Path,
    model: Path,
    data: Mapping[str, np.ndarray],
    form: Quantisation,
    samples: int,
    labels: str | None,
    tell: Tell,
) -> Quantised:
    """Quantises a model in this form, with files in a folder, and compares it with the float one
    and with the quantiser's defaults.
    """
    tell("preparing the model")
    given = _read(model)
    all_samples = Samples.of(given, data)
    found_labels = labels_in(data, all_samples, labels)
    prepared, failed = _prepared(model, folder)
    calibration = all_samples.first(samples)
    tell(f"taking ranges from {calibration.count:,} samples")
    default = _quantised(calibration, folder)
    tell("quantising")
    wanted = _as_wanted(prepared, default, form, calibration, folder)
    meant = outputs_of(model, all_samples, tell)
    found, before = (outputs_of(each, all_samples, tell) for each in (wanted, default))
    return Quantised(
        wanted,
        form,
        compared(found, meant, found_labels),
        compared(before, meant, found_labels),
        compared(meant, meant, found_labels),
        all_samples.count,
        [*failed, *notes(given, prepared)],
    )


def _form(
    target: str | Target, powers_of_two: bool | None, per_channel: bool | None
) -> Quantisation:
    the_one = the_target(target, "B213")
    form: Any = ask(the_one, "quantisation")
    is_form = isinstance(form, Quantisation)
    expect_given(the_one, "quantisation", is_form, "a Quantisation", form)
    asked = {"powers_of_two": powers_of_two, "per_channel": per_channel}
    return replace(form, **{name: value for name, value in asked.items() if value is not None})


def _read(path: Path) -> onnx.ModelProto:
    model = load_model(path).proto
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        raise ByocirError(
            "B393", "expected a float model, found one that is quantised", where=str(path)
        )
    return model


def _prepared(model: Path, folder: Path) -> tuple[onnx.ModelProto, list[str]]:
    """Brings a model into the form that the quantiser wants: an opset that has what it writes, all
    shapes, batch norms folded. Gives notes as well, for what failed there. Models are kept as
    files, as the quantiser moves the weights out of a model in memory.
    """
    path = folder / PREPARED
    with _reported(), _errors_logged("onnxruntime.quantization.shape_inference") as errors:
        given = _in_opset_of_quantiser(model, folder)
        _module("shape_inference").quant_pre_process(given, path, skip_symbolic_shape=True)
    told = [f"ONNX Runtime quantises the model without folding it first: {e}" for e in errors]
    return onnx.load_model_from_string(path.read_bytes()), told


@contextmanager
def _errors_logged(name: str) -> Generator[list[str]]:
    """Collects the last lines of the tracebacks that a logger gets, in place of writing them."""
    errors, logger = list[str](), logging.getLogger(name)

    def collect(record: logging.LogRecord) -> bool:
        text = record.getMessage().strip()
        if text.startswith("Traceback"):
            errors.append(text.splitlines()[-1])
        return False

    logger.addFilter(collect)
    try:
        yield errors
    finally:
        logger.removeFilter(collect)


def _in_opset_of_quantiser(model: Path, folder: Path) -> Path:
    """Gives the model, converted to a newer opset if its own is older than the operators with which
    the quantiser writes biases of channels.
    """
    proto = onnx.load_model(model)
    older = [
        o for o in proto.opset_import if o.domain in ("", "ai.onnx") and o.version < LEAST_OPSET
    ]
    if not older:
        return model
    converted = folder / "converted.onnx"
    newer = version_converter.convert_version(proto, LEAST_OPSET)
    onnx.save_model(newer, converted)
    return converted


def _as_wanted(
    model: onnx.ModelProto,
    default: onnx.ModelProto,
    form: Quantisation,
    samples: Samples,
    folder: Path,
) -> onnx.ModelProto:
    extra: dict[str, Any] = {
        "ActivationSymmetric": form.symmetric,
        "WeightSymmetric": True,
    }
    if form.symmetric and (form.equal_terms or form.powers_of_two):
        extra["TensorQuantOverrides"] = chosen(model, ranges_in(default), form)
    return _quantised(
        samples,
        folder,
        per_channel=form.per_channel and not form.powers_of_two,
        extra_options=extra,
    )


def _quantised(samples: Samples, folder: Path, **options: Any) -> onnx.ModelProto:
    """Quantises the prepared model by the quantiser."""
    quantization, path = _module(), folder / "quantised.onnx"

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.feeds: Iterator[dict[str, np.ndarray]] = samples.feeds()

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.feeds, None)

    with _reported():
        quantization.quantize_static(folder / PREPARED, path, Reader(), **options)
    return onnx.load_model_from_string(path.read_bytes())


def _module(name: str = "") -> Any:
    """Imports a module of ONNX Runtime's quantiser, which has no types."""
    try:
        return import_module(f"onnxruntime.quantization.{name}".rstrip("."))
    except ImportError as error:
        raise not_installed() from error


@contextmanager
def _reported() -> Generator[None]:
    """Raises ByocirError B393 for an error of the quantiser, which may be of any kind."""
    try:
        yield
    except ByocirError:
        raise
    except Exception as error:
        raise ByocirError(
            "B393", f"expected a model that ONNX Runtime quantises, found: {error}"
        ) from error


@contextmanager
def _quiet() -> Generator[None]:
    """Keeps the quantiser's advice from users, and adds to errors what sessions raise."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with reported():
            yield
    finally:
        logging.disable(before)
