"""Spark's processes are nicer than ours where that is asked for, or wait until a processor is idle: who answers comes
first."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from group_coordinator.coordinating import idle_policy

pytestmark = pytest.mark.spark

PROGRAM = """
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from group_coordinator.coordinating import idle_policy
from group_coordinator.coordinating.commands.spark_jvm import jvm_process_id
from streaming.config import StreamingConfig
from streaming.session import open_session

def niceness(stat):
    return int(stat.read_text().rpartition(")")[2].split()[16])  # proc_pid_stat(5)

def say(words):
    jvm = {{os.sched_getscheduler(int(task.name)) for task in Path(f"/proc/{{jvm_process_id()}}/task").iterdir()}}
    tasks = spark.sparkContext.parallelize(range(2), 2)
    print(words, jvm, set(tasks.map(lambda _: os.sched_getscheduler(0)).collect()))

if __name__ == "__main__":
    before = os.getpriority(os.PRIO_PROCESS, 0)
    spark = open_session(StreamingConfig(spark_niceness={niceness}, spark={{"spark.driver.memory": "512m"}}))
    stats = Path(f"/proc/{{jvm_process_id()}}/task").glob("*/stat")
    print("jvm", {{niceness(stat) - before for stat in stats}})
    workers = spark.sparkContext.parallelize([0], 1).map(lambda _: os.getpriority(os.PRIO_PROCESS, 0)).collect()
    print("workers", {{worker - before for worker in workers}})
    with ThreadPoolExecutor(1) as thread:
        new = thread.submit(os.getpriority, os.PRIO_PROCESS, 0).result()
    print("ours", {{niceness - before for niceness in (os.getpriority(os.PRIO_PROCESS, 0), new)}})
    if {niceness} and idle_policy.can_be_left({niceness}):
        say("at first")
        idle_policy.take(jvm_process_id())
        say("taken")
        idle_policy.leave(jvm_process_id())
        say("left")
    spark.stop()
"""


@cache
def said_at(niceness: int) -> list[str]:
    program = PROGRAM.format(niceness=niceness)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux alone")
@pytest.mark.parametrize("niceness", [0, 3])
def test_the_jvm_and_its_workers_are_nice_and_we_are_not(niceness: int, kafka_jars: object) -> None:
    assert said_at(niceness)[:3] == [f"jvm {{{niceness}}}", f"workers {{{niceness}}}", "ours {0}"]


def test_the_jvm_and_its_workers_take_the_idle_policy_and_leave_it(kafka_jars: object) -> None:
    if not idle_policy.can_be_left(3):
        pytest.skip("this process may not leave the policy")
    usual, idle = f"{{{os.SCHED_OTHER}}}", f"{{{os.SCHED_IDLE}}}"
    assert said_at(3)[3:] == [f"at first {usual} {usual}", f"taken {idle} {idle}", f"left {usual} {usual}"]
