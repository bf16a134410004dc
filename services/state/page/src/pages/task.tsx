// One task: its last hours.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { jobPath } from "../api/client";
import type { HistoryDocument as History, JobDocument, TaskHistoryDocument as TaskHistory } from "../api/documents";
import { useLive } from "../api/live";
import { Card, Empty, Facts, Heading, Notice } from "../parts/basics";
import { CAPACITY, Charts, RANGES, Range, capacities } from "../parts/charts";
import { jobLink, taskLink } from "../parts/links";
import { count, duration, percent } from "../parts/words";

const FIELDS = { records: "load_records_per_minute", parallelism: "parallelism", utilisation: "utilisation", backlog: "backlog_records", latency_ms: "latency_ms" };

export function TaskPage({ job, task }: { job: string; task: string }): JSX.Element {
  const [minutes, setMinutes] = useState<number>(RANGES[0].minutes);
  const live = useLive<TaskHistory>(`${jobPath(job)}/tasks/${encodeURIComponent(task)}?minutes=${minutes}`, ["snapshots"]);
  const { document: of } = useLive<JobDocument>(jobPath(job), ["snapshots", "job-topology", "job-settings"]);
  const spec = of?.topology?.record.tasks.find((each) => each.task === task);
  const bounds = of?.bounds.find((each) => each.task === task);
  const { document } = live;
  const last = (name: string): number | null => document?.figures[name]?.[document.window_end_ms.length - 1] ?? null;
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="#/">Jobs</a> <span aria-hidden="true">/</span> <a href={jobLink(job)}>{job}</a>
      </nav>
      <div class="title-row">
        <Heading title={`${spec?.label || task}, ${job}`}>{spec?.label || task}</Heading>
      </div>
      <Notice live={live} link={(near) => taskLink(job, near)} />
      {document && (
        <>
          <Facts
            facts={[
              ["Subtasks", count(last("parallelism")), bounds ? `At most ${bounds.most_in_words}` : "In its newest minute"],
              ["Busy", percent(last("utilisation")), "Share of its time that it works"],
              ["Back pressure", percent(last("backpressured")), "Share of its time that tasks after it block it"],
              ["Records", count(last("records")), "Taken a minute"],
              ["Waiting", count(last("backlog")), "Records at its inputs"],
              ["Latency", duration(last("latency_ms")), "Mean, of its own work and queue"],
            ]}
          />
          {spec?.hindrance && <p class="lead">{spec.hindrance}</p>}
          <Card title="Last hours" class="wide" aside={<Range minutes={minutes} onChoice={setMinutes} />}>
            {document.window_end_ms.length > 1 ? (
              <Charts history={asHistory(document)} limits={{ least: bounds && bounds.least > 1 ? bounds.least : null, most: bounds?.most ?? null }} />
            ) : (
              <Empty title="No minutes yet">The first one appears a minute after the job has started.</Empty>
            )}
          </Card>
        </>
      )}
    </>
  );
}

/** Return a task's columns under the names that the job's charts know them by, and what its subtasks could take if always busy. */
function asHistory(task: TaskHistory): History {
  const figures = Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [field, task.figures[name] ?? []]));
  return { job: task.job, window_end_ms: task.window_end_ms, figures: { ...figures, [CAPACITY]: capacities(task.figures["records"] ?? [], task.figures["utilisation"] ?? []) }, decisions: [], expected: [] };
}
