"""What a run over the cases found: a table, JSON, an exit code."""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TextIO

from msgspec import Struct

import ortho_ref
from ortho_ref import formats
from ortho_ref.conformance import findings
from ortho_ref.conformance.compare import Comparison
from ortho_ref.conformance.entries import Wrong
from ortho_ref.conformance.running.origin import Origin, platform_now, vectors_now
from ortho_ref.terminal import cut, shown

PASSED, FAILED, PARTIAL, UNSUPPORTED = "passed", "failed", "partial", "unsupported"
STATUSES = (PASSED, FAILED, PARTIAL, UNSUPPORTED)
#: Of the report as JSON.
FORMAT = "ortho_ref conformance report 3"
_FEW, _GROUPS = 10, 4
#: Rows that a screen has room for; of more, those that say something new, and of these some.
_ROWS, _OF_MANY = 24, 8
_TRACEBACK = 10_000  # characters


@dataclass(frozen=True)
class Result:
    """What was found on one case."""

    id: str
    status: str  # "passed", "failed", "partial" or "unsupported"
    outputs: dict[str, Comparison] = field(default_factory=dict)  # of those given, how far they are off
    missing: tuple[str, ...] = ()  # outputs that were not given
    message: str = ""  # what happened besides
    mistakes: tuple[tuple[str, ...], ...] = ()  # names of those whose outputs these are, each one or a pair
    diagnosis: str = ""  # what to look at, in words
    traceback: str = ""  # of an exception that the implementation raised
    #: Of wrong outputs of the right shape the first and the worst wrong entry.
    wrong: dict[str, Wrong] = field(default_factory=dict, compare=False)
    #: How long the implementation took, with the comparison, for both runs; two equal results may differ in it.
    seconds: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        """What an implementation said may be of any length."""
        object.__setattr__(self, "message", cut(self.message))
        object.__setattr__(self, "traceback", cut(self.traceback, _TRACEBACK))

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        return self.status == FAILED

    @property
    def worst(self) -> tuple[str, Comparison] | None:
        """The output that is furthest off; None where none was given."""
        return max(self.outputs.items(), key=lambda item: item[1].error, default=None)

    @property
    def times(self) -> float:
        """Of a case that passes further off than correct code does, how many times what rounding explains; else 0."""
        return max((c.times for c in self.outputs.values()), default=0.0) if self.status == PASSED else 0.0

    @property
    def remarks(self) -> str:
        """Everything there is to say, in one line."""
        return self.told(self.diagnosis)

    def told(self, diagnosis: str) -> str:
        """Everything there is to say, in one line, with this in place of the diagnosis."""
        remarks: dict[str, list[str]] = {}
        for name, comparison in self.outputs.items():
            remarks.setdefault(comparison.remark, []).append(name)
        every = (*self.outputs, *self.missing)
        own = [f"{shortened(names, every)} {remark}" for remark, names in remarks.items() if remark]
        missing = f"missing: {shortened(self.missing, every)}" if self.missing else ""
        if self.times:
            beyond = shortened([name for name, c in self.outputs.items() if c.times], every)
            own = [f"passed, at {self.times:.2g} times rounding: {beyond}", *own]
        return shown("; ".join(part for part in (self.message, diagnosis, *own, missing) if part))


def shortened(names: Iterable[str], every: Iterable[str]) -> str:
    """Names, each once; of all of `every` under one prefix the prefix: d_weights.* for every one of them."""
    own, counts = list(names), Counter(name.partition(".")[0] for name in every)
    found = Counter(name.partition(".")[0] for name in own)

    def short(name: str) -> str:
        prefix = name.partition(".")[0]
        return f"{prefix}.*" if found[prefix] == counts[prefix] > 1 else name

    return ", ".join(dict.fromkeys(map(short, own)))


class Printed(ABC):
    """A table with one row a result and a line under it; `what` is the heading of the names."""

    what: ClassVar[str]

    @abstractmethod
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The rows, (name, status, worst error, remarks), not padded."""

    @abstractmethod
    def summary(self) -> str:
        """The line under the table."""

    def __str__(self) -> str:
        """The table as plain text."""
        rows = self._shown_rows()
        width = max((len(name) for name, *_ in rows), default=0)
        status = max(map(len, STATUSES))
        lines = [f"{a.ljust(width)}  {b.ljust(status)}  {c.ljust(26)}  {d}".rstrip() for a, b, c, d in rows]
        below = self.below()
        return "\n".join([*lines, *([""] if below else []), *below, "", shown(self.summary())])

    def below(self) -> list[str]:
        """Lines between the table and the line under it."""
        return []

    def _shown_rows(self) -> list[tuple[str, str, str, str]]:
        return [(shown(a), b, shown(c), shown(d)) for a, b, c, d in self.rows()]

    def print(self, file: TextIO | None = None) -> None:
        """The table, to a file or standard output: on a terminal by rich, where it is installed; else as plain text."""
        file = sys.stdout if file is None else file
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            console = Console(file=file)
        except ImportError:
            console = None
        if console is None or not console.is_terminal:
            print(self, file=file, flush=True)
            return
        table = Table(self.what, "", "worst error", "", box=None, pad_edge=False)
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        colors = {PASSED: "green", FAILED: "red", PARTIAL: "yellow", UNSUPPORTED: "dim"}
        for name, status, worst, remarks in self._shown_rows():
            table.add_row(Text(name), Text(status, colors[status]), Text(worst), Text(remarks))
        console.print(table)
        for line in self.below():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print(shown(self.summary()), highlight=False, markup=False)


class Covered(Struct, frozen=True, forbid_unknown_fields=True):
    """Of the cases of a cell with an activation, or of whatever else it is, how many the verdict is of."""

    name: str  # "gru_reset_before, tanh"
    passed: findings.Count
    asked: findings.Count
    there: findings.Count  # cases that the kit has

    @property
    def cell(self) -> str:
        """The cell and its options, of however many layers and directions."""
        parts = self.name.split(", ")
        return ", ".join(part for part in parts if part.split()[0] not in ("layers", "bidirectional", "dropout"))

    def __str__(self) -> str:
        """In words."""
        return f"{self.passed} of {self.there} cases of {self.name}"


@dataclass(frozen=True)
class Report(Printed):
    """What a run over the cases found."""

    what: ClassVar[str] = "case"
    results: tuple[Result, ...]  # in the order of the cases
    dtype: str  # "float64" or "float32", of the inputs; of forward passes also "float16" or "bfloat16"
    allow_partial: bool = False  # cases with outputs missing count as passed
    interrupted: bool = False  # there were more to run
    forward: bool = False  # the forward pass alone was judged
    assumed: tuple[findings.Assumed, ...] = ()  # the departures that the implementation was held to
    verbose: bool = False  # the first and the worst wrong entry of every wrong output are printed
    origin: Origin | None = None  # which implementation was run, and when
    covered: tuple[Covered, ...] = ()  # what the cases that are supported are of
    worse: tuple[str, ...] = ()  # what passed in the baseline that the run is held to and does no more, a line each

    @property
    def counts(self) -> dict[str, int]:
        """Status -> cases."""
        found = Counter(result.status for result in self.results)
        return {status: found[status] for status in STATUSES}

    @property
    def ok(self) -> bool:
        """Every case was run, every supported one passed, none alone of its kind, and none got worse."""
        counts = self.counts
        good = counts[PASSED] + (counts[PARTIAL] if self.allow_partial else 0)
        passed = good > 0 and good == len(self.results) - counts[UNSUPPORTED]
        return passed and not self.interrupted and not self.worse and not self.alone

    @property
    def shown(self) -> list[Result]:
        """Those with a row of their own: where many are unsupported, the others; of many those that say what is new."""
        rows = self._supported
        if self.verbose or len(rows) <= _ROWS:
            return rows
        numbers = findings.numbers(self.results)
        first: dict[tuple[str, object], Result] = {}
        for result in rows:
            if result.status != PASSED or result.remarks:
                first.setdefault((result.status, numbers.get(result.id, result.remarks)), result)
        return list(first.values())[:_OF_MANY]

    @property
    def alone(self) -> list[str]:
        """Of what one case passed, of several that were asked, and none of its cell besides: it says too little."""
        passed = [own for own in self.covered if own.passed]
        cells = Counter(own.cell for own in passed)
        return [own.name for own in passed if own.passed == 1 < own.asked and cells[own.cell] == 1]

    @property
    def _supported(self) -> list[Result]:
        supported = [result for result in self.results if result.status != UNSUPPORTED]
        return supported if len(self.results) - len(supported) > _FEW else list(self.results)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """One for each of the results `shown`; a diagnosis is below, under its number."""
        rows, numbers = [], findings.numbers(self.results)
        for r in self.shown:
            worst = "" if r.worst is None else f"{r.worst[0]} {r.worst[1].error:.1e}"
            told = r.told(f"[{numbers[r.id]}]") if r.id in numbers else r.remarks
            rows.append((r.id, r.status, worst, told))
        return rows

    def below(self) -> list[str]:
        """Every diagnosis once, what was assumed, and the fewest mistakes that explain the most."""
        wrong = [(r.id, name, own) for r in self.results for name, own in r.wrong.items() if self.verbose]
        entries = [shown(f"{id}  {name}: {own}") for id, name, own in wrong]
        found = findings.lines(self.results, self.assumed)
        return [*entries, *([""] if entries and found else []), *found, *map(shown, self.worse)]

    def summary(self) -> str:
        """The counts in one line."""
        counted = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        more = " Partial cases were allowed." if self.ok and self.counts[PARTIAL] else ""
        if beyond := sum(result.times > 0 for result in self.results):
            more += f" {beyond} passed further off than rounding explains."
        if self.results and self.counts[UNSUPPORTED] == len(self.results):
            others = dict.fromkeys(f" It is of another cell: {r.message}." for r in self.results if r.message)
            more += f" Nothing was supported: run(case) gave None for every case.{''.join(others)}"
        elif len(self._supported) < len(self.results):
            kinds = Counter(r.id.partition("/")[0] for r in self.results if r.status == UNSUPPORTED)
            more += f" Unsupported: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}."
        if left := len(self._supported) - len(self.shown):
            more += f" {left} rows are left out; --verbose has them."
        if self.alone:
            more += f" One case alone is no pass: {', '.join(self.alone)}."
        if 0 < len(self.covered) <= _GROUPS:
            more += f" {'; '.join(map(str, self.covered))}."
        what = f"{self.dtype}, the forward pass alone" if self.forward else self.dtype
        return f"{counted}; {what}, ortho_ref {ortho_ref.__version__}.{more}"

    def as_json(self) -> str:
        """The whole report, sealed; numbers that are not finite as null.  `read_report` reads it."""
        own = ("dtype", "forward", "allow_partial", "interrupted", "ok", "worse", "counts", "covered", "assumed")
        document = {
            "kit": ortho_ref.__version__,
            "vectors": vectors_now(),
            "platform": platform_now(),
            "origin": self.origin,
            **{name: getattr(self, name) for name in own},
            "findings": findings.findings(self.results),
            "explained": findings.summary(self.results),
            "cases": [_as_dict(result) for result in self.results],
        }
        return formats.seal(formats.plain(document), FORMAT)[0].decode()


def _as_dict(result: Result) -> dict[str, Any]:
    """Its fields; what is wrong in an output stands with the output."""
    own = dict(vars(result))
    wrong = own.pop("wrong")
    own["seconds"] = round(result.seconds, 6)
    own["outputs"] = {
        name: {
            "error": c.error,
            "tolerance": c.tolerance,
            "passed": c.passed,
            "remark": f"at {c.times:.2g} times rounding" if c.times else c.remark,
            "wrong": wrong.get(name),
        }
        for name, c in result.outputs.items()
    }
    return own
