// Charts on one time axis. Where the pointer stands on one, all show the figures of that minute; each decision is a mark.
import uPlot from "uplot";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ExpectedLoad, HistoryDocument as History, JobOverview, DecisionMark as Mark } from "../api/documents";
import { withGaps } from "./gaps";
import { decisionLink } from "./links";
import { colour, isDark } from "./theme";
import { DAY_S, FIGURES, MINUTE_MS, clock, count, day } from "./words";

/** How a chart differs from the others; a figure without an entry is a plain line from 0. */
interface Look {
  steps?: boolean;
  least_most?: number;
  axis?: (value: number) => string;
  ahead?: boolean;
}

const LOOKS: Partial<Record<keyof JobOverview, Look>> = {
  load_records_per_minute: { ahead: true },
  parallelism: { steps: true },
  backlog_records: { least_most: 10 },
  rent_per_day: { steps: true, axis: (value) => `$${count(value)}` },
};

type Panel = (typeof FIGURES)[number] & Look;

const PANELS: Panel[] = FIGURES.filter(({ chart }) => chart).map((figure) => ({ ...figure, ...LOOKS[figure.field] }));

const HEIGHT = 92;
const AXIS_HEIGHT = 26;
const AXIS_WIDTH = 64;
const NEAR_PX = 8;
const NEAR = 2; // times the most: up to here a line is worth the room
const LINE = [6, 4];
const CAPACITY_AT = 5; // among the columns of the load

/** How much is shown; the first is all that the view keeps. */
export const RANGES = [{ minutes: 240, words: "4 hours" }, { minutes: 120, words: "2 hours" }, { minutes: 30, words: "30 minutes" }] as const;

export function Range({ minutes, onChoice }: { minutes: number; onChoice: (minutes: number) => void }): JSX.Element {
  return (
    <label>
      Show the last{" "}
      <select value={minutes} onChange={(event) => onChoice(Number(event.currentTarget.value))}>
        {RANGES.map((range) => <option key={range.minutes} value={range.minutes}>{range.words}</option>)}
      </select>
    </label>
  );
}

/** The name of the column of what could be taken at the size of each minute, of which a job's history has none. */
export const CAPACITY = "capacity";
const BUSY_LEAST = 0.1; // of less, what a task could take would be mostly noise

/** Return what would have been taken in each minute, had whoever was busy for a share of it been busy for all of it. */
export function capacities(taken: (number | null)[], shares: (number | null)[]): (number | null)[] {
  return taken.map((records, at) => {
    const share = shares[at] ?? 0;
    return !records || share < BUSY_LEAST ? null : records / share;
  });
}

/** Sizes that are allowed; null: nothing worth a line. */
export interface Limits {
  least: number | null;
  most: number | null;
}

const NO_LIMITS: Limits = { least: null, most: null };

interface ChartsProps {
  history: History;
  limits: Limits;
}

export function Charts({ history: known, limits }: ChartsProps): JSX.Element {
  const history = useMemo(() => withGaps(known), [known]);
  const [at, setAt] = useState<number | null>(null);
  const last = history.window_end_ms.length - 1;
  const shown = Math.min(at ?? last, last);
  const expects = ahead(history);
  const coming = at !== null && at > last ? expects[Math.floor((at - last - 1) / 2)] : undefined;
  const mark = history.decisions.find((each) => each.at_ms === history.window_end_ms[shown]);
  return (
    <div class="charts">
      <p class="charts-at" aria-hidden="true">
        <span class="figure">{clock(coming ? coming.from_ms : history.window_end_ms[shown])}</span>{" "}
        {coming ? expectation(coming) : at === null ? "UTC, newest minute" : mark ? `decision: ${mark.action} ${mark.before} → ${mark.after}` : "UTC"}
      </p>
      {PANELS.filter((panel) => isShown(history, panel)).map((panel, index, panels) => {
        const values = column(history, panel);
        const own = panel.field === "parallelism" ? limits : NO_LIMITS;
        const about = panel.about + allowed(own) + (panel.ahead ? capable(history, shown) : "");
        return (
          <figure key={panel.name} class="chart" aria-label={`${panel.name}, ${about}: ${spoken(values, panel)}${panel.ahead ? foretold(expects) : ""}`}>
            <figcaption>
              <span class="chart-title">{panel.name}</span>
              <span class="chart-value figure">{panel.text(values[shown] ?? null)}</span>
              <span class="chart-about">{about}</span>
            </figcaption>
            <Plot history={history} panel={panel} least={own.least} most={own.most} hasAxis={index === panels.length - 1} onCursor={setAt} />
          </figure>
        );
      })}
      <p class="legend" aria-hidden="true">
        {history.decisions.length > 0 && (
          <>
            <span><span class="key key-act" /> changed</span>
            <span><span class="key key-hold" /> left as it was</span>
            <span>click a mark to see why</span>
          </>
        )}
        <span>grey dashes: limits{history.figures[CAPACITY] && " and capacity"}</span>
        {expects.length > 0 && <span>dashes in its colour: the load that the newest decision expects, shaded within one standard deviation</span>}
      </p>
    </div>
  );
}

function allowed({ least, most }: Limits): string {
  return (least === null ? "" : `, at least ${count(least)}`) + (most === null ? "" : `, at most ${count(most)}`);
}

/** Return what could be taken in a minute, if that is known. */
function capable(history: History, at: number): string {
  const most = history.figures[CAPACITY]?.[at] ?? null;
  return most === null ? "" : `, capacity ${count(most)}`;
}

function foretold(stages: ExpectedLoad[]): string {
  if (!stages.length) return "";
  const means = stages.map((stage) => stage.mean);
  return `, expected from ${count(Math.min(...means))} to ${count(Math.max(...means))} until ${clock(stages[stages.length - 1]?.until_ms)}`;
}

function expectation(stage: ExpectedLoad): string {
  const range = stage.low === null ? "" : `, ${count(stage.low)} to ${count(stage.high)}`;
  return `until ${clock(stage.until_ms)}: ${count(stage.mean)} records a minute expected${range}`;
}

function spoken(values: (number | null)[], panel: Panel): string {
  const known = values.filter((value): value is number => value !== null);
  if (!known.length) return "not known";
  const gaps = known.length < values.length ? ", not known of all minutes" : "";
  return `from ${panel.text(Math.min(...known))} to ${panel.text(Math.max(...known))}${gaps}, now ${panel.text(values[values.length - 1] ?? null)}`;
}

interface PlotProps {
  history: History;
  panel: Panel;
  least: number | null;
  most: number | null;
  hasAxis: boolean;
  onCursor: (at: number | null) => void;
}

function Plot({ history, panel, least, most, hasAxis, onCursor }: PlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<Mark[]>(history.decisions);
  const dark = isDark.value;
  marks.current = history.decisions;
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    const made = new uPlot(options(panel, { least, most }, hasAxis, box.clientWidth, marks, onCursor), data(history, panel), box);
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: height(hasAxis) }));
    resize.observe(box);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [panel, least, most, hasAxis, dark]);
  useEffect(() => plot.current?.setData(data(history, panel)), [history, panel]);
  return <div ref={place} class="plot" />;
}

/** Say whether a chart is worth its room: what an engine never has, such as a cost, is left out; what is unknown for a time is not. */
function isShown(history: History, panel: Panel): boolean {
  const values = column(history, panel);
  return values.length > 0 && (panel.field !== "rent_per_day" || values.some((value) => value !== null));
}

const height = (hasAxis: boolean): number => HEIGHT + (hasAxis ? AXIS_HEIGHT : 0);

type Column = (number | null)[];

function column(history: History, panel: Panel): Column {
  return history.figures[panel.field] ?? [];
}

/** Return the stages that are still ahead of the newest minute, the one under way from then on. */
function ahead(history: History): ExpectedLoad[] {
  const now = history.window_end_ms[history.window_end_ms.length - 1] ?? 0;
  return history.expected
    .filter((stage) => stage.until_ms > now + MINUTE_MS)
    .map((stage) => ({ ...stage, from_ms: Math.max(stage.from_ms, now + MINUTE_MS) }));
}

/** Return the minutes, then both ends of each stage ahead; of the load also what was expected of them and the capacity. */
function data(history: History, panel: Panel): uPlot.AlignedData {
  const stages = ahead(history);
  const values = column(history, panel);
  const past: Column = values.map(() => null);
  const future: Column = stages.flatMap(() => [null, null]);
  const of = (pick: (stage: ExpectedLoad) => number | null): Column => [...past, ...stages.flatMap((stage) => [pick(stage), pick(stage)])];
  const times = [...history.window_end_ms, ...stages.flatMap((stage) => [stage.from_ms, stage.until_ms - 1])];
  const seconds = times.map((ms) => ms / 1_000);
  if (!panel.ahead) return [seconds, [...values, ...future]];
  return [seconds, [...values, ...future], of((stage) => stage.mean), of((stage) => stage.high), of((stage) => stage.low), [...(history.figures[CAPACITY] ?? past), ...future]];
}

function options(
  panel: Panel,
  limits: Limits,
  hasAxis: boolean,
  width: number,
  marks: { current: Mark[] },
  onCursor: (at: number | null) => void,
): uPlot.Options {
  const stroke = colour(`chart-${panel.chart}`);
  const axis = { stroke: colour("text-quiet"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("line-faint"), width: 1 };
  return {
    width,
    height: height(hasAxis),
    padding: [8, 20, hasAxis ? 0 : 6, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "job" },
      y: false,
      points: { size: 7 },
      drag: { x: true, y: false, setScale: true },
    },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
    scales: {
      x: { time: true },
      y: { range: (plot, __, most) => [0, panel.form === "percent" ? 1 : Math.max(most * 1.12, panel.least_most ?? 1e-9, near(plot, most, limits))] },
    },
    axes: [
      {
        ...axis,
        grid,
        size: hasAxis ? AXIS_HEIGHT : 0,
        values: (_, splits) => splits.map((seconds) => (hasAxis ? label(seconds * 1_000) : "")),
      },
      { ...axis, grid, size: AXIS_WIDTH, space: 28, values: (_, splits) => splits.map(panel.axis ?? panel.text) },
    ],
    series: [
      {},
      {
        stroke,
        width: 1.6,
        fill: panel.steps ? "transparent" : `${stroke}26`,
        points: { show: false },
        ...(panel.steps ? { paths: uPlot.paths.stepped!({ align: -1 }) } : {}),
      },
      ...(panel.ahead
        ? [
            { stroke, width: 1.4, dash: [4, 3], points: { show: false } },
            { stroke: "transparent", points: { show: false } },
            { stroke: "transparent", points: { show: false } },
            { stroke: colour("text-quiet"), width: 1, dash: LINE, points: { show: false }, auto: false },
          ]
        : []),
    ],
    bands: panel.ahead ? [{ series: [3, 4], fill: `${stroke}33` }] : [],
    hooks: {
      drawAxes: [(plot) => drawMarks(plot, marks.current), (plot) => drawLimit(plot, limits.least), (plot) => drawLimit(plot, limits.most)],
      setCursor: [(plot) => onCursor(plot.cursor.left !== undefined && plot.cursor.left >= 0 ? (plot.cursor.idx ?? null) : null)],
      ready: [
        (plot) => {
          plot.over.addEventListener("click", (event) => {
            const found = nearest(plot, marks.current, event.offsetX);
            if (found) location.hash = decisionLink(found.decision_id);
          });
          plot.over.addEventListener("mousemove", (event) => {
            plot.over.style.cursor = nearest(plot, marks.current, event.offsetX) ? "pointer" : "crosshair";
          });
        },
      ],
    },
  };
}

/** Return how far up a chart must reach for the lines that are near its figures; one far above them would flatten these. */
function near(plot: uPlot, most: number, limits: Limits): number {
  const capacities = ((plot.data[CAPACITY_AT] ?? []) as Column).filter((value): value is number => value !== null);
  const lines = [limits.least ?? 0, limits.most ?? 0, Math.max(0, ...capacities)];
  return 1.05 * Math.max(0, ...lines.filter((line) => line <= NEAR * most));
}

function label(ms: number): string {
  return ms % (1_000 * DAY_S) === 0 ? day(ms) : clock(ms);
}

function nearest(plot: uPlot, marks: Mark[], x: number): Mark | undefined {
  const distance = (mark: Mark): number => Math.abs(plot.valToPos(mark.at_ms / 1_000, "x") - x);
  const found = marks.reduce<Mark | undefined>((best, mark) => (!best || distance(mark) < distance(best) ? mark : best), undefined);
  return found && distance(found) <= NEAR_PX ? found : undefined;
}

/** Draw a limit where it is within what the chart shows; its caption names it in any case. */
function drawLimit(plot: uPlot, limit: number | null): void {
  if (limit === null || limit > (plot.scales.y?.max ?? 0)) return;
  const { ctx, bbox } = plot;
  const y = Math.round(plot.valToPos(limit, "y", true)) + 0.5;
  ctx.save();
  ctx.strokeStyle = colour("text-quiet");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(LINE.map((length) => length * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.at_ms / 1_000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const isAct = mark.action === "act";
    ctx.strokeStyle = ctx.fillStyle = colour(isAct ? "act" : "hold");
    ctx.lineWidth = ratio;
    ctx.setLineDash(isAct ? [] : [2 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x + 0.5, bbox.top);
    ctx.lineTo(x + 0.5, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    if (!isAct) continue;
    ctx.beginPath();
    ctx.moveTo(x - 4 * ratio, bbox.top - 1);
    ctx.lineTo(x + 4 * ratio, bbox.top - 1);
    ctx.lineTo(x, bbox.top + 6 * ratio);
    ctx.fill();
  }
  ctx.restore();
}
