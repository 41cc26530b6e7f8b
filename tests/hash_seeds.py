"""What a program prints in a process of its own, where Python's strings have other hashes."""

from __future__ import annotations

import os
import subprocess
import sys


def printed_with(hash_seed: str, program: str) -> str:
    """Return what a program, given as text, prints. Raises CalledProcessError where it fails."""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()
