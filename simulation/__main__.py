"""`python -m simulation --help` says what it does."""

from simulation.command import main

raise SystemExit(main())
