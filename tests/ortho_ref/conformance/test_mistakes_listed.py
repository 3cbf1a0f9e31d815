"""`python -m ortho_ref.conformance mistakes`: what the kit can name, and where it is seen."""

from collections import Counter

from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.cases.case_files import vectors
from ortho_ref.conformance.mistakes import MISTAKES


def entries(capsys, *arguments):
    """Name -> words and cases, of what is printed; below them, what takes the names."""
    assert main(["mistakes", *arguments]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert "`run --assume` takes these names" in last
    named = zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    return {name: (says.strip(), shown.strip().removeprefix("shown by ").split(", ")) for name, says, shown in named}


def test_every_mistake_is_listed_with_the_cases_that_show_it(capsys):
    """Each is shown by one at least, as many as the vectors say, by the first two parts of their names."""
    found = entries(capsys)
    assert {name: says for name, (says, _) in found.items()} == {m.name: m.says for m in MISTAKES}
    shown = Counter((name, "/".join(vector.id.split("/")[:2])) for vector in vectors() for name in vector.kills)
    for name, (_, groups) in found.items():
        own = {group: count for (mistake, group), count in shown.items() if mistake == name}
        if sum(own.values()) > 1:
            assert groups == [f"{group} {count}" for group, count in own.items()], name


def test_the_mistakes_of_some_cases(capsys):
    """Those that these show, and no other case."""
    found = entries(capsys, "--only", "cell/lstm/long")
    assert set(found) == set(next(v.kills for v in vectors() if v.id == "cell/lstm/long"))
    assert all(cases == ["cell/lstm/long"] for _, cases in found.values())
