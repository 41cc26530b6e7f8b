"""What the brokers write: server.log and the request log, as Kafka's own configuration has them, in UTC."""

from __future__ import annotations

from pathlib import Path

_PATTERN = "[%d] %p %m (%c)%n"
_APPENDERS = ("stdout", "server", "request", "other")
_LOGGERS = {
    "kafka.request.logger": ("DEBUG", "request"),
    "kafka.network.RequestChannel$": ("WARN", "other"),
    "kafka.controller": ("INFO", "other"),
    "org.apache.kafka.controller": ("INFO", "other"),
    "kafka.log.LogCleaner": ("INFO", "other"),
    "org.apache.kafka.storage.internals.log.LogCleaner": ("INFO", "other"),
    "state.change.logger": ("INFO", "other"),
}
"""Logger: its level, and where it writes instead of server.log."""


def java_options(directory: Path, *, has_log4j2: bool) -> list[str]:
    """Write the configuration, and return the options of a JVM that logs into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "logging.properties"
    path.write_text("\n".join(_log4j2(directory) if has_log4j2 else _log4j(directory)) + "\n", encoding="utf-8")
    return ["-Duser.timezone=UTC", f"-Dlog4j{'2.configurationFile=' if has_log4j2 else '.configuration=file:'}{path}"]


def _log4j(directory: Path) -> list[str]:
    lines = ["log4j.rootLogger=INFO, stdout, server"]
    for name in _APPENDERS:
        kind = "ConsoleAppender" if name == "stdout" else "FileAppender"
        lines += [
            f"log4j.appender.{name}=org.apache.log4j.{kind}",
            f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
            f"log4j.appender.{name}.layout.ConversionPattern={_PATTERN}",
        ]
        if name != "stdout":
            lines += [f"log4j.appender.{name}.File={directory / name}.log", f"log4j.appender.{name}.encoding=UTF-8"]
    for logger, (level, appender) in _LOGGERS.items():
        lines += [f"log4j.logger.{logger}={level}, {appender}", f"log4j.additivity.{logger}=false"]
    return lines


def _log4j2(directory: Path) -> list[str]:
    lines = ["status=error", "rootLogger=INFO, stdout, server"]
    for name in _APPENDERS:
        lines += [
            f"appender.{name}.type={'Console' if name == 'stdout' else 'File'}",
            f"appender.{name}.name={name}",
            f"appender.{name}.layout.type=PatternLayout",
            f"appender.{name}.layout.charset=UTF-8",
            f"appender.{name}.layout.pattern={_PATTERN}",
        ]
        if name != "stdout":
            lines += [f"appender.{name}.fileName={directory / name}.log"]
    for number, (logger, (level, appender)) in enumerate(_LOGGERS.items()):
        lines += [
            f"logger.l{number}.name={logger}",
            f"logger.l{number}.level={level}",
            f"logger.l{number}.additivity=false",
            f"logger.l{number}.appenderRef.a.ref={appender}",
        ]
    return lines
