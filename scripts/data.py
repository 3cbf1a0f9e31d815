"""Fetch and check data sets: python -m scripts.data list | fetch NAME | check DIR"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from ortho_ref.boundary import not_among
from scripts.program import BAD_INPUT, console, fail, give, run, say
from tasks import by_name, files
from tasks.sets import SETS, DataSet

Action = StrEnum("Action", "list fetch check")


def described(own: DataSet) -> str:
    """A set in a few lines: what it is, how much is downloaded, under which licence, and whether it is in the cache."""
    size = f"{own.size / 1e6:.1f} MB to download" if own.ways else "not fetched"
    there = " (in the cache)" if (files.cache() / own.name).is_dir() else ""
    return f"{own.name}{there}: {own.title}\n    {size}; licence: {own.licence}\n    {own.page}"


def fetch(own: DataSet) -> Path:
    """Fetch a set under a progress bar; its licence and size are said before anything is downloaded."""
    if not own.ways:
        return files.fetch(own)
    say(f"{own.name}: {own.title}; {own.size / 1e6:.1f} MB to download")
    say(f"licence: {own.licence}; {own.page}")
    columns = (TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TransferSpeedColumn())
    bars: dict[str, object] = {}
    with Progress(*columns, console=console) as progress:

        def on_bytes(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name)
            progress.update(bars[name], completed=done, total=total)  # type: ignore[arg-type]

        return files.fetch(own, on_bytes)


def set_of(name: str) -> DataSet:
    """The set of this name, or the one that the task of this name reads.  ValueError for another name."""
    of_task = getattr(by_name.TASKS.get(name), "SET", None)
    own = SETS.get(getattr(of_task, "name", name))
    if own is None:
        raise ValueError(not_among("name", name, SETS, str))
    return own


def check(folder: Path) -> bool:
    """Say of each set that has a file in a folder what is wrong with which; whether nothing is."""
    if not folder.is_dir():
        raise FileNotFoundError(f"dir is {folder}, which is {'a file' if folder.exists() else 'not there'}")
    found, right = False, True
    for own in SETS.values():
        files_of_it = files.Folder(own, folder)
        if not any(files_of_it.place_of(file.name) for file in own.files):
            continue
        found = True
        for name, wrong in files.check(own, folder).items():
            known = next(file for file in own.files if file.name == name)
            as_published = "its contents are those published" if known.sha256 else "there; no hash of it is published"
            give(f"{own.name}  {name}: {wrong or as_published}")
            right = right and not wrong
    if not found:
        raise FileNotFoundError(f"{folder} has no file of {', '.join(own.name for own in SETS.values() if own.files)}")
    return right


def main(
    action: Annotated[Action, typer.Argument(help="list the sets, fetch one, or check a folder.")],
    what: Annotated[
        str | None, typer.Argument(metavar="NAME|DIR", help="The set, or a task of it, to fetch; the folder to check.")
    ] = None,
) -> None:
    """List the data sets of the tasks, fetch one into the cache ($ORTHO_REF_DATA), check those in a folder.

    Nothing is downloaded but by fetch.  check exits with 1 where a file is not what was published, or not there.
    """
    try:
        if action is Action.list:
            if what is not None:
                raise ValueError(f"list takes no argument; given: {what!r}")
            give("\n".join(map(described, SETS.values())))
            say(f"cache: {files.cache()}")
        elif what is None:
            raise ValueError(f"{action} needs {'NAME, a data set' if action is Action.fetch else 'DIR, a folder'}")
        elif action is Action.check:
            if not check(Path(what)):
                raise typer.Exit(1)
        else:
            give(str(fetch(set_of(what))))
    except (*BAD_INPUT, ModuleNotFoundError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail("interrupted; nothing was left half fetched", 130)


if __name__ == "__main__":
    run(main)
