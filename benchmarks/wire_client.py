"""A Kafka client of few lines, for benchmarks: real frames over a socket, one group member to a connection."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

from group_coordinator.coordinating.gateway.codec import response_body_start
from group_coordinator.coordinating.gateway.frames import frame
from schemas.kafka.codec import decode, encode

_HEAD = struct.Struct(">hhih")
_NO_CLIENT_ID, _NO_TAGS = -1, b"\x00"
MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27
_NOT_READY = (14, 15, 16)
"""The coordinator is just being made."""
_RETRY_S = 0.2
_APIS = {
    "OffsetCommit": (8, 8), "FindCoordinator": (10, 4), "JoinGroup": (11, 9), "Heartbeat": (12, 4),
    "LeaveGroup": (13, 5),
    "SyncGroup": (14, 5), "DescribeGroups": (15, 5),
}  # fmt: skip


class WireClient:
    """One connection: a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    @classmethod
    async def connect(cls, address: str) -> WireClient:
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, api: str, **fields: Any) -> dict[str, Any]:
        """Send a request of a flexible version and return what is answered."""
        key, version = _APIS[api]
        self._number += 1
        body = encode(f"{api}Request", version, fields)
        self._writer.write(frame(_HEAD.pack(key, version, self._number, _NO_CLIENT_ID) + _NO_TAGS + body))
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        payload = await self._reader.readexactly(size)
        name = f"{api}Response"
        return decode(name, version, payload, response_body_start(name, version))

    def close(self) -> None:
        self._writer.close()


class WireMember:
    """A member of a group: joins, syncs, heartbeats, leaves. What it subscribes to and assigns is up to the caller."""

    def __init__(
        self,
        client: WireClient,
        group_id: str,
        session_timeout_ms: int = 45_000,
        *,
        metadata: bytes = b"",
        assignment: bytes = b"a",
    ) -> None:
        self._client, self._group_id, self._session_timeout_ms = client, group_id, session_timeout_ms
        self._metadata, self._assignment = metadata, assignment
        self.member_id = ""
        self.generation_id = -1
        self.rejoins = 0

    async def join(self) -> None:
        """Be a member, with an assignment, of a generation in which nothing changes any more."""
        while True:
            join_answer = await self._join()
            sync_answer = await self._sync(join_answer)
            if sync_answer["error_code"] == 0:
                return
            self.rejoins += 1

    async def find_coordinator(self) -> int:
        """Kafka's error code. A broker that has not coordinated any group yet gets ready for it now."""
        answer = await self._client.ask("FindCoordinator", key_type=0, coordinator_keys=[self._group_id])
        return int(answer["coordinators"][0]["error_code"])

    async def heartbeat(self) -> int:
        """Kafka's error code."""
        answer = await self._client.ask(
            "Heartbeat",
            group_id=self._group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=None,
        )
        return int(answer["error_code"])

    async def commit(self, topic: str, offset: int) -> int:
        """Commit an offset of partition 0 of a topic; return Kafka's error code."""
        partition = SimpleNamespace(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=None
        )
        answer = await self._client.ask(
            "OffsetCommit", group_id=self._group_id, generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id, group_instance_id=None,
            topics=[SimpleNamespace(name=topic, partitions=[partition])],
        )  # fmt: skip
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    async def leave(self) -> None:
        member = SimpleNamespace(member_id=self.member_id, group_instance_id=None, reason=None)
        await self._client.ask("LeaveGroup", group_id=self._group_id, members=[member])
        self._client.close()

    async def _join(self) -> dict[str, Any]:
        while True:
            protocol = SimpleNamespace(name="range", metadata=self._metadata)
            answer = await self._client.ask(
                "JoinGroup", group_id=self._group_id, session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id, group_instance_id=None, protocol_type="consumer", protocols=[protocol],
                reason=None,
            )  # fmt: skip
            if answer["error_code"] in _NOT_READY:
                await asyncio.sleep(_RETRY_S)
                continue
            if answer["error_code"] not in (0, MEMBER_ID_REQUIRED):
                raise AssertionError(answer)
            self.member_id = answer["member_id"]
            if answer["error_code"] == 0:
                self.generation_id = answer["generation_id"]
                return answer

    async def _sync(self, join_answer: dict[str, Any]) -> dict[str, Any]:
        is_leader = join_answer["leader"] == self.member_id
        assignments = (
            [
                SimpleNamespace(member_id=member["member_id"], assignment=self._assignment)
                for member in join_answer["members"]
            ]
            if is_leader
            else []
        )
        answer = await self._client.ask(
            "SyncGroup", group_id=self._group_id, generation_id=self.generation_id, member_id=self.member_id,
            group_instance_id=None, protocol_type="consumer", protocol_name="range", assignments=assignments,
        )  # fmt: skip
        if answer["error_code"] not in (0, REBALANCE_IN_PROGRESS):
            raise AssertionError(answer)
        return answer
