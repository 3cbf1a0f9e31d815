"""Node, which runs the scripts of the pages that move as a browser would; what of it a test takes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES, SCRIPTS = Path("docs/alive"), Path("docs/site/static/alive")
NODE = shutil.which("node")
#: On a test that runs a script.
needs_node = pytest.mark.skipif(NODE is None, reason="node is not on the path: the pages' scripts are not run")


def answer(program, given, root=ROOT):
    """What a program prints as JSON; it is Node's, finds the scripts in `scripts` and what it is given in `given`."""
    head = f"const scripts = {json.dumps(f'{root / SCRIPTS}/')};\nconst given = {json.dumps(given)};\n"
    run = subprocess.run([NODE, "-e", head + program], cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def changed_copy(folder, file, line, instead):
    """The pages' scripts and their adapter once more, below `folder`, with one line changed in one file."""
    for part in (PAGES, SCRIPTS):
        shutil.copytree(ROOT / part, folder / part)
    path = folder / SCRIPTS / file
    source = path.read_text(encoding="utf-8")
    assert source.count(line) == 1, f"{file} has {line!r} {source.count(line)} times"
    path.write_text(source.replace(line, instead), encoding="utf-8")
    return folder
