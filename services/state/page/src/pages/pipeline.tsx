// The pipeline: what each role last wrote and when, and what it could not read.
import type { JSX } from "preact";
import { clockAhead } from "../api/client";
import type { AppendedDeadLetter as DeadLetter, PipelineDocument as Pipeline } from "../api/documents";
import { useLive, useNow } from "../api/live";
import { Card, Empty, Facts, Heading, Notice, Table } from "../parts/basics";
import { clock, count, duration, moment } from "../parts/words";

const EVERYTHING = [
  "snapshots", "decisions", "job-topology", "cluster-topology", "engine-events", "reschedule-commands", "reschedule-events", "clock",
  "dead-letters",
];

export function PipelinePage(): JSX.Element {
  const live = useLive<Pipeline>("pipeline", EVERYTHING);
  const { document } = live;
  const { document: letters } = useLive<DeadLetter[]>("dead-letters?limit=20", ["dead-letters"]);
  const now = useNow();
  return (
    <>
      <div class="title-row">
        <Heading title="Pipeline">Pipeline</Heading>
        <p class="lead">The way from metrics to changes: what each role last wrote, and what it could not use.</p>
      </div>
      <Notice live={live} link={() => "#/pipeline"} />
      {document && (
        <>
          <Facts
            facts={[
              ["Freshness", duration(document.freshness_ms), "Median over the jobs: from the record that closed the minute to the decision"],
              ["Late samples", count(document.late_samples), "Came after their minute had closed, and were left out"],
              ["Refused records", count(sum(document.dead_letters)), "Put aside, with the reason; see below"],
              ["Unreadable records", count(sum(document.unreadable_records)), "Records that the view could not read"],
              ...Object.entries(document.clocks).map(([pipeline, segment]): [string, string, string] => [
                `Clock of ${pipeline}`,
                segment.record.told ? `lockstep, ${clock(segment.record.until_ms)}` : `${segment.record.speed} × real time`,
                segment.record.told ? "Simulated time; it waits for every answer" : "Simulated time",
              ]),
            ]}
          />
          <Card title="Roles" aside="by what they last wrote">
            <ol class="stages">
              {document.stages.map((stage) => (
                <li key={stage.role} class={`stage ${stage.problem ? "stage-bad" : stage.appended_ms === null ? "stage-silent" : ""}`}>
                  <h3>{stage.role}</h3>
                  <p class="stage-age figure">{stage.appended_ms === null ? "nothing yet" : `${duration(Math.max(0, now + clockAhead.value - stage.appended_ms))} ago`}</p>
                  <p class="quiet">{count(stage.records)} records: {stage.writes}</p>
                  <p class="quiet figure">{stage.newest_ms === null ? "" : `up to ${clock(stage.newest_ms)}`}</p>
                  {stage.problem && <p class="bad">{stage.problem}</p>}
                  {stage.notes.map((note) => <p key={note} class="quiet">{note}</p>)}
                </li>
              ))}
            </ol>
            <p class="note">
              <code>surescale doctor</code> checks the roles, Kafka and Redis. Each role&apos;s lag and durations are at its metrics port.
            </p>
          </Card>
          <Card title="Refused records" aside="newest first">
            {letters?.length ? <Letters letters={letters} /> : <Empty title="None">Records that no role could use appear here, with the reason.</Empty>}
          </Card>
        </>
      )}
    </>
  );
}

function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, each) => total + each, 0);
}

function Letters({ letters }: { letters: DeadLetter[] }): JSX.Element {
  return (
    <Table label="Refused records" columns={["Refused", "By", "Record", "Reason", "What is wrong"]}>
      {letters.map((letter) => (
        <tr key={`${letter.record.topic}/${letter.partition}/${letter.offset}`}>
          <th scope="row" class="figure">{moment(letter.appended_ms)}</th>
          <td>{letter.record.refused_by}</td>
          <td class="figure">{letter.record.topic}/{letter.partition} at {letter.offset}</td>
          <td>{letter.record.reason}</td>
          <td>{letter.record.field && <code>{letter.record.field}</code>} {letter.record.message}</td>
        </tr>
      ))}
    </Table>
  );
}
