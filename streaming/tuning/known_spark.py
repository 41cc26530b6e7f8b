"""The one version of PySpark whose inside is known here; in any other Spark's own way is taken, which gives the same outputs."""

from __future__ import annotations

import pyspark

PYSPARK_VERSION = "4.2.0"


def unknown_spark() -> str | None:
    """Why Spark's own way must be taken; None where this is the known version."""
    if pyspark.__version__ == PYSPARK_VERSION:
        return None
    return f"PySpark is {pyspark.__version__}, and only the inside of {PYSPARK_VERSION} is known"
