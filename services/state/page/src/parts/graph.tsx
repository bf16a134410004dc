// The task graph: a box a task, wider the more subtasks it has, coloured by how busy they are; edges show back pressure.
import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TaskSpec as Task, TaskMinuteDocument as TaskMinute } from "../api/documents";
import type { LayoutAsked, LayoutMade } from "./layout";
import { count, percent, plural } from "./words";

const HELD_BACK_FROM = 0.1;
const ZOOM_STEP = 1.3;
const FRAME_HEIGHT = 760;
const READABLE_SCALE = 0.7;
const TEXT_FROM_SCALE = 0.45; // smaller, and names are not readable anyway
const LETTER_WIDTH = 7.2;
const LINE_HEIGHT = 14;
const LINES_MAX = 3;

interface Props {
  tasks: Task[];
  minutes: Map<string, TaskMinute>;
  changed?: ReadonlySet<string>;
  selected?: string;
  onSelect: (task: string) => void;
}

export function TaskGraph({ tasks, minutes, changed, selected, onSelect }: Props): JSX.Element {
  const made = useLayout(tasks);
  const frame = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const room = useRoom(frame, made !== null);
  const summary = useMemo(() => described(tasks, minutes), [tasks, minutes]);
  useEffect(() => setZoom(1), [made?.width]);
  useEffect(() => {
    const box = frame.current;
    if (box) box.scrollTop = (box.scrollHeight - box.clientHeight) / 2; // sources and sinks stand in the middle
  }, [made?.height]);
  if (!made) return <p class="waiting">Laying out {plural(tasks.length, "task")} …</p>;
  const inWidth = Math.min(1, (room - 40) / made.width);
  const whole = Math.min(inWidth, FRAME_HEIGHT / made.height);
  const fit = whole >= READABLE_SCALE ? whole : inWidth; // rather cut than too small to read
  const scale = fit * zoom;
  const edges = edgesOf(tasks);
  return (
    <div class="graph">
      <div class="graph-tools">
        <button type="button" onClick={() => setZoom((now) => now * ZOOM_STEP)} aria-label="Zoom in">+</button>
        <button type="button" onClick={() => setZoom((now) => Math.max(1, now / ZOOM_STEP))} aria-label="Zoom out">−</button>
        <button type="button" onClick={() => setZoom(1)}>Fit</button>
        {fit < 0.6 && <button type="button" onClick={() => setZoom(1 / fit)}>Full size</button>}
      </div>
      <div ref={frame} class="graph-frame" role="group" aria-label="Task graph" tabIndex={0}>
        <svg
          role="img"
          aria-label={summary}
          width={made.width * scale}
          height={made.height * scale}
          viewBox={`0 0 ${made.width} ${made.height}`}
          class={scale < TEXT_FROM_SCALE ? "graph-far" : ""}
        >
          {edges.map(([from, to], at) => (
            <Edge key={`${from} ${to}`} points={made.paths[at] ?? []} held={minutes.get(from)?.backpressured ?? null}
              records={minutes.get(to)?.records ?? null} />
          ))}
          {tasks.map((task) => {
            const at = made.at[task.task];
            return at && (
              <TaskBox key={task.task} task={task} minute={minutes.get(task.task)} x={at.x} y={at.y}
                isChanged={changed?.has(task.task) ?? false} isSelected={task.task === selected} onSelect={onSelect} />
            );
          })}
        </svg>
      </div>
      <GraphKey isPlain={minutes.size === 0} />
    </div>
  );
}

/** Return how wide the frame is, once it is there; not without its scroll bars, which come and go with what stands in it. */
function useRoom(frame: RefObject<HTMLDivElement | null>, isThere: boolean): number {
  const [room, setRoom] = useState(1200);
  useLayoutEffect(() => {
    const box = frame.current;
    if (!box) return undefined;
    setRoom(box.offsetWidth);
    const watch = new ResizeObserver(() => setRoom(box.offsetWidth));
    watch.observe(box);
    return () => watch.disconnect();
  }, [isThere]);
  return room;
}

function useLayout(tasks: Task[]): LayoutMade | null {
  const worker = useRef<Worker | null>(null);
  const [made, setMade] = useState<LayoutMade | null>(null);
  const shape = tasks.map((task) => `${task.task}<${task.upstream.join()}:${task.parallelism}`).join(";");
  const key = useRef(0);
  useEffect(() => {
    worker.current = new Worker("page/layout.js", { type: "module" });
    worker.current.onmessage = (message: MessageEvent<LayoutMade>) => {
      if (message.data.key === key.current) setMade(message.data);
    };
    return () => worker.current?.terminate();
  }, []);
  useEffect(() => {
    const asked: LayoutAsked = {
      key: ++key.current,
      boxes: tasks.map((task) => ({ id: task.task, ...sizeOf(task) })),
      edges: edgesOf(tasks),
    };
    worker.current?.postMessage(asked);
  }, [shape]);
  return made;
}

/** Return the edges between tasks of the job; the layout answers their paths in the same order. */
function edgesOf(tasks: Task[]): [string, string][] {
  const known = new Set(tasks.map((task) => task.task));
  return tasks.flatMap((task) => task.upstream.filter((from) => known.has(from)).map((from): [string, string] => [from, task.task]));
}

function sizeOf(task: Task): { width: number; height: number } {
  const grown = Math.min(Math.sqrt(Math.max(task.parallelism - 1, 0)), 12);
  const width = Math.round(78 + 9 * grown);
  const more = linesOf(task.label || task.task, width).length - 1;
  return { width, height: Math.round(36 + 2.5 * grown) + more * LINE_HEIGHT };
}

/** Return a name in lines that fit into a box, broken behind `_`, a space or `-` where there is one; only the longest are cut. */
function linesOf(name: string, width: number): string[] {
  const most = Math.floor((width - 14) / LETTER_WIDTH);
  const lines: string[] = [];
  for (let rest = name; rest; ) {
    if (rest.length <= most) {
      lines.push(rest);
      break;
    }
    if (lines.length === LINES_MAX - 1) {
      lines.push(`${rest.slice(0, most - 1)}…`);
      break;
    }
    const at = Math.max(...["_", " ", "-", ">", "."].map((mark) => rest.lastIndexOf(mark, most - 1))) + 1 || most;
    lines.push(rest.slice(0, at).trim());
    rest = rest.slice(at).trim();
  }
  return lines;
}

/** Return one of five steps, each with colours of its own; -1: not known. */
export function heat(share: number | null | undefined): number {
  if (share == null) return -1;
  return share < 0.2 ? 0 : share < 0.45 ? 1 : share < 0.7 ? 2 : share < 0.9 ? 3 : 4;
}

interface BoxProps {
  task: Task;
  minute: TaskMinute | undefined;
  x: number;
  y: number;
  isChanged: boolean;
  isSelected: boolean;
  onSelect: (task: string) => void;
}

function TaskBox({ task, minute, x, y, isChanged, isSelected, onSelect }: BoxProps): JSX.Element {
  const { width, height } = sizeOf(task);
  const name = task.label || task.task;
  const lines = linesOf(name, width);
  const top = height / 2 - 3 - ((lines.length - 1) * LINE_HEIGHT) / 2;
  const share = task.scalable && minute ? minute.utilisation : null;
  const shade = !task.scalable ? "-1" : !minute ? "0" : share == null ? "unknown" : heat(share);
  const kind = `task heat-${shade} ${isChanged ? "task-changed" : ""} ${isSelected ? "task-selected" : ""}`;
  return (
    <g class={kind} transform={`translate(${x - width / 2} ${y - height / 2})`} onClick={() => onSelect(task.task)}>
      <title>
        {`${name}: ${plural(task.parallelism, "subtask")}, ${percent(minute?.utilisation)} busy, ` +
          `${count(minute?.records)} records a minute, ${count(minute?.backlog)} waiting`}
      </title>
      <rect width={width} height={height} rx={7} />
      {task.stateful && <path class="task-stateful" d={`M0 9v${height - 18}`} />}
      {lines.map((line, at) => (
        <text key={at} class="task-name" x={width / 2} y={top + at * LINE_HEIGHT}>{line}</text>
      ))}
      <text class="task-figures" x={width / 2} y={top + (lines.length - 1) * LINE_HEIGHT + 15}>
        ×{task.parallelism}
        {share != null ? `  ${percent(share)}` : shade === "unknown" ? "  busy ?" : ""}
      </text>
    </g>
  );
}

function Edge({ points, held, records }: { points: { x: number; y: number }[]; held: number | null; records: number | null }): JSX.Element {
  const [first, ...rest] = points;
  if (!first) return <g />;
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (next) path += `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
    else path += `L${point.x} ${point.y}`;
  });
  const isHeld = held !== null && held >= HELD_BACK_FROM;
  const middle = points[Math.floor(points.length / 2)] ?? first;
  return (
    <g class={`edge ${isHeld ? "edge-held" : ""}`}>
      <path d={path} stroke-width={1 + Math.min(Math.log10((records ?? 0) + 1), 6) * 0.4} />
      {isHeld && <text x={middle.x} y={middle.y - 5}>back pressure {percent(held)}</text>}
    </g>
  );
}

function GraphKey({ isPlain }: { isPlain: boolean }): JSX.Element {
  if (isPlain) return <p class="legend" aria-hidden="true">outlined: the task and the neighbours that it looked at</p>;
  return (
    <p class="legend" aria-hidden="true">
      <span>busy</span> {["0", "20", "45", "70", "90 %"].map((from, step) => <span key={from} class={`swatch heat-${step}`}>{from}</span>)}
      <span class="swatch heat-unknown">busy time unknown</span> <span class="swatch heat--1">not scaled</span>
      <span>×4: four subtasks, the wider the more · bar on the left: keeps state · dashed edge: back pressure from the next task · click a task to see its last hours</span>
    </p>
  );
}

function described(tasks: Task[], minutes: Map<string, TaskMinute>): string {
  const busiest = tasks
    .map((task) => ({ name: task.label || task.task, busy: minutes.get(task.task)?.utilisation ?? -1 }))
    .reduce((best, each) => (each.busy > best.busy ? each : best), { name: "", busy: -1 });
  const held = tasks.filter((task) => (minutes.get(task.task)?.backpressured ?? 0) >= HELD_BACK_FROM).length;
  return (
    `Graph of ${plural(tasks.length, "task")}.` +
    (busiest.busy >= 0 ? ` Busiest: ${busiest.name}, ${percent(busiest.busy)}.` : "") +
    (held ? ` ${plural(held, "task is", "tasks are")} under back pressure.` : "") +
    " The table of tasks below has all figures."
  );
}
