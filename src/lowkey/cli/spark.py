"""Public room: `lowkey release --engine spark`: a session, the ratings on it, and the engine that runs there."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowkey.errors import InputError, refuse

if TYPE_CHECKING:
    from lowkey.cli.table import Table
    from lowkey.data.domain import Domain


@dataclass(frozen=True)
class Cluster:
    """Where the passes run: Spark's master, and how many partitions the users are dealt to."""

    master: str | None = None
    partitions: int | None = None

    @contextmanager
    def session(self) -> Generator[Any]:
        """A Spark session: the one there is, or one of our own that ends with the command."""
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise InputError(
                what="--engine spark",
                got="no PySpark",
                needed="the extra of that name, and a Java 17 runtime",
                try_="pip install 'lowkey[spark]'",
            ) from None
        # Said at every pass, and about functions that are not used here: Arrow goes in and comes out.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        running = SparkSession.getActiveSession()
        if running is not None:
            yield running
            return
        local = self.master is None or self.master.startswith("local")
        builder = SparkSession.builder.appName("lowkey release")
        builder = builder.master(self.master) if self.master else builder
        if local:  # nothing of it need be seen from outside this machine
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            for name in ("spark.driver.host", "spark.driver.bindAddress"):
                builder = builder.config(name, "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
            builder = builder.config("spark.python.daemon.module", "lowkey.engines.spark_daemon")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        try:
            session = builder.getOrCreate()
        except Exception as error:
            kind = type(error).__name__
        else:
            kind = None
        if kind is not None:
            raise InputError(
                what="--engine spark",
                got=f"a session that does not start ({kind})",
                needed="a Java 17 runtime and a master that answers",
                try_="java -version, and --master 'local[2]'",
            )
        try:
            yield session
        finally:
            session.stop()

    def read(self, session: Any, table: Table, domain: Domain | None) -> Any:
        """The ratings over the catalogue of a domain; without one, over a catalogue that is private."""
        from lowkey.data.columns import names_for
        from lowkey.data.domain import Scale
        from lowkey.data.formats import ParquetBatches, format_of
        from lowkey.data.spark_errors import on_driver
        from lowkey.data.spark_rows import from_spark, uncatalogued_from_spark

        if "://" in table.file or table.time or table.missing != "error":
            refuse("--engine spark", got="an address, --time or --missing", needed="a local path without them",
                   try_="leaving --engine out")  # fmt: skip
        if (kind := format_of(Path(table.file), table.format)) != "parquet":
            refuse("--engine spark", got=f"a file in the format {kind}", needed="Parquet", try_="converting it first")
        # What is wrong with a file is said in the same words as elsewhere. This reads the footers and no more.
        scale = Scale(table.feedback, table.scale)
        ParquetBatches(Path(table.file), names_for(scale, table.user, table.item, table.rating))
        frame = on_driver(lambda: session.read.parquet(str(Path(table.file).resolve())))
        columns = {"user": table.user, "item": table.item, "rating": table.rating}
        how = {**columns, "partitions": self.partitions, "duplicates": table.duplicates}
        if domain is None:
            return uncatalogued_from_spark(frame, rating_range=table.scale, feedback=table.feedback, **how)
        return from_spark(frame, domain, unknown_items=table.unknown_items, check_axes=table.check_axes, **how)
