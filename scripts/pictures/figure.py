"""What all pictures share: their colours, their words, and how they are written."""

import io
import re
from pathlib import Path

import matplotlib

from ortho_ref import files
from ortho_ref.terminal import shown

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

#: An SVG is the same for the same figure; its words are text, which is smaller than outlines.
plt.rcParams.update({"svg.hashsalt": "ortho_ref", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]})

COLORS = ("#c1272d", "#0f4c81", "#b07d00", "#3a7d44", "#7b4b94", "#d95f0e", "#4d4d4d", "#1b9e9e")


def words(text: object, most: int = 100) -> str:
    """What was read from a file or a folder's name, for a picture: not as a formula, and of so many characters."""
    return shown(text, most).replace("$", r"\$")


#: Where the page around an SVG is dark, dark is light in it, and colours stay.
_DARK = b"@media (prefers-color-scheme: dark){svg{filter:invert(1) hue-rotate(180deg)}}</style>"


def save(figure: Figure, picture: Path, about: str | None = None) -> None:
    """Write a figure, whole or not at all, and close it; what it is of goes into its metadata."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    drawn, is_svg = io.BytesIO(), picture.suffix == ".svg"
    metadata = {"Keywords": about, "Creator": None} | ({"Date": None} if is_svg else {})
    figure.savefig(drawn, format=picture.suffix[1:], dpi=150, metadata=metadata, transparent=is_svg)
    plt.close(figure)
    files.write(picture, _small(drawn.getvalue()) if is_svg else drawn.getvalue())


def _small(svg: bytes) -> bytes:
    """Readable in the dark; without indents; of lines and bands every point in tenths of a unit, from the last."""
    svg = re.sub(rb"\n +", b"\n", svg).replace(b"</style>", _DARK)
    svg = svg.replace(b"'DejaVu Sans'\"", b"'DejaVu Sans', sans-serif\"")  # of formulas
    return re.sub(rb'(?<= d=")(?:[ML] \S+ \S+ \s)+(?:z\s)?(?=")', _steps, svg)


def _steps(path: re.Match[bytes]) -> bytes:
    found, x, y = b"", 0, 0
    for letter, *place in re.findall(rb"([ML]) (\S+) (\S+)", path[0]):
        to_x, to_y = (round(10 * float(own)) for own in place)
        found += b"%s%g %g" % (letter.lower(), (to_x - x) / 10, (to_y - y) / 10)
        x, y = to_x, to_y
    return found + b"z" * path[0].endswith(b"z\n")
