"""Spark's processes are nicer than ours where that is asked for: who answers comes first."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark import SparkContext
from streaming.config import StreamingConfig
from streaming.session import open_session

def niceness(stat):
    return int(stat.read_text().rpartition(")")[2].split()[16])  # proc_pid_stat(5)

if __name__ == "__main__":
    before = os.getpriority(os.PRIO_PROCESS, 0)
    spark = open_session(StreamingConfig(spark_niceness={niceness}, spark={{"spark.driver.memory": "512m"}}))
    jvm = SparkContext._gateway.proc.pid
    print("jvm", {{niceness(stat) - before for stat in Path(f"/proc/{{jvm}}/task").glob("*/stat")}})
    workers = spark.sparkContext.parallelize([0], 1).map(lambda _: os.getpriority(os.PRIO_PROCESS, 0)).collect()
    print("workers", {{worker - before for worker in workers}})
    with ThreadPoolExecutor(1) as thread:
        new = thread.submit(os.getpriority, os.PRIO_PROCESS, 0).result()
    print("ours", {{niceness - before for niceness in (os.getpriority(os.PRIO_PROCESS, 0), new)}})
    spark.stop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux alone")
@pytest.mark.parametrize("niceness", [0, 3])
def test_the_jvm_and_its_workers_are_nice_and_we_are_not(niceness: int, kafka_jars: object) -> None:
    program = PROGRAM.format(niceness=niceness)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said == [f"jvm {{{niceness}}}", f"workers {{{niceness}}}", "ours {0}"]
