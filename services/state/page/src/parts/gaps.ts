// Minutes that are missing are shown as missing: no line joins what stands on both sides of them.
import type { HistoryDocument as History } from "../api/documents";
import { MINUTE_MS } from "./words";

/** Return a history with one unknown minute in every gap between its minutes. */
export function withGaps(history: History): History {
  const times = history.window_end_ms;
  const ends = times.map((ms, at) => at + 1 < times.length && (times[at + 1] ?? 0) - ms > MINUTE_MS);
  if (!ends.some(Boolean)) return history;
  const widened = <T,>(column: T[], missing: (at: number) => T): T[] => column.flatMap((each, at) => (ends[at] ? [each, missing(at)] : [each]));
  return {
    ...history,
    window_end_ms: widened(times, (at) => (times[at] ?? 0) + MINUTE_MS),
    figures: Object.fromEntries(Object.entries(history.figures).map(([name, column]) => [name, widened(column, () => null)])),
  };
}

/** Return the runs of known values, each as places in the column. */
export function runs(points: (number | null)[]): number[][] {
  const found: number[][] = [];
  points.forEach((value, at) => {
    if (value === null) return;
    const last = found[found.length - 1];
    if (last && last[last.length - 1] === at - 1) last.push(at);
    else found.push([at]);
  });
  return found;
}
