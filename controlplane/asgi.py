"""The ASGI application that uvicorn serves."""

from __future__ import annotations

import gc
import os
import sys
import threading
from importlib import import_module

import django
from django.core.exceptions import ImproperlyConfigured

from controlplane.request_threads import ThreadedHandler
from workers.log_lines import log_uncaught
from workers.open_files import raise_open_file_limit
from workers.traces import configure_traces

_OPEN_FILES = 8_192
"""Each live stream is one, and many systems give a process a thousand."""
_STACK_BYTES = 2 << 20
"""Of each thread. A system's own eight, times the threads that live streams may have, are more than
the memory that the web process is given.
"""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
# Each request would open, and close, a connection of its own.
os.environ.setdefault("SLUICE_DATABASE_POOL", "16")

log_uncaught()
raise_open_file_limit(_OPEN_FILES)
threading.stack_size(_STACK_BYTES)
try:
    django.setup(set_prefix=False)
    application = ThreadedHandler()
except ImproperlyConfigured as error:
    sys.exit(str(error))
configure_traces(os.environ, "sluice-web")
import_module("controlplane.urls")  # Else the first request does it.
# What is there now stays: looked through again and again it held up each tenth page for 0.1 s.
gc.collect()
gc.freeze()
