"""From results on disk to the texts and plots of the reproduction page. Only figure 5 needs torch."""

from collections.abc import Sequence
from pathlib import Path

from reproductions.sure import significance
from reproductions.sure.environment import LATENCY_WEIGHT
from reproductions.sure.figures import figure_4, figure_5a, figure_5b
from reproductions.sure.inference import along_anchors
from reproductions.sure.results import Result, method_scores, read_all
from reproductions.sure.tables import standing, table_drawn, table_raw, table_z, words_on_peers
from reproductions.sure.zscores import VARIANTS


def results_of(out: Path, jobs: Sequence[str]) -> list[Result]:
    """Return the results of some jobs under a folder."""
    return [result for result in read_all(out) if result.job in jobs] if out.is_dir() else []


def tables(results: Sequence[Result], modes: Sequence[str], jobs: Sequence[str]) -> dict[str, str]:
    """Return the tables of each mode, ``paper-clean`` and ``paper-compat``, over the jobs with results of all nine variants.

    A mode without such a job is left out.
    """
    texts = {}
    for mode in modes:
        found = [result for result in results if result.mode == mode and not result.changed]
        table = method_scores(found)
        whole = [job for job in jobs if set(VARIANTS) <= set(table.get(job, {}))]
        if not whole:
            continue
        parts = [_head(mode, found, whole), table_z(table, whole), table_raw(table, whole), words_on_peers(table, whole)]
        parts += [standing(table, whole), _significance(found, whole), table_drawn(found, whole)]
        texts[f"paper-{mode}"] = "\n\n".join(part for part in parts if part)
    return texts


def _significance(found: Sequence[Result], jobs: Sequence[str]) -> str:
    try:
        return significance.table(found, jobs)
    except significance.Unpaired as unpaired:
        return f"No signed-rank tests yet. {unpaired}."


def _head(mode: str, found: Sequence[Result], jobs: Sequence[str]) -> str:
    learned = [result for result in found if result.method in VARIANTS and result.method != "HPA" and result.job in jobs]
    seeds = {job: len({result.seed for result in learned if result.job == job}) for job in jobs}
    low, high = min(result.train_s for result in learned), max(result.train_s for result in learned)
    updates = min(result.updates for result in learned), max(result.updates for result in learned)
    runs, decisions = len(learned[0].reward), learned[0].decisions
    return (
        f"Mode `{mode}`, lambda {LATENCY_WEIGHT[mode]}; week 2, {runs} offsets of {decisions} hourly decisions; training seeds: "
        f"{_range(min(seeds.values()), max(seeds.values()))}; {_range(round(low), round(high))} processor seconds and "
        f"{_range(*updates)} updates per training."
    )


def _range(low: float, high: float) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def figures(results: Sequence[Result], out: Path) -> tuple[str, dict[str, str]]:
    """Return text and SVG files of figures 4 and 5, as far as there are runs."""
    drawn, words = {}, []
    if any(result.changed for result in results):
        drawn["paper-figure-4.svg"] = figure_4(results, along_anchors())
        words.append("![Figure 4](figures/paper-figure-4.svg)")
    try:
        from reproductions.sure.case_study import case_study

        case = case_study(out)
    except ImportError:
        case = None
    if case is None:
        words.append("Figure 5 needs torch (`make install-train`) and the run of SURE on Small-1 in mode `clean`.")
        return "\n\n".join(words), drawn
    drawn["paper-figure-5a.svg"] = figure_5a(case.maps)
    picture, full, plane = figure_5b(case.parts, case.wholes, case.hops, "Embeddings of ten decisions, Small-1 (t-SNE)")
    drawn["paper-figure-5b.svg"] = picture
    words += ["![Figure 5(a)](figures/paper-figure-5a.svg)", "![Figure 5(b)](figures/paper-figure-5b.svg)"]
    words += [f"{title.capitalize()}, v1: {seen.words()}." for title, seen in case.maps.items()]
    words.append(f"Silhouette by hop: {full:+.2f} in the embeddings' own space, {plane:+.2f} in the plane.")
    return "\n\n".join(words), drawn
