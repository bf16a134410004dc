// Which policy serves which job, which rule is the fallback for which, which policies run in shadow, and the releases.
import type { JSX } from "preact";
import type { AppendedRelease as Release, PoliciesDocument as Policies, ShadowSummary as Shadow } from "../api/documents";
import { useLive } from "../api/live";
import { Card, Empty, Heading, Notice, Table, figures } from "../parts/basics";
import { clusterLink, jobLink } from "../parts/links";
import { count, dollars, duration, moment, percent, plural, signed } from "../parts/words";

const JOBS_SHOWN = 12;

export function PoliciesPage(): JSX.Element {
  const live = useLive<Policies>("policies", ["decisions", "shadow-decisions", "policy-releases"]);
  const { document } = live;
  return (
    <>
      <Heading title="Policies">Policies</Heading>
      <Notice live={live} link={() => "#/policies"} />
      {document && (
        <>
          <Card title="In use" aside="by each job's latest decision">
            {document.in_use.length ? (
              <InUse document={document} />
            ) : <Empty title="No decision yet">The first ones come at the end of a span.</Empty>}
          </Card>
          <Card title="Shadow policies" aside="compared with the decisions that were made">
            {document.shadows.length ? (
              <Shadows document={document} />
            ) : (
              <Empty title="No shadow policy">
                <p>
                  <code>surescale policy shadow NAME</code> gives a policy the same windows; nothing acts on its answers.
                </p>
              </Empty>
            )}
          </Card>
          <Card title="Releases">
            {document.releases.length ? (
              <Releases document={document} />
            ) : (
              <Empty title="Nothing released">
                <p>
                  Agents use the policy they were started with. <code>surescale policy release NAME</code> gives all jobs of a
                  cluster another one, with <code>--canary 10</code> a tenth of them, with <code>--job JOB</code> a single one;{" "}
                  <code>surescale policy list</code> shows what there is, with scores.
                </p>
              </Empty>
            )}
          </Card>
        </>
      )}
    </>
  );
}

function InUse({ document }: { document: Policies }): JSX.Element {
  return (
    <Table
      label="Policies in use"
      columns={["Policy", "Package", "Judged", figures("Jobs"), "Serves", "Fallback"]}
    >
      {document.in_use.map((policy) => (
        <tr key={`${policy.name} ${policy.sha256}`}>
          <th scope="row">{policy.name}</th>
          <td class="figure">{policy.sha256 ? policy.sha256.slice(0, 12) : "a rule"}</td>
          <td class="names">{policy.judged ?? <span class="quiet">–</span>}</td>
          <td class="number">{policy.jobs.length}</td>
          <td>
            {policy.jobs.slice(0, JOBS_SHOWN).map((job, at) => (
              <span key={job}>{at > 0 && ", "}<a href={jobLink(job)}>{job}</a></span>
            ))}
            {policy.jobs.length > JOBS_SHOWN && ` and ${plural(policy.jobs.length - JOBS_SHOWN, "more job")}`}
          </td>
          <td>
            {policy.stands_in.length ? (
              <span class="bad">for {plural(policy.stands_in.length, "job")}: {policy.fallback_reasons.join("; ")}</span>
            ) : (
              <span class="quiet">no</span>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Shadows({ document }: { document: Policies }): JSX.Element {
  const columns = [
    "Policy",
    "Beside",
    figures("Answers", "Windows with two answers, of those given to the policy"),
    figures("Equal decisions", "Share of its answers that equal the decision in every task"),
    figures("Equal tasks", "Share of tasks to which both give the same parallelism"),
    figures("Subtasks", "Mean difference in a job's subtasks"),
    figures("Cost a day", "Difference of all its jobs, at the mean price of a unit"),
    figures("Overloaded", "Share of its answers that predict a task with more work than it can do; in brackets that of the decisions"),
    figures("Busiest task", "Predicted utilisation of the busiest task; in brackets that under the decisions"),
    figures("Time", "Mean time of an answer; in brackets that of the decisions"),
  ];
  return (
    <Table label="Shadow policies compared with the decisions" columns={columns}>
      {document.shadows.map((shadow) => (
        <tr key={`${shadow.cluster} ${shadow.policy} ${shadow.sha256}`}>
          <th scope="row" title={shadow.sha256 || "a rule"}>{shadow.policy}</th>
          <td>{shadow.beside.join(", ")} on <LookedAt jobs={shadow.jobs} /></td>
          <td class="number"><Answers shadow={shadow} /></td>
          <td class="number">{percent(shadow.decisions_equal)}</td>
          <td class="number">{percent(shadow.tasks_equal)}</td>
          <td class="number">{signed(shadow.subtasks_difference)}</td>
          <td class="number">{signed(shadow.dollars_per_day, dollars)}</td>
          <td class="number">{percent(shadow.overloaded)} ({percent(shadow.served_overloaded)})</td>
          <td class="number">{percent(shadow.utilisation)} ({percent(shadow.served_utilisation)})</td>
          <td class="number">{duration(shadow.took_ms)} ({duration(shadow.served_took_ms)})</td>
        </tr>
      ))}
    </Table>
  );
}

function LookedAt({ jobs }: { jobs: string[] }): JSX.Element {
  const [first, ...others] = jobs;
  return first && !others.length ? <a href={jobLink(first)}>{first}</a> : <>{plural(jobs.length, "job")}</>;
}

function Answers({ shadow }: { shadow: Shadow }): JSX.Element {
  const missed = shadow.failed + shadow.late + shadow.skipped;
  if (!missed) return <>{count(shadow.answered)}</>;
  const why = `${shadow.failed} failed, ${shadow.late} late, ${shadow.skipped} skipped`;
  return (
    <span class="bad" title={shadow.newest_problem ? `${why}; newest: ${shadow.newest_problem}` : why}>
      {count(shadow.answered)} of {count(shadow.answered + missed)}
    </span>
  );
}

function Releases({ document }: { document: Policies }): JSX.Element {
  return (
    <Table label="Releases by scope" columns={["For", "Policy", "From", "By"]}>
      {document.releases.map((release) => (
        <tr key={`${release.record.role} ${release.record.cluster} ${release.record.job ?? ""} ${release.record.share_permille ?? ""} ${release.record.policy} ${release.record.sha256}`}>
          <th scope="row"><For release={release} /></th>
          <td title={release.record.note ?? undefined}>{release.record.policy}{release.record.role === "shadow" && <span class="quiet"> (shadow)</span>}</td>
          <td class="figure">{moment(release.record.valid_from_ms)}</td>
          <td>{release.record.set_by || "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

function For({ release }: { release: Release }): JSX.Element {
  if (release.record.job) return <a href={jobLink(release.record.job)}>{release.record.job}</a>;
  const cluster = <a href={clusterLink(release.record.cluster)}>{release.record.cluster}</a>;
  return release.record.share_permille === null ? cluster : <>{release.record.share_permille / 10} % of the jobs of {cluster}</>;
}
