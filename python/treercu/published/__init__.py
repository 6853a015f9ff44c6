"""Published measurements that `treercu reproduce` is held against: facts only, one file each."""

from __future__ import annotations

import ast
import sys
from importlib.resources import files
from typing import Any

__all__ = ["load"]


def load(name: str) -> dict[str, Any]:
    """The contents of `<name>.toml` beside this file."""
    text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    return parse_plain(text)


def parse_plain(text: str) -> dict[str, Any]:
    """Reads the plain part of TOML that our own files use, for Python 3.10, which has no `tomllib`.

    Comments on lines of their own, `[table]`, `[[array of tables]]`, and `key = value` on one line,
    where the value is a number, a boolean, a quoted string or a list of these.
    """
    root: dict[str, Any] = {}
    table = root
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[[") and line.endswith("]]"):
            table = {}
            root.setdefault(line[2:-2].strip(), []).append(table)
        elif line.startswith("[") and line.endswith("]"):
            table = root.setdefault(line[1:-1].strip(), {})
        else:
            key, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"line {number}: neither a table nor key = value: {line}")
            value = value.strip()
            words = {"true": True, "false": False}
            table[key.strip()] = words[value] if value in words else ast.literal_eval(value)
    return root
