"""One small Spark session for all tests that need it: two threads, no network but the loopback, no web page.

Skips with a reason where PySpark or Java is absent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lowkey

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.log.level": "OFF",
    "spark.python.daemon.module": "lowkey.engines.spark_daemon",
    # Java's better compiler takes longer here than it saves: these halve the time of all Spark tests.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",  # compiling Java for a handful of rows takes longer than the rows
}


def missing() -> str:
    """Why Spark cannot run here, or nothing."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "no PySpark: pip install lowkey[spark]"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        return "no Java: install a Java 17 runtime, or set JAVA_HOME"
    asked = subprocess.run([java, "-version"], capture_output=True, text=True)
    found = re.search(r'version "(\d+)', asked.stderr)
    if asked.returncode or found is None or int(found[1]) < 17:
        return f"no Java 17 or later: {java} says {asked.stderr.splitlines()[:1]}"
    return ""


def session(master: str, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # for the sweeps of spark_sweeps.py, and for the package that is tested here, wherever it lies
    places = [str(Path(__file__).parent), str(Path(lowkey.__file__).parents[1])]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("lowkey tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()  # it ends with the process


@pytest.fixture(scope="session")
def spark() -> Any:
    if reason := missing():
        pytest.skip(reason)
    return session("local[2, 2]", SETTINGS)  # a task may fail once


def cluster_session() -> Any:
    """Two executors, each a process of its own, with a core and a gigabyte."""
    import pyspark

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    own = {
        "spark.executor.memory": "768m",
        "spark.executor.extraJavaOptions": SETTINGS["spark.driver.extraJavaOptions"],
        "spark.excludeOnFailure.enabled": "false",  # executors are lost here on purpose
        "spark.locality.wait": "0",
    }
    return session("local-cluster[2,1,1024]", SETTINGS | own)
