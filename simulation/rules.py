"""Each rule is a class that checks every step. No rule reads a timer or counter of the core.

Each is told of every step of one group and remembers what it needs. Further rules: `rules_of_offsets`,
`rules_of_sessions`; those of a whole world: `rules_of_worlds`.
"""

from __future__ import annotations

from typing import Any

from coordinator_state import Answer, ClassicGroup, GroupConfig
from schemas.consumer_protocol import decode_assignment
from schemas.error_codes import ErrorCode
from schemas.history import AssignmentReceived, GroupEmpty, JoinPhaseCompleted, MemberReplaced
from schemas.messages import Request, SyncGroupRequest, SyncGroupResponse, TxnOffsetCommitRequest
from simulation.checker import Rule, Step, existing


class EveryRequestOnce(Rule):
    """Each request is answered once, to whom it belongs; one that is not is parked in the group."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._open_requests: dict[int, tuple[str, int, str, int]] = {}
        self._log_offset = -1

    def check(self, step: Step) -> str | None:
        if step.event is not None and not self._is_relayed_again(step.event.request):
            envelope = step.event.envelope
            self._open_requests[step.event.offset] = (
                envelope.request_id,
                envelope.reply_partition,
                envelope.api,
                envelope.api_version,
            )
        for output in step.outputs:
            if isinstance(output, Answer):
                request = self._open_requests.pop(output.answers_offset, None)
                if request is None:
                    return (
                        f"{output.api} of offset {output.answers_offset} is answered, though it is not, or no longer, "
                        "open"
                    )
                if request != (output.request_id, output.reply_partition, output.api, output.api_version):
                    return f"{request[2]} of offset {output.answers_offset} is answered to somebody else"
        if existing(step.group) is None:  # a group that begins again knows nothing of the log of transactions
            self._log_offset = -1
        parked = _parked(step.classic)
        self._forget_copies(step, parked)
        if parked.keys() != self._open_requests.keys():
            lost = [
                f"{self._open_requests[offset][2]} of offset {offset}"
                for offset in self._open_requests
                if offset not in parked
            ]
            return f"neither answered nor parked: {', '.join(lost)}" if lost else "an answered request is still parked"
        return None

    def _is_relayed_again(self, request: Request) -> bool:
        """What has a place in the log of transactions is answered once."""
        if not isinstance(request, TxnOffsetCommitRequest) or request.log is None:
            return False
        is_repeat, self._log_offset = request.log.offset <= self._log_offset, max(request.log.offset, self._log_offset)
        return is_repeat

    def _forget_copies(self, step: Step, parked: dict[int, None]) -> None:
        """A parked request that came again is parked or answered once, as its last copy: its sender wants one
        answer."""
        if step.event is None:
            return
        offset, request_id = step.event.offset, step.event.envelope.request_id
        answered = any(isinstance(output, Answer) and output.answers_offset == offset for output in step.outputs)
        if offset not in parked and not answered:
            return
        for copy in [open_offset for open_offset, request in self._open_requests.items() if request[0] == request_id]:
            if copy not in parked:
                del self._open_requests[copy]


def _parked(group: ClassicGroup | None) -> dict[int, None]:
    members = group.members.values() if group is not None else ()
    parked = [request for member in members for request in (member.awaiting_join, member.awaiting_sync)]
    return dict.fromkeys(request.offset for request in parked if request is not None)


class SeqsWithoutGaps(Rule):
    """Outputs are numbered 1, 2, 3 ... in each life of the group, and no life has the number of another."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._epoch, self._seq = -1, 0

    def check(self, step: Step) -> str | None:
        for output in step.outputs:
            if output.epoch != self._epoch:
                if output.epoch < self._epoch:
                    return f"epoch {output.epoch} comes after epoch {self._epoch}"
                self._epoch, self._seq = output.epoch, 0
            if output.seq != self._seq + 1:
                return f"seq {output.seq} comes after seq {self._seq}"
            self._seq = output.seq
        return None


class GenerationsRise(Rule):
    """Within an epoch the generation never falls: it rises by one at the end of each join phase, and never else."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._epoch, self._generation = -1, 0

    def check(self, step: Step) -> str | None:
        if not step.is_classic:
            self._epoch = -1 if step.group is None else step.group.epoch
            self._generation = 0 if step.classic is None else step.classic.generation_id
            return None
        for output in step.outputs:
            if output.epoch != self._epoch:
                self._epoch, self._generation = output.epoch, 0
            if isinstance(output, JoinPhaseCompleted | GroupEmpty):
                if output.generation_id != self._generation + 1:
                    return f"generation {output.generation_id} comes after generation {self._generation}"
                self._generation = output.generation_id
        if step.classic is not None and step.classic.generation_id != self._generation:
            return (
                f"the group is in generation {step.classic.generation_id}; the last join phase gave {self._generation}"
            )
        return None


class OneOwner(Rule):
    """In a generation no partition belongs to two members. (The rule is for worlds, whose leaders assign properly.)"""

    def check(self, step: Step) -> str | None:
        group = step.classic
        if group is None or group.state != "Stable" or not step.outputs:
            return None
        owners: dict[Any, str] = {}
        for member in group.members.values():
            for partition in decode_assignment(member.assignment).partitions if member.assignment else ():
                if partition in owners:
                    owners_text = f"{owners[partition]} and {member.member_id}"
                    place = f"{partition.topic}-{partition.partition}"
                    return f"{place} belongs to {owners_text} in generation {group.generation_id}"
                owners[partition] = member.member_id
        return None


class AssignmentsAsDecided(Rule):
    """Each member gets the assignment that the leader decided for it in this very generation."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self._assignments: dict[str, bytes] = {}
        self._member_ids: dict[int, str] = {}

    def check(self, step: Step) -> str | None:
        request = step.event.request if step.event is not None else None
        if not step.is_classic:
            members = step.classic.members.values() if step.classic is not None else ()
            self._assignments = {member.member_id: member.assignment for member in members}
            self._member_ids.clear()
            return None
        if step.event is not None and isinstance(request, SyncGroupRequest):
            self._member_ids[step.event.offset] = request.member_id
        for output in step.outputs:
            if isinstance(output, AssignmentReceived):
                assert isinstance(request, SyncGroupRequest)
                self._assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
            elif isinstance(output, MemberReplaced):
                self._assignments[output.member.member_id] = self._assignments.get(output.old_member_id, b"")
            elif isinstance(output, Answer) and isinstance(output.response, SyncGroupResponse):
                member_id = self._member_ids.pop(output.answers_offset, "")
                answered_assignment, decided = output.response.assignment, self._assignments.get(member_id, b"")
                if output.response.error_code is ErrorCode.NONE and answered_assignment != decided:
                    return f"{member_id} is told {answered_assignment.hex()}; its leader decided {decided.hex()}"
        return None
