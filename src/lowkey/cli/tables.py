"""Public room: a table of answers as a file, in the format that its name says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowkey.errors import refuse

ENDINGS = (".parquet", ".csv", ".jsonl")


def check_table_file(path: Path) -> None:
    """Before anything is computed."""
    if path.suffix not in ENDINGS or not path.absolute().parent.is_dir():
        refuse("--out", got=repr(str(path)), needed=f"a name that ends in {', '.join(ENDINGS)}, in a folder that exists",
               try_="--out lists.parquet")  # fmt: skip


def write_table(table: Any, path: Path) -> None:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path)
    else:
        import json

        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
