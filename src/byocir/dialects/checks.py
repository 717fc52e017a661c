"""One-sentence verifier rules."""

from xdsl.utils.exceptions import VerifyException


def expect(holds: bool, message: str) -> None:
    """Raises a VerifyException with this sentence ("expected X, found Y") unless `holds`."""
    if not holds:
        raise VerifyException(message)
