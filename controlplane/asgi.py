"""The ASGI application that uvicorn serves."""

from __future__ import annotations

import gc
import os
import sys
import threading
from importlib import import_module

from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from workers.log_lines import log_uncaught
from workers.open_files import allow_open_files

_OPEN_FILES = 8_192
"""Each live stream is one, and many systems give a process a thousand."""
_STACK_BYTES = 2 << 20
"""Of the thread that each open request has. A system's own eight, times the live streams that a
node has, are more than the memory that the web process is given.
"""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
# Each request runs in a thread of its own, which would open, and close, a connection of its own.
os.environ.setdefault("SLUICE_DATABASE_POOL", "16")

log_uncaught()
allow_open_files(_OPEN_FILES)
threading.stack_size(_STACK_BYTES)
try:
    application = get_asgi_application()
except ImproperlyConfigured as error:
    sys.exit(str(error))
import_module("controlplane.urls")  # Else the first request does it.
# What is there now stays: looked through again and again it held up each tenth page for 0.1 s.
gc.collect()
gc.freeze()
