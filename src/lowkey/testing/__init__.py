"""Lab room: the suites that our own methods pass, for yours: ``check_estimator`` and ``check_privacy``.

They need no test framework and run on made-up users, whose raw sums they look at: never give them real data.
"""

from lowkey.testing.cases import Case
from lowkey.testing.replaying import contributions, record, replay
from lowkey.testing.suites import CONTRACT, check_estimator, check_privacy
from lowkey.testing.watching import Violation

__all__ = ["CONTRACT", "Case", "Violation", "check_estimator", "check_privacy", "contributions", "record", "replay"]
