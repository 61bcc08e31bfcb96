"""Properties that are computed once, and by no two instances in turns."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kernelworks_server.once import once


@dataclass(frozen=True)
class Request:
    """Two of them meet at the barrier only if neither waits for the other to be done."""

    barrier: threading.Barrier
    computed: list[int]

    @once
    def answer(self) -> int:
        """What the barrier says."""
        self.computed.append(self.barrier.wait(timeout=30))
        return len(self.computed)


def test_two_instances_compute_at_the_same_time() -> None:
    barrier = threading.Barrier(2)
    requests = [Request(barrier, []) for _ in range(2)]
    threads = [threading.Thread(target=lambda request=request: request.answer) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken


def test_an_instance_computes_once() -> None:
    request = Request(threading.Barrier(1), [])
    assert (request.answer, request.answer, request.computed) == (1, 1, [0])


def test_a_class_shows_the_property_itself() -> None:
    assert Request.answer.__doc__ == "What the barrier says."
