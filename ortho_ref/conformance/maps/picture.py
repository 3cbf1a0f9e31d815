"""The defect over the size of Q, as an SVG that needs nothing: log axes, and colours for a light and a dark page."""

from math import ceil, floor, log10
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from ortho_ref.conformance.maps.sweep import Curve
from ortho_ref.terminal import shown

if TYPE_CHECKING:
    from ortho_ref.conformance.maps.report import MapReport

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 150, 64, 58
_TITLE = 88  # characters
#: Defects are drawn between these: exact 0 by luck as a part of a rounding, what is not finite on the upper edge.
_LEAST, _MOST = {"float64": 2.0**-56, "float32": 2.0**-27}, 1e4
_STYLE = """
svg { background: #ffffff; font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 13px }
text { fill: #1f2328 } .small { fill: #59636e; font-size: 12px } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #59636e; stroke-width: 1 }
.judged { fill: #0969da; fill-opacity: .07 } .limit { stroke: #59636e; stroke-width: 1; stroke-dasharray: 2 3 }
.c0 { stroke: #0969da; fill: #0969da } .c1 { stroke: #bc4c00; fill: #bc4c00 } .c2 { stroke: #1a7f37; fill: #1a7f37 }
.c3 { stroke: #8250df; fill: #8250df } .c4 { stroke: #bf3989; fill: #bf3989 }
polyline { fill: none !important; stroke-width: 2 } .float32 { stroke-dasharray: 6 4 } circle { stroke: none }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #2b323b }
.axis, .limit { stroke: #9198a1 } .judged { fill: #4493f8; fill-opacity: .12 }
.c0 { stroke: #4493f8; fill: #4493f8 } .c1 { stroke: #f0883e; fill: #f0883e } .c2 { stroke: #3fb950; fill: #3fb950 }
.c3 { stroke: #ab7df8; fill: #ab7df8 } .c4 { stroke: #db61a2; fill: #db61a2 }
}
"""


class _Axes:
    """From sizes and defects to places in the picture."""

    def __init__(self, curves: tuple[Curve, ...], limit: float) -> None:
        sizes = [at for curve in curves for at in curve.at]
        defects = [limit, *(_kept(d, curve.dtype) for curve in curves for d in curve.defects if d is not None)]
        self.x0, self.x1 = log10(min(sizes)), log10(max(sizes))
        self.y0, self.y1 = floor(log10(min(defects))), ceil(log10(max(defects)))
        self.y1 = max(self.y1, self.y0 + 1)

    def x(self, at: float) -> float:
        """From the left."""
        return _LEFT + (log10(at) - self.x0) / (self.x1 - self.x0) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, defect: float) -> float:
        """From the top."""
        share = (log10(defect) - self.y0) / (self.y1 - self.y0)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _kept(defect: float, dtype: str) -> float:
    return min(max(defect, _LEAST[dtype]), _MOST)


def picture(report: "MapReport") -> str:
    """An SVG document of the defects for square Q, whose colours follow the reader's.

    ValueError where there is nothing to draw: the map gave no U.
    """
    curves = tuple(curve for curve in report.curves if curve.n == curve.columns)
    if not curves:
        raise ValueError(f"there is nothing to draw: {report.name} gives no U: {report.refusal}")
    axes = _Axes(curves, min(report.tolerance, _MOST))
    first = report.found.fitting[0].words if report.found.fitting else "none of the closed forms"
    whole = shown(f"{report.name}: {first}")
    title = escape(whole if len(whole) <= _TITLE else f"{whole[: _TITLE - 3]}...")
    over = {"||Q||_2": "‖Q‖₂"}.get(report.over, report.over)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
        ' role="img">',
        f"<title>{title}: defect over {escape(over)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="16" y="26">Defect ‖UᴴU - I‖₂ over {escape(over)}</text>',
        f'<text class="small" x="16" y="46">{title}</text>',
        *_frame(axes, report),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 14}" text-anchor="middle">{escape(over)}</text>',
        f'<text transform="translate(18 {(_TOP + _HEIGHT - _BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "defect</text>",
        *_curves(axes, curves),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _frame(axes: _Axes, report: "MapReport") -> list[str]:
    """What is judged, the grid, and its numbers."""
    left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM
    low, high = (min(max(axes.x(end), left), right) for end in report.range)
    limit = axes.y(min(report.tolerance, _MOST))
    parts = [f'<rect class="judged" x="{low:.1f}" y="{top}" width="{max(high - low, 1):.1f}" height="{bottom - top}"/>']
    step = max(1, ceil((axes.y1 - axes.y0) / 9))
    for power in range(axes.y0, axes.y1 + 1, step):
        y = axes.y(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="small" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>')
    for power in range(ceil(axes.x0 - 1e-9), floor(axes.x1 + 1e-9) + 1):
        x = axes.x(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>')
    parts += [
        f'<line class="limit" x1="{left}" y1="{limit:.1f}" x2="{right}" y2="{limit:.1f}"/>',
        f'<text class="small" x="{right - 6}" y="{limit - 6:.1f}" text-anchor="end">'
        f"tolerance {report.tolerance:g}</text>",
        f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>',
    ]
    return parts


def _power(power: int) -> str:
    if -3 <= power <= 2:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _curves(axes: _Axes, curves: tuple[Curve, ...]) -> list[str]:
    """The lines, and what they are: one colour for each n, dashes for float32."""
    parts, sizes = [], sorted({curve.n for curve in curves})
    for i, curve in enumerate(curves):
        own = f"c{sizes.index(curve.n) % 5} {curve.dtype}"
        places = [
            (axes.x(at), axes.y(_kept(d, curve.dtype)))
            for at, d in zip(curve.at, curve.defects, strict=True)
            if d is not None
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="{own}" points="{points}"/>')
        parts += [f'<circle class="{own}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places]
        x, y = _WIDTH - _RIGHT + 12, _TOP + 10 + 20 * i
        parts.append(f'<polyline class="{own}" points="{x},{y} {x + 26},{y}"/>')
        parts.append(f'<text class="small" x="{x + 32}" y="{y + 4}">{curve.dtype}, n = {curve.n}</text>')
    return parts
