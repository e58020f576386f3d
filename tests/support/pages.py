"""The pages below `docs/`."""

import glob
import os

from tests.support import commands


def list_pages() -> list[str]:
    """The paths of all pages, relative to the repository."""
    pattern = os.path.join(commands.ROOT, "docs", "**", "*.md")
    return sorted(
        os.path.relpath(path, commands.ROOT)
        for path in glob.glob(pattern, recursive=True)
    )
