"""Some of `make torture`, by fixed seeds; and that the judge sees what is planted."""

import shlex
import shutil

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from tests.line import PATIENCE
from tests.torture import __main__ as torture, sealing
from tests.torture.__main__ import KINDS, one
from tests.torture.judging import LONGEST, REFUSED, SURVIVED, WRONG, judge, must_survive
from tests.torture.room import STATES, USES, Room
from tests.torture.table import HEAD, PAGE, replaced, rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def room(tmp_path_factory, forks):
    """With every run in every state; a use may take as long as a machine is slow."""
    own = Room(tmp_path_factory.mktemp("room"), limit=PATIENCE, forks=forks)
    yield own
    own.close()


def test_one_of_every_kind(room):
    """Of trials: survived to the bit, or refused in one clear line; nothing is wrong."""
    wrong = {}
    for kind in KINDS:
        if kind.name not in ("grids", "cluster"):  # tests/scripts/test_experiment.py has a smaller one
            outcome = one(room, kind, 0, 0).outcome
            assert outcome.verdicts, outcome.what
            if outcome.wrong:
                wrong[f"{kind.name}, {outcome.what}"] = outcome.wrong
    assert not wrong


def test_a_trial_again(room):
    """The same seed and number are the same trial, with the same verdicts."""
    (lines,) = (kind for kind in KINDS if kind.name == "lines")
    first, again = (one(room, lines, 7, 3).outcome for _ in range(2))
    assert first.what == again.what
    assert [(use, own.kind) for use, own in first.verdicts] == [(use, own.kind) for use, own in again.verdicts]
    assert one(room, lines, 7, 4).outcome.what != first.what


# The judge sees what is planted


def changed(folder, untouched, value=3.0):
    """A number of the last checkpoint is another, and every hash is right: nobody can see it."""
    tensors, metadata = sealing.read(folder / "last.safetensors")
    tensors["params/readout.W"] = np.full_like(tensors["params/readout.W"], value)
    (folder / "last.safetensors").write_bytes(safetensors.numpy.save(tensors, metadata))
    sealing.seal(folder, untouched)


@pytest.mark.parametrize("name", ["evaluate --which last", "train --resume", "train --resume --which previous"])
def test_a_silent_corruption_is_wrong(room, tmp_path, name):
    """Exit code 0 with other weights is called wrong, by what is another; a use that does not read them is not."""

    def damage(folder):
        changed(folder, room.state("run", "early"))

    verdict = room.use(USES[name], "run", "early", damage, ("last.safetensors",), tmp_path)
    if name.endswith("previous"):
        assert verdict.kind == SURVIVED
    else:
        assert verdict.kind == WRONG
        assert verdict.why.startswith("exit code 0, and ")


def test_a_reader_that_writes_is_wrong(room, tmp_path):
    """A run that is refused has to be left as it was: here the use itself removes a file."""
    use = USES["evaluate"]

    def arguments(folder, aside):
        (folder / "summary.json").unlink()
        (folder / "config.json").write_text("{")
        return [folder]

    own = type(use)(use.name, use.module, arguments)
    room.untouched("run", "finished", use)
    verdict = room.use(own, "run", "finished", lambda folder: None, ("config.json",), tmp_path)
    assert verdict.kind == WRONG
    assert "the folder is not as it was: config.json, summary.json" in verdict.why


def ending(room, statement, **options):
    """The end of a process that does this."""
    return room.run("timeit", "-n1", "-r1", "-s", "import os, signal, sys", statement, **options)


PLANTED = {
    "raise ValueError('x')": "traceback: ",
    "sys.stderr.write('error: \\x1b[31m config.json\\n'); os._exit(2)": "'\\x1b' raw on stderr",
    "sys.stderr.write('error: \\u202e config.json\\n'); sys.stderr.flush(); os._exit(2)": "'\\u202e' raw on stderr",
    "os.write(2, b'error: \\xff config.json\\n'); os._exit(2)": "'\\udcff' raw on stderr",
    "os.write(2, b'error: config.json\\nmore\\n'); os._exit(2)": "exit code 2 without an error",
    "os.write(2, b'more\\nerror: config.json\\n'); os._exit(2)": "2 lines",
    "os.write(2, b'error: config.json'); os._exit(2)": "exit code 2 without an error",
    "os.write(2, b'error: no name\\n'); os._exit(2)": "names none of config.json",
    "os.write(1, b'x'); os.write(2, b'error: config.json\\n'); os._exit(2)": "refused, with this on stdout",
    f"os.write(2, b'error: config.json' + b'x' * {LONGEST} + b'\\n'); os._exit(2)": "a line of ",
    "os.write(2, b'error: config.json\\n'); os._exit(1)": "exit code 1",
    "os.kill(os.getpid(), 11)": "exit code -11",
}


@pytest.mark.parametrize("statement", PLANTED)
def test_what_is_wrong(room, statement):
    verdict = judge(ending(room, statement), lambda: "", ["config.json"])
    assert verdict.kind == WRONG
    assert verdict.why.startswith(PLANTED[statement])


def test_a_hang_is_wrong(room):
    """It is ended, with what it has started."""
    end = ending(room, "os.fork(); signal.pause()", limit=0.5)
    assert judge(end, lambda: "").why.startswith("hangs: ")


def test_what_is_not_wrong(room):
    """One line that names the file; behind lines of progress where a run has begun; the same result."""
    refused = "os.write(2, b'{}error: config.json is gone\\n'); os._exit(2)"
    assert judge(ending(room, refused.format("")), lambda: "", ["config.json"]).kind == REFUSED
    after = ending(room, refused.format("3/24 loss 2.3 steps/s\\n"))
    assert [judge(after, lambda: "", ["config.json"], goes=goes).kind for goes in (False, True)] == [WRONG, REFUSED]
    good = ending(room, "os._exit(0)")
    assert judge(good, lambda: "").kind == SURVIVED
    assert judge(good, lambda: "other weights").kind == WRONG
    assert must_survive(judge(after, lambda: "", goes=True)).kind == WRONG


def test_faults_arrive(room, tmp_path):
    """An error that is asked for is raised, a limit holds: or the trials of disks would try nothing."""
    end = room.run("scripts.train", *ending_soon(tmp_path / "a"), at="rename", number=1, errno=28)
    assert (end["code"], "No space left on device" in end["stderr"]) == (2, True)
    end = room.run("scripts.train", *ending_soon(tmp_path / "b"), file_size=600)
    assert (end["code"], "File too large" in end["stderr"]) == (2, True)
    end = room.run("scripts.train", *ending_soon(tmp_path / "c"), at="step", number=0)
    assert end["code"] == 0
    assert end["calls"]["step"] > 300


def ending_soon(folder):
    """A run of one update."""
    words = shlex.split("parenthesis --hidden 2 --negative-ones 1 --length 2 --batch 1 --iterations 1 --out")
    return [*words, folder]


# Sealing, and the table


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", ["run", "complex"])
def test_sealing_is_the_format_s(room, tmp_path, name, state):
    """Sealed again without an edit, every document stays to the byte, every checkpoint to its metadata."""
    shutil.copytree(room.state(name, state), tmp_path / "run")
    sealing.seal(tmp_path / "run", room.state(name, state))
    for path in room.state(name, state).iterdir():
        if path.suffix == ".safetensors":
            with safe_open(path, "numpy") as old, safe_open(tmp_path / "run" / path.name, "numpy") as new:
                assert new.metadata() == old.metadata()
        else:
            assert (tmp_path / "run" / path.name).read_bytes() == path.read_bytes()


def test_the_table_replaces_its_own():
    """Between other sections, which stay, as does what is written by hand."""
    old, new = (
        rows({"flips": {SURVIVED: n, REFUSED: 2, WRONG: 0, "uses": 9}}, seed, 60.0) for n, seed in ((1, 1), (5, 2))
    )
    before = "# Reliability\n\n## Mutation testing\n\n{0}\n|---|\n| x |\nSeed 9, x\n\n"
    page = before + "## Torture\n\nBy hand.\n\n{1}\n\nMore.\n\n## Last\n"
    filled = page.format(HEAD, "\n".join(old))
    assert replaced(filled, new) == page.format(HEAD, "\n".join(new))
    assert "| flips | 7 | 9 | 5 | 2 | 0 |" in replaced(filled, new)
    lines = rows({}, 1, 0.0)
    assert "\n".join(lines) in replaced(PAGE.read_text(), lines)  # docs/reliability.md
    with pytest.raises(ValueError, match="no table under '## Torture'"):
        replaced("# Reliability\n", new)


def test_a_command_line(room, capsys, monkeypatch):
    """One trial by its number: what was done, every verdict, the table."""
    monkeypatch.setattr(torture, "Room", lambda folder, limit: room)
    monkeypatch.setattr(room, "close", lambda: None)
    assert torture.main(["--seed", "3", "--only", "lines", "--trial", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("the same trials again: python -m tests.torture --seed 3\n")
    assert "\nlines 2, " in out
    assert "| command lines that make no sense | 1 | 1 |" in out
