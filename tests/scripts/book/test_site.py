"""Where the site is built: what an earlier build left goes, nothing else does."""

import pytest

from scripts.maintain.site import MARK, clear


def test_a_build_that_was_broken_off_is_built_anew(tmp_path):
    """Its folder is known by a mark that is there before anything else."""
    folder = tmp_path / "build" / "site"
    for _ in range(2):
        clear(folder)
        assert [own.name for own in folder.iterdir()] == [MARK]
        (folder / "index.html").touch()


@pytest.mark.parametrize("somebodys", ["a folder", "a file"])
def test_what_is_somebodys_stays(tmp_path, somebodys):
    """A folder with something in it and without the mark; a file."""
    place = tmp_path / "site"
    if somebodys == "a file":
        place.touch()
    else:
        place.mkdir()
        (place / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is there and was not built by this program; remove it, or give another"):
        clear(place)
    assert place.is_file() or (place / "thesis.tex").exists()
