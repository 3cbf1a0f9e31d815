"""Pages of docs that a program writes of what is stored, or checks."""

from collections.abc import Mapping
from pathlib import Path

from ortho_ref import files
from scripts.program import fail


def keep_pages(root: Path, texts: Mapping[str, str], program: str, check: bool, folder: str | None = None) -> None:
    """Write pages, by their names from the root, and remove what else a folder of theirs has.

    With check nothing is written; exit code 1 if anything would be, or removed.
    """
    there = {path.relative_to(root).as_posix() for path in (root / folder).glob("*.md")} if folder else set()
    for name in sorted(there - {*texts}):
        if check:
            fail(f"{name} is no page that `python -m {program}` writes", 1)
        (root / name).unlink()
    for name, text in texts.items():
        path = root / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, text.encode())
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            fail(f"{name} is not what `python -m {program}` writes", 1)
