// A job's last hours in a hand's breadth: load as an area, size as steps. Asked for when its row comes into sight.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, jobPath } from "../api/client";
import type { HistoryDocument as History, DecisionMark as Mark } from "../api/documents";
import { runs, withGaps } from "./gaps";
import { MINUTE_MS, count, plural } from "./words";

const WIDTH = 168;
const HEIGHT = 30;
const MINUTES = 120;

/** The newest decisions of the jobs that were in sight, for who wants to show them together. */
export const seenMarks = signal<ReadonlyMap<string, Mark[]>>(new Map());

type Points = (number | null)[];

/** `stamp` changes when there is a new minute. */
export function Sparkline({ job, stamp }: { job: string; stamp: number | null }): JSX.Element {
  const place = useRef<HTMLSpanElement>(null);
  const [isSeen, setSeen] = useState(false);
  const [history, setHistory] = useState<History | null>(null);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => setSeen(entry?.isIntersecting ?? false), { rootMargin: "100px" });
    // The row, not the line: a table that scrolls sideways may hide the line of a job that is in sight.
    const row = place.current?.closest("tr") ?? place.current;
    if (row) watch.observe(row);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!isSeen || stamp === null) return undefined;
    const stop = new AbortController();
    get<History>(`${jobPath(job)}/history?minutes=${MINUTES}`, stop.signal).then(
      (found) => {
        setHistory(withGaps(found));
        seenMarks.value = new Map(seenMarks.value).set(job, found.decisions);
      },
      () => undefined, // the next minute asks again
    );
    return () => stop.abort();
  }, [job, isSeen, stamp]);
  return (
    <span ref={place} class="sparkline">
      {history && history.window_end_ms.length > 1 && <Lines history={history} />}
    </span>
  );
}

function Lines({ history }: { history: History }): JSX.Element {
  const times = history.window_end_ms;
  const to = times[times.length - 1] ?? 1;
  const from = to - (MINUTES - 1) * MINUTE_MS; // also of a job that is younger
  const x = (ms: number): number => (WIDTH * (ms - from)) / Math.max(to - from, 1);
  const load = history.figures.load_records_per_minute ?? [];
  const size = history.figures.parallelism ?? [];
  const acts = history.decisions.filter((mark) => mark.action === "act" && mark.at_ms <= to);
  const missing = load.filter((value) => value === null).length;
  const label =
    `Last ${plural(Math.round((to - (times[0] ?? to)) / MINUTE_MS) + 1, "minute")}${missing ? ", not all of them known" : ""}: load ${range(load)} records a minute, size ${range(size)} subtasks, ` +
    `${plural(acts.length, "change")} decided.`;
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT}>
      <path class="spark-load" d={area(times, load, x, scale(load))} />
      <path class="spark-size" d={steps(times, size, x, scale(size))} />
      {acts.map((mark) => (
        <path key={mark.decision_id} class="spark-mark" d={`M${x(mark.at_ms).toFixed(1)} ${HEIGHT}v-5`} />
      ))}
    </svg>
  );
}

function known(points: Points): number[] {
  return points.filter((value): value is number => value !== null);
}

function range(points: Points): string {
  const values = known(points);
  return values.length ? `${count(Math.min(...values))} to ${count(Math.max(...values))}` : "unknown";
}

/** Both lines stand on zero, so that half the height is half the figure. */
function scale(points: Points): (value: number) => number {
  const most = Math.max(...known(points), 1e-9);
  return (value) => HEIGHT - 3 - ((HEIGHT - 6) * value) / most;
}

function area(times: number[], points: Points, x: (ms: number) => number, y: (value: number) => number): string {
  return runs(points)
    .map((run) => {
      const left = run.map((at) => x(times[at] ?? 0).toFixed(1));
      const line = run.map((at, index) => `${left[index]} ${y(points[at] ?? 0).toFixed(1)}`);
      return `M${left[0]} ${HEIGHT}L${line.join("L")}L${left[left.length - 1]} ${HEIGHT}Z`;
    })
    .join("");
}

function steps(times: number[], points: Points, x: (ms: number) => number, y: (value: number) => number): string {
  return runs(points)
    .flatMap((run) =>
      run.map((at, index) => {
        const [left, top] = [x(times[at] ?? 0).toFixed(1), y(points[at] ?? 0).toFixed(1)];
        return index ? `H${left}V${top}` : `M${left} ${top}`;
      }),
    )
    .join("");
}
