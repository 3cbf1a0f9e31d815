"""Mutation testing, folder by folder: python -m scripts.mutants [FOLDER ...] [--seed S] [--sample 300]

A mutant is the code with one small change; the tests should tell. Of every folder a sample is tried, the same for the
same seed; each mutant with the tests that execute its line, the quickest first, up to the first that fails. The score
is what is killed of those that are not proved equivalent, which scripts/mutation/survivors.toml lists.
"""

import time
from pathlib import Path
from typing import Annotated

import typer

from ortho_ref import files
from ortho_ref.boundary import not_among
from scripts.mutation.folders import FOLDERS, files_of
from scripts.mutation.reasons import read, write_entry
from scripts.mutation.score import HEADING, render, replace, row, rows
from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
NO_TESTS = ("tests/crosscheck/",)

WORDS = """
A mutant is the code with one small change: a sign, a bound, a number, a transpose, a statement that is not there. The
tests should tell. `make mutants` tries a sample of each folder, drawn by a seed, each mutant with the tests that
execute its line, up to the first that fails: of `make test`, or of the test files that a call names, so that other
tests may kill some that survived. A mutant whose tests take long (the last call: {budget:g} seconds) is tried with the
file's own first, then the quickest of every test function, and no more. What no test can tell is listed below with its
reason and left out of the score; the interval is Wilson's. A mutant that makes a test run ten times as long counts as
killed (timed out). The operators are cosmic-ray's and those of `scripts/mutation/operators.py`; annotations,
documentation and the words of errors are left alone. Sample {sample}, seed {seed}; the last call had {files} test
files, PyTorch's never among them.
"""


def main(
    folders: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(FOLDERS)}; all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the sample.")] = 0,
    size: Annotated[int, typer.Option("--sample", min=0, help="Mutants of each folder; 0: all.")] = 300,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at a time.")] = 2,
    hours: Annotated[float, typer.Option(min=0, help="After these no mutant is begun.")] = 2.0,
    budget: Annotated[float, typer.Option(min=0, help="Seconds of tests for a mutant.")] = 60.0,
    tests: Annotated[list[str] | None, typer.Option(help="Test files or folders; all of `make test`.")] = None,
    work: Annotated[Path, typer.Option(help="Folder for copies of the tree and what was found.")] = Path(".mutants"),
    page: Annotated[bool, typer.Option(help="Write the section of docs/reliability.md.")] = False,
) -> None:
    """Try mutants, say what survives, and exit with 1 if a survivor has no reason."""
    until = time.monotonic() + 3600 * hours
    try:  # here: what it stands on is an extra of its own
        from scripts.mutation.session import Session, score, survivors
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed; `make mutants` installs what is needed")
    try:
        names = folders or [*FOLDERS]
        if unknown := [name for name in names if name not in FOLDERS]:
            raise ValueError(not_among("FOLDER", unknown[0], FOLDERS, str))
        reasons = read()
        listed = {reason.mutant for reason in reasons}
        test_files = [
            name
            for name in files_of(ROOT, tests or ["tests"])
            if Path(name).name.startswith("test_") and not name.startswith(NO_TESTS)
        ]
        if not test_files:
            raise ValueError(f"no test files in {' '.join(tests or ['tests'])}")
        session = Session(ROOT, work.resolve(), test_files, jobs, budget, until, say)
        scores, unlisted = {}, []
        for name in names:
            everywhere, mutants = session.sampled(name, seed, size)
            session.run(mutants, listed)
            noted = session.noted(mutants, listed)
            scores[name] = score(everywhere, mutants, noted, reasons)
            unlisted += survivors(mutants, noted, reasons)
            typer.echo(row(name, scores[name]))
    except BAD_INPUT as error:
        fail(error)
    for mutant in unlisted:
        typer.echo(f"\n# {mutant.place.file}:{mutant.place.line}\n{write_entry(mutant)}")
    if page:
        text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Reliability\n"
        words = WORDS.format(budget=budget, sample=size or "all", seed=seed, files=len(test_files))
        of_folders = {name: files_of(ROOT, targets) for name, targets in FOLDERS.items()}
        files.write(PAGE, replace(text, render(rows(text) | scores, reasons, words, of_folders)).encode())
        say(f"docs/reliability.md: {HEADING}")
    if unlisted:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
