"""`treercu.Engine`: sections, waits, callables, closing. `test_engine_life.py` has what needs a process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treercu as rcu

#: Generous: a loaded machine is slow, a call that does not answer takes for ever.
SOON_S = 5.0


def config(preempt: str = "full", **more: Any) -> rcu.Config:
    return rcu.Config(nr_cpus=2, hz=1000, preempt=preempt, **more)


@pytest.fixture(params=["full", "none"])
def engine(request: pytest.FixtureRequest) -> Iterator[rcu.Engine]:
    with rcu.Engine(config(request.param)) as engine:
        yield engine


@pytest.fixture
def full() -> Iterator[rcu.Engine]:
    with rcu.Engine(config()) as engine:
        yield engine


class Reader:
    """A thread that is inside a section until it is told to leave."""

    def __init__(self, engine: rcu.Engine) -> None:
        self._inside, self._leave = threading.Event(), threading.Event()
        self.left_at = 0.0
        self._thread = threading.Thread(target=self._run, args=(engine,), name="stuck-reader", daemon=True)

    def _run(self, engine: rcu.Engine) -> None:
        with engine.read_lock():
            self._inside.set()
            self._leave.wait()
            self.left_at = time.monotonic()

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(SOON_S)

    def __enter__(self) -> Reader:
        self._thread.start()
        assert self._inside.wait(SOON_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


def eventually(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.002)


# Opening and closing


def test_life() -> None:
    engine = rcu.Engine(config())
    assert engine.state == "open"
    with engine as same:
        assert same is engine
        assert engine.config.nr_cpus == 2
    assert engine.state == "closed"
    engine.close()
    for call in (
        engine.synchronize,
        engine.synchronize_expedited,
        engine.barrier,
        engine.start_poll,
        engine.get_state,
        engine.quiescent,
        lambda: engine.call(print),
        lambda: engine.cpu_offline(1),
        lambda: engine.read_lock().__enter__(),
        engine.__enter__,
    ):
        with pytest.raises(rcu.MisuseError, match="closed"):
            call()
    assert issubclass(rcu.MisuseError, (rcu.RcuError, RuntimeError))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fence": "iron"}, r"fence='iron': .*auto, membarrier, fallback"),
        ({"park": 3}, "park=3: not a word"),
        ({"timer": "sand"}, "wheel, hrtimer"),
        ({"gp_kthread_cpu": 7}, "gp_kthread_cpu=7: .*0 to 1"),
        ({"rcuc": "perhaps"}, "rcuc='perhaps'"),
        ({"trace": -1}, "trace=-1"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rcu.ConfigError, match=message):
        rcu.Engine(config(), **options)


def test_bad_arguments_are_named(full: rcu.Engine) -> None:
    for call, message in (
        (lambda: rcu.Engine("small"), "config='small'"),  # type: ignore[arg-type]
        (lambda: full.call(3), "f=3: not callable"),  # type: ignore[arg-type]
        (lambda: full.synchronize(cancel=1), "cancel=1: not a token"),  # type: ignore[arg-type]
        (lambda: full.poll_state("x"), "cookie='x'"),  # type: ignore[arg-type]
        (lambda: full.poll_state_full(3), "cookie=3: not a full cookie"),  # type: ignore[arg-type]
        (lambda: full.cpu_offline(9), "cpu=9"),
        (lambda: full.close("keep"), "remaining='keep': .*run, drop"),  # type: ignore[arg-type]
        (lambda: full.close(timeout=-1), "timeout=-1"),
    ):
        with pytest.raises(rcu.ConfigError, match=message):
            call()


@pytest.mark.parametrize(
    "options", [{"fence": "fallback", "park": "portable"}, {"timer": "hrtimer", "rcuc": True}]
)
def test_other_ways_to_run(options: dict[str, Any]) -> None:
    with rcu.Engine(config(), **options) as engine:
        if "park" in options:
            assert (engine.info["fence"], engine.info["park"]) == ("fallback", "portable")
        ran: list[int] = []
        engine.call(ran.append, 1)
        assert engine.barrier()
        assert ran == [1]
        with Reader(engine) as reader:
            threading.Timer(0.03, reader.leave).start()
            engine.synchronize()
            assert reader.left_at > 0


def test_closing_runs_or_drops_what_waits() -> None:
    for remaining, expected in (("run", 100), ("drop", 0)):
        engine = rcu.Engine(config())
        ran: list[int] = []

        class Owned:
            def __init__(self, ran: list[int]) -> None:
                self.ran = ran

        owned = Owned(ran)
        gone = weakref.ref(owned)
        with Reader(engine) as reader:
            for number in range(100):
                engine.call(lambda number, owned: owned.ran.append(number), number, owned)
            del owned
            threading.Timer(0.05, reader.leave).start()
            engine.close(remaining)  # type: ignore[arg-type]
        assert ran == list(range(expected))
        assert gone() is None


def test_closing_waits_for_readers_until_its_timeout_and_names_them() -> None:
    engine = rcu.Engine(config())
    ran: list[int] = []
    with Reader(engine):
        engine.call(ran.append, 1)
        began = time.monotonic()
        with pytest.raises(
            rcu.StallError, match="timeout=0.2: still inside a read-side section: stuck-reader"
        ):
            engine.close(timeout=0.2)
        assert 0.15 < time.monotonic() - began < SOON_S
        assert engine.state == "closed"
    assert ran == []


def test_a_second_close_returns_when_the_first_is_done() -> None:
    engine = rcu.Engine(config())
    running, go, done = threading.Event(), threading.Event(), []
    engine.call(lambda: (running.set(), go.wait(), done.append(True)))
    assert running.wait(SOON_S)
    first = threading.Thread(target=engine.close)
    first.start()
    eventually(lambda: engine.state != "open")
    with pytest.raises(
        rcu.HostError, match="another thread is closing the engine and is not done after timeout=0.05"
    ):
        engine.close(timeout=0.05)
    threading.Timer(0.05, go.set).start()
    engine.close()
    assert done == [True]
    assert engine.state == "closed"
    first.join(SOON_S)
    engine.close()


def test_closing_does_not_wait_for_ever_for_a_callable() -> None:
    engine = rcu.Engine(config())
    go, ran = threading.Event(), []
    engine.call(go.wait)
    engine.call(ran.append, 1)
    with pytest.raises(rcu.HostError, match="a callable is still running after timeout=0.2"):
        engine.close(timeout=0.2)
    assert engine.state == "closed"
    go.set()
    assert ran == []


def test_closing_where_it_would_wait_for_itself_is_refused(full: rcu.Engine) -> None:
    with full.read_lock(), pytest.raises(rcu.MisuseError, match="inside a read-side section"):
        full.close()
    caught: list[str] = []

    def callable_() -> None:
        try:
            full.close()
        except rcu.MisuseError as err:
            caught.append(str(err))

    full.call(callable_)
    full.barrier()
    assert "from a callable" in caught[0]
    assert full.state == "open"


def _dropped(work: Callable[[rcu.Engine], None] = lambda _: None) -> None:
    engine = rcu.Engine(config())
    work(engine)


def test_an_engine_that_is_dropped_warns_and_closes() -> None:
    ran: list[int] = []
    with pytest.warns(ResourceWarning, match=r"open treercu\.Engine was dropped"):
        _dropped(lambda engine: engine.call(ran.append, 1))
    assert ran == [1]
    assert not [name for name in threads() if name.startswith("treercu-")]


def test_the_finaliser_does_not_lock_up_with_the_dispatcher() -> None:
    """The engine dies in a garbage collection while its dispatcher wants the interpreter."""
    ran: list[int] = []

    def work(engine: rcu.Engine) -> None:
        cycle: list[Any] = [engine]
        cycle.append(cycle)
        for number in range(500):
            engine.call(lambda number: (time.sleep(0), ran.append(number)), number)

    _dropped(work)
    with pytest.warns(ResourceWarning):
        gc.collect()
    assert len(ran) == 500


def test_an_engine_may_die_in_its_own_callable() -> None:
    done = threading.Event()

    def work(engine: rcu.Engine) -> None:
        engine.call(lambda _engine: None, engine)
        engine.call(done.set)

    with warnings.catch_warnings():
        # On the dispatcher's thread, where no test catches it.
        warnings.simplefilter("ignore", ResourceWarning)
        _dropped(work)
        assert done.wait(SOON_S)
        eventually(lambda: not [name for name in threads() if name.startswith("treercu-")])


def threads() -> list[str]:
    found = []
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            found.append(task.read_text().strip())
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_a_thousand_engines_leave_nothing_behind() -> None:
    def rounds(count: int) -> None:
        for number in range(count):
            with rcu.Engine(config()) as engine:
                if number % 10 == 0:
                    engine.synchronize()
                if number % 50 == 0:
                    engine.call(int)

    def resident_kb() -> int:
        line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1])

    rounds(100)
    before = len(threads()), len(list(Path("/proc/self/fd").iterdir())), resident_kb()
    rounds(1000)
    after = len(threads()), len(list(Path("/proc/self/fd").iterdir())), resident_kb()
    print(f"1,000 engines: threads, files, KiB {before} -> {after}")
    assert after[0] == before[0]
    assert after[1] <= before[1] + 1
    # An engine of this size is about 100 KiB: leaking them would be 100 MiB.
    assert after[2] < before[2] + 10_000


# Waiting


def test_synchronize_gives_the_number_of_the_grace_period(engine: rcu.Engine) -> None:
    numbers = [engine.synchronize() for _ in range(3)]
    assert all(number is not None and number & 3 == 1 for number in numbers)
    assert numbers == sorted(numbers)  # type: ignore[type-var]
    assert engine.synchronize_expedited() is not None


def test_a_reader_is_waited_for_and_the_interpreter_is_free_meanwhile(engine: rcu.Engine) -> None:
    for wait in (engine.synchronize, engine.synchronize_expedited):
        with Reader(engine) as reader:
            threading.Timer(0.05, reader.leave).start()
            wait()
            assert 0 < reader.left_at <= time.monotonic()


def test_waiting_inside_a_section_is_refused(engine: rcu.Engine) -> None:
    token = rcu.CancelToken()
    with engine.read_lock():
        for call in (engine.synchronize, engine.synchronize_expedited, engine.barrier):
            with pytest.raises(rcu.MisuseError, match="inside a read-side section"):
                call(cancel=token)
        with engine.read_lock(), pytest.raises(rcu.MisuseError):
            engine.synchronize()
    engine.synchronize()


@pytest.mark.parametrize("wait", ["synchronize", "synchronize_expedited", "barrier"])
def test_a_token_ends_a_call(engine: rcu.Engine, wait: str) -> None:
    nothing = False if wait == "barrier" else None
    token = rcu.CancelToken()
    with Reader(engine) as reader:
        engine.call(int)
        threading.Timer(0.05, token.cancel).start()
        began = time.monotonic()
        assert getattr(engine, wait)(cancel=token) is nothing
        assert time.monotonic() - began < SOON_S
        # And one that is cancelled already ends it at once.
        assert getattr(engine, wait)(cancel=token) is nothing
        assert reader.left_at == 0
    assert getattr(engine, wait)(cancel=rcu.CancelToken()) is not nothing


def test_a_token_ends_a_barrier_that_waits_for_a_callable(full: rcu.Engine) -> None:
    go, token = threading.Event(), rcu.CancelToken()
    full.call(go.wait)
    threading.Timer(0.05, token.cancel).start()
    assert in_thread(lambda: full.barrier(cancel=token)) is False
    go.set()
    assert full.barrier() is True


def test_a_token_ends_a_pool_of_64_threads(full: rcu.Engine) -> None:
    token = rcu.CancelToken()

    def flood() -> int:
        calls = 0
        while full.synchronize(cancel=token) is not None:
            calls += 1
        return calls

    with ThreadPoolExecutor(64) as pool:
        floods = [pool.submit(flood) for _ in range(64)]
        eventually(lambda: full.attached == 64)
        with Reader(full):
            time.sleep(0.05)  # All are blocked behind the reader.
            began = time.monotonic()
            token.cancel()
            counts = [one.result(SOON_S) for one in floods]
            took = time.monotonic() - began
    print(f"64 threads cancelled in {took * 1e3:.1f} ms after {sum(counts)} calls")
    assert took < 1
    eventually(lambda: full.attached <= 1)
    assert full.synchronize() is not None


def test_two_floods_at_once() -> None:
    def flood() -> int:
        with rcu.Engine(config()) as engine, ThreadPoolExecutor(32) as pool:
            calls = pool.map(lambda _: engine.synchronize() is not None, range(640))
            return sum(calls)

    with ThreadPoolExecutor(2) as pool:
        assert [one.result(60) for one in [pool.submit(flood), pool.submit(flood)]] == [640, 640]


def test_cookies(engine: rcu.Engine) -> None:
    for start, poll, sync in (
        (engine.start_poll, engine.poll_state, engine.cond_sync),
        (engine.start_poll_full, engine.poll_state_full, engine.cond_sync_full),
    ):
        cookie: Any = start()
        eventually(lambda poll=poll, cookie=cookie: poll(cookie))  # type: ignore[misc]
        assert sync(cookie) is True
    plain, both = engine.get_state(), engine.get_state_full()
    assert not engine.poll_state(plain)
    assert not engine.poll_state_full(both)
    assert engine.cond_sync(plain)
    assert engine.poll_state(plain)
    assert engine.poll_state_full(both)
    done = rcu.CancelToken()
    done.cancel()
    assert engine.cond_sync(engine.get_state(), cancel=done) is False
    # Each kind of grace period is as good as the other.
    both = engine.get_state_full()
    engine.synchronize_expedited()
    assert engine.poll_state_full(both)


def test_preempt_none_waits_for_nobody_between_calls() -> None:
    """A thread that used the engine and does something else now owes nothing."""
    with rcu.Engine(config("none")) as engine:
        used, go = threading.Event(), threading.Event()

        def work() -> None:
            with engine.read_lock():
                engine.call(int)
            engine.synchronize()
            engine.quiescent()
            used.set()
            go.wait()

        thread = threading.Thread(target=work)
        thread.start()
        assert used.wait(SOON_S)
        assert engine.attached == 0
        engine.synchronize()
        go.set()
        thread.join()


def test_expedited_costs_less_than_a_microsecond_when_idle(full: rcu.Engine) -> None:
    """The whole call, the Rust call included."""
    best = float("inf")
    for _ in range(50):
        began = time.perf_counter_ns()
        for _ in range(200):
            full.synchronize_expedited()
        best = min(best, (time.perf_counter_ns() - began) / 200)
    print(f"synchronize_expedited() on an idle engine: {best:.0f} ns")
    assert best < 1000


# Callables


def test_callables_run_in_order_on_a_thread_of_their_own(engine: rcu.Engine) -> None:
    ran: list[tuple[int, int]] = []
    for number in range(300):
        queue = engine.call_hurry if number % 2 else engine.call
        queue(lambda number: ran.append((number, threading.get_ident())), number)
    assert engine.barrier() is True
    assert [number for number, _ in ran] == list(range(300))
    assert len({thread for _, thread in ran}) == 1
    assert ran[0][1] != threading.get_ident()


def test_a_callable_waits_for_readers(engine: rcu.Engine) -> None:
    ran: list[float] = []
    with Reader(engine) as reader:
        engine.call(lambda: ran.append(time.monotonic()))
        time.sleep(0.05)
        assert ran == []
        reader.leave()
        engine.barrier()
        assert ran[0] >= reader.left_at


def test_an_exception_is_reported_and_loses_no_other_callable(
    full: rcu.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    ran: list[int] = []

    def work(number: int) -> None:
        if number % 10 == 3:
            raise (KeyboardInterrupt if number == 13 else LookupError)(f"callable {number}")
        ran.append(number)

    for number in range(30):
        full.call(work, number)
    full.barrier()
    assert ran == [number for number in range(30) if number % 10 != 3]
    assert full.callback_errors == 3
    assert [(one.exc_type, str(one.exc_value)) for one in reported] == [
        (LookupError, "callable 3"),
        (KeyboardInterrupt, "callable 13"),
        (LookupError, "callable 23"),
    ]
    assert reported[0].object is work


def test_what_a_callable_may_do(engine: rcu.Engine) -> None:
    done: list[Any] = []

    def work() -> None:
        engine.call(done.append, "queued by a callable")
        done.append(engine.synchronize() is not None)
        with engine.read_lock():
            done.append("reading")
        try:
            engine.barrier()
        except rcu.MisuseError as err:
            done.append(str(err))

    engine.call(work)
    engine.barrier()
    engine.barrier()
    assert done[:2] == [True, "reading"]
    assert "from a callable" in done[2]
    assert done[3] == "queued by a callable"


def test_callables_from_many_threads_run_once(full: rcu.Engine) -> None:
    ran: list[int] = []
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: full.call(ran.append, number), range(2000)))
    full.barrier()
    assert sorted(ran) == list(range(2000))


# Sections


def test_sections_nest_and_are_reusable(engine: rcu.Engine) -> None:
    section = engine.read_lock()
    for _ in range(3):
        with section as same, engine.read_lock():
            assert same is section
            assert repr(section) == "<ReadSection open>"
            with pytest.raises(rcu.SectionError, match="open already"):
                section.__enter__()
    with pytest.raises(rcu.SectionError, match="not open"):
        section.__exit__(None, None, None)
    with pytest.raises(LookupError), engine.read_lock():
        raise LookupError
    engine.synchronize()
    assert issubclass(rcu.SectionError, (rcu.RcuError, RuntimeError))


def test_a_section_cannot_be_left_on_another_thread(engine: rcu.Engine) -> None:
    section = engine.read_lock()
    with section:
        with pytest.raises(rcu.SectionError, match="another thread"):
            in_thread(lambda: section.__exit__(None, None, None))
        cookie = engine.start_poll()
        time.sleep(0.03)
        assert not engine.poll_state(cookie), "the section is open still"
    engine.synchronize()


def test_a_section_cannot_be_left_before_a_younger_one(engine: rcu.Engine) -> None:
    older, younger = engine.read_lock(), engine.read_lock()
    older.__enter__()
    younger.__enter__()
    with pytest.raises(rcu.SectionError, match="ended before 1 that its thread opened later"):
        older.__exit__(None, None, None)
    younger.__exit__(None, None, None)
    engine.synchronize()


def test_a_section_that_is_dropped_ends(engine: rcu.Engine) -> None:
    def enter() -> rcu.ReadSection:
        return engine.read_lock().__enter__()

    with pytest.warns(ResourceWarning, match="dropped while it was open"):
        enter()
    engine.synchronize()

    # On another thread it is gone at its own thread's next call, or with that thread.
    begin, call, done = (threading.Event() for _ in range(3))
    held: list[rcu.ReadSection] = []

    def owner() -> None:
        held.append(enter())
        begin.set()
        call.wait()
        engine.start_poll()
        done.set()
        held.append(enter())

    thread = threading.Thread(target=owner)
    thread.start()
    assert begin.wait(SOON_S)
    with pytest.warns(ResourceWarning, match="on another thread"):
        held.clear()
    call.set()
    assert done.wait(SOON_S)
    thread.join()
    engine.synchronize()
    with pytest.warns(ResourceWarning):
        held.clear()


def test_a_section_across_a_yield_is_refused(engine: rcu.Engine) -> None:
    def reader() -> Iterator[int]:
        with engine.read_lock():
            yield 1

    def deep(flag: bool) -> Iterator[int]:
        for _ in range(2):
            with contextlib.suppress(ValueError), engine.read_lock():
                try:
                    if flag:
                        raise KeyError
                except KeyError:
                    yield 2
                finally:
                    pass

    @contextlib.contextmanager
    def helper() -> Iterator[None]:
        with engine.read_lock():
            yield

    def delegates() -> Iterator[int]:
        with engine.read_lock():
            yield from range(3)

    def by_stack() -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(engine.read_lock())
            yield 1

    def by_hand() -> Iterator[int]:
        section = engine.read_lock()
        with contextlib.suppress(ZeroDivisionError):
            section.__enter__()
        yield 1

    for generator in (reader(), deep(True), deep(False), delegates(), by_stack(), by_hand()):
        with pytest.raises(rcu.SectionError, match="plain function"):
            next(generator)
    with pytest.raises(rcu.SectionError, match="helper has a yield or an await inside"), helper():
        pass
    # Nothing stayed open.
    engine.synchronize()


def test_a_section_in_a_generator_without_a_yield_inside_is_fine(engine: rcu.Engine) -> None:
    def values() -> Iterator[int]:
        yield 0
        with engine.read_lock():
            value = sum(x for x in range(3))
        yield value
        for number in range(2):
            try:
                with engine.read_lock() as section, engine.read_lock():
                    if number:
                        raise ValueError
                    assert section
                yield 4
            except ValueError:
                yield 5
        with engine.read_lock():
            return

    assert list(values()) == [0, 3, 4, 5]

    def plain() -> int:
        with contextlib.ExitStack() as stack:
            stack.enter_context(engine.read_lock())
            return 6

    assert plain() == 6
    engine.synchronize()


def test_a_section_across_an_await_is_refused(engine: rcu.Engine) -> None:
    async def reader() -> None:
        with engine.read_lock():
            await asyncio.sleep(0)

    async def by_stack() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(engine.read_lock())
            await asyncio.sleep(0)

    async def in_loop() -> None:
        with engine.read_lock():
            async for _ in numbers():
                pass

    async def numbers() -> AsyncIterator[int]:
        yield 1

    async def generator() -> AsyncIterator[int]:
        with engine.read_lock():
            yield 1

    async def drive() -> None:
        async for _ in generator():
            pass

    for coroutine in (reader, by_stack, in_loop, drive):
        with pytest.raises(rcu.SectionError, match="plain function"):
            asyncio.run(coroutine())

    async def fine() -> int:
        await asyncio.sleep(0)
        with engine.read_lock():
            value = 7
        await asyncio.to_thread(engine.synchronize)
        return value

    async def several() -> list[int]:
        return await asyncio.gather(*(fine() for _ in range(5)))

    assert asyncio.run(several()) == [7] * 5
    engine.synchronize()


def test_a_suspended_generator_that_is_dropped_leaves_no_section_open(engine: rcu.Engine) -> None:
    """The section is entered where nobody can see that it crosses a yield."""

    def enter(stack: contextlib.ExitStack) -> None:
        stack.enter_context(engine.read_lock())

    def reader() -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            enter(stack)
            yield 1

    first = reader()
    next(first)
    with pytest.raises(rcu.MisuseError, match="inside a read-side section"):
        engine.synchronize()
    del first
    engine.synchronize()
    # Two that are resumed by turns end out of order.
    first, second = reader(), reader()
    next(first)
    next(second)
    with pytest.raises(rcu.SectionError, match="opened later"):
        next(first, None)
    next(second, None)
    engine.synchronize()


# Looking at it


def test_hotplug(engine: rcu.Engine) -> None:
    assert engine.online_cpus == [0, 1]
    engine.cpu_offline(1)
    assert engine.online_cpus == [0]
    engine.synchronize()
    with pytest.raises(rcu.ConfigError, match="the last online virtual CPU"):
        engine.cpu_offline(0)
    with pytest.raises(rcu.ConfigError, match="not offline"):
        engine.cpu_online(0)
    engine.cpu_online(1)
    assert engine.online_cpus == [0, 1]


def test_hotplug_inside_a_section_is_refused(engine: rcu.Engine) -> None:
    refused = pytest.raises(rcu.MisuseError, match="cpu_offline: called inside a read-side section")
    with engine.read_lock(), refused:
        engine.cpu_offline(1)
    assert engine.online_cpus == [0, 1]


def test_hotplug_can_be_given_up() -> None:
    with rcu.Engine(config("none")) as engine, Reader(engine):
        token = rcu.CancelToken()
        timer = threading.Timer(0.2, token.cancel)
        timer.start()
        began = time.monotonic()
        # The reader is on one of the two, which has to wait for it.
        gone = [
            cpu for cpu in (0, 1) if engine.cpu_offline(cpu, cancel=token) and engine.cpu_online(cpu) is None
        ]
        assert len(gone) < 2
        assert time.monotonic() - began < 4
        assert engine.online_cpus == [0, 1]
        timer.join()


def test_the_repr_says_what_it_is_doing(full: rcu.Engine) -> None:
    assert repr(full) == (
        "<Engine open: 2 vCPUs, hz=1000, no grace period in progress, "
        "0 threads attached, 0 callbacks pending>"
    )
    with Reader(full):
        for _ in range(17):
            full.call(int)
        eventually(lambda: "blocked reader" in repr(full))
        text = repr(full)
        assert text.startswith("<Engine open: 2 vCPUs, hz=1000, grace period -1")
        assert text.endswith(" waiting for 1 blocked reader, 2 threads attached, 17 callbacks pending>")
    full.close()
    assert repr(full) == "<Engine closed: 2 vCPUs, hz=1000>"


def test_the_snapshot_is_plain_data_under_the_kernels_names(full: rcu.Engine) -> None:
    with Reader(full):
        full.start_poll()
        eventually(lambda: bool(full.snapshot()["rcu_node"][0]["gp_tasks"]))
        snapshot = full.snapshot()
        assert json.loads(json.dumps(snapshot)) == snapshot
        assert snapshot["gp_seq"] == full.gp_seq
        assert snapshot["gp_seq"] & 3 == 1
        assert snapshot["gp_state"] in ("RCU_GP_WAIT_FQS", "RCU_GP_DOING_FQS")
        node = snapshot["rcu_node"][0]
        assert (node["grplo"], node["grphi"], node["parent"], node["qsmaskinit"]) == (0, 1, None, 3)
        assert [cpu["cpu"] for cpu in snapshot["rcu_data"]] == [0, 1]
        assert snapshot["rcu_data"][0]["cpu_no_qs"].keys() == {"norm", "exp"}


def test_records_counters_and_traces() -> None:
    with rcu.Engine(config(), trace=1000) as engine:
        for _ in range(5):
            engine.synchronize()
        records = engine.grace_periods()
        assert set(records) == set(rcu.simulate(config(), rcu.SyncFlood(calls=1)).grace_periods)
        assert len(records["gp_seq"]) >= 5
        assert np.all(np.diff(records["gp_seq"]) == 4)
        assert np.all(records["end_ns"] > records["start_ns"])
        assert records["requests"].sum() == 5
        assert records.to_pandas()["resolved_by"].dtype == "category"
        assert len(engine.grace_periods(clear=True)["gp_seq"]) >= 5
        assert len(engine.grace_periods()["gp_seq"]) <= 1
        counters = engine.counters()
        assert counters["grace_periods"] >= 5
        assert counters["direct_wakes"] == 5
        assert engine.info["hz"] == 1000
        assert engine.info["fence"] in ("membarrier", "fallback")
        assert engine.stalls() == []
        trace = engine.take_trace()
        assert trace is not None
        assert "rcu_grace_period: rcu_preempt" in trace.to_ftrace()
    with rcu.Engine(config()) as engine:
        assert engine.take_trace() is None


def test_a_stall_names_the_thread() -> None:
    # 3 s is the shortest that the kernel takes.
    with rcu.Engine(config(rcu_cpu_stall_timeout=3)) as engine, Reader(engine):
        cookie = engine.start_poll()
        eventually(lambda: bool(engine.stalls()))
        assert not engine.poll_state(cookie)
        assert "stuck-reader" in engine.stalls()[0]
