"""How --help writes the options of every program: one style of metavariables, flags as flags, bounds in words."""

import copy
import functools
import inspect
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any

from typer.core import TyperCommand
from typer.models import ArgumentInfo, OptionInfo

from ortho_ref.boundary import short
from ortho_ref.task import check_choice

#: What stands for a value whose option has no word of its own; a flag takes none.
METAVARS: dict[Any, str] = {bool: "", int: "N", float: "X", Path: "PATH", str: "TEXT"}


#: What an option takes that is a number.
NUMBERS: dict[Any, str] = {int: "an integer", float: "a number"}


class Command(TyperCommand):
    """A program's command: its own --help is a flag as the others are, and its arguments are words without a type."""

    #: Whether the page is being written.
    _writing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The page."""
        self._writing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._writing = False

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options; on the page a switch is one word, --[no-]tied, as a column more leaves no room."""
        params: list[Any] = super().get_params(ctx)
        if self._writing:
            params = [_as_one_word(param) for param in params]
        for param in params:
            if param.param_type_name == "argument":  # typer from 0.26 on has a type beside an argument's metavar
                param.display_type_rich = lambda ctx: None
        return params

    def get_help_option(self, ctx: Any) -> Any:
        """The --help option."""
        if (option := super().get_help_option(ctx)) is not None:
            option.metavar = ""
        return option


def _as_one_word(param: Any) -> Any:
    """An option of which a switch and its opposite are written together."""
    (on, *rest), off = param.opts, param.secondary_opts
    if rest or off != [f"--no-{on.removeprefix('--')}"]:
        return param
    param = copy.copy(param)
    param.opts, param.secondary_opts = [f"--[no-]{on.removeprefix('--')}"], []
    return param


def in_one_style(main: Callable[..., Any], fail: Callable[[str], object]) -> Callable[..., Any]:
    """A program's function with its options in the style of all.

    Parameters
    ----------
    main : Callable
        Its signature is the command line.
    fail : Callable
        Ends the program with a line, where a number is out of bounds.

    Returns
    -------
    Callable
        The same, with another signature.
    """
    hints = typing.get_type_hints(main, include_extras=True)
    parameters = []
    for parameter in inspect.signature(main).parameters.values():
        kind, info = typing.get_args(hints[parameter.name])[:2]
        own = _styled(parameter, kind, copy.copy(info), fail)
        parameters.append(parameter.replace(annotation=Annotated[str if _is_choice(kind) else kind, own]))
    styled = functools.wraps(main)(lambda **values: main(**values))
    styled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    styled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return styled


def _styled(parameter: inspect.Parameter, kind: Any, info: Any, fail: Callable[[str], object]) -> Any:
    value = _kind_of(kind)
    if info.metavar is None:
        info.metavar = parameter.name.upper() if isinstance(info, ArgumentInfo) else METAVARS[value]
    if value is bool and isinstance(info, OptionInfo) and info.default is ...:
        info.default = f"--{parameter.name.replace('_', '-')}"  # in Annotated that is where typer has the first flag
    if value in NUMBERS and info.parser is None:
        info.parser = _number(parameter.name, value, fail)
    if info.min is not None or info.max is not None:
        allowed = f"{info.min:g} to {info.max:g}" if info.max is not None else f"{info.min:g} or more"
        info.help, info.callback = f"{info.help} Allowed: {allowed}.", _bounds(parameter.name, info, allowed, fail)
        info.min = info.max = None
    if _is_choice(kind):
        words = [str(word) for word in kind]
        info.help, info.callback = (
            f"{info.help} Allowed: {', '.join(words)}.",
            _choice(parameter.name, kind, words, fail),
        )
    return info


def _number(name: str, kind: Callable[[str], Any], fail: Callable[[str], object]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            return fail(f"{name.replace('_', '-')} is {short(text)}; allowed: {NUMBERS[kind]}")

    return parse


def _bounds(name: str, info: Any, allowed: str, fail: Callable[[str], object]) -> Callable[[Any], Any]:
    least, most = info.min, info.max

    def check(value: Any) -> Any:
        if value is not None and not (least <= value and (most is None or value <= most)):
            fail(f"{name.replace('_', '-')} is {value}; allowed: {allowed}")
        return value

    return check


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _choice(name: str, kind: Any, words: list[str], fail: Callable[[str], object]) -> Callable[[Any], Any]:
    def check(value: str) -> Any:
        try:
            check_choice(name, value, words)
        except ValueError as error:
            fail(str(error))
        return kind(value)

    return check


def _kind_of(annotation: Any) -> Any:
    """The type of one value."""
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        (annotation,) = (own for own in typing.get_args(annotation) if own is not type(None))
    if typing.get_origin(annotation) is list:
        (annotation,) = typing.get_args(annotation)
    return str if _is_choice(annotation) else annotation
