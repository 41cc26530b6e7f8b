"""What can be linked in a document."""

from __future__ import annotations

import re
from pathlib import Path


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, without punctuation, hyphens for spaces."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
