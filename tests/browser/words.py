"""What the seed and the tests must agree on; it imports nothing, because the seed needs Django and
the tests do not.
"""

from __future__ import annotations

PASSWORD = "sluice-test"
WORKER_TOKEN = "worker-token-for-tests"
