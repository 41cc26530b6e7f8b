"""The dashboard: what happened in every group, to look at in a browser; live, or as one file.

It reads the history topic or what a replay wrote, never the coordinator. `serve` and `start_server` show a source
(`KafkaSource`, `ReplaySource`), `write_report` writes the same pages into one HTML file.
"""

from dashboard.kafka_source import KafkaSource, TopicNames
from dashboard.report import write_report
from dashboard.server import DEFAULT_PORT, RunningServer, serve, start_server
from dashboard.settings import DashboardSettings, HealthSettings
from dashboard.sources import ReplaySource, Source, SourceError
from dashboard.what_if import Change, ReplayFunction

__all__ = [
    "DEFAULT_PORT",
    "Change",
    "DashboardSettings",
    "HealthSettings",
    "KafkaSource",
    "ReplayFunction",
    "ReplaySource",
    "RunningServer",
    "Source",
    "SourceError",
    "TopicNames",
    "serve",
    "start_server",
    "write_report",
]
