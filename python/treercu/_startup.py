"""Ctrl-C while the command `treercu` still imports: one line and exit code 130, no traceback.

Only where this process is the command; a program that imports the package keeps its own handling.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

__all__ = ["begin", "end"]


def _is_command() -> bool:
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("treercu", "treercu.exe"):
        return True
    # `python -m treercu`, while the interpreter still looks for the module.
    return sys.argv[:1] == ["-m"] and "treercu" in sys.orig_argv


def _quit(*_: Any) -> None:
    # Straight to the file descriptors: the interpreter may be in the middle of anything.
    os.write(2, b"treercu: interrupted\n")
    if "--json" in sys.orig_argv:
        os.write(1, b'{"interrupted": true}\n')
    os._exit(130)


def begin() -> None:
    """Called before anything else is imported."""
    main = threading.current_thread() is threading.main_thread()
    if main and _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)


def end() -> None:
    """From here on Ctrl-C is a `KeyboardInterrupt` as usual."""
    if signal.getsignal(signal.SIGINT) is _quit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


begin()
