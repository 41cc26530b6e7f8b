from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

QUICK = {
    # On a few rows, compiling a query takes longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",  # nobody reads the plans that Spark writes down for its UI
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="package")
def tables_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, made quick for small tables."""
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, quick in QUICK.items():
        spark.conf.set(name, quick)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
