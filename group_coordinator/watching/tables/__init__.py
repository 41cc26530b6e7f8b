"""History as tables: events, rebalances, ownership, members, commits, refusals, expiries.

`fold` (and `GroupTables`, record by record) makes rows of history records, without Spark. `files` writes them to a
directory without Spark, once or again and again. `spark_tables` writes them with Spark: once from a
whole history, or as a streaming query from the topic.
"""
