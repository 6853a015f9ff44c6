"""`treercu.Engine` in a process of its own: Ctrl-C, forks, the interpreter's exit, wake-ups, Jupyter."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conftest import clean_env, python

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")

#: Every program begins so; `stuck()` is a thread that stays inside a section for ever.
BEGIN = """
import warnings
warnings.simplefilter("ignore")
import os, signal, sys, threading, time
import treercu as rcu

def stuck(engine, daemon=True):
    inside, leave = threading.Event(), threading.Event()
    def run():
        with engine.read_lock():
            inside.set()
            leave.wait()
    threading.Thread(target=run, daemon=daemon).start()
    assert inside.wait(10)
    return leave

engine = rcu.Engine(rcu.Config(nr_cpus=2, hz=1000, preempt="{preempt}"))
"""


def program(code: str, preempt: str = "full") -> list[str]:
    return list(python(BEGIN.format(preempt=preempt) + textwrap.dedent(code)))


def run(code: str, preempt: str = "full") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        program(code, preempt), capture_output=True, text=True, timeout=60, check=False, env=clean_env()
    )


def interrupted(code: str, preempt: str = "full", number: int = signal.SIGINT) -> tuple[float, str]:
    """Sends a signal 0.2 s after the program says "blocked"; the program then says "caught" and when, by the
    monotonic clock. How long that took, s, and the last line."""
    process = subprocess.Popen(
        program(code, preempt), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_env()
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "blocked\n", process.communicate()
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (0, "")
    caught, last = out.splitlines()
    return float(caught.removeprefix("caught ")) - sent, last


# Ctrl-C


@pytest.mark.parametrize("preempt", ["full", "none"])
@pytest.mark.parametrize("call", ["synchronize", "synchronize_expedited", "barrier", "cond_sync", "close"])
def test_ctrl_c_ends_a_blocked_call(call: str, preempt: str) -> None:
    took, last = interrupted(
        f"""
        leave = stuck(engine)
        engine.call(int)
        arguments = [engine.get_state()] if "{call}" == "cond_sync" else []
        print("blocked", flush=True)
        try:
            engine.{call}(*arguments)
        except KeyboardInterrupt:
            print("caught", time.monotonic(), flush=True)
        leave.set()
        if "{call}" != "close":
            engine.synchronize(), engine.synchronize_expedited(), engine.barrier()
        print(engine.state)
        """,
        preempt,
    )
    print(f"{call}, preempt={preempt}: KeyboardInterrupt after {took * 1e3:.1f} ms")
    assert took < 1
    assert last == ("closed" if call == "close" else "open")


def test_ctrl_c_ends_a_flood_of_64_threads() -> None:
    took, last = interrupted(
        """
        from concurrent.futures import ThreadPoolExecutor
        token = rcu.CancelToken()
        def flood():
            calls = 0
            while engine.synchronize(cancel=token) is not None:
                calls += 1
            return calls
        with ThreadPoolExecutor(64) as pool:
            floods = [pool.submit(flood) for _ in range(64)]
            print("blocked", flush=True)
            try:
                while True:
                    engine.synchronize()
            except KeyboardInterrupt:
                token.cancel()
            counts = [one.result() for one in floods]
        print("caught", time.monotonic())
        print(sum(counts) > 0 and engine.synchronize() is not None)
        """
    )
    print(f"64 threads: over after {took * 1e3:.1f} ms")
    assert took < 1
    assert last == "True"


def test_ctrl_c_ends_a_barrier_that_waits_for_a_callable() -> None:
    took, last = interrupted(
        """
        go = threading.Event()
        engine.call(go.wait)
        print("blocked", flush=True)
        try:
            engine.barrier()
        except KeyboardInterrupt:
            print("caught", time.monotonic(), flush=True)
        go.set()
        print(engine.barrier())
        """
    )
    assert took < 1
    assert last == "True"


def test_a_handler_may_use_the_engine_while_its_thread_is_blocked() -> None:
    """And the wait goes on: it is the same grace period that ends it."""
    _, last = interrupted(
        """
        leave = stuck(engine)
        did = []
        def handler(*_):
            with engine.read_lock():
                did.append("read")
            done = rcu.CancelToken()
            threading.Timer(0.05, done.cancel).start()
            did.append(engine.synchronize(cancel=done))
            engine.call(did.append, "called")
            print("caught", time.monotonic(), flush=True)
            leave.set()
        signal.signal(signal.SIGUSR1, handler)
        print("blocked", flush=True)
        engine.call(did.append, "before")
        engine.barrier()
        engine.barrier()
        print(did)
        """,
        number=signal.SIGUSR1,
    )
    assert last == "['read', None, 'before', 'called']"


@pytest.mark.notebook
def test_interrupting_a_jupyter_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel")
    manager_of = pytest.importorskip("jupyter_client.manager").KernelManager
    kernels = tmp_path / "kernels" / "here"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],'
        ' "display_name": "here", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    manager = manager_of(kernel_name="here")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        ready = client.execute_interactive(
            BEGIN.format(preempt="full") + "leave = stuck(engine)\n", timeout=60, output_hook=lambda _: None
        )
        assert ready["content"]["status"] == "ok", ready
        client.execute(
            "try:\n    engine.synchronize()\nexcept KeyboardInterrupt:\n    caught = time.monotonic(); raise"
        )
        while client.get_iopub_msg(timeout=60)["msg_type"] != "execute_input":
            pass
        time.sleep(0.3)
        sent = time.monotonic()
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=60)
        took = time.monotonic() - sent
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        seen: list[str] = []
        client.execute_interactive(
            "print(caught)", timeout=60, output_hook=lambda m: seen.append(m["content"].get("text", ""))
        )
        raised = float("".join(seen)) - sent
        print(f"Jupyter: raised after {raised * 1e3:.1f} ms, traceback here after {took * 1e3:.1f} ms")
        # The rest is IPython formatting the traceback.
        assert raised < 1
        # The next cell finds the engine as good as before.
        again = client.execute_interactive(
            "leave.set(); assert engine.synchronize(); engine.close()", timeout=60, output_hook=lambda _: None
        )
        assert again["content"]["status"] == "ok", again
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# Fork


def test_a_forked_child_is_told_and_lives_on() -> None:
    done = run(
        """
        leave = stuck(engine)
        engine.call(print, "a callable of the parent, run by the parent")
        section = engine.read_lock()
        with section:
            child = os.fork()
        if child == 0:
            for use in (
                engine.synchronize, engine.synchronize_expedited, engine.barrier, engine.start_poll,
                engine.get_state, engine.quiescent, lambda: engine.call(int), lambda: engine.cpu_offline(1),
                lambda: engine.read_lock().__enter__(),
            ):
                try:
                    use()
                    print("no error")
                except rcu.RcuError as err:
                    assert "before this process was forked" in str(err), err
            print(engine.state, engine)
            engine.close()
            with rcu.Engine(rcu.Config(nr_cpus=2)) as own:
                own.call(print, "the child's own engine works")
                own.barrier()
            assert len(rcu.simulate(rcu.Config(), rcu.SyncFlood(calls=5)).latency_ns) == 5
            del engine, section
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        leave.set()
        engine.barrier()
        print(os.waitstatus_to_exitcode(status), engine.state)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "closed <Engine closed: it stayed with the process that opened it>",
        "the child's own engine works",
        "a callable of the parent, run by the parent",
        "7 open",
    ]


def test_a_child_of_multiprocessing_is_told() -> None:
    done = run(
        """
        import multiprocessing
        def work(number):
            try:
                return engine.synchronize()
            except rcu.MisuseError as err:
                return type(err).__name__
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(2)))
        print(engine.synchronize() is not None)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["['MisuseError', 'MisuseError']", "True"]


def test_forking_without_an_open_engine_works() -> None:
    done = run(
        """
        engine.synchronize()
        engine.close()
        child = os.fork()
        with rcu.Engine(rcu.Config(nr_cpus=2)) as own:
            own.call(print, "parent" if child else "child")
            own.barrier()
        sys.stdout.flush()
        if child:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["0", "child", "parent"]


# The interpreter's exit

ENDS = {
    "idle": "engine.synchronize()",
    "never used": "",
    "a reader stuck in a daemon thread": "leave = stuck(engine)",
    "callables behind a stuck reader": """
        leave = stuck(engine)
        for number in range(1000):
            engine.call(print, number)
    """,
    "daemon threads that wait behind a stuck reader": """
        def waits(call):
            try:
                call()
            except rcu.MisuseError:
                pass
        leave = stuck(engine)
        engine.call(int)
        for call in (engine.synchronize, engine.barrier, engine.synchronize_expedited) * 3:
            threading.Thread(target=waits, args=(call,), daemon=True).start()
        time.sleep(0.1)
    """,
    "the main thread inside a section": "section = engine.read_lock(); section.__enter__()",
    "three engines with a stuck reader each": """
        engines = [engine, rcu.Engine(), rcu.Engine()]
        leaves = [stuck(one) for one in engines]
    """,
    "a callable that never returns": """
        engine.call(threading.Event().wait)
        time.sleep(0.1)
    """,
    "an error": "engine.call(int); raise SystemExit(0)",
}


@pytest.mark.parametrize("preempt", ["full", "none"])
@pytest.mark.parametrize("what", ENDS)
def test_the_interpreter_exits_in_under_a_second(what: str, preempt: str) -> None:
    say_when = """
        import atexit
        atexit.register(lambda: print("exiting", time.monotonic(), flush=True))
    """
    done = run(textwrap.dedent(say_when) + textwrap.dedent(ENDS[what]), preempt)
    over = time.monotonic()
    assert (done.returncode, done.stderr) == (0, "")
    took = over - float(done.stdout.splitlines()[-1].removeprefix("exiting "))
    print(f"exit with {what}: {took * 1e3:.0f} ms")
    assert took < 1


def test_callables_that_wait_are_run_at_exit() -> None:
    done = run(
        """
        for number in range(1000):
            engine.call(print, number)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [str(number) for number in range(1000)]


def test_no_engine_is_opened_after_the_exit_has_closed_them() -> None:
    done = run(
        """
        import atexit
        def late():
            try:
                rcu.Engine()
            except rcu.MisuseError as err:
                print(err)
        # Handlers run newest first: this one has to come after the package's own.
        atexit.unregister(rcu._core._close_engines)
        atexit.register(late)
        atexit.register(rcu._core._close_engines)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the interpreter is exiting" in done.stdout


# Rest


def test_an_idle_engine_wakes_nobody() -> None:
    done = run(
        """
        from pathlib import Path
        def switches():
            sums = {}
            for task in Path("/proc/self/task").iterdir():
                name = (task / "comm").read_text().strip()
                if name.startswith("treercu-"):
                    lines = (task / "status").read_text().splitlines()
                    sums[name] = sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
            return sums
        for wait in (engine.synchronize, engine.synchronize_expedited):
            wait()
        engine.call(int)
        engine.barrier()
        with engine.read_lock():
            pass
        engine.synchronize()
        time.sleep(0.1)
        before = switches()
        time.sleep(1)
        assert len(before) == 4, before
        print({name: count - before[name] for name, count in switches().items()})
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(eval(done.stdout).values()) == {0}
