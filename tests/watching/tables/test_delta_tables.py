"""Tables at an address, by delta-rs: after each write they have just its rows, and only what changed is written."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from group_coordinator.watching.tables.destination import open_tables, write_history
from group_coordinator.watching.tables.files import write_tables
from group_coordinator.watching.tables.fold import fold, row_key
from group_coordinator.watching.tables.layout import TablesError
from group_coordinator.watching.tables.rows import TABLES, AnyRow, Rebalance
from tests.watching.tables.example_history import example_history

deltalake = pytest.importorskip("deltalake")
S3 = {
    "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": "true",
}  # fmt: skip
ROWS = [("", row) for row in fold(example_history())]


def contents(directory: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, as delta-rs reads them."""
    found = {}
    for name, table in TABLES.items():
        rows = deltalake.DeltaTable(f"{directory}/{name}").to_pyarrow_table().to_pylist()
        found[name] = sorted(rows, key=lambda row: [str(row[each]) for each in ("day", *table.key)])
    return found


def versions(directory: str) -> dict[str, int]:
    return {name: deltalake.DeltaTable(f"{directory}/{name}").version() for name in TABLES}


def test_they_are_those_of_the_files(tmp_path: Path) -> None:
    """delta-rs reads in our own files the very rows that it wrote."""
    address = (tmp_path / "address").as_uri()
    write_history(example_history(), address, "delta")
    write_tables(example_history(), tmp_path / "files", "delta")
    assert contents(address) == contents(str(tmp_path / "files"))


@pytest.mark.parametrize("seed", range(3))
def test_each_write_brings_them_to_its_rows(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    address = (tmp_path / "address").as_uri()
    tables = open_tables(address, "delta")
    rows = ROWS
    for step in range(4):
        rows = [changed(row, random) for row in ROWS if random.random() > 0.2]
        tables.write(iter(rows))
        write_again = open_tables((tmp_path / f"whole-{step}").as_uri(), "delta")
        write_again.write(iter(rows))
        assert contents(address) == contents((tmp_path / f"whole-{step}").as_uri())
    before = versions(address)
    assert tables.write(iter(rows)) == 0
    assert versions(address) == before
    open_tables(address, "delta").write(iter(ROWS))  # another watcher, after a restart
    assert {name: len(rows) for name, rows in contents(address).items()} == {
        name: len({row_key(row) for _, row in ROWS if row_key(row)[0] == name}) for name in TABLES
    }


def changed(row: tuple[str, AnyRow], random: Random) -> tuple[str, AnyRow]:
    cluster, of_group = row
    if isinstance(of_group, Rebalance) and random.random() < 0.5:
        return cluster, replace(of_group, outcome="interrupted", members=random.randrange(9))
    return row


def test_several_clusters(tmp_path: Path) -> None:
    address = (tmp_path / "address").as_uri()
    tables = open_tables(address, "delta", has_clusters=True)
    of_two = [(cluster, row) for cluster in ("prod", "test") for _, row in ROWS]
    tables.write(iter(of_two))
    tables.write(row for row in of_two if row[0] == "prod")
    for name, rows in contents(address).items():
        assert {row["cluster"] for row in rows} <= {"prod"}, name


def test_what_broke_off_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = (tmp_path / "address").as_uri()
    tables = open_tables(address, "delta")
    tables.write(iter(ROWS[:10]))
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.DeltaTable.merge", _no_space)
        with pytest.raises(OSError, match="no space"):
            tables.write(iter(ROWS))
    tables.write(iter(ROWS))
    write_history(example_history(), (tmp_path / "whole").as_uri(), "delta")
    assert contents(address) == contents((tmp_path / "whole").as_uri())


def _no_space(*_: object, **__: object) -> None:
    raise OSError("no space left on device")


def test_where_they_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TablesError, match="are Delta tables: leave out --tables-format parquet"):
        open_tables("s3://bucket/tables", "parquet")
    with pytest.raises(TablesError, match="Tables cannot be written to nowhere://x"):
        open_tables("nowhere://x", "delta")
    for name, value in {**S3, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TablesError, match="Tables cannot be written to s3://bucket/tables: ") as refused:
        open_tables("s3://bucket/tables", "delta")
    assert "127.0.0.1:1" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


class _NoBucket(BaseHTTPRequestHandler):
    """What S3 answers where there is no such bucket."""

    def do_GET(self) -> None:
        body = (
            b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchBucket</Code>'
            b"<Message>The specified bucket does not exist</Message><RequestId>x</RequestId></Error>"
        )
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        pass


def test_a_stores_own_words_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoBucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in {**S3, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(TablesError, match="The specified bucket does not exist") as refused:
            open_tables("s3://bucket/tables", "delta")
        server.shutdown()
    assert "<" not in str(refused.value)
