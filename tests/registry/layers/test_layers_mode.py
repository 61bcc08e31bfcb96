from __future__ import annotations

from typing import Any

import pytest

from kernelworks import Mode, UsageError
from kernelworks.layers.mode import check_registered, serving

INFERENCE, TRAINING, COMPILE, FALLBACK = Mode.INFERENCE, Mode.TRAINING, Mode.TORCH_COMPILE, Mode.FALLBACK


@pytest.mark.parametrize(
    ("mode", "order"),
    [
        (INFERENCE, [INFERENCE, INFERENCE | COMPILE, TRAINING, TRAINING | COMPILE, FALLBACK]),
        (INFERENCE | COMPILE, [INFERENCE | COMPILE, TRAINING | COMPILE, FALLBACK]),
        (TRAINING, [TRAINING, TRAINING | COMPILE, FALLBACK]),
        (TRAINING | COMPILE, [TRAINING | COMPILE, FALLBACK]),
    ],
)
def test_a_mode_is_served_by_what_can_do_at_least_as_much(mode: Mode, order: list[Mode]) -> None:
    assert list(serving(mode)) == order


def test_training_and_inference_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="mutually exclusive"):
        TRAINING | INFERENCE
    with pytest.raises(UsageError, match="mutually exclusive"):
        TRAINING | COMPILE | INFERENCE


def test_fallback_stands_alone() -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        FALLBACK | INFERENCE
    assert (FALLBACK | FALLBACK) == FALLBACK


@pytest.mark.parametrize("mode", [FALLBACK, COMPILE, "INFERENCE", None])
def test_a_model_is_used_for_training_or_for_inference(mode: Any) -> None:
    with pytest.raises(UsageError, match=r"must contain Mode\.INFERENCE or Mode\.TRAINING"):
        serving(mode)


@pytest.mark.parametrize("mode", [COMPILE, "TRAINING", Mode(0)])
def test_a_registration_that_nothing_looks_up_is_refused(mode: Any) -> None:
    with pytest.raises(UsageError, match="cannot be registered"):
        check_registered(mode)


def test_a_mode_is_spelled_as_it_is_written() -> None:
    assert str(TRAINING | COMPILE) == "TRAINING|TORCH_COMPILE"
