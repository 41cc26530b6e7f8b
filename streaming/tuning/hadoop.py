"""Hadoop's work for every batch in the driver's JVM is made cheap by `tune_hadoop`, once for a session.

Two things cost a small batch more than its events do. Without its native library Hadoop starts a `chmod` for each file
that it makes and one for the file's checksum: six processes for the two logs of a checkpoint and the changelog of its
state. And Spark packs Hadoop's configuration anew for the tasks of each batch, two thirds of which are defaults of YARN
and MapReduce.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from streaming.tuning.guard import spared

_LOCAL_FILES = "groupcoordinator.LocalFiles"
_FOREIGN = ("yarn-default.xml", "mapred-default.xml")


def tune_hadoop(spark: SparkSession) -> None:
    """Let Hadoop set permissions of files in the process, and drop its defaults that nothing reads. Permissions and
    settings stay the same."""
    context: Any = spark.sparkContext
    with spared("local files without a process for each"):
        _set_permissions_in_process(context._jvm, context._jsc.hadoopConfiguration())
    if not str(context.master).startswith("yarn"):
        with spared("settings of Hadoop without the defaults of YARN and MapReduce"):
            _drop_foreign_defaults(context._jvm, context._jsc.hadoopConfiguration())


def _set_permissions_in_process(java: Any, configuration: Any) -> None:
    """Hadoop keeps one file system for all `file:` paths of a user in a JVM: have it make ours. Executors elsewhere
    have their own.

    Only what goes through `FileSystem` gets it, as checkpoints with `FileSystemBasedCheckpointFileManager` do; Spark's
    default manager goes through `FileContext`. A local file system that the user chose stays, and a second call changes
    nothing. What was to be deleted when the one before is closed (`deleteOnExit`) is deleted now.
    """
    root = java.java.net.URI.create("file:///")
    if configuration.get("fs.file.impl") or configuration.getBoolean("fs.file.impl.disable.cache", False):
        return
    # in Spark's distribution it is one of Hive's
    cached = java.org.apache.hadoop.fs.FileSystem.get(root, configuration)
    if cached.getClass().getName() == _LOCAL_FILES:
        return
    compiler = java.org.codehaus.janino.SimpleCompiler()  # Spark's own, for the code that it generates
    compiler.cook(files("streaming.tuning").joinpath("LocalFiles.java").read_text())  # of an archive, too
    own = java.org.apache.hadoop.conf.Configuration(configuration)
    own.setClassLoader(compiler.getClassLoader())
    own.set("fs.file.impl", _LOCAL_FILES)
    cached.close()  # out of the cache
    java.org.apache.hadoop.fs.FileSystem.get(root, own)


def _drop_foreign_defaults(java: Any, configuration: Any) -> None:
    written = java.java.io.StringWriter()
    # Names and origins only: it redacts secrets and expands variables.
    java.org.apache.hadoop.conf.Configuration.dumpConfiguration(configuration, written)
    for property_ in json.loads(written.toString())["properties"]:
        if property_["resource"] in _FOREIGN:
            configuration.unset(property_["key"])
