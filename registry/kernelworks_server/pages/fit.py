"""What a machine would get: its `doctor` report against every variant, judged as the loader judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelworks.compat import Verdict
from kernelworks.errors import RepositoryError
from kernelworks.host import HostEnv
from kernelworks.model.decode import parse_json
from kernelworks.model.variant import Variant
from kernelworks.resolve import chosen, weigh
from kernelworks_server.errors import Unprocessable

__all__ = ["REPORT_LIMIT", "Fit", "fit", "read_report"]

REPORT_LIMIT = 64 << 10
_NAME = "the report"


@dataclass(frozen=True)
class Fit:
    """The machine, the backend that it is asked for, the variant that it gets, and the verdict on every variant."""

    host: HostEnv
    backend: str
    taken: Variant | None
    verdicts: tuple[Verdict, ...]


def read_report(text: str) -> HostEnv:
    """The process that the output of `kernelworks doctor --json` describes.

    Raises:
        Unprocessable: It is not such an output, or the process is one that cannot be.
    """
    hint = "paste all that `kernelworks doctor --json` prints"
    if not text.strip():
        raise Unprocessable(f"{_NAME} is empty", hint=hint)
    if len(text) > REPORT_LIMIT:
        raise Unprocessable(
            f"{_NAME} has {len(text)} characters, and no report has more than {REPORT_LIMIT}", hint=hint
        )
    try:
        return HostEnv.from_json(parse_json(text.encode(errors="surrogatepass"), _NAME).get("host"))
    except RepositoryError as error:
        raise Unprocessable(error.message, hint=hint) from error


def fit(variants: Sequence[Variant], host: HostEnv, backend: str | None) -> Fit:
    """The verdicts on `variants` for this machine, the best first; of the default backend where none is named."""
    verdicts = weigh(variants, host, backend)
    return Fit(host, backend or host.default_backend, chosen(verdicts), verdicts)
