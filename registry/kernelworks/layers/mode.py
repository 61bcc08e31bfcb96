"""What a model is kernelized for, and which registrations serve that, the best first."""

from __future__ import annotations

from enum import Flag, auto

from kernelworks.errors import UsageError

__all__ = ["Mode", "check_registered", "serving"]


class Mode(Flag):
    """What layers are used for; `|` combines TORCH_COMPILE with one of TRAINING and INFERENCE.

    Attributes:
        FALLBACK: For mappings only, and alone: the kernel to take where no other registration serves.
        TRAINING: Forward and backward.
        INFERENCE: Forward only.
        TORCH_COMPILE: Under `torch.compile`.
    """

    FALLBACK = auto()
    TRAINING = auto()
    INFERENCE = auto()
    TORCH_COMPILE = auto()

    def __or__(self, other: Mode) -> Mode:
        union = super().__or__(other)
        if Mode.INFERENCE in union and Mode.TRAINING in union:
            raise UsageError("Mode.INFERENCE and Mode.TRAINING are mutually exclusive", hint="training includes both")
        if Mode.FALLBACK in union and union != Mode.FALLBACK:
            raise UsageError("Mode.FALLBACK cannot be combined with other modes")
        return union

    def __str__(self) -> str:
        return "|".join(str(member.name) for member in Mode if member in self)


_TRAINING_COMPILED = Mode.TRAINING | Mode.TORCH_COMPILE
_INFERENCE_COMPILED = Mode.INFERENCE | Mode.TORCH_COMPILE

_SERVING = {
    Mode.INFERENCE: (Mode.INFERENCE, _INFERENCE_COMPILED, Mode.TRAINING, _TRAINING_COMPILED, Mode.FALLBACK),
    _INFERENCE_COMPILED: (_INFERENCE_COMPILED, _TRAINING_COMPILED, Mode.FALLBACK),
    Mode.TRAINING: (Mode.TRAINING, _TRAINING_COMPILED, Mode.FALLBACK),
    _TRAINING_COMPILED: (_TRAINING_COMPILED, Mode.FALLBACK),
}


def serving(mode: Mode) -> tuple[Mode, ...]:
    """The modes whose registration serves `mode`, the best first.

    Raises:
        UsageError: `mode` says neither TRAINING nor INFERENCE.
    """
    if mode not in _SERVING:
        raise UsageError(f"mode must contain Mode.INFERENCE or Mode.TRAINING, not {_spelled(mode)}")
    return _SERVING[mode]


def check_registered(mode: object) -> None:
    """Refuse a key of a mapping that nothing would ever look up.

    Raises:
        UsageError: It is one.
    """
    if mode not in _SERVING and mode != Mode.FALLBACK:
        raise UsageError(
            f"a kernel cannot be registered for {_spelled(mode)}",
            hint=f"register for one of: {', '.join(map(str, (*_SERVING, Mode.FALLBACK)))}",
        )


def _spelled(mode: object) -> str:
    return f"Mode.{mode}" if isinstance(mode, Mode) else f"`{mode!r}`"
