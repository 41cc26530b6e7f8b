"""The commands as a user meets them: help that teaches, mistakes that are told in a line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from group_coordinator.command_line import doubts
from schemas.settings import settings_of
from streaming.config import StreamingConfig
from tests.command_line.calls import FIXTURES, REQUEST_LOG, call, helps, text_of

COMMANDS = [
    ("demo",), ("run",), ("import", "kafka-request-log"), ("replay",), ("verify", "recording"),
    ("groups",), ("explain",),
]  # fmt: skip


def test_the_list_of_commands() -> None:
    text = text_of(call("--help"))
    for command, *_ in COMMANDS:
        assert re.search(rf"\b{command}\b", text)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_that_is_this_command(command: tuple[str, ...]) -> None:
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert f"group-coordinator {' '.join(command)}" in text_of(result)
    assert re.search(r"Examples?:", text_of(result))


def test_every_example_in_a_help_has_a_line_of_its_own() -> None:
    """Typer runs them together where nothing but a headline stands before them."""
    for command, help_text in helps().items():
        lines = {line.strip() for line in text_of(call(*command, "--help")).splitlines()}
        examples = re.findall(r"^ {4}(\S.*)$", help_text, re.MULTILINE)
        assert examples
        assert [example for example in examples if example not in lines] == [], command


def test_run_has_a_flag_with_help_for_every_setting() -> None:
    text = re.sub(r"\s+", " ", text_of(call("run", "--help")))
    for name, setting in settings_of(StreamingConfig).items():
        assert f"--{name.replace('_', '-')}" in text
        assert setting.text, name


def test_the_version() -> None:
    assert re.fullmatch(r"group-coordinator \d+\.\d+\.\d+\n", call("--version").output)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (("run", "--shards", "0"), 2, "shards is 0, but must be at least 1."),
        (("run", "--config-file", "/nowhere.toml"), 2, "The settings file /nowhere.toml does not exist."),
        (("run", "--kafka", "no-such=1", "--dry-run"), 2, "no-such is not a property"),
        (("run", "--kafka", "acks=1", "--kafka", "acks=all", "--dry-run"), 2, "--kafka: acks is named twice: name"),
        (("watch", "--cluster", "a=b", "--cluster", "a=c"), 2, "--cluster: a is named twice: name"),
        (("replay", "/nowhere.jsonl"), 1, "There is no file /nowhere.jsonl."),
        (("replay", "a.topic", "--in-process"), 2, "There is no file a.topic."),
        (("replay", REQUEST_LOG, "--in-process", "--until", "soon"), 2, "--until soon: write a date and time"),
        (("replay", REQUEST_LOG, "--in-process", "--time-zone", "Mars/Base"), 2, "There is no time zone 'Mars/Base'"),
        (("demo", "--duration", "never"), 2, "'never' is no duration; write for example 90s, 5m or 1h30m."),
        (
            ("import", "kafka-request-log", "/nowhere.log", "--out", "/tmp/x"),
            1,
            "/nowhere.log: No such file or directory",
        ),
        (("verify", "recording", "/nowhere.log"), 1, "/nowhere.log: No such file or directory"),
        (("verify", "recording", REQUEST_LOG, "--config", "colour=blue"), 1, "colour is no setting that matters here"),
        (("verify", "recording", REQUEST_LOG, "--config", "colour"), 2, "--config colour: write NAME=VALUE."),
        (("explain", "--group", "g", "--from", FIXTURES), 1, "it is not what a replay wrote"),
        (("groups", "--verbose"), 2, "--verbose is for --members and --state."),
        (("groups", "--members"), 2, "--members describes one group: name it by --group."),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments: tuple[str | Path, ...], exit_code: int, told: str) -> None:
    result = call(*arguments)
    assert result.exit_code == exit_code
    assert told in result.stderr
    assert result.stderr.startswith("group-coordinator: ")
    assert "Traceback" not in result.output


def test_kafka_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.ground.kafka_topics.errors.TIMEOUT_S", 0.5)
    result = call("groups", "--bootstrap-servers", "127.0.0.1:9")
    assert result.exit_code == 1
    assert "Kafka at 127.0.0.1:9 does not answer within 0.5 s" in result.stderr


# ------------------------------------------------------------------------------------------------------------- verify


def test_verify_recording_agrees() -> None:
    result = call("verify", "recording", REQUEST_LOG, "--offsets", FIXTURES / "recordings" / "chaos-a.offsets.jsonl.gz")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        r"(\d+) requests, \d+ equal, 0 differ, \d+ cannot be compared( \(.+\))?", result.stdout.splitlines()[-1]
    )


def test_verify_recording_finds_what_is_different(tmp_path: Path) -> None:
    with gzip.open(REQUEST_LOG, "rt") as lines:
        log = lines.read()
    file = tmp_path / "doctored.request.log"
    file.write_text(re.sub(r'("generationId":)1,', r"\g<1>41,", log))
    result = call("verify", "recording", file, "--show", "1")
    assert result.exit_code == 1
    assert "more differences (--show)" in result.stdout
    assert re.search(r", [1-9]\d* differ, ", result.stdout.splitlines()[-1])


# --------------------------------------------------------------------------------------- import, replay and explain


def test_from_a_request_log_to_an_explanation(tmp_path: Path) -> None:
    events, out = tmp_path / "events.jsonl.gz", tmp_path / "replayed"
    imported = call("import", "kafka-request-log", REQUEST_LOG, "--out", events)
    assert imported.exit_code == 0, imported.output
    assert re.search(r"Wrote \d+ events of \d+ groups? and \d+ ticks to ", imported.stdout)
    assert not list(tmp_path.glob("*dead-letters*"))

    replayed = call("replay", events, "--in-process", "--out", out, "--utc")
    assert replayed.exit_code == 0, replayed.output
    for title in (
        "GROUP",
        "REBALANCES",
        "Members that went",
        "Slowest rebalances",
        "Ask why: group-coordinator explain",
    ):
        assert title in replayed.stdout
    assert {path.name for path in out.iterdir()} == {
        "responses.jsonl", "assignments.jsonl", "offsets.jsonl", "history.jsonl", "dead-letters.jsonl",
        "replay.json",
    }  # fmt: skip

    group = replayed.stdout.splitlines()[1].split()[0]
    last = call("explain", "--group", group, "--from", out, "--utc")
    assert last.exit_code == 0, last.output
    assert last.stdout.startswith("Before:")
    assert "Why: " in last.stdout
    first = call("explain", "--group", group, "--from", out, "--generation", "1", "--utc")
    assert first.stdout.startswith(f"Group {group}, rebalance to generation 1, 2026-")
    unknown = call("explain", "--group", group, "--from", out, "--generation", "4000")
    assert unknown.exit_code == 1
    assert "led to generation 4000; there are 1 to " in unknown.stderr
    result_of_other = call("explain", "--group", "other", "--from", out)
    assert result_of_other.exit_code == 1
    assert group in result_of_other.stderr


def test_a_request_log_can_be_replayed_directly_and_gives_the_same(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    call("import", "kafka-request-log", REQUEST_LOG, "--out", events)
    assert call("replay", events, "--in-process", "--out", tmp_path / "a").exit_code == 0
    assert call("replay", REQUEST_LOG, "--in-process", "--out", tmp_path / "b").exit_code == 0
    for file in (tmp_path / "a").glob("*.jsonl"):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_other_settings_than_the_broker_s_are_told_to_be_what_if() -> None:
    as_it_was = call("replay", REQUEST_LOG, "--in-process").stdout
    assert "Followed the broker's log: 348 of 348 answers as the broker gave them, 0 differ" in as_it_was
    output = call("replay", REQUEST_LOG, "--in-process", "--group-initial-rebalance-delay-ms", "500").stdout
    assert output.splitlines()[0] == doubts.HEADLINE
    assert (
        "group.initial.rebalance.delay.ms = 500 is given, and the broker's answers say 1500: what is told is what if"
        in output
    )


def test_events_are_replayed_with_the_settings_of_the_broker_that_they_are_of(tmp_path: Path) -> None:
    log, events = FIXTURES / "recordings" / "chaos-b.request.log.gz", tmp_path / "events.jsonl.gz"
    imported = call("import", "kafka-request-log", log, "--out", events)
    assert "678 of 678 answers as the broker gave them" in imported.stdout
    call("replay", log, "--in-process", "--out", tmp_path / "log")
    call("replay", events, "--in-process", "--out", tmp_path / "events")
    for name in ("history", "offsets", "responses", "assignments"):
        assert (tmp_path / "log" / f"{name}.jsonl").read_bytes() == (tmp_path / "events" / f"{name}.jsonl").read_bytes()
    output = call("replay", events, "--in-process", "--group-initial-rebalance-delay-ms", "500").stdout
    assert "had 1500: what is told is what if" in output


def test_damaged_lines_are_kept_with_the_reason(tmp_path: Path) -> None:
    with gzip.open(REQUEST_LOG, "rt") as lines:
        log = lines.read().splitlines()
    damaged = next(number for number, line in enumerate(log) if "JOIN_GROUP" in line)
    log[damaged] = log[damaged][: len(log[damaged]) // 2]
    file = tmp_path / "request.log"
    file.write_text("\n".join([*log, "something else"]) + "\n")
    result = call("import", "kafka-request-log", file, "--out", tmp_path / "events.jsonl")
    assert result.exit_code == 0
    assert "1 other line, 1 damaged" in result.stdout
    (letter,) = (tmp_path / "events.jsonl.dead-letters.jsonl").read_text().splitlines()
    assert json.loads(letter)["line_number"] == damaged + 1


def test_a_file_without_group_requests_is_told(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("[2026-01-01 00:00:00,000] INFO nothing of ours\n" * 3)
    result = call("replay", file, "--in-process")
    assert result.exit_code == 1
    assert "no group requests in 3 lines" in result.stderr


SECRET = "hunter2-hunter2"
MISTYPED = [
    "[kafka]\nsasl.jaas.config = 'x password=\"{}\";'",
    '[kafka]\n"ssl.key.password" = ["{}"]',
    '[kafka]\n"sasl.jaas.config" = {{ password = "{}" }}',
    'kafka = "{}"',
    'kafka = ["{}"]',
    '[[kafka]]\na = "{}"',
    'kafka = {{ sasl = {{ jaas = {{ config = "{}" }} }} }}',
    '[kafka]\n"ssl.key.password = {}" = "x"',
    '[kafka]\n"sasl.jaas.config" = "password={}"',
    '[kafka]\n"ssl.key.pasword" = "{}"',
    '[kafka]\n"security.protocol" = "{}"',
    '[kafka]\n"sasl.mechanism" = "{}"\n"security.protocol" = "SASL_PLAINTEXT"',
    '[kafka]\n"ssl.key.password" = "{}',
    '[kafka]\n"ssl.key.password" = {}',
    '[kafka]\n"ssl.keystore.location" = "{}"\n"ssl.keystore.type" = "PEM"\n"security.protocol" = "SSL"',
    "[spark]\nspark.hadoop.fs.s3a.secret.key = '{}'",
    'spark = "{}"',
    'spark = ["{}"]',
    '[kafkaa]\n"sasl.jaas.config" = "{}"',
    '"sasl.jaas.config" = "{}"',
]


@pytest.mark.parametrize("text", MISTYPED)
@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("gateway",), ("groups",)])
def test_no_mistake_repeats_a_value_of_a_property(command: tuple[str, ...], text: str, tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('bootstrap_servers = "127.0.0.1:1"\n' + text.format(SECRET))
    if command == ("run",):  # what goes wrong later than the settings, before anything is started
        command = ("groups",)
    if command == ("groups",) and "spark" in text:  # whose settings it does not read
        command = ("run", "--dry-run")
    result = call(*command, "--config-file", file)
    assert SECRET not in text_of(result)


@pytest.mark.parametrize(
    "value",
    ['{{"ssl.key.password": 1{}}}', '"{}"', '["{}"]', "{}", '{{"a": {{"b": "{}"}}}}', '{{"sasl.jaas.config": "{}'],
)
@pytest.mark.parametrize("name", ["KAFKA", "SPARK"])
def test_no_mistake_in_the_environment_repeats_a_value(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"GROUP_COORDINATOR_{name}", value.format(SECRET))
    result = call("run", "--dry-run")
    assert (result.exit_code, SECRET in text_of(result)) == (2, False)


@pytest.mark.parametrize(
    "written",
    [
        ("--kafka", "ssl.key.password", "{}"),
        ("--kafka", "ssl.key.password:", "{}"),
        ("--kafka", "{}"),
        ("--kafka={}",),
        ("--kafka=", "{}"),
        ("--kafka", "password {}"),
        ("--kafka", '{{"ssl.key.password": "{}"}}'),
        ("--spark", "spark.hadoop.fs.s3a.secret.key", "{}"),
        ("--spark", "{}"),
        ("--shards", "x", "--kafka", "sasl.jaas.config", "{}"),
    ],
)
@pytest.mark.parametrize(
    "command", [("run", "--dry-run"), ("gateway", "--dry-run"), ("groups",), ("offsets", "export"), ("replay", "f")]
)
def test_a_pair_without_an_equals_sign_is_not_repeated(command: tuple[str, ...], written: tuple[str, ...]) -> None:
    result = call(*command, *(argument.format(SECRET) for argument in written))
    assert (result.exit_code, SECRET in text_of(result)) == (2, False), text_of(result)


def test_a_name_with_dots_outside_quotes_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('[kafka]\nsasl.mechanism = "PLAIN"\n')
    assert 'a name with dots stands in quotes, as in "sasl.mechanism" = "PLAIN"' in text_of(
        call("run", "--config-file", file)
    )


HOSTILE_GROUPS = ["\x1b]0;owned\x07", "\x1b[2J", "a\r\nERROR forged line", "\x9b31mred", "\u202egnp"]


@pytest.mark.parametrize("group", HOSTILE_GROUPS)
def test_no_control_character_of_a_log_reaches_the_terminal(group: str, tmp_path: Path) -> None:
    log = gzip.decompress(REQUEST_LOG.read_bytes()).decode()
    groups = set(re.findall(r'"groupId":"([^"]+)"', log))
    clients = set(re.findall(r'"clientId":"([^"]+)"', log))
    hostile = json.dumps(group)[1:-1]
    for name in groups | clients:
        log = log.replace(f'"{name}"', f'"{name}{hostile}"')
    (tmp_path / "hostile.request.log").write_text(log)
    outputs = tmp_path / "out"
    replayed = call("replay", tmp_path / "hostile.request.log", "--in-process", "--out", outputs)
    assert replayed.exit_code == 0, text_of(replayed)
    explained = call("explain", "--from", outputs, "--group", f"{min(groups)}{group}")
    for text in (text_of(replayed), text_of(explained)):
        assert text.replace("\n", "").isprintable()
        assert not re.search(r"^ERROR", text, re.MULTILINE)
    assert min(groups) in text_of(explained)


@pytest.mark.parametrize(
    "arguments", [("groups",), ("explain", "--group", "g"), ("offsets", "export"), ("dashboard", "--port", "0")]
)
def test_a_kafka_that_does_not_answer_is_told_with_its_address(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("group_coordinator.ground.kafka_topics.errors.TIMEOUT_S", 0.5)
    result = call(*arguments, "--bootstrap-servers", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "Kafka at 127.0.0.1:1 does not answer within 0.5 s" in text_of(result)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("rum",), "run"), (("run", "--shardz", "2"), "--shard"), (("verify", "recordings"), "recording")],
)
def test_a_misspelt_command_or_flag_is_told_with_the_nearest(arguments: tuple[str, ...], told: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert re.search(rf"(Did you mean|Possible options).*{told}", text_of(result), re.DOTALL), text_of(result)
