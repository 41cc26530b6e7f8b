"""Every request has a file of tests here, by its name."""

import re
from pathlib import Path

from schemas.messages import APIS


def test_every_request_has_its_file() -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    expected = {f"test_{re.sub(r'(?<!^)(?=[A-Z])', '_', api).lower()}.py" for api in APIS}
    assert expected <= files
