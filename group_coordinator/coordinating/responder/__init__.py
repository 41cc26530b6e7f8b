"""Answers ahead of the query: a process for each shard reads the same log with the same core and writes answers only.

`answering` decides, `loop` reads and writes, `processes` starts and watches the processes, and `auditor` compares what
they have written with the query's answers.
"""
