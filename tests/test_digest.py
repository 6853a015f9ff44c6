"""The digest of a fixed run, computed by the installed build, is the one that the Rust tests compute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXPECTED = (Path(__file__).parent / "data" / "digest.txt").read_text().strip()
COMMAND = (
    "simulate --set kernel=6.18 --set nr_cpus=32 --set hz=1000 "
    "--workload sync-flood --tasks 1 --calls 100 --seed 1 --json"
).split()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_command_line_gives_the_digest_written_down(threads: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "treercu", *COMMAND, "--threads", threads],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["digest"] == EXPECTED
