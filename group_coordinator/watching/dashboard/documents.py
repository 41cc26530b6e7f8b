"""The documents that the pages are made of, by address: the same for the server and for the report."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from group_coordinator.ground.system.ended_threads import ended_threads
from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.epochs_page import present
from group_coordinator.watching.dashboard.feed import FeedItem
from group_coordinator.watching.dashboard.group_page import Now, Window, group_page
from group_coordinator.watching.dashboard.health import offset_expires_ms
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.rebalance_page import rebalance_page, request
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.dashboard.what_if import GroupPlay, ReplayFunction, assumptions, ranges, summary
from group_coordinator.watching.history.current_group import CLASSIC, CONSUMER
from group_coordinator.watching.narrative import sentences, words
from schemas.group_states import GroupState
from schemas.history import History, RequestRefused

WINDOWS_KEPT = 4
NO_REQUESTS = (
    "What the clients would have done under other settings is not known: the offsets topic, brokers' logs and polls do "
    "not say which requests each client sent when. Brokers' request logs say it. Replay those of the same time "
    "(group-coordinator replay kafka-request.log* --out DIR), and look there (group-coordinator dashboard --from DIR)."
)
NOT_PLAYED = (
    "Only classic and consumer groups can be played under other settings: this is a {} group."
)
"""Why there is no *What if*."""
EVENTS_MAX = 500


class NotFound(LookupError):
    """What was asked for does not exist. The message says what it is."""


class Documents:
    """Makes documents of an index. Safe to be used by many threads."""

    def __init__(
        self, index: Index, clock: Callable[[], int] | None = None, what_if: ReplayFunction | None = None
    ) -> None:
        """`clock`: the present in milliseconds since 1970; None: the end of the history, for what is over."""
        self.index = index
        self._clock = clock
        self._what_if = what_if
        self._windows: OrderedDict[tuple[str, int], Window] = OrderedDict()
        self._lock = Lock()

    @property
    def now_ms(self) -> int:
        return self._clock() if self._clock is not None else self.index.last_ms

    def overview(self) -> dict[str, Any]:
        """Return the data of the pages' frame."""
        index = self.index
        return {
            "now": self.now_ms,
            "live": self._clock is not None,
            "what_if": self._what_if is not None,
            "groups": len(index),
            "records": index.records,
            "unreadable": index.unreadable,
            "doubts": (*ended_threads(), *self._not_listed(), *index.doubts),
            "watched": index.watched,
            "first": index.first_ms,
            "last": index.last_ms,
            "kept_bytes": index.kept_bytes,
            "window_ms": index.settings.health.window_ms,
            "dead_letters": len(index.dead_letters),
        }

    def groups(self, at_ms: int | None = None, patience_s: float | None = None) -> dict[str, Any]:
        """The list, as it is (within `patience_s`, as of `GroupList.rows`) or as it was."""
        now_ms = self.now_ms
        rows = self.index.encoded_rows(now_ms, patience_s) if at_ms is None else self.index.rows_at(at_ms)
        return {"now": now_ms, "at": at_ms, "rows": rows, "on_disk": self.index.on_disk().total()}

    def _not_listed(self) -> Iterator[str]:
        on_disk = self.index.on_disk()
        if on_disk.total():
            states = words.listed([f"{count:,} {state}" for (_, state), count in on_disk.most_common() if count])
            yield (
                f"{on_disk.total():,} of {len(self.index):,} groups are not in the list, because memory (--memory-mib) "
                f"has no room for them ({states}, when they were put on disk). They are the ones without members that "
                "changed longest ago, if these are enough. Nothing of them is lost: who searches for one by its whole "
                "name finds it. Their lag is not asked for, and that their offsets expire is not warned of."
            )

    def group(self, group_id: str) -> dict[str, Any]:
        """Raises NotFound."""
        page = self._page(group_id, self.index, self.window(group_id), self.now_ms)
        return page | {"no_what_if": self._no_what_if(page["group"].kind)}

    def rebalance(self, group_id: str, key: str) -> dict[str, Any]:
        """Raises NotFound."""
        rebalance = self.window(group_id).rebalance(key)
        if rebalance is None:
            raise NotFound(f"Group {group_id} has no rebalance {key} within this dashboard's window.")
        return rebalance_page(rebalance)

    def events(
        self, *, group_id: str = "", kind: str = "", text: str = "", before: int | None = None, limit: int = EVENTS_MAX
    ) -> dict[str, Any]:
        """The latest records of all groups, the newest first."""
        text = text.casefold()
        documents: list[dict[str, Any]] = []
        for item in self.index.feed(before=before):
            if len(documents) >= min(limit, EVENTS_MAX):
                break
            record = item.record
            if (group_id and record.group_id != group_id) or (kind and kind != _tag(record)):
                continue
            document = event_document(item)
            if text and text not in f"{document['group']} {document['text']}".casefold():
                continue
            documents.append(document)
        return {"now": self.now_ms, "events": documents}

    def dead_letters(self) -> dict[str, Any]:
        with self.index.lock:
            return {"now": self.now_ms, "dead_letters": list(reversed(self.index.dead_letters))}

    def what_if(self, group_id: str, change: Change) -> dict[str, Any]:
        """The group under other settings, beside what happened; and played without a change, as a check on the player.

        Raises NotFound, and ValueError for what cannot be.
        """
        before = self.group(group_id)
        if self._what_if is None:
            raise NotFound(before["no_what_if"] or "Only a replay can be run again under other settings.")
        playing = self._what_if(group_id)
        after = self._played(group_id, playing, change, 0)
        sides = {"after": [summary(after)]}
        if change != Change():
            sides["unchanged"] = [summary(self._played(group_id, playing, Change(), 0))]
        for repetition in range(1, playing.repetitions):
            for side, summaries in sides.items():
                of_side = change if side == "after" else Change()
                summaries.append(summary(self._played(group_id, playing, of_side, repetition)))
        unchanged = sides.get("unchanged", sides["after"])
        return {
            "page": after,
            "before": summary(before),
            "after": sides["after"][0],
            "unchanged": unchanged[0],
            "ranges": {"after": ranges(sides["after"]), "unchanged": ranges(unchanged)},
            "assumptions": assumptions(before, change, playing.repetitions),
        }

    def _no_what_if(self, kind: str) -> str | None:
        """Why a watched group cannot be played under other settings."""
        watched = self.index.watched
        if self._what_if is not None or not watched or any(cluster.has_requests for cluster in watched):
            return None
        return NO_REQUESTS if kind in (CLASSIC, CONSUMER) else NOT_PLAYED.format(kind)

    def _played(self, group_id: str, playing: GroupPlay, change: Change, repetition: int) -> dict[str, Any]:
        index = Index(DashboardSettings(health=self.index.settings.health))
        for value in playing.play(change, repetition):
            index.add(value)
        records = index.group_records(group_id)
        if records is None:
            raise ValueError(f"Under these settings nothing happens in group {group_id}.")
        return self._page(group_id, index, Window(group_id, records), max(self.index.last_ms, index.last_ms))

    def _page(self, group_id: str, index: Index, window: Window, now_ms: int) -> dict[str, Any]:
        row = index.row(group_id, now_ms)
        facts = index.facts(group_id)
        if row is None or facts is None:
            raise NotFound(f"There is no group {group_id}.")
        with index.lock:
            offsets: dict[tuple[str, int], Committed] = dict(facts.offsets)
            uncommitted = facts.uncommitted
            moments = tuple(facts.moments())
            settings = index.settings.health
            is_empty = facts.state == GroupState.EMPTY
            expires = {place: offset_expires_ms(facts, each, settings) for place, each in offsets.items() if is_empty}
            epochs = present(facts)
        now = Now(
            row=row,
            moments=moments,
            offsets=offsets,
            uncommitted=uncommitted,
            expires_ms=expires,
            epochs=epochs,
            now_ms=now_ms,
        )
        return group_page(window, now, index.ends_of(group_id))

    def window(self, group_id: str) -> Window:
        """Return the records of one group within the window, decoded once. Raises NotFound."""
        records = self.index.group_records(group_id)
        if records is None:
            raise NotFound(f"There is no group {group_id}.")
        key = group_id, records.facts_version
        with self._lock:
            window = self._windows.get(key)
            if window is None:
                window = self._windows[key] = Window(group_id, records)
            self._windows.move_to_end(key)
            while len(self._windows) > WINDOWS_KEPT:
                self._windows.popitem(last=False)
        return window


def event_document(item: FeedItem) -> dict[str, Any]:
    """One record of the feed."""
    record = item.record
    return {
        "n": item.number,
        "t": record.timestamp_ms,
        "group": record.group_id,
        "type": _tag(record),
        "key": f"{record.epoch}-{record.seq}",
        "text": sentences.sentence(record),
        "refused": isinstance(record, RequestRefused),
        "request": request(record.cause),
    }


def _tag(record: History) -> str:
    return str(type(record).__struct_config__.tag)
