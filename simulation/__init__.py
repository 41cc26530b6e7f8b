"""Whole worlds in one process, without Spark: members with faults, a log, a driver that crashes, and judges of all of it."""
