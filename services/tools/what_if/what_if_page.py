"""A what-if as one page for a browser, with its charts as SVG text: no script, no address, light and dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from math import floor, log10

from surescale.services.tools.what_if.document import BaselineDifference, HoldoutCheck, VariantResult, WhatIfReport
from surescale.services.tools.what_if.what_if_table import difference_told, span

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: also for colour-blind readers
_TITLES = {
    "cost": "Cost",
    "late": "Late minutes",
    "rescales": "Rescales",
    "latency": "Latency",
    "backlog": "Backlog",
    "utilisation": "Busy",
}
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--grid:#d8dee4;--error:#e9ecf0}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;--grid:#30363d;--error:#21262d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:960px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
td,th{padding:.3em .7em;text-align:right;border-bottom:1px solid var(--grid)}
td:first-child,th:first-child{text-align:left}
figure{margin:1.5em 0}figcaption{font-weight:600}small,.soft{color:var(--soft);font-weight:400}
svg{width:100%;height:auto}svg text{font-size:12px;fill:var(--ink)}svg .tick{fill:var(--soft);font-size:11px}
.grid{stroke:var(--grid)}.zero{stroke:var(--soft);stroke-dasharray:3 3}.error{fill:var(--error)}
polyline{fill:none;stroke-width:1.6}.recorded{stroke:var(--soft);stroke-dasharray:4 3}
.shown line,.unshown line{stroke:currentColor;stroke-width:2}.shown circle{fill:currentColor}
.unshown{color:var(--soft)}.unshown circle{fill:var(--paper);stroke:currentColor;stroke-width:2}
.keys{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.4em;padding:0;margin:0;font-size:13px}
.key{display:inline-block;width:1.6em;margin-right:.5em;vertical-align:middle;border-top:3px solid}
.key.recorded{border-top:2px dashed var(--soft)}.band{stroke:none;opacity:.18}
"""


def page(report: WhatIfReport) -> str:
    """Return the page."""
    times = _times(report)
    title = f"What if: {report.job}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Recorded {_instant(report.recorded_first)} to {_instant(report.recorded_last)} UTC, "
        f"{report.recorded_minutes} minutes. "
        f"Played again from {_instant(report.first)}: {report.hours} hours, {report.draws} random draws of the world.</p>",
        _held_back(report.held_back),
        _figures(report),
        "<h2>Differences</h2>",
        "<p class=soft>Dot: the difference to the baseline. Line: its 95 % interval. Shaded: how far the fitted world was off. "
        "Filled dots are differences that chance and that error do not explain.</p>",
        *_differences(report),
        "<h2>Over time</h2>",
        lines("Load", "records a minute", [Line("recorded", report.load, 5)], times),
        lines(
            "Size",
            "subtasks, first draw",
            [
                Line("as it ran", report.recorded_subtasks, -1),
                *(Line(each.label, each.subtasks, at % len(_COLOURS)) for at, each in enumerate(report.variants)),
            ],
            times,
        ),
        *(
            lines(
                f"Waiting: {each.label}",
                "records, mean and most over the draws",
                [Line(each.label, each.waiting, at % len(_COLOURS), each.waiting_most)],
                times,
            )
            for at, each in enumerate(report.variants)
        ),
        "<h2>Where decisions part</h2>",
        *(_partings(each, report) for each in report.variants if each.minus_baseline is not None),
        _notes(report),
    ]
    colours = "".join(
        f".c{at}{{stroke:{colour}}}.band.c{at}{{fill:{colour}}}.key.c{at}{{border-color:{colour}}}"
        for at, colour in enumerate(_COLOURS)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{colours}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _held_back(part: HoldoutCheck) -> str:
    def told(value: float | None) -> str:
        return "unknown" if value is None else f"{value:.4g}"

    busy = "unknown" if part.busy_error is None else f"{part.busy_error:.1%}"
    latency = "unchecked" if part.latency_error_s is None else f"{part.latency_error_s:.3g} s"
    return (
        f"<h2>Check</h2><p>Fitted without the last {part.minutes} minutes, the world predicted them at the recorded sizes. "
        f"Error of the busy time: <b>{busy}</b>; of the latency: <b>{latency}</b>.</p><table><tr><th></th><th>predicted</th>"
        f"<th>recorded</th></tr><tr><td>busy subtasks</td><td>{told(part.busy)}</td><td>{told(part.busy_recorded)}</td></tr>"
        f"<tr><td>records waiting</td><td>{told(part.waiting)}</td><td>{told(part.waiting_recorded)}</td></tr></table>"
    )


def _figures(report: WhatIfReport) -> str:
    head = "".join(
        f"<th>{_TITLES[name]}<br><small>{escape(report.units[name])}</small></th>" for name in report.variants[0].figures
    )
    rows = "".join(
        f"<tr><td>{escape(each.label)}</td>{''.join(f'<td>{span(found)}</td>' for found in each.figures.values())}</tr>"
        for each in report.variants
    )
    return f"<h2>Figures</h2><table><tr><th></th>{head}</tr>{rows}</table><p class=soft>± is half a 95 % interval.</p>"


def _differences(report: WhatIfReport) -> list[str]:
    found = []
    for name in report.variants[0].figures:
        bars = [(each.label, each.minus_baseline[name]) for each in report.variants if each.minus_baseline is not None]
        found.append(differences(_TITLES[name], report.units[name], bars))
    return found


def _partings(tried: VariantResult, report: WhatIfReport) -> str:
    head = f"<h3>{escape(tried.label)}</h3>"
    if tried.same:
        return f"{head}<p>The same decisions, in every draw.</p>"
    told = "".join(f"<li>{escape(line)}</li>" for line in difference_told(tried, report))
    rows = "".join(
        f"<tr><td>{_instant(each.first)} to {each.last[11:]}</td><td>{each.baseline} → {each.variant}</td>"
        f"<td>{escape(', '.join(f'{name} {before} → {after}' for name, (before, after) in each.tasks.items()))}</td>"
        f"<td>{escape(each.reason)}</td></tr>"
        for each in tried.partings
    )
    refused = "<p><b>Not compared:</b> the fitted world was further off than these differences.</p>" if tried.refused else ""
    return (
        f"{head}{refused}<ul>{told}</ul><details><summary>{len(tried.partings)} stretches with other sizes (first draw)</summary>"
        f"<table><tr><th>when</th><th>subtasks</th><th>tasks</th><th>why</th></tr>{rows}</table></details>"
    )


def _notes(report: WhatIfReport) -> str:
    notes = [*report.notes]
    if report.not_played:
        notes.append(f"Set for this job, but not played: {', '.join(report.not_played)}.")
    return f"<h2>Notes</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""


def _times(report: WhatIfReport) -> list[str]:
    first = datetime.fromisoformat(report.first)
    step = timedelta(minutes=report.curve_minutes)
    return [(first + at * step).strftime("%Y-%m-%dT%H:%M") for at in range(len(report.load))]


def _instant(text: str) -> str:
    return text.replace("T", " ")


WIDTH, HEIGHT = 900, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 10, 24
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; ``most`` shades the band from the curve up to it. ``place`` picks its colour; -1: the recording itself."""

    label: str
    values: Sequence[float]
    place: int
    most: Sequence[float] = ()


def lines(title: str, unit: str, curves: Sequence[Line], times: Sequence[str]) -> str:
    """Return curves over time; all have one value for each of ``times`` (ISO instants)."""
    top = _nice(max((max(max(each.values, default=0.0), max(each.most, default=0.0)) for each in curves), default=0.0))
    parts = [_axis(top, _LEFT, WIDTH - _RIGHT), _time_labels(times)]
    for each in curves:
        if each.most:
            up = _points(each.most, top)
            down = list(reversed(_points(each.values, top)))
            parts.append(f'<polygon class="band c{each.place}" points="{" ".join((*up, *down))}"/>')
    for each in curves:
        kind = f"c{each.place}" if each.place >= 0 else "recorded"
        points = " ".join(_steps(each.values, top))
        parts.append(f'<polyline class="{kind}" points="{points}"><title>{escape(each.label)}</title></polyline>')
    keys = "".join(
        f'<li><span class="key {f"c{each.place}" if each.place >= 0 else "recorded"}"></span>{escape(each.label)}</li>'
        for each in curves
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}, {escape(unit)}">{"".join(parts)}</svg>'
        f"<ul class=keys>{keys}</ul></figure>"
    )


def differences(title: str, unit: str, bars: Sequence[tuple[str, BaselineDifference]]) -> str:
    """Return a row for each variant: its difference to the baseline with the interval, over the error of the fitted world."""
    ends = (value for _, each in bars for value in (each.low, each.high, each.model_error or 0.0))
    reach = _nice(max(map(abs, ends), default=1.0))
    height, left, right = 30 * len(bars) + _BOTTOM + _TOP, 240, WIDTH - _RIGHT

    def across(value: float) -> float:
        return left + (value + reach) / (2 * reach) * (right - left)

    parts = []
    for at, (label, each) in enumerate(bars):
        y = _TOP + 30 * at + 15
        if (error := each.model_error) is not None and error > 0:
            x, wide = across(-error), across(error) - across(-error)
            parts.append(f'<rect class="error" x="{x:.1f}" y="{y - 12}" width="{wide:.1f}" height="24"/>')
        kind = "shown" if each.is_shown else "unshown"
        told = f"{label}: {each.mean:+.4g} {unit}, 95 % from {each.low:.4g} to {each.high:.4g}"
        parts.append(
            f'<g class="{kind}"><title>{escape(told)}</title><line x1="{across(each.low):.1f}" x2="{across(each.high):.1f}" '
            f'y1="{y}" y2="{y}"/><circle cx="{across(each.mean):.1f}" cy="{y}" r="5"/></g>'
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(_cut(label))}</text>'
        )
    base = height - _BOTTOM + 4
    zero = f'<line class="zero" x1="{across(0):.1f}" x2="{across(0):.1f}" y1="{_TOP}" y2="{base}"/>'
    ticks = "".join(
        f'<text class="tick" x="{across(value):.1f}" y="{height - 4}" text-anchor="{anchor}">{_number_in_words(value)}</text>'
        for value, anchor in ((-reach, "start"), (0.0, "middle"), (reach, "end"))
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}, differences">'
        f"{''.join(parts)}{zero}{ticks}</svg></figure>"
    )


def _points(values: Sequence[float], top: float) -> list[str]:
    last = max(1, len(values) - 1)
    return [f"{_LEFT + at / last * (WIDTH - _LEFT - _RIGHT):.1f},{_down(value, top):.1f}" for at, value in enumerate(values)]


def _steps(values: Sequence[float], top: float) -> list[str]:
    """Return the corners of a curve without the points in the middle of a level stretch."""
    points = _points(values, top)
    return [
        point
        for at, point in enumerate(points)
        if at in (0, len(points) - 1) or values[at] != values[at - 1] or values[at] != values[at + 1]
    ]


def _down(value: float, top: float) -> float:
    return _TOP + (1.0 - min(value / top, 1.0)) * (HEIGHT - _TOP - _BOTTOM)


def _axis(top: float, left: float, right: float) -> str:
    parts = []
    for at in range(_TICKS + 1):
        value = top * at / _TICKS
        y = _down(value, top)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_number_in_words(value)}</text>')
    return "".join(parts)


def _time_labels(times: Sequence[str]) -> str:
    if not times:
        return ""
    last = max(1, len(times) - 1)
    shown = sorted({round(at * last / 6) for at in range(7)} & set(range(len(times))))
    is_long = times[0][:10] != times[-1][:10]
    parts = []
    for at in shown:
        x = _LEFT + at / last * (WIDTH - _LEFT - _RIGHT)
        told = times[at][5:].replace("T", " ") if is_long else times[at][11:]
        anchor = "start" if at == 0 else "end" if at == last else "middle"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{told}</text>')
    return "".join(parts)


def _nice(value: float) -> float:
    """Return a round number at or a little above a value."""
    if not value > 0:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return float(next(step * scale for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * scale >= value * (1 - 1e-9)))


def _number_in_words(value: float) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if size >= 1e4 else f"{value:g}"


def _cut(label: str) -> str:
    return label if len(label) <= 34 else f"{label[:33]}…"
