"""Command line: ortho-ref check, run, map, new, list, mistakes, show, export, badge, cite.

As python -m ortho_ref.conformance too, where the wheel's command is not on the path.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from msgspec import structs

import ortho_ref
from ortho_ref import interrupts as starting
from ortho_ref.boundary import nearest, not_among
from ortho_ref.conformance.cases.case import DTYPES, HALF, Vector
from ortho_ref.conformance.cases.case_files import find, select
from ortho_ref.conformance.cases.export import export
from ortho_ref.conformance.cases.forward import has_forward
from ortho_ref.conformance.maps import command as map_command
from ortho_ref.conformance.maps.adapter import load_map
from ortho_ref.conformance.report import Report, Result
from ortho_ref.conformance.running.adapters import load_adapter
from ortho_ref.conformance.running.apart import TIMEOUT, Apart
from ortho_ref.conformance.running.implementation import Run
from ortho_ref.conformance.running.origin import Origin, sha256_of
from ortho_ref.conformance.running.programs import check_timeout, command_adapter
from ortho_ref.conformance.running.runner import check
from ortho_ref.conformance.stored import badge, read_baseline, read_report, worse
from ortho_ref.conformance.written import check_places, write
from ortho_ref.terminal import STDERR, STDOUT, cut, open_standard_streams, shown, shown_lines

NAME = "python -m ortho_ref.conformance"
#: What `new` writes for -> how it is called.
_NAMES = {"torch": "PyTorch", "jax": "JAX", "keras": "Keras", "flax": "Flax", "equinox": "Equinox", "function": "NumPy"}


def parser(name: str = NAME) -> argparse.ArgumentParser:
    """The arguments of every command of a program called `name`."""
    top = _Parser(prog=name, description="Check an implementation of orthogonal and gated RNNs.")
    top.add_argument("--version", action="version", version=f"ortho_ref {ortho_ref.__version__}")
    commands = top.add_subparsers(dest="does", required=True)

    def command(name: str, handler: Callable[[argparse.Namespace], int | None], help: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=help)
        added.set_defaults(handler=handler)
        return added

    checked = command("check", _run, "run an adapter over the cases: `run --adapter`")
    checked.add_argument("adapter", metavar="FILE.py|package.module", help="a module with run(case)")
    checked.set_defaults(command=None)
    _add_run(checked)
    run = command("run", _run, "run an implementation over the cases")
    whose = run.add_mutually_exclusive_group(required=True)
    whose.add_argument("--adapter", metavar="FILE.py|package.module", help="a module with run(case)")
    whose.add_argument("--command", metavar="'PROGRAM {input} {output}'", help="a program, run per case")
    _add_run(run)
    map_command.add_arguments(command("map", _map, map_command.HELP))
    new = command("new", _new, "an adapter to begin from: a cell that is right, to put yours in")
    frame = new.add_mutually_exclusive_group(required=True)
    for option, means in _NAMES.items():
        linear = ", or a linear recurrence" if option in ("torch", "jax") else ""
        frame.add_argument(f"--{option}", metavar="CELL", help=f"in {means}: a cell's or model's name{linear}")
    new.add_argument("--out", type=Path, metavar="FILE.py", help="where to; not over an existing file")
    _add_only(command("list", _list, "the names of the cases"))
    _add_only(command("mistakes", _mistakes, "the mistakes that the kit names, and the cases that show each"))
    case = command("show", _show, "one case: config, shapes, equations, mistakes it shows")
    case.add_argument("case", metavar="CASE", help="its name, as `list` has it")
    exported = command("export", _export, "every case as files, for languages without Python")
    exported.add_argument("folder", type=Path, metavar="DIR", help="where to")
    _add_only(exported)
    exported.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="of the inputs (default: float64)")
    exported.add_argument("--onnx", action="store_true", help="as ONNX's node tests, those that its operators can be")
    drawn = command("badge", _badge, "a badge of a report: what shields.io draws one from")
    drawn.add_argument("report", type=Path, metavar="REPORT.json", help="of `run --report`")
    drawn.add_argument("out", type=Path, metavar="OUT.json", help="where to")
    drawn.add_argument("--label", metavar="TEXT", default="conformance", help="what stands on the left")
    command("cite", _cite, "how to cite this, and the papers whose equations you use: CITATION.cff")
    commands.metavar = " | ".join(commands.choices)
    return top


def _add_only(command: argparse.ArgumentParser) -> None:
    many = "cases whose names fit, as 'cell/lstm*'; again for more"
    command.add_argument("--only", action="append", metavar="PATTERN", help=many)


def _add_run(run: argparse.ArgumentParser) -> None:
    """What `check` and `run` take besides what they run."""
    _add_only(run)
    run.add_argument("--dtype", choices=(*DTYPES, *HALF), default=DTYPES[0], help="of the inputs (default: float64)")
    run.add_argument("--forward", action="store_true", help="judge the forward pass alone; also in float16, bfloat16")
    run.add_argument("--allow-partial", action="store_true", help="let cases with outputs missing pass")
    run.add_argument("--assume", metavar="NAME,NAME|FILE", help="known departures, by the names that `mistakes` lists")
    run.add_argument("--verbose", action="store_true", help="print the first and the worst wrong entries")
    run.add_argument("--report", type=Path, metavar="OUT.json", help="write the report as JSON")
    run.add_argument("--baseline", type=Path, metavar="REPORT.json", help="what passed there has to pass")
    run.add_argument("--timeout", type=float, metavar="SECONDS", help="for each case (default: 60, of --command 10)")
    run.add_argument("--in-process", action="store_true", help="run an adapter in the kit's own process, to debug it")


class _Parser(argparse.ArgumentParser):
    """What it says holds what was given and which name is near; what takes one value cannot be given again."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", None, _Once)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; but before anything else, what else may be missing among it, an option that there is not is said."""
        words = list(sys.argv[1:] if args is None else args)
        own = takewhile(lambda word: word[:1] == "-", words) if self._subparsers else words
        for word in takewhile(lambda word: word != "--", own):
            option = word.partition("=")[0]
            known = any(own.startswith(option) for own in self._option_string_actions)  # or begun
            if option[:2] == "--" and " " not in word and not known:
                near = nearest(option, [own for own in self._option_string_actions if own != "--help"])
                self.error(f"there is no option {shown(option)}{near}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            called = "command" if action.dest == "does" else (action.option_strings or [action.dest])[0].lstrip("-")
            self.error(not_among(called, value, action.choices, str))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type is not float:
                raise
            self.error(f"{action.option_strings[0].lstrip('-')} is {arg_string!r}; allowed: a number")

    def error(self, message: str) -> NoReturn:
        STDERR.say(f"error: {shown(message)}; {self.prog} --help says what is allowed")
        sys.exit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        stream = STDERR if file is None or file is sys.stderr else STDOUT
        stream.write(message)
        stream.flush()


class _Once(argparse.Action):
    """A value that would be forgotten where another is given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        before = namespace.__dict__.setdefault("_given", set())
        if option is not None and self.dest in before:
            parser.error(f"{option} is given twice")
        before.add(self.dest)
        setattr(namespace, self.dest, values)


def main(arguments: Sequence[str] | None = None, name: str = NAME) -> int:
    """Run one command, for a program of this name; its exit code: of `run` 1 where not `ok`, 130 or 143 after a signal.

    SystemExit with code 2 where the command line makes no sense, or a file or folder cannot be read or written.
    """
    starting.loaded()
    open_standard_streams()
    given = parser(name).parse_args(arguments)
    try:
        code: int | None = given.handler(given)
        return code or 0
    except KeyboardInterrupt as end:
        STDERR.say("interrupted")
        return _code_of(end)
    except (ValueError, OSError) as error:
        STDERR.say(f"error: {shown(error)}")
        sys.exit(2)


def _run(given: argparse.Namespace) -> int:
    chosen = select(given.only)
    _check_limits(given)
    if given.dtype in HALF and not given.forward:
        raise ValueError(f"--dtype {given.dtype} is of forward passes; give --forward too")
    if given.forward:
        chosen = [vector for vector in chosen if has_forward(vector, given.dtype)]
    baseline = {} if given.baseline is None else read_baseline(given.baseline, given.dtype, given.forward)
    check_places({"--report": given.report})
    with _terminated() as stack:
        return _run_of(_implementation(given, stack), chosen, baseline, given)


def _map(given: argparse.Namespace) -> int:
    _check_limits(given)
    with _terminated() as stack:
        return map_command.run(given, lambda: _implementation(given, stack, "map"))


@contextlib.contextmanager
def _terminated() -> Iterator[contextlib.ExitStack]:
    """Within, SIGTERM ends what is run, with the stack."""
    with contextlib.ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _terminate))
        yield stack


def _check_limits(given: argparse.Namespace) -> None:
    """Those that are allowed, and those alone that somebody keeps."""
    if given.timeout is not None:
        check_timeout(given.timeout)
    if given.in_process and given.command is not None:
        raise ValueError("--in-process is of --adapter; a program has its own process")
    if given.in_process and given.timeout is not None:
        raise ValueError("--in-process has no limit; leave out --timeout")


def _implementation(given: argparse.Namespace, stack: contextlib.ExitStack, what: str = "run") -> Run:
    """What is to be run, "run" or "map", which ends with the stack."""
    if given.command is not None:
        return command_adapter(given.command, *([] if given.timeout is None else [given.timeout]))
    if given.in_process:
        return load_adapter(given.adapter) if what == "run" else load_map(given.adapter)
    return stack.enter_context(Apart(given.adapter, given.timeout or TIMEOUT, what))


def _run_of(run: Run, chosen: Sequence[Vector], baseline: dict[str, str], given: argparse.Namespace) -> int:
    """Run it, and say and write what was found."""
    done, stopped, begun = list[Result](), 0, Origin.begun(run)
    if given.adapter:  # one in the kit's process is called as it was given, too
        begun = structs.replace(begun, adapter=cut(given.adapter), sha256=sha256_of(given.adapter))
    try:
        own = {"allow_partial": given.allow_partial, "forward": given.forward, "assume": given.assume}
        report = check(run, given.only, given.dtype, **own, progress=partial(_progress, done, len(chosen)))
    except KeyboardInterrupt as end:  # what is done is not lost
        stopped = _code_of(end)
        report = Report(tuple(done), given.dtype, given.allow_partial, interrupted=True, forward=given.forward)
    ended = begun.until_now()
    lost = () if stopped else worse(report, baseline)  # what was not reached has not become worse
    report = replace(report, origin=ended, verbose=given.verbose, worse=lost)
    failed = None if given.report is None else write("--report", given.report, report.as_json())
    STDOUT.error = None
    report.print(STDOUT.file)
    if STDOUT.error is not None:
        STDERR.say(f"the table cannot be written: {STDOUT.error.strerror}")
    if stopped:
        STDERR.say(f"interrupted after {len(done)} of {len(chosen)} cases")
    if failed is not None:  # not before the table, which is all that there is of the run then
        raise failed
    return stopped or (0 if report.ok else 1)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which is to clean up as Ctrl-C does."""


def _code_of(end: KeyboardInterrupt) -> int:
    return 143 if isinstance(end, _Terminated) else 130


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _progress(done: list[Result], cases: int, result: Result) -> None:
    """Keep a result, and on a terminal write over the line that counts them."""
    done.append(result)
    if STDERR.isatty():
        end = "\r" if len(done) < cases else "\r\033[K"
        STDERR.write(f"\r\033[K{len(done)} of {cases}  {shown(result.id)}{end}")
        STDERR.flush()


def _new(given: argparse.Namespace) -> None:
    from ortho_ref.adapters.starting_point import starting_point  # here: it loads every model

    framework = next(name for name in _NAMES if getattr(given, name) is not None)
    path: Path | None = given.out
    try:
        text = starting_point(framework, getattr(given, framework), "mine.py" if path is None else str(path))
    except ValueError as error:
        raise ValueError(f"--{framework}: {error}") from None
    if path is None:
        return _give([text.rstrip("\n")])
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"--out is {path}, which exists; allowed: a file that does not") from None
    except OSError as error:
        raise type(error)(f"--out is {path}, which cannot be written: {error}") from None
    STDERR.say(shown(f"{path}; its docstring has the command that runs it"))


def _list(given: argparse.Namespace) -> None:
    chosen = select(given.only)
    width = max(len(vector.id) for vector in chosen)
    _give(f"{vector.id:{width}}  {vector.why}" for vector in chosen)


def _mistakes(given: argparse.Namespace) -> None:
    from ortho_ref.conformance.mistakes import MISTAKES  # here: what makes them takes its time

    chosen = select(given.only)
    shown_by = {mistake: [v.id for v in chosen if mistake.name in v.kills] for mistake in MISTAKES}
    listed = [f"{m.name}\n    {m.says}\n    shown by {_together(cases)}" for m, cases in shown_by.items() if cases]
    _give([*listed, "`run --assume` takes these names, NAME,NAME, or a file that has a line NAME REASON for each"])


def _together(ids: list[str]) -> str:
    """Cases by the first two parts of their names, with how many there are: "cell/lstm 8"; one alone in full."""
    count = Counter("/".join(id.split("/")[:2]) for id in ids)
    return ids[0] if len(ids) == 1 else ", ".join(f"{group} {n}" for group, n in count.items())


def _give(lines: Iterable[str]) -> None:
    STDOUT.give(shown_lines("\n".join(lines)))


def _show(given: argparse.Namespace) -> None:
    _give(described(find(given.case)))


def described(vector: Vector) -> list[str]:
    """What there is to say of a case, line by line."""
    case = vector.case
    lines = [
        vector.id,
        f"  kind       {case.kind}",
        f"  why        {vector.why}",
        f"  config     {json.dumps(case.config)}",
    ]
    for title, arrays in (("inputs", case.inputs), ("outputs", vector.expected)):
        for i, (name, array) in enumerate(arrays.items()):
            lines.append(f"  {title if i == 0 else '':10} {name} {array.dtype} {array.shape}")
    for title, values in (("equations", vector.equations), ("kills", vector.kills)):
        lines.append(f"  {title:10} {', '.join(values) or 'none'}")
    route = vector.confirmed
    lines.append(f"  confirmed  {route['route']}, {route['error']:.1e} away")
    return lines


def _export(given: argparse.Namespace) -> None:
    if given.onnx:
        from ortho_ref.conformance.cases.node_tests import export_node_tests  # here: it loads every converter

        try:
            count, left_out = export_node_tests(given.folder, given.only, given.dtype)
        except ImportError as error:
            raise ValueError(error) from None
        more = f"; {left_out} left out, for which ONNX has no operator"
    else:
        count, more = export(given.folder, given.only, given.dtype), ""
    STDERR.say(shown(f"{count} cases in {given.folder}{more}"))


def _badge(given: argparse.Namespace) -> None:
    text = badge(read_report(given.report), given.label)
    check_places({"OUT.json": given.out})
    if (failed := write("OUT.json", given.out, text)) is not None:
        raise failed


def _cite(given: argparse.Namespace) -> None:
    own = Path(ortho_ref.__file__).parent
    places = (own / "CITATION.cff", own.parent / "CITATION.cff")  # in the wheel, in a checkout
    _give([next(place for place in places if place.exists()).read_text(encoding="utf-8").rstrip("\n")])


def program(name: str) -> NoReturn:
    """Run what the command line says, and end the process."""
    exit_code = main(name=name)
    if sys.argv[1] in ("check", "run", "map"):  # whose adapter was in this process: end, whatever it leaves behind
        STDOUT.flush()
        STDERR.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    program(NAME)
