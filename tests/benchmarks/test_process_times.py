"""The benchmarks' CPU times: of processes that come and go, waited for or not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.process_times import cpu_times

BURNT_MS = 150
CHILDREN = f"""
import os, signal, sys, time

def burn(ms):
    end = time.process_time() + ms / 1_000
    while time.process_time() < end:
        pass

def child():
    gate, opened = os.pipe()
    process = os.fork()
    if process == 0:
        burn({BURNT_MS})
        print("burnt", flush=True)
        os.read(gate, 1)
        burn({BURNT_MS})
        os._exit(0)
    return process, opened

if sys.argv[1] == "ignores":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's Python daemon does
process, opened = child()
input()
os.write(opened, b"x")
try:
    os.waitpid(process, 0)
except ChildProcessError:
    pass
burn({BURNT_MS})
print("ended", flush=True)
input()
"""
"""A child uses the CPU twice and ends in between."""


@pytest.mark.parametrize(("way", "expected_ms"), [("waits", BURNT_MS), ("ignores", 0)])
def test_what_an_ended_child_used_before_is_not_taken_for_what_was_used_since(way: str, expected_ms: int) -> None:
    command = [sys.executable, "-c", CHILDREN, way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_times(process.pid)
        process.stdin.write("\n")
        process.stdout.readline()
        used = cpu_times(process.pid).since(before)
        process.communicate("\n")
    assert used.own_ms == pytest.approx(BURNT_MS, rel=0.5)
    assert used.descendants_ms == pytest.approx(expected_ms, rel=0.5)
