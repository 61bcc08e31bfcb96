"""Command lines of which what follows `--` is for another program."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

__all__ = ["passing_on"]


def passing_on(name: str) -> type[TyperCommand]:
    """The form of a command that finds what follows `--` in its context's `obj`; the help calls it `name`."""

    class Form(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
            ctx.obj = args[end + 1 :]
            return super().parse_args(ctx, args[:end])

        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return [*super().collect_usage_pieces(ctx), f"[-- {name}...]"]

    return Form
