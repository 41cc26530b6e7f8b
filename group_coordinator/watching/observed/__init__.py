"""What happened in the groups of a cluster that is watched: from its offsets topic and its brokers' logs to history.

`offsets_log` reads records, `group_coordinator.watching.broker_logs.broker_log` lines. `transactions` tells which
commits count. `ordering` puts records and lines of one group into one order, `classic` and `modern` make history of
them. `evidence` is what is kept of a group, `observer` takes records and lines as they come, `cluster` has them all at
once. The result is a function of the set of records and lines, whatever the order in which they came.
"""
