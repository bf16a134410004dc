// All jobs, one line each: those that need somebody first.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ClusterOverview, JobOverview } from "../api/documents";
import { useLive } from "../api/live";
import { Card, Empty, Heading, Notice, StatusWord, Table, figures } from "../parts/basics";
import { clusterLink, decisionLink, jobLink, opens } from "../parts/links";
import { Sparkline, seenMarks } from "../parts/sparkline";
import { FIGURES, clock, dollars, moment, percent, pipelineName, plural } from "../parts/words";

const SHOWN = 100;
const LATELY = 8;
const URGENT: JobOverview["status"][] = ["down", "restarting", "overloaded", "unknown", "stalled"];
const TOPICS = ["snapshots", "decisions", "job-topology", "rescaler-state", "reschedule-events", "job-settings"];

type Order = "attention" | "job" | "cost" | "busy";

const ORDERS: Record<Order, (a: JobOverview, b: JobOverview) => number> = {
  attention: (a, b) => rank(a) - rank(b) || a.job.localeCompare(b.job),
  job: (a, b) => a.job.localeCompare(b.job),
  cost: (a, b) => (b.rent_per_day ?? -1) - (a.rent_per_day ?? -1), // what is unknown comes last
  busy: (a, b) => (b.utilisation ?? -1) - (a.utilisation ?? -1),
};

function rank(job: JobOverview): number {
  const at = URGENT.indexOf(job.status);
  return at >= 0 ? at : job.status === "ended" ? URGENT.length + 1 : URGENT.length;
}

export function JobsPage(): JSX.Element {
  const live = useLive<JobOverview[]>("jobs", TOPICS);
  const { document: jobs } = live;
  const { document: clusters } = useLive<ClusterOverview[]>("clusters", ["cluster-topology", "job-topology", "policy-releases"]);
  const [search, setSearch] = useState("");
  const [order, setOrder] = useState<Order>("attention");
  const [shown, setShown] = useState(SHOWN);
  const known = FIGURES.filter(({ field }) => field !== "rent_per_day" || jobs?.some((job) => job.rent_per_day !== null));
  const found = useMemo(
    () => (jobs ?? []).filter((job) => `${job.job} ${job.status} ${job.pipeline ?? ""}`.includes(search.trim().toLowerCase())).sort(ORDERS[order]),
    [jobs, search, order],
  );
  return (
    <>
      <div class="title-row">
        <Heading title="Jobs">Jobs</Heading>
        {jobs && <Summary jobs={jobs} clusters={clusters ?? []} />}
      </div>
      <Notice live={live} link={jobLink} />
      {jobs?.length === 0 && (
        <Empty title="No job yet">
          <p>
            Each job appears here as soon as the monitor reports it. <code>surescale doctor</code> says what is missing;{" "}
            <code>surescale demo</code> shows the page with three jobs.
          </p>
        </Empty>
      )}
      {jobs && jobs.length > 0 && (
        <section class="card" aria-label="All jobs">
          <div class="tools">
            <label>
              Find <input type="search" value={search} placeholder="name or state" onInput={(event) => setSearch(event.currentTarget.value)} />
            </label>
            <label>
              Order{" "}
              <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
                <option value="attention">attention first</option>
                <option value="job">name</option>
                <option value="busy">busiest first</option>
                <option value="cost">most expensive first</option>
              </select>
            </label>
          </div>
          <Table
            label="Jobs"
            class="jobs"
            columns={[
              "Job", "State", ...known.map(({ name, about }) => figures(name, undefined, about)),
              { name: "Load and size", about: "last 2 hours", class: "lines" }, figures("Saved", undefined, "against the configured size"),
            ]}
          >
            {found.slice(0, shown).map((job) => <Row key={job.job} job={job} columns={known} />)}
          </Table>
          <p class="legend" aria-hidden="true">
            <span><span class="key key-load" /> load</span>
            <span><span class="key key-size" /> size</span>
            <span><span class="key key-act" /> a change was decided</span>
          </p>
          {found.length === 0 && <Empty title={`Nothing matches “${search}”`} />}
          {found.length > shown && (
            <button type="button" class="more" onClick={() => setShown((now) => now + 5 * SHOWN)}>
              {plural(found.length - shown, "more job")}
            </button>
          )}
        </section>
      )}
      {jobs && jobs.length > 0 && (
        <Card title="Latest changes" aside="changes of the jobs above">
          <Lately jobs={found.map((job) => job.job)} />
        </Card>
      )}
    </>
  );
}

function Lately({ jobs }: { jobs: string[] }): JSX.Element {
  const known = jobs.filter((job) => seenMarks.value.has(job)).length;
  const marks = jobs
    .flatMap((job) => (seenMarks.value.get(job) ?? []).filter((mark) => mark.action === "act").map((mark) => ({ job, mark })))
    .sort((a, b) => b.mark.at_ms - a.mark.at_ms)
    .slice(0, LATELY);
  if (!known) return <p class="waiting">Asking for the latest decisions …</p>;
  if (!marks.length) {
    const whose = known < jobs.length ? ` of the ${plural(known, "job")} in sight` : "";
    return <Empty title={`No change${whose} in the last two hours`}>Every decision kept the sizes; each job's page shows why.</Empty>;
  }
  return (
    <ol class="lately">
      {marks.map(({ job, mark }) => (
        <li key={mark.decision_id}>
          <span class="figure">{clock(mark.at_ms)}</span>
          <span>
            <a href={decisionLink(mark.decision_id)}>
              {mark.before} → {plural(mark.after, "subtask")}
            </a>
          </span>
          <span>
            <a href={jobLink(job)}>{job}</a> <span class="quiet">{mark.came}</span>
          </span>
          <span class="quiet lately-why">{mark.reason}</span>
        </li>
      ))}
    </ol>
  );
}

function Row({ job, columns }: { job: JobOverview; columns: typeof FIGURES }): JSX.Element {
  const full = job.configured_parallelism;
  return (
    <tr {...opens(jobLink(job.job))}>
      <th scope="row">
        <a href={jobLink(job.job)}>{job.job}</a>
        {job.pipeline !== undefined && <span class="column-about">pipeline {pipelineName(job.pipeline)}</span>}
      </th>
      <td><StatusWord of={job} /></td>
      {columns.map(({ field, name, about, text }) => <td key={name} class="number" data-label={about}>{text(job[field] as number | null)}</td>)}
      <td class="lines"><Sparkline job={job.job} stamp={job.window_end_ms} /></td>
      <td class="number" data-label="saved" title={full === null ? "No size was configured." : `Configured: ${plural(full, "subtask")}.`}>
        {full && job.parallelism !== null ? percent(1 - job.parallelism / full) : "–"}
      </td>
    </tr>
  );
}

function Summary({ jobs, clusters }: { jobs: JobOverview[]; clusters: ClusterOverview[] }): JSX.Element {
  const urgent = jobs.filter((job) => URGENT.includes(job.status)).length;
  const ended = jobs.filter((job) => job.status === "ended").length;
  const newest = Math.max(...jobs.map((job) => job.window_end_ms ?? 0));
  return (
    <p class="summary">
      <span>{plural(jobs.length - ended, "job")}{ended > 0 && `, ${ended} ended`}</span>
      <span class={urgent ? "bad" : ""}>{urgent ? `${plural(urgent, "needs", "need")} attention` : "none needs attention"}</span>
      {clusters.map((cluster) => (
        <span key={cluster.cluster}>
          <a href={clusterLink(cluster.cluster)}>{cluster.cluster}</a>
          {cluster.rent_per_day !== null && ` ${dollars(cluster.rent_per_day)} a day`}
        </span>
      ))}
      {newest > 0 && <span class="figure">event time {moment(newest)} UTC</span>}
    </p>
  );
}
