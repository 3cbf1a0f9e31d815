"""Trees of dicts and lists, and what is in them by its path."""

from ortho_ref.trees import by_path, nested


def test_there_and_back():
    """Flax's two levels and a leaf beside them; the order stays."""
    tree, paths = {"ir": {"kernel": 1, "bias": 2}, "b": 3, "hr": {"in": {"x": 4}}}, ["ir/kernel", "ir/bias", "b"]
    assert list(by_path(tree).items()) == [*zip(paths, (1, 2, 3), strict=True), ("hr/in/x", 4)]
    assert nested(by_path(tree)) == tree


def test_entries_of_lists():
    """By their numbers; what is empty has no path."""
    assert by_path({"carried": [1, (2, 3)], "average": {}}) == {"carried/0": 1, "carried/1/0": 2, "carried/1/1": 3}
