"""Defines the part of a target that runs what `emit` made: a class of its own where running a
package shall import no compiler.

```python
@dataclass(frozen=True)                      # acme/loader.py, which imports no xDSL and no pattern
class AcmeLoader(Loader):
    name = "acme"

    def load(self, blobs):
        return lambda symbol, inputs: …

@dataclass(frozen=True)                      # acme/target.py
class Acme(AcmeLoader, Target):
    patterns = (conv_relu, gemm)
```

A package that brings both names them as the entry points `acme = "acme.target:Acme"` of the group
`byocir.targets` and `acme = "acme.loader:AcmeLoader"` of `byocir.loaders`; a loader that is not
installed is given: `byocir.load("net.bpkg", targets=[AcmeLoader()])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np

from byocir.errors import ByocirError, did_you_mean
from byocir.vendor import registry

Runner = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]
"""Runs a region function: its symbol and its inputs give its outputs. One whose regions are C
functions may have `c_entry`, too, which gives the `CEntry` of a symbol: the host's C then calls it
without Python, and asks the runner where it does not give 0."""

KEEPS = "it keeps those it was compiled with: compile the model again for others"


@dataclass(frozen=True)
class Loader:
    """Defines what loaders share, which run a target's code. Its dataclass fields are the options
    of the target that running needs.
    """

    name: ClassVar[str]
    """The name of the target."""

    def load(self, blobs: Mapping[str, bytes]) -> Runner | None:
        """Makes the runner of what `emit` made; see `Target.load`."""
        return None

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner | None:
        """Makes a runner that also looks for mistakes in the code; see `Target.load_checked`."""
        return self.load(blobs)


def installed_loader(name: str, options: Mapping[str, Any]) -> Loader | None:
    """Makes the loader that an installed package has for a target, with these options of the
    target. None where there is none, where a target of that name was given in this process, which
    can run its code itself, and for options that the loader cannot have: the target then says what
    is wrong. Raises ByocirError B217.
    """
    entry = next((each for each in registry.installed(registry.LOADERS) if each.name == name), None)
    if entry is None or registry.registered_class(name) is not None:
        return None
    return _of_options(registry.imported(entry), options)


def _of_options(kind: type[Loader], options: Mapping[str, Any]) -> Loader | None:
    """Makes a loader with those of its target's options that its class declares; None if it refuses
    their values.
    """
    own: dict[str, type] = {field.name: type(field.default) for field in fields(kind)}
    chosen = {option: _as_given(value) for option, value in options.items() if option in own}
    if any(type(value) is not own[option] for option, value in chosen.items()):
        return None
    try:
        return kind(**chosen)
    except (TypeError, ValueError):
        return None


def _as_given(value: Any) -> Any:
    """Converts an option back from plain data: a list becomes a tuple."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def loaders_in(given: Any) -> tuple[list[Loader], Any]:
    """Splits what a user gives as targets into loaders that are no targets, and the rest, which is
    None if nothing is left.
    """
    listed: list[Any] = [*given] if isinstance(given, (list, tuple)) else [given]
    loaders = [each for each in listed if _is_alone(each)]
    others = [each for each in listed if not _is_alone(each)]
    return loaders, (others or None) if loaders else cast("Any", given)


def _is_alone(given: object) -> bool:
    """Tells if an object is a loader and not a target."""
    return isinstance(given, Loader) and not hasattr(given, "emit")


def check_loader(loader: Loader, targets: Mapping[str, Mapping[str, Any]], where: str) -> None:
    """Raises ByocirError B210 for the loader of a target that a package does not name, B213 for one
    with other options. `targets` has the options of the targets that it names.
    """
    if loader.name not in targets:
        raise ByocirError(
            "B210",
            f"expected the loader of a target of the package, found one of '{loader.name}'",
            where=where,
            help=did_you_mean(loader.name, [*targets]),
        )
    if _of_options(type(loader), targets[loader.name]) != loader:
        raise ByocirError(
            "B213",
            f"expected target '{loader.name}' with the options of the package, found {loader}",
            where=where,
            help=KEEPS,
        )
