"""Whole worlds in one process, without Spark: members with faults, a log, a driver that crashes, and judges of all of
it.

A seed stands for a case (`run.case_of`). Two of three are worlds (`scenario`, `generate`, `world`): processes with
members of `group_coordinator/members/`, a network, a broker, and for each shard a ticker and a driver that works as the
Spark operator does. The third is a soup (`soup`): random requests, right and wrong ones. Both give a log.

The `referee` handles that log once, one record after another, with the core and beside it the `model`: a second, plain
coordinator, written from the description of the protocol and held against what Kafka was recorded to do. After every
step it asks the `rules` what is wrong. At the end the drivers' outputs, with their batches, crashes and repetitions,
must be the referee's to the byte, nobody who could speak may have been expired, and every group must have settled.

`python -m simulation --seeds 5000` lives through many; `--seed N --story` tells one in plain words, made as small as it
can be (`shrink`). What is drawn depends on the seed and the question only (`chance`), so a case can lose a part and
keep the rest.
"""
