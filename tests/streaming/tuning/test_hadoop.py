"""Files of the driver's JVM cost no process, and look as before;
Hadoop's configuration keeps what anybody could read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaming.tuning.hadoop import tune_hadoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def hadoop(spark: SparkSession) -> Any:
    """Spark's `Configuration`, of a session that is light."""
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("made.up", "7")
    configuration.set("fs.s3a.secret.key", "hush")
    tune_hadoop(spark)
    yield configuration
    configuration.unset("made.up")
    configuration.unset("fs.s3a.secret.key")


def local_files(spark: SparkSession, configuration: Any) -> Any:
    java: Any = spark.sparkContext._jvm
    return java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI.create("file:///"), configuration)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_made_without_a_process_and_have_the_permissions_that_they_had(
    spark: SparkSession, hadoop: Any, tmp_path: Path
) -> None:
    java: Any = spark.sparkContext._jvm
    files = local_files(spark, hadoop)
    assert files.getRawFileSystem().getClass().getName() == "groupcoordinator.LocalFiles$RawLocalFiles"
    sparks_own = java.org.apache.hadoop.fs.LocalFileSystem()
    sparks_own.initialize(java.java.net.URI.create("file:///"), hadoop)
    for system, name in ((files, "ours"), (sparks_own, "theirs")):
        system.create(java.org.apache.hadoop.fs.Path(str(tmp_path / name / "in" / "file")), True).close()
    for inside in ("", "in", "in/file", "in/.file.crc"):
        assert mode(tmp_path / "ours" / inside) == mode(tmp_path / "theirs" / inside)


def test_a_second_call_changes_nothing(spark: SparkSession, hadoop: Any) -> None:
    before = local_files(spark, hadoop)
    tune_hadoop(spark)
    assert local_files(spark, hadoop).equals(before)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"), ("fs.file.impl.disable.cache", "true")],
)
def test_a_local_file_system_of_the_users_own_stays(spark: SparkSession, setting: str, value: str) -> None:
    java: Any = spark.sparkContext._jvm
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    local_files(spark, configuration).close()  # ours of another test
    configuration.set(setting, value)
    try:
        before = local_files(spark, configuration)
        tune_hadoop(spark)
        assert local_files(spark, configuration).getClass().equals(before.getClass())
        assert not before.getClass().getName().startswith("groupcoordinator")
    finally:
        configuration.unset(setting)
        java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI.create("file:///"), configuration).close()


@pytest.mark.parametrize("permission", ["0600", "0754", "1777"])
def test_any_permission_can_be_set(spark: SparkSession, hadoop: Any, tmp_path: Path, permission: str) -> None:
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(str(tmp_path / "directory"))
    files = local_files(spark, hadoop)
    files.mkdirs(path)
    files.setPermission(path, java.org.apache.hadoop.fs.permission.FsPermission(permission))
    assert mode(tmp_path / "directory") == int(permission, 8)


def test_a_damaged_file_is_still_seen(spark: SparkSession, hadoop: Any, tmp_path: Path) -> None:
    java: Any = spark.sparkContext._jvm
    files = local_files(spark, hadoop)
    path = java.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    written = files.create(path, True)
    written.writeBytes("checkpoint")
    written.close()
    (tmp_path / "file").write_bytes(b"chackpoint")
    with pytest.raises(Exception, match="ChecksumException"):
        files.open(path).read()


def test_only_defaults_of_yarn_and_mapreduce_go(hadoop: Any) -> None:
    assert hadoop.get("made.up") == "7"
    assert hadoop.get("fs.s3a.secret.key") == "hush"
    assert "${" in hadoop.getRaw("hadoop.tmp.dir"), "each machine has its own"
    assert hadoop.get("fs.s3a.impl")  # of core-default.xml: another checkpoint than a local one may need it
    assert hadoop.get("yarn.resourcemanager.hostname") is None
    assert hadoop.get("mapreduce.job.maps") is None
