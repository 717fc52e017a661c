"""Raises errors of verifier rules, each of which is one sentence."""

from collections.abc import Callable

from xdsl.utils.exceptions import VerifyException


def expect(holds: bool, message: str | Callable[[], str]) -> None:
    """Raises a VerifyException with this sentence ("expected X, found Y") unless `holds`. A
    sentence that shows types is best given as a function: printing a type takes longer than most
    rules.
    """
    if not holds:
        raise VerifyException(message if isinstance(message, str) else message())
