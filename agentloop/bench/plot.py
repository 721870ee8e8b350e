"""Small charts as SVG text: lines over a numbered axis, and grouped bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bar_chart", "line_chart"]

_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 360, 60, 56, 44


def line_chart(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One line a series of (x, y) points."""
    points = [p for line in series.values() for p in line]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top = _nice(max(y for _, y in points))
    span = (right - left) or 1.0
    body = _frame(title, x_label, y_label, top)
    for (name, line), colour in zip(series.items(), _COLOURS * len(series), strict=False):
        path = " ".join(f"{_x((x - left) / span):.1f},{_y(y / top):.1f}" for x, y in line)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{escape(name)}</title></polyline>"
        )
        body += [
            f'<circle cx="{_x((x - left) / span):.1f}" cy="{_y(y / top):.1f}" r="3" fill="{colour}"/>' for x, y in line
        ]
    steps = sorted({x for x, _ in points})
    for x in steps[:: max(1, len(steps) // 10)]:
        body.append(_text(_x((x - left) / span), _HEIGHT - _BOTTOM + 18, f"{x:g}", "middle"))
    return _svg(body + _legend(list(series)))


def bar_chart(title: str, y_label: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """One group of bars a key; every group has the same names."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    top = _nice(max(value for group in groups.values() for value in group.values()))
    body = _frame(title, "", y_label, top)
    wide = 1.0 / len(groups)
    for g, (label, group) in enumerate(groups.items()):
        body.append(_text(_x((g + 0.5) * wide), _HEIGHT - _BOTTOM + 18, label, "middle"))
        for i, name in enumerate(names):
            if name in group:
                x = _x((g + 0.1 + 0.8 * i / len(names)) * wide)
                y = _y(group[name] / top)
                width = (_WIDTH - _LEFT - 20) * wide * 0.8 / len(names) - 2
                body.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT - _BOTTOM - y:.1f}" '
                    f'fill="{_COLOURS[i % len(_COLOURS)]}"><title>{escape(name)}: {group[name]:g}</title></rect>'
                )
    return _svg(body + _legend(names))


def _nice(value: float) -> float:
    size = 10.0 ** (len(f"{value:.0f}") - 1) if value >= 1 else 0.1
    return size * max(1.0, -(-value // size)) if value > 0 else 1.0


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - 20)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _frame(title: str, x_label: str, y_label: str, top: float) -> list[str]:
    body = [f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>']
    for i in range(6):
        y = _y(i / 5)
        body.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        body.append(_text(_LEFT - 6, y + 4, f"{top * i / 5:.3g}", "end"))
    body.append(_text((_WIDTH + _LEFT) / 2, _HEIGHT - 18, x_label, "middle"))
    body.append(_text(_LEFT, 36, y_label))
    return body


def _legend(names: Sequence[str]) -> list[str]:
    out: list[str] = []
    for i, name in enumerate(names):
        x = _LEFT + 110 * i
        out.append(f'<rect x="{x}" y="{_HEIGHT - 12}" width="10" height="10" fill="{_COLOURS[i % len(_COLOURS)]}"/>')
        out.append(_text(x + 14, _HEIGHT - 3, name))
    return out


def _svg(body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
    head += 'font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *body, "</svg>"]) + "\n"
