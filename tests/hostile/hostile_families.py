"""All families of hostile inputs."""

from hostile_arguments import ARGUMENTS
from hostile_models import MODELS
from hostile_packages import PACKAGES
from hostile_texts import TEXTS

FAMILIES = (*MODELS, *TEXTS, *PACKAGES, *ARGUMENTS)
