"""These sentences say how far a broker's log could be followed; its settings are kept for a replay of the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from pathlib import Path

import msgspec

from group_coordinator.command_line.errors import CommandError
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.proving.recordings.broker_settings import FORMER_RULES, RULES, SETTINGS, Setting
from group_coordinator.proving.recordings.following import FollowedGroup, Following
from group_coordinator.watching.narrative import words
from group_coordinator.watching.narrative.words import precise_clock as moment

GROUPS_SHOWN = 20
_INFERRED_SHOWN = 3
_SUFFIX = ".settings.json"


def agreement(following: Following) -> str:
    """Return how many of the broker's answers are reproduced here."""
    compared = sum(group.compared for group in following.groups)
    differing = sum(len(group.differing) for group in following.groups)
    not_compared = Counter(following.set_aside)
    for group in following.groups:
        not_compared.update(group.not_compared)
    reasons = "; ".join(f"{count} {reason}" for reason, count in not_compared.items())
    return (
        f"Followed the broker's log: {compared - differing} of {words.count(compared, 'answer')} as the broker gave "
        f"them, {differing} differ, "
        f"{not_compared.total()} cannot be compared" + (f" ({reasons})." if reasons else ".")
    )


def told_by_records(group_ids: Iterable[str]) -> Iterator[str]:
    """Yield which groups are told by other sources than request logs."""
    if names := sorted(group_ids):
        yield (
            f"Told by the records of the offsets topic, as the request logs do not tell all of it: "
            f"{words.listed(names, GROUPS_SHOWN)}."
        )


def doubts(
    following: Following, zone: tzinfo, told_by_records: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return where the report may differ from what the broker did. Nothing of it is said of `told_by_records`."""
    followed = [group for group in following.groups if group.group_id not in told_by_records]
    sentences = [sentence for group in followed for sentence in _of_group(group, zone)]
    more_count = len(sentences) - GROUPS_SHOWN
    shown = sentences[:GROUPS_SHOWN] + (
        [f"... and {words.count(more_count, 'sentence')} more of this kind: verify recording has them"]
        if more_count > 0
        else []
    )
    return (*following.settings.contradicted, *shown)


def _of_group(group: FollowedGroup, zone: tzinfo) -> Iterator[str]:
    if not group.parts:
        yield (
            f"group {group.group_id}: it is older than the log, which never tells who its members are; "
            f"{words.count(len(group.requests), 'request')} not shown"
        )
    for part, next_part in zip(group.parts, [*group.parts[1:], None], strict=False):
        if part is group.parts[0] and part.beginning is not None:
            known_from = f"{moment(part.inputs[0].clock_ms, zone)} (generation {part.beginning.group.generation_id})"
            yield f"group {group.group_id}: it is older than the log; what it was before {known_from} is not known"
        if part.gap is not None:
            until = "the end" if next_part is None else f"{moment(next_part.inputs[0].clock_ms, zone)}"
            yield (
                f"group {group.group_id}: what it was from {moment(part.gap_from_ms, zone)} to {until} is not known: "
                f"{part.gap.reason}"
            )
    apis = Counter(difference.where.split(" ")[0] for difference in group.differing)
    if apis:
        details = words.listed([f"{count} of {api}" for api, count in apis.items()])
        yield (
            f"group {group.group_id}: {words.count(apis.total(), 'answer')} of {group.compared} not as the broker "
            f"gave them ({details})"
        )
    inferred = [step for part in group.parts for step in part.result.steps if step.inferred is not None]
    if inferred:
        details = words.listed(
            [f"{step.inferred} at {moment(step.effect_us // 1000, zone)}" for step in inferred], _INFERRED_SHOWN
        )
        yield (
            f"group {group.group_id}: {words.count(len(inferred), 'request')} not in the log, inferred from what "
            f"follows ({details})"
        )




# ------------------------------------------------------------------------------------------------------- the settings


def given_settings(settings: Settings) -> dict[str, Setting]:
    """Return the broker's settings as flags give them. Those of files and of the environment are for a coordinator of
    ours."""
    return {name: getattr(settings.config, name) for name in SETTINGS if settings.sources[name] == "flag"}


def other_settings(recorded: Mapping[str, Setting], flags: Mapping[str, Setting]) -> tuple[str, ...]:
    """Return the warning about a replay of a broker's log with settings that were not the broker's."""
    return tuple(
        f"{name} = {value} is given, and the broker in whose log this was had {recorded[name]}: what is told is what if"
        for name, value in flags.items()
        if recorded.get(name, value) != value
    )


def keep_settings(path: Path, values: Mapping[str, Setting]) -> None:
    """Write the broker's settings into a file beside its events, in place of an older one."""
    note = path.with_name(path.name + _SUFFIX)
    if values:
        note.write_bytes(msgspec.json.format(msgspec.json.encode(dict(values))) + b"\n")
    else:
        note.unlink(missing_ok=True)


def kept_settings(paths: Iterable[Path]) -> dict[str, Setting]:
    """Return the settings kept beside files of events. Raises CommandError for a note that cannot be read."""
    settings: dict[str, Setting] = {}
    for path in paths:
        note = path.with_name(path.name + _SUFFIX)
        try:
            settings |= msgspec.json.decode(note.read_bytes(), type=dict[str, bool | int | str])
        except FileNotFoundError:
            continue
        except msgspec.DecodeError as problem:
            raise CommandError(f"{note}, which has the broker's settings, cannot be read: {problem}.") from problem
    if (rules := settings.pop(FORMER_RULES, None)) is not None:
        settings.setdefault(RULES, rules)
    return settings
