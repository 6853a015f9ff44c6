"""The stub fits the compiled module, the README's example does what it says, the notebooks run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import treercu as rcu
from conftest import ROOT, clean_env

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_public_names() -> None:
    for name in rcu.__all__:
        assert getattr(rcu, name) is not None
    assert sorted(set(rcu.__all__)) == sorted(rcu.__all__)


def test_metadata() -> None:
    data = importlib.metadata.metadata("treercu")
    assert data["Version"] == rcu.__version__
    runtime = [line for line in data.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert sorted(re.split(r"[^a-z]", line)[0] for line in runtime) == ["numpy", "tqdm"]
    assert {"study", "notebook", "test", "bench"} <= set(data.get_all("Provides-Extra") or [])


def test_the_stub_fits_the_compiled_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy.stubtest", "treercu._core",
            "--allowlist", str(ROOT / "tests" / "stubtest-allowlist.txt"),
            "--mypy-config-file", str(ROOT / "pyproject.toml"),
        ],
        capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path, env=clean_env(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _readme_blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_readme_example_prints_what_the_readme_says() -> None:
    code = _readme_blocks("python")[0]
    expected = _readme_blocks("text")[0]
    assert len(code.strip().splitlines()) <= 15
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert out.getvalue() == expected


def test_the_readme_uses_an_engine() -> None:
    code = next(block for block in _readme_blocks("python") if "rcu.Engine(" in block)
    expected = next(block for block in _readme_blocks("text") if "<Engine" in block)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert out.getvalue() == expected


def test_the_readme_shows_a_trace() -> None:
    code = next(block for block in _readme_blocks("python") if "trace=" in block)
    shown = next(block for block in _readme_blocks("text") if "rcu_grace_period" in block)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert shown in out.getvalue()


def test_the_commands_of_the_readme_are_commands() -> None:
    from treercu import cli

    for line in "\n".join(_readme_blocks("sh")).splitlines():
        if line.startswith("treercu "):
            args = cli._parser().parse_args(line.split()[1:])
            cli._build_workload(getattr(args, "workloads", None))


def test_the_readme_names_the_two_commands() -> None:
    commands = "\n".join(_readme_blocks("sh"))
    assert (
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/treercu reproduce early-qs" in commands
    )
    assert (
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' "
        "&& .venv/bin/python -m pytest && cargo test" in commands
    )


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == [
        "01-early-report.ipynb",
        "02-flood.ipynb",
        "03-simulated-and-measured.ipynb",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_carry_no_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert book.cells[0].cell_type == book.cells[-1].cell_type == "markdown"
    assert "question" in book.cells[0].source.lower()
    assert "answer" in book.cells[-1].source.lower()
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("TREERCU_FAST", os.environ.get("TREERCU_FAST", "1"))
    # A kernel of this interpreter, whatever else is installed for this user.
    kernels = tmp_path / "kernels" / "here"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],'
        ' "display_name": "here", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book: Any = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=60, kernel_name="here", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    errors = [
        output
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error" or (output.output_type == "stream" and output.name == "stderr")
    ]
    assert errors == []
