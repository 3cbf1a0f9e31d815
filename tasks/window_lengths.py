"""Random lengths of windows, as AWD-LSTM draws them, so that no token always stands at a window's edge.

With probability 0.95 about the length T asked for, else about T / 2; about: normal, of deviation 5, rounded down, and 5
at least.
"""

import numpy as np

from ortho_ref.training.task import check_choice

FORMS = ("fixed", "random")
SHORTEST, DEVIATION, HALVED = 5, 5.0, 0.05


def check_form(form: str) -> None:
    """ValueError unless windows have such a form."""
    check_choice("windows", form, FORMS)


def random_length(rng: np.random.Generator, length: int) -> int:
    """The length of the next window about T, at least 5; a run that goes on draws the same lengths again."""
    about = length / 2 if rng.random() < HALVED else length
    return max(SHORTEST, int(rng.normal(about, DEVIATION)))
