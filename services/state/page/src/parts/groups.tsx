// What the broker tells of a job's consumer groups: partitions, members, and the workers that surescale runs.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ConsumerGroup, GroupPartition } from "../api/documents";
import { Card, Empty, Table, figures } from "./basics";
import { clock, count, duration, moment, plural } from "./words";

const PARTITIONS_SHOWN = 12;

/** One card for each group; nothing for jobs of other engines. */
export function Groups({ groups, atMs, rests }: { groups: ConsumerGroup[]; atMs: number; rests: boolean }): JSX.Element {
  return (
    <>
      {groups.map((group) => (
        <Card key={group.task} title={`Consumer group ${group.group}`} aside={`${rests ? "at rest" : group.state}, as of ${clock(atMs)}`}>
          <p class="quiet">{about(group)}</p>
          <Partitions group={group} atMs={atMs} />
          <Members group={group} rests={rests} />
          {group.workers.length > 0 && <Workers group={group} />}
        </Card>
      ))}
    </>
  );
}

function about(group: ConsumerGroup): string {
  const unknown = group.lag_unknown ? ` What waits in ${plural(group.lag_unknown, "partition")} is unknown.` : "";
  const reads = group.topics.length ? `Reads ${group.topics.join(", ")}.` : "Reads no topic yet.";
  if (group.lag === null) return `${reads}${unknown || " What waits is unknown."}`;
  const oldest = group.oldest_ms === null ? "longer than it was watched" : duration(group.oldest_ms);
  const waits = group.lag ? `${plural(group.lag, "record")} waiting, the oldest for ${oldest}.` : "Nothing waits.";
  return `${reads} ${waits}${unknown}`;
}

function Partitions({ group, atMs }: { group: ConsumerGroup; atMs: number }): JSX.Element {
  const [all, setAll] = useState(false);
  const ranked = useMemo(() => [...group.partitions].sort(byWaiting), [group]);
  if (!ranked.length) return <Empty title="No partitions">The group has none and has committed nothing.</Empty>;
  const shown = all ? ranked : ranked.slice(0, PARTITIONS_SHOWN);
  return (
    <>
      <Table
        label={`Partitions of ${group.group}, where most waits first`}
        columns={[
          "Partition", figures("Member"), figures("Log end"), figures("Committed"), figures("Waiting"), figures("In/min"),
          figures("Read/min"), figures("Stands for", "Records wait and the group commits nothing further"),
        ]}
      >
        {shown.map((each) => (
          <tr key={`${each.topic}/${each.partition}`}>
            <th scope="row">{each.topic} {each.partition}</th>
            <td class="number">{each.subtask ?? "nobody"}</td>
            <td class="number">{each.end ?? "–"}</td>
            <td class="number">{each.committed ?? "–"}</td>
            <td class="number">{each.problem ? <abbr title={each.problem}>unknown</abbr> : count(each.lag)}</td>
            <td class="number">{count(each.arrived_per_minute)}</td>
            <td class="number">{count(each.read_per_minute)}</td>
            <td class="number">{each.stands_since_ms === null ? "" : duration(Math.max(0, atMs - each.stands_since_ms))}</td>
          </tr>
        ))}
      </Table>
      {shown.length < ranked.length && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          {plural(ranked.length - shown.length, "more partition")}
        </button>
      )}
      {group.partitions_left_out > 0 && (
        <p class="quiet">{plural(group.partitions_left_out, "partition")} in which less waits, not kept.</p>
      )}
    </>
  );
}

/** Those first of which it is unknown what waits, then those in which most does. */
function byWaiting(a: GroupPartition, b: GroupPartition): number {
  return (b.lag ?? Infinity) === (a.lag ?? Infinity) ? a.partition - b.partition : (b.lag ?? Infinity) - (a.lag ?? Infinity);
}

function Members({ group, rests }: { group: ConsumerGroup; rests: boolean }): JSX.Element {
  if (!group.members.length) return <Empty title="No members">{rests ? "At rest: they are started when records arrive." : "Start its consumers."}</Empty>;
  return (
    <>
      <Table
        label={`Members of ${group.group}`}
        columns={[figures("Member"), "Client", "Host", figures("Partitions"), figures("Waiting"), figures("Read/min")]}
      >
        {group.members.map((each) => (
          <tr key={each.subtask}>
            <td class="number">{each.subtask}</td>
            <th scope="row">{each.client_id || "–"}</th>
            <td>{each.host}</td>
            <td class="number">{each.partitions}</td>
            <td class="number">{count(each.lag)}</td>
            <td class="number">{count(each.read_per_minute)}</td>
          </tr>
        ))}
      </Table>
      {group.members_left_out > 0 && <p class="quiet">{plural(group.members_left_out, "more member")}, not kept.</p>}
    </>
  );
}

function Workers({ group }: { group: ConsumerGroup }): JSX.Element {
  return (
    <>
      <Table
        label={`Workers of ${group.group}`}
        columns={[figures("Worker"), figures("Process"), "Started", figures("Failed starts", "In a row"), "How it is", "Log"]}
      >
        {group.workers.map((each) => (
          <tr key={each.index}>
            <td class="number">{each.index}</td>
            <td class="number">{each.pid ?? "–"}</td>
            <td>{moment(each.started_ms)}</td>
            <td class="number">{each.failures || ""}</td>
            <td>{each.failure || (each.is_ending ? "ending" : each.pid === null ? "not running" : "running")}</td>
            <td class="quiet">{each.log}</td>
          </tr>
        ))}
      </Table>
      {group.workers_left_out > 0 && <p class="quiet">{plural(group.workers_left_out, "more worker")}, not kept.</p>}
    </>
  );
}
