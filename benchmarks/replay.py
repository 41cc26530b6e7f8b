"""How fast a log is replayed by Spark in batch: events/s on one core and on two.

    python -m benchmarks.replay [--events 1000000] [--groups 1000] [--cores 1 2]

The log is one partition of heartbeats of stable groups, a tick every second, as a Parquet file; outputs are made in full (an
answer for each heartbeat) and handed to a sink that drops them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.beating_groups import beat, beginnings, config
from schemas.events import encode_tick
from streaming.event_log import RECORD_ARROW, records_of_files
from streaming.replay import replay_batch
from streaming.session import open_session

START_MS = 1_700_000_000_000
BEAT_MS = 3_000
DAY_BEATS = 86_400_000 // BEAT_MS
ROWS_PER_PIECE = 100_000


def log(events: int, groups: int) -> Iterator[tuple[int, bytes | None, bytes]]:
    """(timestamp_ms, key, value): all groups begin, then each beats every three seconds."""
    yield START_MS, None, encode_tick(START_MS)
    for key, value in beginnings(groups):
        yield START_MS, key, value
    ticked_ms = START_MS
    for number in range(events - 2 * groups):
        time_ms = START_MS + number * BEAT_MS // groups
        if time_ms >= ticked_ms + 1_000:
            ticked_ms = time_ms
            yield time_ms, None, encode_tick(time_ms)
        key, value = beat(number % groups, f"{number:032x}")
        yield time_ms, key, value


def write(file: Path, events: int, groups: int) -> None:
    with pq.ParquetWriter(file, RECORD_ARROW) as writer:
        rows: list[tuple[int, bytes | None, bytes]] = []
        offset = 0

        def flush() -> None:
            nonlocal offset
            records = [
                {"partition": 0, "offset": offset + number, "timestamp_ms": time_ms, "key": key, "value": value}
                for number, (time_ms, key, value) in enumerate(rows)
            ]
            writer.write_table(pa.Table.from_pylist(records, RECORD_ARROW))
            offset += len(rows)
            rows.clear()

        for row in log(events, groups):
            rows.append(row)
            if len(rows) == ROWS_PER_PIECE:
                flush()
        flush()


def replay(file: Path, cores: int) -> None:
    """One replay in this process; prints seconds."""
    settings = config(master=f"local[{cores}]", shuffle_partitions=2 * cores)
    spark = open_session(settings)
    spark.range(1).mapInPandas(lambda frames: frames, "id long").collect()  # a worker is there
    begin = time.perf_counter()
    replay_batch(records_of_files(spark, [file]), settings).write.format("noop").mode("overwrite").save()
    print(f"seconds {time.perf_counter() - begin:.2f}", flush=True)
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file:
        replay(arguments.file, arguments.cores[0])
        return
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "events.parquet"
        write(file, arguments.events, arguments.groups)
        print(f"{arguments.events:,} events of {arguments.groups:,} groups, {file.stat().st_size / 1e6:.0f} MB of Parquet")
        print(f"{'cores':>5} {'seconds':>8} {'events/s':>10} {'ratio':>6}   a day of 1,000 groups x 10 members, a beat every 3 s (computed)")
        first = 0.0
        for cores in arguments.cores:
            command = [sys.executable, "-m", "benchmarks.replay", "--cores", str(cores), "--file", str(file)]
            said = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ, cwd=Path(__file__).parents[1])
            seconds = float(said.stdout.split("seconds ")[1].split()[0])
            rate = arguments.events / seconds
            first = first or rate
            print(f"{cores:5} {seconds:8.1f} {rate:10,.0f} {rate / first:6.2f}   {10_000 * DAY_BEATS / rate / 3_600:.1f} h", flush=True)


if __name__ == "__main__":
    main()
