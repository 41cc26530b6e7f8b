"""What is decided: the pure group state machine and the assignors. Imports `schemas` only; no clock, no chance, no I/O."""
