"""The Spark session: the settings that the topology needs, and how Spark finds jars, Python and our packages."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from group_coordinator.coordinating.jars.class_archives import class_archive_options
from group_coordinator.coordinating.jars.java import require_java
from group_coordinator.coordinating.jars.resolving import spark_jars
from streaming.config import StreamingConfig
from streaming.tuning import worker_daemon
from streaming.tuning.guard import spared, unknown_spark
from streaming.tuning.heap import JVM_OPTIONS

_log = logging.getLogger(__name__)
_STREAMING = "org.apache.spark.sql.execution.streaming"
SQL_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # The timeout's clock is the watermark of the one tick column; nothing downstream has another.
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    # A commit writes what changed instead of the whole store: milliseconds instead of hundreds of them.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Each batch looks through the timers of all groups: a hundred thousand fit into this cache (Spark: 8 MB), in fewer
    # blocks (Spark: 4 KB).
    "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": "64",
    "spark.sql.streaming.stateStore.rocksdb.blockSizeKB": "32",
    # All of a store is written every so many batches (10 in Spark); a start reads the changes since.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
    # Spark's default goes through Hadoop's `FileContext`, past the light local file system of `hadoop.py`.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Timers that are due by a batch's last tick fire at once, not with the next event: a bounded log has no next one.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # The rows that go to a Python worker at a time. (Not the states with them, see `SMALL_BATCHES`.)
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2 << 20),
    # As Spark has them; for `SMALL_BATCHES`, which an earlier query of the session may have had.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.ui.explainMode": "formatted",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
SMALL_BATCHES: Mapping[str, str] = {
    # Making code for every batch anew, finding it compiled and compiling it further costs more than it saves a few
    # rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nobody reads the plan of a batch, which Spark writes down for its UI.
    "spark.sql.ui.explainMode": "simple",
    # A row goes to its worker with the state of its group, which may be a megabyte and which no other limit counts.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "128",
}
"""For a session whose queries are to answer soon."""
TICKS_GO_ON: Mapping[str, str] = {
    # A timer that is due by a batch's last tick fires with the next event, at the latest the next tick. A batch without
    # data after each tick finds no timer due most of the time, and costs a fifth of what a shard takes at rest.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""For a session whose queries have a ticker."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"
_TIER4_THRESHOLDS: Mapping[str, int] = {
    "Tier4InvocationThreshold": 5_000,
    "Tier4MinInvocationThreshold": 600,
    "Tier4CompileThreshold": 15_000,
    "Tier4BackEdgeThreshold": 40_000,
}
"""Calls and loops after which HotSpot's optimizing compiler (C2) takes up what the quick one (C1) has compiled; its
defaults in Java 17."""
_LOG_SETTING = "log4j2.configurationFile"
_DEFAULTS_OF_SPARK = "org/apache/spark/log4j2-defaults.properties"
_ALLOCATOR: Mapping[str, str] = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "524288",
    "MALLOC_MMAP_THRESHOLD_": "524288",
}
"""For the JVM and its Python workers, which inherit it: what is free in the C library's heap goes back to the system
(mallopt(3))."""
_STATIC_SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def open_session(config: StreamingConfig) -> SparkSession:
    """Open a session for our queries; under spark-submit, in the application that it started. Raises JavaError and
    JarsError."""
    require_java()
    _let_workers_find_us()
    for name, value in _ALLOCATOR.items():
        os.environ.setdefault(name, value)
    settings = dict(_STATIC_SETTINGS)
    builder = SparkSession.builder.appName("group-coordinator")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings |= jars_settings(config.master)
        if config.master.startswith("local"):
            settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            settings |= _worker_settings(config)
        builder = builder.master(config.master)
    else:
        with spared("that the JVM of spark-submit logs as ours does"):
            _log_as_our_own_jvm_does(config)
    class_paths = settings.get(_CLASS_PATH, ""), config.spark.get(_CLASS_PATH, "")
    settings |= {**config.spark, JAVA_OPTIONS: java_options(config)}
    if any(class_paths):
        settings[_CLASS_PATH] = os.pathsep.join(filter(None, class_paths))
    for name, value in settings.items():
        builder = builder.config(name, value)
    if config.spark_niceness and "PYSPARK_GATEWAY_PORT" not in os.environ and sys.platform == "linux":
        _start_jvm({"spark.master": config.master, **settings}, config.spark_niceness)
    spark = builder.getOrCreate()
    _silence_closed_sockets(spark)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        _let_us_end_the_jvm(spark)
    prepare_session(spark, config)
    return spark


def jars_settings(master: str) -> dict[str, str]:
    """Return how the JVM finds our jars. Where no other JVM needs them they are on its class path: a class archive has
    no classes of `spark.jars`, which Spark loads by itself. Raises JavaError and JarsError."""
    jars = list(map(str, spark_jars()))
    is_alone = re.match(r"local(\[|$)", master) is not None
    return {_CLASS_PATH: os.pathsep.join(jars)} if is_alone else {"spark.jars": ",".join(jars)}


def _start_jvm(settings: Mapping[str, str], niceness: int) -> None:
    """Start the JVM at this niceness. Linux has one for each thread, and what a thread starts inherits it: the JVM its
    own, and Python workers the JVM's."""

    def start() -> None:
        os.nice(niceness)
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))

    with ThreadPoolExecutor(1) as thread:
        thread.submit(start).result()


def _worker_settings(config: StreamingConfig) -> dict[str, str]:
    """Return how Spark starts Python workers here. On a cluster its daemon starts before our packages have arrived."""
    if not config.tuning_worker_daemon:
        return {}
    if config.tuning_state_worker and (reason := unknown_spark()):
        _log.warning("Python workers call the operator in Spark's own way, which is slower: %s.", reason)
    patched = str(config.tuning_state_worker).lower()
    return {
        "spark.python.daemon.module": worker_daemon.__name__,
        f"spark.executorEnv.{worker_daemon.PATCH_VARIABLE}": patched,
    }


def _silence_closed_sockets(spark: SparkSession) -> None:
    """The app reports once that the JVM has died; PySpark would print a traceback for each of its sockets."""
    # Some of it logs with no logger of its own.
    logging.getLogger().addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with spared("the silence of PySpark's accumulator server when the JVM ends"):
        server: Any = spark.sparkContext._accumulatorServer
        server.handle_error = lambda *_: None


def _let_us_end_the_jvm(spark: SparkSession) -> None:
    """Supervisors and terminals ask all processes of a command to end; the JVM is to go on until we have stopped its
    queries.

    It ends with us in any case: when its input does. (PySpark has it ignore SIGINT.)
    """
    with spared("that Spark's JVM outlives a signal until its queries have stopped"):
        java: Any = spark.sparkContext._jvm
        for name in ("TERM", "HUP"):
            java.sun.misc.Signal.handle(java.sun.misc.Signal(name), java.sun.misc.SignalHandler.SIG_IGN)


def _log_as_our_own_jvm_does(config: StreamingConfig) -> None:
    """spark-submit's JVM runs already, and by Spark's defaults it logs 30 kB a second.

    Who gave it other settings has those.
    """
    context: Any = SparkContext
    context._ensure_initialized()
    java = context._jvm
    with suppress(Py4JError):  # by itself it loads its defaults when it first logs, once more
        java.org.apache.spark.SparkConf(False).initializeLogIfNecessary(False, True)
    log4j = java.org.apache.logging.log4j
    logs = log4j.LogManager.getContext(False)
    if not str(logs.getConfiguration().getConfigurationSource().getLocation()).endswith(_DEFAULTS_OF_SPARK):
        return
    text = files("streaming").joinpath(_log_file(config)).read_bytes()  # of an archive, too
    source = log4j.core.config.ConfigurationSource(java.java.io.ByteArrayInputStream(text))
    factory = log4j.core.config.properties.PropertiesConfigurationFactory()
    log4j.core.config.Configurator.reconfigure(factory.getConfiguration(logs, source))


def _log_file(config: StreamingConfig) -> str:
    return "log4j2-json.properties" if config.log_format == "json" else "log4j2.properties"


def java_options(config: StreamingConfig) -> str:
    """Return the options of the driver's JVM: those that were set, and unless they say so themselves its heap, its
    compiler, its class archive and how it logs.

    Under spark-submit the JVM runs already; there they do nothing (see `_log_as_our_own_jvm_does`).
    """
    user_options = config.spark.get(JAVA_OPTIONS, "")
    options = [
        *(JVM_OPTIONS if config.tuning_heap else ()),
        *_compiler_options(config.spark_tier4_factor),
        user_options,
    ]  # of two that say the same, the later one counts
    if config.tuning_class_archives and "SharedArchiveFile" not in user_options:
        options += map(shlex.quote, class_archive_options("spark"))
    if _LOG_SETTING not in user_options:
        options.append(f"-D{_LOG_SETTING}={Path(__file__).with_name(_log_file(config)).as_uri()}")
    return " ".join(filter(None, options))


def _compiler_options(factor: int) -> list[str]:
    return [] if factor == 1 else [f"-XX:{name}={factor * count}" for name, count in _TIER4_THRESHOLDS.items()]


def prepare_session(
    spark: SparkSession, config: StreamingConfig, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Set what queries of this session take from it when they start."""
    own = {name: value for name, value in config.spark.items() if name.startswith("spark.sql.")}
    partitions = {"spark.sql.shuffle.partitions": str(config.shuffle_partitions)}
    for name, value in {**SQL_SETTINGS, **partitions, **more, **own}.items():
        try:
            spark.conf.set(name, value)
        except AnalysisException:
            if name not in own:  # one of Spark's static settings: the session was built with it
                raise


def _let_workers_find_us() -> None:
    """Python workers inherit our environment: they must be the same Python and find the same packages as we do.

    They are started with `-m`, which would look for all modules in the working directory first, where there may be a
    `schemas.py` or a `json.py` of somebody else.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["PYTHONSAFEPATH"] = "1"
    ours = str(Path(__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([ours, *(path for path in paths if path not in ("", ours))])
