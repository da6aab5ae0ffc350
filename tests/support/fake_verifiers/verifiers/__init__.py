"""Stands in for Verifiers 0.4 in tests: the names that tasksets and our interpreter program use, and no more.

Its behaviour is Verifiers' where that is known: what a time-out, a raising reward and a raising set-up leave
in a trace. Its docker runtime is none: it says so, as Verifiers does where no engine answers, unless
``FAKE_DOCKER`` is set.
"""

import os

__version__ = os.environ.get("FAKE_VERSION", "0.4.0")
