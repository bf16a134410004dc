"""A what-if as one page for a browser: no script, no address, light and dark."""

from datetime import datetime, timedelta
from html import escape

from services.tools.what_if.charts import Bar, Line, differences, lines
from services.tools.what_if.document import HoldoutCheck, Report, Span, VariantResult
from services.tools.what_if.table import difference_told, number_told

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: also for colour-blind readers
_TITLES = {
    "cost": "Cost",
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


def page(report: Report) -> str:
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


def _figures(report: Report) -> str:
    head = "".join(
        f"<th>{_TITLES[name]}<br><small>{escape(report.units[name])}</small></th>" for name in report.variants[0].figures
    )
    rows = "".join(
        f"<tr><td>{escape(each.label)}</td>{''.join(f'<td>{_span(found)}</td>' for found in each.figures.values())}</tr>"
        for each in report.variants
    )
    return f"<h2>Figures</h2><table><tr><th></th>{head}</tr>{rows}</table><p class=soft>± is half a 95 % interval.</p>"


def _differences(report: Report) -> list[str]:
    found = []
    for name in report.variants[0].figures:
        bars = [
            Bar(each.label, minus.mean, minus.low, minus.high, minus.model_error, minus.is_shown)
            for each in report.variants
            if each.minus_baseline is not None
            for minus in (each.minus_baseline[name],)
        ]
        found.append(differences(_TITLES[name], report.units[name], bars))
    return found


def _partings(tried: VariantResult, report: Report) -> str:
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


def _notes(report: Report) -> str:
    notes = [*report.notes]
    if report.not_played:
        notes.append(f"Set for this job, but not played: {', '.join(report.not_played)}.")
    return f"<h2>Notes</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""


def _times(report: Report) -> list[str]:
    first = datetime.fromisoformat(report.first)
    step = timedelta(minutes=report.curve_minutes)
    return [(first + at * step).strftime("%Y-%m-%dT%H:%M") for at in range(len(report.load))]


def _span(found: Span) -> str:
    return f"{number_told(found.mean)} ± {number_told((found.high - found.low) / 2)}"


def _instant(text: str) -> str:
    return text.replace("T", " ")
