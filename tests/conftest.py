"""How random tests run: `ci` draws the same examples each time, `fuzz` draws new ones, and more.

Chosen by the environment variable HYPOTHESIS_PROFILE; `make fuzz` sets it.
"""

import os

from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,  # machines under load would fail tests that are right
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("ci", max_examples=60, derandomize=True, **_COMMON)
settings.register_profile("fuzz", max_examples=500, derandomize=False, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
