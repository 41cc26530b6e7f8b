"""One view of our topics for all who read them: what lies in the log counts, be its transaction open or aborted.

Nothing of ours writes in transactions, so others' are meant. A reader of committed records alone would stand still
before the first record of an open transaction: whoever may write events could so halt a shard's clock, and with it
every group, for as long as they like. And whether an aborted record is read would depend on when it is read.
"""

from __future__ import annotations

ISOLATION_LEVEL = "read_uncommitted"
READER_PROPERTIES = {"isolation.level": ISOLATION_LEVEL}
"""For every consumer of our topics; Java and librdkafka call it the same. It comes last: it is no setting."""
