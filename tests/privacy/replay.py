"""The replay harness, by the name that the tests know: it lives in ``lowkey.testing``, for everybody."""

from lowkey.testing.noise_checks import check_books, check_noise, diagonal_of, standardised_noise
from lowkey.testing.replaying import contributions, one_thread, record, replay
from lowkey.testing.watching import (
    Call,
    Entry,
    ForcingBillboard,
    Record,
    RecordingBillboard,
    Violation,
    WatchingEngine,
    arrays_in,
    check_moved,
    counted_openings,
    move_share,
    same,
)

__all__ = [
    "Call",
    "Entry",
    "ForcingBillboard",
    "Record",
    "RecordingBillboard",
    "Violation",
    "WatchingEngine",
    "arrays_in",
    "check_books",
    "check_moved",
    "check_noise",
    "contributions",
    "counted_openings",
    "diagonal_of",
    "move_share",
    "one_thread",
    "record",
    "replay",
    "same",
    "standardised_noise",
]
