"""Runs jobs here, in processes of this machine, or wherever a user says.

| code | what is wrong |
| --- | --- |
| B266 | an executor cannot be reached, or what it takes is not installed |
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Generic, TypeVar

from byocir.errors import ByocirError

DASK = "dask://"

Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def executor_of(jobs: int, address: str) -> Generator[Executor | None]:
    """Makes the executor that does so many jobs at once, or that of a Dask cluster at
    `dask://HOST:PORT`; None to do one job after the other in this process. Raises ByocirError B266.
    """
    if address:
        with _dask(address) as executor:
            yield executor
    elif jobs < 2:
        yield None
    else:
        fork = "fork" if hasattr(os, "fork") else None  # a fork knows the targets of this process
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context(fork), _follow, (os.getpid(),))
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _follow(parent: int) -> None:
    """Makes a process that judges end with the one that waits for it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _dask(address: str) -> Generator[Executor]:
    if not address.startswith(DASK):
        raise ByocirError("B266", f"expected an executor as {DASK}HOST:PORT, found '{address}'")
    try:
        from distributed import Client
    except ImportError:
        raise ByocirError(
            "B266", "dask is not installed", help="pip install 'byocir[dask]'"
        ) from None
    try:
        client: Any = Client(f"tcp://{address.removeprefix(DASK)}", timeout="10s")
    except (OSError, ValueError) as error:
        raise ByocirError(
            "B266", f"expected a dask scheduler, found none: {error}", where=address
        ) from None
    try:
        yield client.get_executor()
    finally:
        with suppress(Exception):  # the cluster may be gone
            client.close(timeout=2)


@dataclass
class JobQueue(Generic[Given, Made]):
    """Has an executor do jobs until a time is over; where the executor fails, this process does the
    jobs that are left. `made` makes a result of its fields, as some executors send tuples.
    """

    do: Callable[[Given], Made]
    made: Callable[..., Made]
    executor: Executor | None = None
    until: float = float("inf")
    tell: Callable[[str], None] = field(default=print)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def outcomes(self, jobs: Sequence[Given]) -> Iterator[tuple[int, Made]]:
        """Yields the outcome of each job with the job's position; jobs for which the time does not
        suffice have none.
        """
        futures = self._submitted(jobs)
        for i, job in enumerate(jobs):
            found = self._result(futures[i]) if i < len(futures) else None
            if found is None and not self.is_over:
                found = self.do(job)
            if found is not None:
                yield i, found

    def _submitted(self, jobs: Sequence[Given]) -> list[Future[Any]]:
        if self.executor is None:
            return []
        futures: list[Future[Any]] = []
        try:
            futures += [self.executor.submit(self.do, job) for job in jobs]
        except Exception as error:
            self._give_up(error)
        return futures

    def _result(self, future: Future[Any]) -> Made | None:
        if self.is_over:
            future.cancel()
        if self.executor is None or future.cancelled():
            done = future.done() and not future.cancelled() and future.exception() is None
            return self.made(*future.result()) if done else None
        try:
            left = None if self.until == float("inf") else max(self.until - time.monotonic(), 0)
            return self.made(*future.result(left))
        except TimeoutError:
            return None
        except Exception as error:
            self._give_up(error)
            return None

    def _give_up(self, error: Exception) -> None:
        """Goes on without the executor; a job that fails by itself shows that when it is done
        here.
        """
        if self.executor is not None:
            found = f"{type(error).__name__}: {error}".rstrip(": ")
            self.tell(f"the executor failed ({found}): its work is done again in this process")
        self.executor = None
