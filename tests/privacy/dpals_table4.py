"""Table 4 of the DPALS paper: the data is in the lab, where the reproductions use it too."""

from lowkey.bench.dpals_table4 import ML_10M, ML_10M_DELTA, ML_10M_TOP400, ML_20M, ML_20M_DELTA, Column

__all__ = ["ML_10M", "ML_10M_DELTA", "ML_10M_TOP400", "ML_20M", "ML_20M_DELTA", "Column"]
