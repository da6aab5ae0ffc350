"""What the tests of local boxes share."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.sandboxes.leftovers import ROOTFS
from pytest_rlenv.sandboxes.local import prune
from pytest_rlenv.sandboxes.local.bwrap import is_privileged

needs_users = pytest.mark.skipif(not is_privileged(), reason="a plain user's boxes have only root")


def pruned_images(cache_dir: Path, older_than: float) -> int:
    """Prune, and return how many images went; what dead processes elsewhere have left does not count."""
    return sum(each.kind == ROOTFS for each in prune(cache_dir, older_than).removed)
