"""The tunings know the inside of one version of PySpark; in any other Spark's own way is taken, with the same outputs.
"""

from __future__ import annotations

import pyspark

PYSPARK_VERSION = "4.2.0"


def unknown_spark() -> str | None:
    """Return why Spark's own way must be taken; None if this is the known version."""
    if pyspark.__version__ == PYSPARK_VERSION:
        return None
    return f"PySpark is {pyspark.__version__}, and only the inside of {PYSPARK_VERSION} is known"
