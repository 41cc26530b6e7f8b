"""A cluster that is watched live, from its own offsets topic and its brokers' logs. Nothing on the cluster changes.

`python_client` speaks for kafka-python, `offsets_topic` reads the topic at the level of batches, `following_logs` reads
brokers' logs as they grow. Where the topic may not be read, `polled_groups` asks the admin API in a `separate_process`,
since the client can abort. `index_updater` keeps an index up to date with an observer, `cluster_status` says what is
read and how far, `source` is all of it as a source of the dashboard.
"""
