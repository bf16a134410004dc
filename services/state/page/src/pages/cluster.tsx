// One cluster: its jobs, and where its engine has hosts, their units, what they cost, and what moved.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ClusterDocument, ClusterInfo, Host } from "../api/documents";
import { useLive } from "../api/live";
import { Card, Empty, type Fact, Facts, Heading, Notice, Table } from "../parts/basics";
import { clusterLink, jobLink } from "../parts/links";
import { Operate } from "../parts/operate";
import { DAY_S, clock, dollars, plural, spoken } from "../parts/words";

const COLOURS = 8;
const EVENTS_SHOWN = 12;
const NOISE = new Set(["checkpoint_completed"]); // every minute, and nothing follows from it

interface Unit {
  unit: number;
  jobs: { job: number; tasks: string[] }[];
}

export function ClusterPage({ cluster }: { cluster: string }): JSX.Element {
  const path = `clusters/${encodeURIComponent(cluster)}`;
  const live = useLive<ClusterDocument>(path, ["cluster-topology", "job-topology", "engine-events", "reschedule-events", "rescaler-state", "job-settings"]);
  const { document } = live;
  const { document: info } = useLive<ClusterInfo>(document?.topology ? `${path}/info` : null, ["cluster-topology", "job-topology", "rescaler-state"]);
  const hosts = document?.topology?.record.hosts ?? [];
  const isPlaced = document?.topology?.record.engine.places === "commanded"; // then hosts are due, and moves may come
  return (
    <>
      <nav class="crumbs" aria-label="Where this is"><a href="#/clusters">Clusters</a></nav>
      <div class="title-row">
        <Heading title={`Cluster ${cluster}`}>{cluster}</Heading>
        {document?.balance && <p class="lead">{balance(document)}</p>}
      </div>
      <Notice live={live} link={clusterLink} />
      {document && (
        <>
          <Facts
            facts={[
              ["Jobs", String(document.jobs.length)],
              ...(isPlaced || hosts.length ? [["Hosts", `${document.rent?.hosts.length ?? hosts.length} of ${hosts.length} in use`] satisfies Fact] : []),
              ...(isPlaced || document.rent ? [["Cost a day", dollars(document.rent?.per_day), "Of all hosts in use"] satisfies Fact] : []),
              ["Engine", document.topology?.record.engine.engine ?? "–"],
              ["Released policy", document.policy_release?.record.policy ?? "none", "A job without one has the policy of its settings, or that of SURESCALE_POLICY"],
            ]}
          />
          <Operate path={path} isPaused={Boolean(document.pause)} />
          {(isPlaced || hosts.length > 0) && (
            <Card title="Hosts">
              {hosts.length ? (
                <Hosts document={document} info={info} />
              ) : (
                <Empty title="No host is known">The monitor lists hosts once the engine reports them.</Empty>
              )}
            </Card>
          )}
          <div class="columns">
            {isPlaced || document.balances.length > 0 ? (
              <Card title="Moves" class="wide"><Moves document={document} /></Card>
            ) : (
              <Card title="Jobs" class="wide"><Jobs jobs={document.jobs} /></Card>
            )}
            <Card title="Events"><Events document={document} /></Card>
          </div>
        </>
      )}
    </>
  );
}

function Jobs({ jobs }: { jobs: string[] }): JSX.Element {
  return (
    <ul class="job-keys">
      {jobs.map((job) => <li key={job}><a href={jobLink(job)}>{job}</a></li>)}
    </ul>
  );
}

function balance(document: ClusterDocument): string {
  const seen = document.balance;
  return seen ? `${seen.record.status === "moving" ? "Units are moving" : "Nothing moves"}: ${seen.record.detail || spoken(seen.record.reason)}.` : "";
}

function Hosts({ document, info }: { document: ClusterDocument; info: ClusterInfo | null }): JSX.Element {
  const jobs = document.jobs;
  const units = useMemo(() => unitsOf(jobs, info), [jobs, info]);
  const hosts = document.topology?.record.hosts ?? [];
  const used = jobs.filter((_, at) => [...units.values()].some((unit) => unit.jobs.some((each) => each.job === at)));
  return (
    <>
      {used.length <= COLOURS * 3 && (
        <ul class="job-keys" aria-label="Jobs by letter">
          {used.map((job) => {
            const at = jobs.indexOf(job);
            return (
              <li key={job}>
                <span class={`unit unit-${at % COLOURS}`} aria-hidden="true">{letter(at)}</span> <a href={jobLink(job)}>{job}</a>
              </li>
            );
          })}
        </ul>
      )}
      <ul class="hosts">
        {hosts.map((host) => <HostBox key={host.host} host={host} jobs={jobs} units={units} isUsed={document.rent?.hosts.includes(host.host) ?? true} />)}
      </ul>
    </>
  );
}

function unitsOf(jobs: string[], info: ClusterInfo | null): Map<number, Unit> {
  const index = new Map(jobs.map((job, at) => [job, at]));
  const found = new Map<number, Unit>();
  info?.fragments.forEach((fragment) =>
    fragment.parallel_units.forEach((unit) => {
      const entry = found.get(unit) ?? { unit, jobs: [] };
      const job = index.get(fragment.job) ?? 0;
      const own = entry.jobs.find((each) => each.job === job);
      if (own) own.tasks.push(fragment.task);
      else entry.jobs.push({ job, tasks: [fragment.task] });
      found.set(unit, entry);
    }),
  );
  return found;
}

const letter = (at: number): string => String.fromCharCode(65 + (at % 26));

function HostBox(props: { host: Host; jobs: string[]; units: Map<number, Unit>; isUsed: boolean }): JSX.Element {
  const { host, jobs, units, isUsed } = props;
  const busy = host.units.filter((unit) => units.has(unit));
  return (
    <li class={`host ${isUsed ? "" : "host-idle"}`}>
      <h3>
        {host.host} {host.state !== "running" && <span class="bad">leaving</span>}
      </h3>
      <p class="quiet figure">
        {dollars(host.price_per_s * DAY_S)} a day · {host.cpu_cores} cores · zone {host.zone || "–"}
      </p>
      {host.units.length > 0 ? (
        <>
          <p class="units" role="img" aria-label={`${busy.length} of ${plural(host.units.length, "unit")} in use`}>
            {host.units.map((unit) => {
              const entry = units.get(unit);
              const title = entry
                ? `unit ${unit}: ${entry.jobs.map((each) => `${jobs[each.job] ?? ""} (${plural(each.tasks.length, "subtask")})`).join(", ")}`
                : `unit ${unit}: free`;
              return (
                <span key={unit} class="unit-stack" title={title}>
                  {entry ? entry.jobs.map((each) => <span key={each.job} class={`unit unit-${each.job % COLOURS}`}>{letter(each.job)}</span>) : <span class="unit unit-free" />}
                </span>
              );
            })}
          </p>
          <p class="quiet">{isUsed ? `${busy.length} of ${plural(host.units.length, "unit")} in use` : "not in use, not paid"}</p>
        </>
      ) : (
        <p class="quiet">{plural(host.slots ?? 0, "slot")}, {host.free_slots ?? 0} free; the engine places subtasks itself</p>
      )}
    </li>
  );
}

function Moves({ document }: { document: ClusterDocument }): JSX.Element {
  if (!document.balances.length) return <Empty title="No host has joined or left">Checks of the hosts, and what they moved, appear here.</Empty>;
  return (
    <Table label="Checks of the hosts, newest first" columns={["Time", "State", "Why", "Moves"]}>
      {document.balances.map((look) => (
        <tr key={`${look.record.generation}/${look.record.sequence}`}>
          <th scope="row" class="figure">{clock(look.record.at_ms)}</th>
          <td>{look.record.status}</td>
          <td>{spoken(look.record.reason)}{look.record.detail && <span class="quiet"> {look.record.detail}</span>}</td>
          <td>{look.record.moves.length ? grouped(look.record.moves) : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

function grouped(moves: ClusterDocument["balances"][number]["record"]["moves"]): string {
  const found = new Map<string, number>();
  moves.forEach((move) => {
    const name = `${move.job}: ${move.host || "lost host"} → ${move.to_host}`;
    found.set(name, (found.get(name) ?? 0) + 1);
  });
  return [...found].map(([name, units]) => `${name} (${plural(units, "unit")})`).join(", ");
}

function Events({ document }: { document: ClusterDocument }): JSX.Element {
  const told = document.events.filter((event) => !NOISE.has(event.record.kind)).slice(0, EVENTS_SHOWN);
  if (!told.length) return <Empty title="No events">What the engine reports of jobs and hosts appears here, without checkpoints.</Empty>;
  return (
    <ol class="events">
      {told.map((event, at) => (
        <li key={at}>
          <span class="figure">{clock(event.record.at_ms)}</span> <span class="strong">{spoken(event.record.kind)}</span>{" "}
          {event.record.job ? <a href={jobLink(event.record.job)}>{event.record.job}</a> : event.record.host}
          {event.record.detail && <p class="quiet">{event.record.detail}</p>}
        </li>
      ))}
    </ol>
  );
}
