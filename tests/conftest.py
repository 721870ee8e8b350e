"""For every test."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has SIGINT ignored in them; tests that interrupt themselves need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
