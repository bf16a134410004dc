// One decision: what the policy wanted, what each guardrail made of it, and what became of it.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ClusterDocument, CommandDocument as Command, DecisionDocument as Decision, FeatureDrift, JobDocument, SampledMinute as LookedAt, TaskDecision } from "../api/documents";
import { decisionPath, jobPath } from "../api/client";
import { useLive } from "../api/live";
import { Card, Empty, Facts, Guardrail, Heading, Notice, Table, figures } from "../parts/basics";
import { Curve } from "../parts/curve";
import { TaskGraph } from "../parts/graph";
import { clusterLink, decisionLink, jobLink, jobOf } from "../parts/links";
import { WhatIf } from "../parts/what-if";
import { DAY_S, GUARDRAILS, MINUTE_MS, budgetFact, bytes, clock, count, dollars, duration, moment, percent, plural, reason } from "../parts/words";

const ROWS_MAX = 12;
const HOLD_ROWS = 8;
const STEPS: Record<string, string> = {
  prepare: "learners restore state on the new units; the job runs on",
  commit: "the new sizes take effect",
  abort: "the preparation is taken back",
  standby: "copies of state are made",
};

export function DecisionPage({ id }: { id: string }): JSX.Element {
  const job = jobOf(id);
  const live = useLive<Decision>(decisionPath(id), ["reschedule-events", "reschedule-commands", "decisions"]);
  const { document: decision } = live;
  const { document: commands } = useLive<Command[]>(decision ? `${jobPath(job)}/commands?limit=200` : null, [
    "reschedule-commands",
    "reschedule-events",
  ]);
  const { document: owner } = useLive<JobDocument>(decision ? jobPath(job) : null, ["job-topology", "snapshots", "decisions"]);
  const own = (commands ?? []).filter((command) => command.record.decision_id === id).reverse();
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="#/">Jobs</a> <span aria-hidden="true">/</span> <a href={jobLink(job)}>{job}</a>
      </nav>
      {!decision && <Heading title="Decision">Decision</Heading>}
      <Notice live={live} link={decisionLink} />
      {decision && (
        <>
          <div class="title-row">
            <Heading title={`${decision.record.action} ${clock(decision.record.span_end_ms)} ${job}`}>{headline(decision, owner)}</Heading>
            <span class={`action action-${decision.record.action}`}>{decision.record.action}</span>
          </div>
          <p class="reason">{decision.record.reason}</p>
          {decision.record.compared && <p class="quiet">Score = {decision.record.compared.unit}; higher is better.</p>}
          <About decision={decision} next={owner?.decision?.record.decision_id === id ? owner.next_in_words : ""} />
          <Card title="From wanted to final size" aside={<GuardrailsMet tasks={decision.record.tasks} />}>
            <Sizes decision={decision} labels={labelsOf(owner)} />
          </Card>
          <Curve decision={decision} rent={owner?.rent ?? null} />
          <Card title="What happened">
            <TimeLine decision={decision} commands={own} />
          </Card>
          {own.length > 0 && <Hosts cluster={job.slice(0, job.indexOf("/"))} commands={own} />}
          <Card title="What it looked at">
            <Looked decision={decision} labels={labelsOf(owner)} owner={owner} />
          </Card>
          <WhatIf key={id} decision={decision} labels={labelsOf(owner)} />
        </>
      )}
    </>
  );
}

function labelsOf(owner: JobDocument | null): Map<string, string> {
  return new Map((owner?.topology?.record.tasks ?? []).map((task) => [task.task, task.label || task.task]));
}

function headline(decision: Decision, owner: JobDocument | null): string {
  // The virtual source and sink are left out, as they are everywhere.
  const fixed = new Set((owner?.topology?.record.tasks ?? []).filter((task) => !task.scalable).map((task) => task.task));
  const scaled = decision.record.tasks.filter((task) => !fixed.has(task.task));
  const sum = (pick: (task: TaskDecision) => number): number => scaled.reduce((total, task) => total + pick(task), 0);
  const [before, after] = [sum((task) => task.current), sum((task) => task.desired)];
  const changed = decision.record.tasks.filter((task) => task.current !== task.desired).length;
  if (decision.record.action === "hold") return `${clock(decision.record.span_end_ms)}: stay at ${plural(before, "subtask")}`;
  return `${clock(decision.record.span_end_ms)}: ${before} → ${plural(after, "subtask")}, ${plural(changed, "task")} changed`;
}

/** `next`: when the job is decided on next, of its newest decision. */
function About({ decision, next }: { decision: Decision; next: string }): JSX.Element {
  const { policy } = decision.record;
  return (
    <Facts
      facts={[
        ["Policy", policy.name, policy.sha256 ? `hash ${policy.sha256.slice(0, 12)}` : "a rule"],
        ...(policy.fallback_reason ? [["Fallback for", `${policy.asked}: ${policy.fallback_reason}`] as [string, string]] : []),
        ...(decision.record.drift ? [driftFact(decision.record.drift)] : []),
        ["Span ended", moment(decision.record.span_end_ms)],
        ...(next ? [["Next decision", next] as [string, string]] : []),
        ["Load", count(decision.record.load_records_per_minute), "Records a minute, mean of the last five known ones"],
        ...budgetFact(decision.record.budget),
        ["Minutes known", String(decision.record.minutes_known), `${percent(decision.record.completeness)} of the window`],
        ["Settings", `version ${decision.record.settings_version}`, `Topology version ${decision.record.topology_version}`],
        ["Freshness", duration(decision.freshness_ms), "From the record that closed the minute to the decision"],
      ]}
    />
  );
}

function driftFact(drift: FeatureDrift): [string, string, string] {
  const most = `; most of ${drift.feature}: ${percent(drift.feature_outside)}, mean ${drift.mean}, in training ${drift.low} to ${drift.high}`;
  const isUnusual = drift.outside > drift.usual;
  return ["Unlike training", percent(drift.outside), `Of the features; usually up to ${percent(drift.usual)}${isUnusual ? most : ""}`];
}

function GuardrailsMet({ tasks }: { tasks: TaskDecision[] }): JSX.Element {
  const met = Object.keys(GUARDRAILS).filter((rule) => tasks.some((task) => task.amendments.some((each) => each.rule === rule)));
  if (!met.length) return <>no guardrail changed anything</>;
  return (
    <>
      {met.map((rule, at) => (
        <span key={rule}>
          {at > 0 && ", "}
          <Guardrail rule={rule} />
        </span>
      ))}
    </>
  );
}

function Sizes({ decision, labels }: { decision: Decision; labels: Map<string, string> }): JSX.Element {
  const touched = decision.record.tasks.filter((task) => task.current !== task.desired || task.amendments.length || task.proposed !== task.current);
  const [all, setAll] = useState(false);
  // Of a hold, the busiest tasks say most.
  const busiest = [...decision.record.tasks].sort((a, b) => (b.utilisation ?? -1) - (a.utilisation ?? -1));
  const shown = all ? busiest : touched.length ? touched : busiest.slice(0, HOLD_ROWS);
  const rest = decision.record.tasks.length - shown.length;
  return (
    <>
      {!touched.length && <p class="quiet">The policy wanted no other size for any of {plural(decision.record.tasks.length, "task")}.</p>}
      <Table
        label="Sizes of the tasks"
        columns={[
          "Task", figures("Processed", "Mean of its last five known minutes", "records/min"), figures("Busy", undefined, "of its time"), figures("Waiting", undefined, "records"),
          figures("Least", "The fewest subtasks that serve the measured load", "for the load"), figures("Had", undefined, "subtasks"),
          figures("Policy wanted", undefined, "subtasks"), "Guardrails", figures("Size", undefined, "subtasks"),
        ]}
      >
        {alike(shown).map((tasks) => {
          const [task] = tasks;
          if (!task) return null;
          return (
            <tr key={task.task} class={task.current === task.desired ? "unchanged" : ""}>
              <th scope="row" class="names">
                {tasks.length > 1 && <span class="quiet">{plural(tasks.length, "task")}: </span>}
                {tasks.map((each) => labels.get(each.task) ?? each.task).join(", ")}
                {task.overloaded && <span class="bad"> overloaded</span>}
              </th>
              <td class="number">{range(tasks, (each) => each.records_per_minute, count)}</td>
              <td class="number">{range(tasks, (each) => each.utilisation, percent)}</td>
              <td class="number">{range(tasks, (each) => each.waiting_records, count)}</td>
              <td class="number">{task.floor || "–"}</td>
              <td class="number">{task.current}</td>
              <td class="number">{task.proposed}</td>
              <td>
                {task.amendments.map((each) => (
                  <span key={each.rule} class="amendment">
                    <Guardrail rule={each.rule} /> {each.before} → {each.after}
                  </span>
                ))}
              </td>
              <td class="number strong">
                {task.desired}
                {task.desired !== task.current && (
                  <span class="delta"> {task.desired > task.current ? "+" : "−"}{Math.abs(task.desired - task.current)}</span>
                )}
              </td>
            </tr>
          );
        })}
      </Table>
      {rest > 0 && <button type="button" class="more" onClick={() => setAll(true)}>{plural(rest, "more task")} without a change</button>}
    </>
  );
}

/** Return tasks with the same sizes together. */
function alike(tasks: TaskDecision[]): TaskDecision[][] {
  const found = new Map<string, TaskDecision[]>();
  tasks.forEach((task) => {
    const key = JSON.stringify([task.current, task.proposed, task.desired, task.floor, task.overloaded, task.amendments]);
    found.set(key, [...(found.get(key) ?? []), task]);
  });
  return [...found.values()];
}

/** Return the figures of several tasks, from the least to the most. */
function range(tasks: TaskDecision[], pick: (task: TaskDecision) => number | null, words: (value: number) => string): string {
  const known = tasks.map(pick).filter((value): value is number => value !== null);
  if (!known.length) return "–";
  const [low, high] = [words(Math.min(...known)), words(Math.max(...known))];
  return low === high ? low : `${low} to ${high}`;
}

interface Step {
  at_ms: number;
  what: string;
  detail: string;
  kind: "decided" | "gate" | "command" | "progress" | "done" | "failed";
}

function stepsOf(decision: Decision, commands: Command[]): Step[] {
  const steps: Step[] = [{ at_ms: decision.record.span_end_ms, what: `decided: ${decision.record.action}`, detail: `by ${decision.record.policy.name}`, kind: "decided" }];
  const outcome = decision.outcome;
  if (outcome && !(outcome.record.status === "commanded" && commands.length)) {
    const until = outcome.record.until_ms === null ? "" : `, until ${clock(outcome.record.until_ms)}`;
    const detail = [reason(outcome.record.reason) + until, outcome.record.detail].filter(Boolean).join("; ");
    steps.push({ at_ms: outcome.record.at_ms, what: outcome.record.status, detail, kind: outcome.record.status === "refused" ? "failed" : "gate" });
  }
  commands.forEach((command) => {
    const means = STEPS[command.record.action];
    const why = `${means ? `${means}; ` : ""}${reason(command.record.gate_reason)}; ${reason(command.record.gate_cause)}`;
    const what = `${command.record.advice ? "advised" : "commanded"}: ${command.record.action}`;
    steps.push({ at_ms: command.record.issued_at_ms, what, detail: why, kind: "command" });
    command.progress.forEach((each) => {
      if (each.record.status === "accepted") return;
      const left = each.record.status === "warming" ? `, ${bytes(each.record.lag_bytes)} of state to restore` : "";
      const learners = each.record.learners ? `${plural(each.record.learners, "learner")}${left}` : "";
      const still = each.record.still_ms ? `stood still for ${duration(each.record.still_ms)}` : "";
      const detail = [`${command.record.action}`, learners, still, each.record.code, each.record.detail].filter(Boolean).join("; ");
      const kind = each.record.status === "failed" ? "failed" : each.record.status === "applied" ? "done" : "progress";
      steps.push({ at_ms: each.record.at_ms, what: each.record.status, detail, kind });
    });
  });
  return steps.map((step, at) => ({ step, at })).sort((a, b) => a.step.at_ms - b.step.at_ms || a.at - b.at).map(({ step }) => step);
}

function TimeLine({ decision, commands }: { decision: Decision; commands: Command[] }): JSX.Element {
  const steps = stepsOf(decision, commands);
  const from = steps[0]?.at_ms ?? 0;
  const span = Math.max((steps[steps.length - 1]?.at_ms ?? 0) - from, 1);
  if (steps.length === 1) return <Empty title="Nothing yet">The rescaler has not answered this decision yet.</Empty>;
  return (
    <ol class="timeline">
      {steps.map((step, at) => {
        const next = steps[at + 1]?.at_ms ?? step.at_ms;
        return (
          <li key={`${step.what} ${at}`} class={`step step-${step.kind}`}>
            <span class="figure step-at">{clock(step.at_ms)}</span>
            <span class="step-track" aria-hidden="true">
              <span style={{ left: `${(100 * (step.at_ms - from)) / span}%`, width: `${(100 * (next - step.at_ms)) / span}%` }} />
            </span>
            <span class="step-what">{step.what}</span>
            <span class="quiet step-detail">
              {step.detail}
              {step.at_ms > from && ` · ${duration(step.at_ms - from)} after the decision`}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** Hosts before and after; nothing of an engine that places subtasks itself. */
function Hosts({ cluster, commands }: { cluster: string; commands: Command[] }): JSX.Element {
  const { document } = useLive<ClusterDocument>(`clusters/${encodeURIComponent(cluster)}`, ["cluster-topology"]);
  const last = commands[commands.length - 1];
  const placement = last?.record.placement;
  const hostOf = useMemo(
    () => new Map((document?.topology?.record.hosts ?? []).flatMap((host) => host.units.map((unit): [number, string] => [unit, host.host]))),
    [document],
  );
  const changes = useMemo(() => byHost(last, hostOf), [last, hostOf]);
  if (!placement && !changes.length) return <></>;
  const before = placement?.rent_before_per_s;
  return (
    <Card title="Hosts" aside={<a href={clusterLink(cluster)}>cluster {cluster}</a>}>
      {placement && (
        <Facts
          facts={[
            ["Cost a day before", dollars(before == null ? null : before * DAY_S)],
            ["Cost a day after", dollars(placement.rent_per_s * DAY_S)],
            ["Hosts after", placement.hosts.join(", ")],
            ["Placed by", placement.algorithm],
          ]}
        />
      )}
      {changes.length > 0 ? (
        <Table label="Subtasks that came and left, by host" columns={["Host", figures("Subtasks that came"), figures("Subtasks that left")]}>
          {changes.map(([host, added, removed]) => (
            <tr key={host}>
              <th scope="row">{host}</th>
              <td class="number">{added || "–"}</td>
              <td class="number">{removed || "–"}</td>
            </tr>
          ))}
        </Table>
      ) : (
        <p class="quiet">No subtask came or left.</p>
      )}
    </Card>
  );
}

function byHost(command: Command | undefined, hostOf: Map<number, string>): [string, number, number][] {
  const found = new Map<string, [number, number]>();
  const add = (units: number[], at: 0 | 1): void =>
    units.forEach((unit) => {
      const host = hostOf.get(unit) ?? "a host that is gone";
      const counts = found.get(host) ?? [0, 0];
      counts[at] += 1;
      found.set(host, counts);
    });
  command?.record.changes.forEach((change) => {
    add(change.added_units, 0);
    add(change.removed_units, 1);
  });
  return [...found].map(([host, [added, removed]]): [string, number, number] => [host, added, removed]).sort(([a], [b]) => a.localeCompare(b));
}

function Looked({ decision, labels, owner }: { decision: Decision; labels: Map<string, string>; owner: JobDocument | null }): JSX.Element {
  const looked = decision.record.tasks.filter((task) => task.looked_at.length);
  const first = looked.find((task) => task.current !== task.desired) ?? looked[0];
  const [chosen, setChosen] = useState<string | null>(null);
  const task = looked.find((each) => each.task === chosen) ?? first;
  const tasks = owner?.topology?.record.tasks;
  const neighbours = useMemo(
    () => new Set((task?.looked_at ?? []).flatMap((each) => each.neighbours)),
    [task],
  );
  const noMinutes = useMemo(() => new Map(), []);
  if (!task) {
    return (
      <Empty title="No single minutes">
        <code>{decision.record.policy.name}</code> answers from the figures of the whole window: measured service times, rates and the
        forecast load. Only policies with attention weigh single minutes and neighbours.
      </Empty>
    );
  }
  return (
    <>
      <div class="tools">
        <label>
          Task{" "}
          <select value={task.task} onChange={(event) => setChosen(event.currentTarget.value)}>
            {looked.map((each) => <option key={each.task} value={each.task}>{labels.get(each.task) ?? each.task}</option>)}
          </select>
        </label>
        <span class="quiet">the minutes and neighbours that weighed most in its answer for this task</span>
      </div>
      <HeatMap looked={task.looked_at} end_ms={decision.record.span_end_ms} labels={labels} />
      {tasks && neighbours.size > 0 && (
        <TaskGraph tasks={tasks} minutes={noMinutes} changed={neighbours} selected={task.task} onSelect={setChosen} />
      )}
    </>
  );
}

function HeatMap({ looked, end_ms, labels }: { looked: LookedAt[]; end_ms: number; labels: Map<string, string> }): JSX.Element {
  const minutes = [...looked].sort((a, b) => a.minute_end_ms - b.minute_end_ms);
  const weights = new Map<string, number[]>();
  minutes.forEach((each, at) =>
    each.neighbours.forEach((name, index) => {
      const row = weights.get(name) ?? minutes.map(() => 0);
      row[at] = (row[at] ?? 0) + each.weight * (each.neighbour_weights[index] ?? 0);
      weights.set(name, row);
    }),
  );
  const sum = (row: number[]): number => row.reduce((total, each) => total + each, 0);
  const rows = [...weights].sort(([, a], [, b]) => sum(b) - sum(a)).slice(0, ROWS_MAX);
  const most = Math.max(...rows.flatMap(([, row]) => row), 1e-9);
  return (
    <Table
      label="Weight by neighbour and minute"
      class="heatmap"
      caption="Share of the attention that the policy paid to each neighbour (row) in each minute before the decision (column)"
      columns={["Neighbour", ...minutes.map((each) => figures(`${Math.round((each.minute_end_ms - end_ms) / MINUTE_MS)} min`))]}
    >
      <tr>
        <th scope="row">whole minute</th>
        {minutes.map((each) => <td key={each.minute_end_ms} class="number strong">{percent(each.weight)}</td>)}
      </tr>
      {rows.map(([name, row]) => (
        <tr key={name}>
          <th scope="row">{labels.get(name) ?? name}</th>
          {row.map((weight, at) => (
            <td key={at} class={`number cell cell-${weight > 0 ? Math.min(4, Math.floor((5 * weight) / most)) : "none"}`}>
              {weight >= 0.0005 ? `${(100 * weight).toFixed(1)} %` : ""}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
