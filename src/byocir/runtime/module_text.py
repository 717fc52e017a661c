"""The module of a package as text, until somebody asks for the module itself."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from byocir.runtime.interface import Interface

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class SavedModule:
    """A module as text, which is read when somebody asks for it: that takes longer than compiling
    it took. What the manifest tells of it is known before."""

    def __init__(self, texts: Mapping[str, bytes], interface: Interface, where: str) -> None:
        """`texts` are the module's text and weights, by member."""
        self.interface, self.where = interface, where
        self._texts: Mapping[str, bytes] | None = texts
        self._module: ModuleOp | None = None
        self._lock = Lock()

    @property
    def texts(self) -> Mapping[str, bytes] | None:
        """The texts, as long as nobody has read, and may have changed, the module."""
        return self._texts

    def read(self) -> ModuleOp:
        """The module, the same one each time. Raises ByocirError B135 for texts of something else,
        B120 to B122 for those that cannot be read."""
        from byocir.runtime.saved_module import parsed

        with self._lock:
            if self._module is None:
                assert self._texts is not None
                self._module = parsed(self._texts, self.interface, self.where)
                self._texts = None
            return self._module
