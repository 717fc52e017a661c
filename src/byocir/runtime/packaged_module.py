"""Holds the module of a package: as it was compiled, or as text until somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from byocir.runtime.interface import Interface
from byocir.runtime.package_file import as_written

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from byocir.dialects.byoc import TargetAttr


class PackagedModule:
    """Holds a module in memory."""

    where = ""
    """The file that it is from, for messages."""

    def __init__(self, module: ModuleOp | None) -> None:
        self._module: ModuleOp | None = module

    @property
    def interface(self) -> Interface:
        """Gives the inputs, outputs and targets. Raises ByocirError B302 for a module without
        `@main`."""
        from byocir.runtime.module_members import interface_of

        return interface_of(self.read())

    @property
    def unread(self) -> Mapping[str, bytes] | None:
        """Gives the text and weights of a module in a file, by member, until somebody reads the
        module, as it may change from then on; None afterwards.
        """
        return None

    def targets(self) -> list[TargetAttr]:
        """Lists the targets that the module names, with their options."""
        from byocir.patterns.targets import targets_of

        return [*targets_of(self.read())]

    def read(self) -> ModuleOp:
        """Gives the module, the same one each time."""
        assert self._module is not None
        return self._module

    def texts(self) -> Mapping[str, bytes]:
        """Gives the module as text and weights, by member."""
        from byocir.runtime.module_members import texts_of

        return self.unread or texts_of(self.read())


class SavedModule(PackagedModule):
    """Holds a module as text, which is parsed only when somebody asks for it: parsing takes longer
    than compiling took. What the manifest says of it is known before.
    """

    def __init__(self, texts: Mapping[str, bytes], interface: Interface, where: str) -> None:
        """Takes the module's text and weights, by member."""
        super().__init__(None)
        self._interface, self.where = interface, where
        self._unread: Mapping[str, bytes] | None = texts
        self._lock = Lock()

    @property
    def interface(self) -> Interface:
        return self._interface

    @property
    def unread(self) -> Mapping[str, bytes] | None:
        return self._unread

    def targets(self) -> list[TargetAttr]:
        """Lists the targets that the manifest names. Raises ByocirError B135 for options that no
        module can carry.
        """
        with as_written(self.where):
            return self._interface.target_attributes()

    def read(self) -> ModuleOp:
        """Gives the module, the same one each time. Raises ByocirError B135 for texts of something
        else, B120 to B122 for those that cannot be read."""
        from byocir.runtime.module_members import parsed

        with self._lock:
            if self._module is None:
                assert self._unread is not None
                self._module = parsed(self._unread, self.interface, self.where)
                self._unread = None
            return self._module
