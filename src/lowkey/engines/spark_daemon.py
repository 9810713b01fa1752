"""Vault room: Spark's parent of Python workers, with lowkey imported before the first of them is made.

Spark forks its Python workers from one process per executor. With `spark.python.daemon.module` set to this module they all
have what the tasks need from the start, where each would else import it for itself: a second or two every time.
"""

from __future__ import annotations

from pyspark.daemon import manager

import lowkey.engines.spark_tasks  # noqa: F401 (imported for the workers)

if __name__ == "__main__":
    manager()
