"""A coordinator that is restored from its state before and after everything, as a query does between two batches."""

from __future__ import annotations

from coordinator_state import Coordinator, GroupCoordinator, Output, decode_group, encode_group


class ForgetfulCoordinator(Coordinator):
    """Keeps nothing between two calls but the state blobs."""

    def advance_to(self, clock_ms: int) -> list[Output]:
        self._reload()
        outputs = super().advance_to(clock_ms)
        self._reload()
        return outputs

    def _reload(self) -> None:
        self._groups = {
            group_id: GroupCoordinator(group_id, self.config, group=decode_group(*encode_group(group.group)))
            for group_id, group in self._groups.items()
            if group.group is not None
        }
