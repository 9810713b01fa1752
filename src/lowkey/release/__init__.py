"""Public room: the folder that may be published: written whole or not at all, read with suspicion, checked by anyone."""

from lowkey.release.folder import check_destination
from lowkey.release.loading import load
from lowkey.release.verifying import Check, verify
from lowkey.release.writing import write_release

__all__ = ["Check", "check_destination", "load", "verify", "write_release"]
