"""Shared by the Python tests: small things to simulate, and the command as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import treercu as rcu

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "treercu"]

# The same examples each time; how fast they come is no property of the code.
settings.register_profile(
    "treercu", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("treercu")

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def config() -> rcu.Config:
    """The published machine, in the era before the early report became the default."""
    return rcu.Config(kernel="6.18", nr_cpus=32, hz=1000)


@pytest.fixture(scope="session")
def flood() -> rcu.SyncFlood:
    return rcu.SyncFlood(tasks=1, calls=100)


@pytest.fixture(scope="session")
def run(config: rcu.Config, flood: rcu.SyncFlood) -> rcu.Run:
    """One run that several tests look at."""
    return rcu.simulate(config, flood, seed=1)


@pytest.fixture(scope="session")
def endless() -> rcu.SyncFlood:
    """Much longer than any test waits: cancel it."""
    return rcu.SyncFlood(tasks=8, calls=1_000_000)


@pytest.fixture
def treercu() -> Command:
    """Runs the command and returns the finished process."""

    def call(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            env=clean_env(),
        )

    return call


def clean_env(**more: str) -> dict[str, str]:
    """The environment without Python settings of whoever runs the tests."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return env | more


def python(code: str, *arguments: str) -> Sequence[str]:
    """The words that run a piece of Python."""
    return [sys.executable, "-c", code, *arguments]
