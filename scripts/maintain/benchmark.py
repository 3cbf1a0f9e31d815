"""Time cells, maps and updates beside other libraries, in turns: python -m scripts.maintain.benchmark

What is timed stands in `timing`.  A whole run, of one thread, writes results/benchmark/MACHINE.json, .md and .svg; a
part is chosen with --section, --model, --only and --threads, and is written where --out says.  --check compares today's
ratios with the stored ones.
"""

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Shown

from ortho_ref import files
from scripts.maintain.timing import benchmark_file as reports, drift as checking, page_tables, peers_jax
from scripts.maintain.timing.benchmark_file import Report, Table
from scripts.maintain.timing.cell_rows import cells
from scripts.maintain.timing.groups import Group, Settings, named
from scripts.maintain.timing.machine import difference, libraries, machine, name_of
from scripts.maintain.timing.map_rows import maps
from scripts.maintain.timing.memory_rows import memory
from scripts.maintain.timing.rounds import check_rounds
from scripts.maintain.timing.steps import DTYPES, MODELS, SIZES
from scripts.maintain.timing.update_rows import updates
from scripts.program import BAD_INPUT, check_beside, check_device, chosen, fail, give, limit_threads, run, say
from scripts.program.malloc import keep_freed_memory

SECTIONS = {"cells": cells, "updates": updates, "memory": memory, "maps": maps}
#: Those that can be measured with several threads.
THREADED = ("cells", "updates")


def torch_version(device: str) -> str | None:
    """PyTorch's version; None where it is not installed or has no such device."""
    try:
        import torch
    except ImportError:
        return None
    return str(torch.__version__) if device != "gpu" or torch.cuda.is_available() else None


def measured(sections: Sequence[str], own: Settings) -> Iterator[Group]:
    """The groups of some sections, as they are measured."""
    for section in sections:
        yield from SECTIONS[section](own)


def collected(groups: Iterable[Group]) -> list[Group]:
    """All of them, each told as it comes.  ValueError where there is none."""
    found = []
    for group in groups:
        found.append(group)
        give(told(group))
    if not found:
        raise ValueError("model and only leave nothing of the section; allowed: what docs/performance.md has of it")
    return found


def sections_of(given: list[str] | None, device: str, threads: int) -> tuple[str, ...]:
    """Those that were given, or all.  ValueError for one that is none, or cannot be measured so."""
    sections = chosen("section", given, SECTIONS)
    if device != "cpu" and sections != ("cells",):
        raise ValueError(f"section is {', '.join(sections)}; allowed on {device}: cells")
    if threads > 1 and not set(sections) <= set(THREADED):
        raise ValueError(f"section is {', '.join(sections)}; allowed with several threads: {', '.join(THREADED)}")
    return sections


def settings(
    model: list[str] | None,
    only: list[str] | None,
    rounds: int,
    seconds: float,
    dtype: str,
    device: str,
    threads: int,
) -> Settings:
    """What is measured.  ValueError for what cannot be."""
    check_rounds(rounds, seconds)
    models, sizes = chosen("model", model, MODELS), chosen("only", only, SIZES)
    chosen("dtype", [dtype], DTYPES)
    jax = peers_jax.jax_version(threads) if device == "cpu" else None
    shown = {size: SIZES[size] for size in sizes}
    return Settings(models, shown, rounds, seconds, dtype, device, threads, torch=torch_version(device), jax=jax)


def checked(name: str) -> str:
    """A name for files.  ValueError for what is none."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(f"name is {name[:100]!r}; allowed: up to 100 letters, digits, dots, - and _")
    return name


@contextlib.contextmanager
def naming(option: str) -> Iterator[None]:
    """What a file is refused for says which option named it."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"{option}: {error}") from None


def stored_for(path: Path, here: dict[str, Any], dtype: str) -> Report:
    """The stored report.  ValueError where its ratios are another machine's, or of other numbers."""
    with naming("against"):
        stored = reports.read(path)
    if other := difference(stored["machine"], here):
        raise ValueError(f"{path} is another machine's: {other}")
    if stored["settings"]["dtype"] != dtype:
        raise ValueError(f"dtype is {dtype}; allowed: {stored['settings']['dtype']}, as in {path}")
    return stored


def command(words: Sequence[str]) -> str:
    """How it was measured, without where it is written."""
    text = shlex.join(["python", "-m", "scripts.maintain.benchmark", *words])
    return re.sub(r" --(out|name)[ =]('[^']*'|\S+)", "", text)


def report_of(groups: list[Group], own: Settings, here: dict[str, Any]) -> Report:
    """What is written."""
    kept = "given back by the allocator's own rules" if own.keep else "kept, of all contenders alike (mallopt)"
    return {
        "format": reports.FORMAT,
        "commands": [command(sys.argv[1:])],
        "machine": here,
        "libraries": libraries(own.torch, own.jax),
        "settings": {"dtype": own.dtype, "device": own.device, "memory": kept},
        "groups": groups,
    }


def told(group: Group) -> str:
    """A line as a group is measured."""
    words = ", ".join(f"{name} {own['median']:.3g}" for name, own in group["contenders"].items())
    return f"{group['section']}: {named(group['case'])}: {words} {group['unit']}"


def as_shown(table: Table) -> Shown:
    """A table for the terminal."""
    shown = Shown(title=table.title)
    for i, heading in enumerate(table.head):
        shown.add_column(heading, justify="right" if i else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown


def write(report: Report, folder: Path, name: str, whole: bool) -> None:
    """JSON, page and picture.  ValueError where a part does not go with what is there."""
    from scripts.pictures import speed  # matplotlib takes its time

    path = folder / f"{name}.json"
    if not whole and path.exists():
        try:
            report = reports.merged(reports.read(path), report)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; allowed: another --name, or a whole run") from None
    folder.mkdir(parents=True, exist_ok=True)
    files.write(path, reports.text_of(report).encode())
    report = reports.read(path)  # with its figures rounded
    files.write(path.with_suffix(".md"), reports.markdown(report, f"{name}.svg").encode())
    speed.draw(report["groups"], path.with_suffix(".svg"), f"{report['machine']['cpu']}, {report['settings']['dtype']}")
    give(f"wrote {path}, {name}.md and {name}.svg")


def write_pages(report: Report, name: str, asked: bool) -> None:
    """The tables of docs/performance.md, where it is asked for."""
    if asked:
        path = page_tables.ROOT / page_tables.PAGE
        files.write(path, page_tables.fill(path.read_text(encoding="utf-8"), name, report).encode())


def compared(stored: Report, groups: list[Group]) -> None:
    """Say what moved, and end with exit code 1 where something moved too far."""
    found, missing = checking.compare(stored, groups)
    for name in missing:
        say(f"not compared: {name}")
    if not found:
        fail("nothing of what was measured is in the stored file")
    moved = checking.beyond(found)
    rows = [[*own[:3], f"{own.stored:.2f}", f"{own.now:.2f}", f"{own.factor:.2f}"] for own in moved]
    if rows:
        head = ["section", "case", "figure", "stored", "now", "now / stored"]
        give(as_shown(Table(f"Moved by more than {100 * checking.LIMIT:.0f} %", head, rows)), 120)
    give(f"{len(found)} figures compared, {len(moved)} moved by more than {100 * checking.LIMIT:.0f} %")
    if moved:
        raise typer.Exit(1)


def main(
    section: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(SECTIONS)}; default: all, or cells if --model or --only is given."),
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help=", ".join(MODELS) + ".")] = None,
    only: Annotated[list[str] | None, typer.Option(help=f"Sizes: {', '.join(SIZES)}.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Minimum time for each contender and round.")] = 0.2,
    threads: Annotated[int, typer.Option(help="Threads of every contender; NumPy's BLAS has one.")] = 1,
    dtype: Annotated[str, typer.Option(help=f"{' or '.join(DTYPES)}; updates are float32.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu or gpu; PyTorch runs there too, if it can.")] = "cpu",
    give_back: Annotated[
        bool, typer.Option("--give-back", help="Let the allocator return freed memory, as it does by default.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to; default for a whole run: results/benchmark.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The files' name; processor and BLAS kernel unless given.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with stored ratios; exit code 1 beyond 25 %.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(help="File to --check against, instead of results/benchmark/NAME.json.")
    ] = None,
    redraw: Annotated[
        Path | None, typer.Option(help="Rewrite page and picture of a stored file, without measuring.")
    ] = None,
    page: Annotated[bool, typer.Option("--page", help="Also write the tables of docs/performance.md.")] = False,
) -> None:
    """Cells, maps and updates beside PyTorch and JAX; medians of rounds in which the contenders take turns."""
    given = locals()
    try:
        if redraw is not None:
            check_beside(main, given, "redraw", "page")
            with naming("redraw"):
                stored = reports.read(redraw)
            write(stored, redraw.parent, redraw.stem, True)
            write_pages(stored, redraw.stem, page)
            return
        check_device(device)
        limit_threads(threads, "compiled")
        check = check or against is not None
        part = bool(section or model or only or device != "cpu" or threads > 1)
        written = not check and (not part or out is not None)
        if page and not written:
            raise ValueError("page is for what is written: a whole run, or a part with --out; not for --check")
        sections = sections_of(section or (["cells"] if part else None), device, threads)
        own = settings(model, only, rounds, seconds, dtype, device, threads)
        here = machine(own.torch is not None)
        folder, name = out or page_tables.FOLDER, checked(name or name_of(here))
        stored = stored_for(against or folder / f"{name}.json", here, dtype) if check else {}
        if out and written:
            with naming("out"):  # before what takes long
                out.mkdir(parents=True, exist_ok=True)
        own = own._replace(keep=give_back or not keep_freed_memory())
        groups = collected(measured(sections, own))
        report = report_of(groups, own, here)
        for table in reports.tables(report):
            give(as_shown(table), 160)
        for line in reports.about(report):
            give(line)
        if check:
            compared(stored, groups)
        elif written:
            write(report, folder, name, not part)
            write_pages(reports.read(folder / f"{name}.json"), name, page)
    except BAD_INPUT as error:
        fail(error)


if __name__ == "__main__":
    run(main)
