"""What the frame of the pages that move writes: numbers for people, and the marks of axes."""

import pytest

from tests.alive.node import answer, needs_node

pytestmark = needs_node


def of_frame(expression, given=None):
    """What an expression in the frame's functions gives."""
    return answer(f"const frame = require(scripts + 'frame.js'); console.log(JSON.stringify({expression}));", given)


def test_numbers():
    """Five digits, and an exponent where a number is far from 1; what is no number is said to be none."""
    values = {
        "0": "0",
        "1/3": "0.33333",
        "-2.5": "-2.5",
        "1200": "1200",
        "2.861e10": "2.861e+10",
        "0.00048": "4.800e-4",
        "NaN": "no number",
        "Infinity": "infinite",
        "-Infinity": "-infinite",
    }
    assert of_frame(f"[{', '.join(values)}].map(frame.shown)") == list(values.values())


@pytest.mark.parametrize(
    ("axis", "most", "marks"),
    [
        ({"from": -2, "to": 2}, 5, [-2, -1, 0, 1, 2]),
        ({"from": 0, "to": 0.3}, 4, [0, 0.1, 0.2, 0.3]),
        ({"from": 0, "to": 120}, 7, [0, 20, 40, 60, 80, 100, 120]),
        ({"from": 0.9, "to": 1.3}, 4, [0.9, 1, 1.1, 1.2, 1.3]),
        ({"from": 1e-3, "to": 2, "log": True}, 5, [1e-3, 1e-2, 0.1, 1]),
        ({"from": 1e-16, "to": 1e4, "log": True}, 5, [1e-16, 1e-12, 1e-8, 1e-4, 1, 1e4]),
    ],
)
def test_marks(axis, most, marks):
    """1, 2 or 5 times a power of ten apart, inside the axis; powers of ten on a logarithmic one."""
    assert of_frame("frame.ticks(given.axis, given.most)", {"axis": axis, "most": most}) == pytest.approx(marks)
