// One job: how it is, its graph, its last hours with every decision, its tasks.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Condition, ConsumerGroup, HistoryDocument as History, JobDocument, JobRent, DecisionMark as Mark, SummedCost, TaskBoundsDocument as Bounds, TaskHistoryDocument as TaskHistory, TaskSpec as Task, TaskMinuteDocument as TaskMinute } from "../api/documents";
import { get, jobPath } from "../api/client";
import { useLive } from "../api/live";
import { Card, Empty, type Fact, Facts, Heading, Notice, StatusWord, Table, figures } from "../parts/basics";
import { CAPACITY, Charts, type Limits, RANGES, Range, capacities } from "../parts/charts";
import { TaskGraph, heat } from "../parts/graph";
import { Groups } from "../parts/groups";
import { clusterLink, decisionLink, jobLink, opens, taskLink } from "../parts/links";
import { Operate } from "../parts/operate";
import { budgetFact, clock, count, dollars, duration, percent, pipelineName, plural, reason } from "../parts/words";

const TOPICS = ["snapshots", "decisions", "job-topology", "rescaler-state", "reschedule-events", "reschedule-commands", "job-settings"];
const GOOD_WHEN_TRUE = ["Available", "Balanced", "Owned", "Measured"];
const TASKS_SHOWN = 60;
const SOURCES_MOST = 8; // each is asked for by itself

export function JobPage({ job }: { job: string }): JSX.Element {
  const live = useLive<JobDocument>(jobPath(job), TOPICS);
  const { document } = live;
  const [range, setRange] = useState<number>(RANGES[0].minutes);
  const { document: history } = useLive<History>(`${jobPath(job)}/history?minutes=${range}`, ["snapshots", "decisions", "reschedule-events"]);
  const sources = (document?.topology?.record.tasks ?? []).filter((task) => !task.upstream.length).map((task) => task.task);
  const taken = useTaken(job, sources.length > SOURCES_MOST ? [] : sources, range, document?.window?.record.window_end_ms);
  const charted = useMemo(() => history && withCapacity(history, taken), [history, taken]);
  const minutes = useMemo(() => new Map((document?.minute_by_task ?? []).map((each) => [each.task, each])), [document]);
  const bounds = useMemo(() => new Map((document?.bounds ?? []).map((each) => [each.task, each])), [document]);
  const cluster = job.slice(0, job.indexOf("/"));
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="#/">Jobs</a> <span aria-hidden="true">/</span> <a href={clusterLink(cluster)}>{cluster}</a>
      </nav>
      <div class="title-row">
        <Heading title={job}>{job}</Heading>
        {document && <StatusWord of={document} />}
        {document && <p class="lead">{lead(document)}</p>}
      </div>
      <Notice live={live} link={jobLink} />
      {document && (
        <>
          <Figures document={document} />
          <Operate path={jobPath(job)} isPaused={Boolean(document.settings?.record.pause)} advised={advised(document)} />
          <div class="columns">
            <Card title="Last hours" class="wide" aside={<Range minutes={range} onChoice={setRange} />}>
              {charted && charted.window_end_ms.length > 1 ? (
                <Charts history={charted} limits={limits(document)} />
              ) : (
                <Empty title="No minutes yet">The first one appears a minute after the job has started.</Empty>
              )}
            </Card>
            <div class="stack">
              <Card title="Latest decisions">
                {document.next_in_words && <p class="quiet">Next decision: {document.next_in_words}.</p>}
                <Decisions marks={history?.decisions ?? []} />
              </Card>
              <Card title="Conditions">
                <Conditions conditions={document.conditions} />
              </Card>
            </div>
          </div>
          {document.topology && (
            <>
              <Groups rests={document.status === "resting"} groups={document.topology.record.groups} atMs={document.topology.record.at_ms} />
              <Card title="Task graph" aside={plural(document.topology.record.tasks.length, "task")}>
                <TaskGraph tasks={document.topology.record.tasks} minutes={minutes} onSelect={(task) => (location.hash = taskLink(job, task))} />
              </Card>
              <Card title="Tasks" aside={document.window ? `minute that ended ${clock(document.window.record.window_end_ms)}` : ""}>
                <Tasks job={job} tasks={document.topology.record.tasks} bounds={bounds} minutes={minutes} />
              </Card>
            </>
          )}
        </>
      )}
    </>
  );
}

/** Return what each source of a job took of late; asked for again when there is a new minute. */
function useTaken(job: string, sources: string[], range: number, stamp: number | undefined): TaskHistory[] {
  const [taken, setTaken] = useState<TaskHistory[]>([]);
  const paths = sources.map((source) => `${jobPath(job)}/tasks/${encodeURIComponent(source)}?minutes=${range}`);
  useEffect(() => {
    const stop = new AbortController();
    Promise.all(paths.map((path) => get<TaskHistory>(path, stop.signal))).then(setTaken, () => undefined); // the next minute asks again
    return () => stop.abort();
  }, [paths.join(), stamp]);
  return taken;
}

/** Return a job's history with what its sources could take until its busiest task is always busy: then nothing more gets through. */
function withCapacity(history: History, taken: TaskHistory[]): History {
  if (!taken.length || taken.some((each) => each.job !== history.job)) return history;
  const minutes = taken.map((each) => new Map(each.window_end_ms.map((end, at) => [end, each.figures["records"]?.[at] ?? null])));
  const all = history.window_end_ms.map((end) => {
    const known = minutes.map((each) => each.get(end) ?? null).filter((records) => records !== null);
    return known.length === minutes.length ? known.reduce((total, records) => total + records, 0) : null;
  });
  return { ...history, figures: { ...history.figures, [CAPACITY]: capacities(all, history.figures["utilisation"] ?? []) } };
}

/** Return the sizes that are allowed of all scaled tasks together; a least of one each says nothing. */
function limits({ bounds, total_most }: JobDocument): Limits {
  const sum = (pick: (of: Bounds) => number): number => bounds.reduce((total, each) => total + pick(each), 0);
  const least = sum((each) => each.least);
  return { least: least > bounds.length ? least : null, most: bounds.length ? Math.min(sum((each) => each.most), total_most ?? Infinity) : total_most };
}

/** Return the decision whose advice is open, as far as the view can tell; the service asks the rescaler's memory. */
function advised({ decision }: JobDocument): string | null {
  return decision?.outcome?.record.status === "commanded" && decision.command?.record.advice ? decision.record.decision_id : null;
}

function lead(job: JobDocument): string {
  const gate = job.gate?.record;
  if (gate?.pending && job.mode === "act") return `A change waits: ${reason(gate.pending.reason || "not answered yet")}.`;
  if (gate?.underway) {
    return gate.underway.step === "prepare" ? "Learners restore state; the job keeps running." : "A change is being carried out.";
  }
  const paused = gate?.conditions.find((each) => each.type === "Paused" && each.status);
  if (paused) return `${paused.message[0]?.toUpperCase() ?? ""}${paused.message.slice(1)}.`;
  const rest = job.status === "resting" && gate?.conditions.find((each) => each.reason === "AtRest");
  if (rest) return `${rest.message[0]?.toUpperCase() ?? ""}${rest.message.slice(1)}.`;
  if (job.mode !== "act") return job.mode === "advise" ? "Changes are only recommended." : "Only observed.";
  return job.decision ? job.decision.record.reason : "No decision yet: the first one comes at the end of a span.";
}

function Figures({ document }: { document: JobDocument }): JSX.Element {
  const minute = document.window?.record.minute;
  const groups = document.topology?.record.groups ?? [];
  return (
    <Facts
      facts={[
        ["Load", count(document.window?.record.load_records_per_minute), "Records a minute"],
        ["Subtasks", count(minute?.parallelism), "Of all tasks that are scaled"],
        ["Busiest task", percent(minute?.utilisation), "Share of its time that it works"],
        ["Waiting", count(minute?.backlog), "Records at all tasks"],
        ["Latency", duration(minute?.latency_ms), "Mean, along the slowest path"],
        ...budgetFact(document.decision?.record.budget),
        ...(document.engine?.places === "commanded" || document.rent ? costs(document.rent) : []),
        ...(groups.length ? [oldest(groups)] : []),
        ["Mode", `${document.mode}`, `Set by: ${document.mode_set_by}`],
        ...(document.pipeline !== undefined ? [["Pipeline", pipelineName(document.pipeline), "By its topic prefix"] satisfies Fact] : []),
      ]}
    />
  );
}

function costs(rent: JobRent | null): Fact[] {
  if (rent && rent.slots !== null) {
    return [
      ["Cost a day", dollars(rent.per_day), rent.slots === 1 ? "For 1 slot" : `For ${count(rent.slots)} slots`],
      ["Saved a day", dollars(rent.saved_configured_per_day), rent.frees_no_host || "Against the size that its author configured"],
      ...(rent.month ? summed(rent.month) : []),
    ];
  }
  return [
    ["Cost a day", dollars(rent?.per_day), rent ? `Hosts: ${rent.hosts.join(", ")}` : "Its hosts are not known"],
    ["Saved a day", dollars(rent?.saved_round_robin_per_day), "Against as many subtasks dealt out over all hosts in turn"],
  ];
}

/** The last 30 days, minute by minute, at the price that a slot had at the end of each. */
function summed(month: SummedCost): Fact[] {
  const known = `${duration(month.minutes * 60_000)} known since ${month.since}`;
  return [
    ["30 days", dollars(month.dollars), known],
    ["Saved in them", dollars(month.saved_configured), "Against the size that its author configured"],
  ];
}

/** The age of the oldest record that waits for any of the groups; unknown if it is unknown of one. */
function oldest(groups: ConsumerGroup[]): Fact {
  const ages = groups.map((each) => each.oldest_ms).filter((age) => age !== null);
  const age = ages.length === groups.length ? Math.max(...ages) : null;
  return ["Oldest record", age === 0 ? "none waits" : duration(age), "That waits for a group"];
}

function Decisions({ marks }: { marks: Mark[] }): JSX.Element {
  if (!marks.length) return <Empty title="None yet">The first one comes at the end of a span, ten minutes with a learned policy.</Empty>;
  return (
    <ol class="decisions" aria-label="Latest decisions, newest first">
      {marks.slice(-8).reverse().map((mark) => (
        <li key={mark.decision_id}>
          <a href={decisionLink(mark.decision_id)}>
            <span class="figure">{clock(mark.at_ms)}</span> <span class={`action action-${mark.action}`}>{mark.action}</span>{" "}
            {mark.action === "act" ? `${mark.before} → ${plural(mark.after, "subtask")}` : `${plural(mark.before, "subtask stays", "subtasks stay")}`}
          </a>
          {mark.action === "act" && <span class="quiet"> {mark.came}</span>}
        </li>
      ))}
    </ol>
  );
}

function Conditions({ conditions }: { conditions: Condition[] }): JSX.Element {
  if (!conditions.length) return <Empty title="None yet">The rescaler reports them after its first look at the job.</Empty>;
  return (
    <ul class="conditions">
      {conditions.map((each) => {
        const isGood = each.status === GOOD_WHEN_TRUE.includes(each.type);
        return (
          <li key={each.type} class={isGood ? "" : "notable"}>
            <span class="condition-type">{each.type}</span> <span>{each.status === null ? "unknown" : each.status ? "yes" : "no"}</span>{" "}
            <span class="quiet">since {clock(each.last_transition_ms)}</span>
            <p>{each.message}</p>
          </li>
        );
      })}
    </ul>
  );
}

interface TasksProps {
  job: string;
  tasks: Task[];
  bounds: Map<string, Bounds>;
  minutes: Map<string, TaskMinute>;
}

function Tasks({ job, tasks, bounds, minutes }: TasksProps): JSX.Element {
  const [all, setAll] = useState(false);
  const busiest = useMemo(
    () => [...tasks].sort((a, b) => (minutes.get(b.task)?.utilisation ?? -1) - (minutes.get(a.task)?.utilisation ?? -1)),
    [tasks, minutes],
  );
  const shown = all ? busiest : busiest.slice(0, TASKS_SHOWN);
  return (
    <>
      <Table
        label="Tasks, busiest first"
        columns={[
          "Task", figures("Subtasks"), figures("At most"), "Busy", figures("Back pressure"), figures("Records/min"),
          figures("Waiting"), figures("Latency"), "Kind",
        ]}
      >
        {shown.map((task) => {
          const minute = minutes.get(task.task);
          return (
            <tr key={task.task} {...opens(taskLink(job, task.task))}>
              <th scope="row"><a href={taskLink(job, task.task)}>{task.label || task.task}</a></th>
              <td class="number">{task.parallelism}</td>
              <td class="number">{bounds.get(task.task)?.most_in_words ?? "–"}</td>
              <td><Busy share={minute?.utilisation ?? null} /></td>
              <td class="number">{percent(minute?.backpressured)}</td>
              <td class="number">{count(minute?.records)}</td>
              <td class="number">{count(minute?.backlog)}</td>
              <td class="number">{duration(minute?.latency_ms)}</td>
              <td class="quiet">{[task.stateful && "keeps state", !task.scalable && "not scaled"].filter(Boolean).join(", ")}</td>
            </tr>
          );
        })}
      </Table>
      {!all && tasks.length > TASKS_SHOWN && (
        <button type="button" class="more" onClick={() => setAll(true)}>{plural(tasks.length - TASKS_SHOWN, "more task")}</button>
      )}
    </>
  );
}

function Busy({ share }: { share: number | null }): JSX.Element {
  return (
    <span class="busy">
      <span class={`busy-bar heat-${heat(share)}`} aria-hidden="true"><span style={{ width: `${100 * (share ?? 0)}%` }} /></span>
      <span class="figure">{percent(share)}</span>
    </span>
  );
}
