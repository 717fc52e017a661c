"""One-sentence verifier rules."""

from collections.abc import Callable

from xdsl.utils.exceptions import VerifyException


def expect(holds: bool, message: str | Callable[[], str]) -> None:
    """Raises a VerifyException with this sentence ("expected X, found Y") unless `holds`. One that
    shows types is best made on demand: printing a type takes longer than most rules."""
    if not holds:
        raise VerifyException(message if isinstance(message, str) else message())
