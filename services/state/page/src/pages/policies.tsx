// Which policy serves which job, who stands in for whom, and the releases.
import type { JSX } from "preact";
import type { Policies } from "../api/documents";
import { useLive } from "../api/live";
import { Card, Empty, Heading, Notice, Table, figures } from "../parts/basics";
import { clusterLink, jobLink } from "../parts/links";
import { moment, plural } from "../parts/words";

const JOBS_SHOWN = 12;

export function PoliciesPage(): JSX.Element {
  const live = useLive<Policies>("policies", ["decisions", "policy-releases"]);
  const { document } = live;
  return (
    <>
      <Heading title="Policies">Policies</Heading>
      <Notice live={live} link={() => "#/policies"} />
      {document && (
        <>
          <Card title="In use" aside="by each job's latest decision">
            {document.in_use.length ? <InUse document={document} /> : <Empty title="No decision yet">The first ones come at the end of a span.</Empty>}
          </Card>
          <Card title="Releases">
            {document.releases.length ? (
              <Releases document={document} />
            ) : (
              <Empty title="Nothing released">
                <p>
                  Agents use the policy they were started with. <code>surescale policy release NAME</code> gives all jobs of a
                  cluster another one, <code>surescale job set JOB --policy NAME</code> a single job;{" "}
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
    <Table label="Policies in use" columns={["Policy", "Package", figures("Jobs"), "Serves", "Stands in"]}>
      {document.in_use.map((policy) => (
        <tr key={`${policy.name} ${policy.sha256}`}>
          <th scope="row">{policy.name}</th>
          <td class="figure">{policy.sha256 ? policy.sha256.slice(0, 12) : "a rule"}</td>
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

function Releases({ document }: { document: Policies }): JSX.Element {
  return (
    <Table label="Releases" columns={["Cluster", "Policy", "From", "By"]}>
      {document.releases.map((release) => (
        <tr key={release.cluster}>
          <th scope="row"><a href={clusterLink(release.cluster)}>{release.cluster}</a></th>
          <td>{release.policy}</td>
          <td class="figure">{moment(release.valid_from_ms)}</td>
          <td>{release.set_by || "–"}</td>
        </tr>
      ))}
    </Table>
  );
}
