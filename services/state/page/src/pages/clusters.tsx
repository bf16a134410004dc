// All clusters, one line each.
import type { JSX } from "preact";
import type { ClusterOverview } from "../api/documents";
import { useLive } from "../api/live";
import { Empty, Heading, Notice, Table, figures } from "../parts/basics";
import { clusterLink } from "../parts/links";
import { count, dollars } from "../parts/words";

export function ClustersPage(): JSX.Element {
  const live = useLive<ClusterOverview[]>("clusters", ["cluster-topology", "job-topology", "policy-releases"]);
  const { document: clusters } = live;
  const hasHosts = Boolean(clusters?.some((each) => each.hosts));
  return (
    <>
      <Heading title="Clusters">Clusters</Heading>
      <Notice live={live} link={clusterLink} />
      {clusters?.length === 0 && <Empty title="No cluster yet">One appears with its first job or host.</Empty>}
      {clusters && clusters.length > 0 && (
        <section class="card" aria-label="All clusters">
          <Table
            label="Clusters"
            columns={[
              "Cluster", "Engine", figures("Jobs"), ...(hasHosts ? [figures("Hosts"), figures("Units"), figures("Cost a day")] : []),
              "Released policy",
            ]}
          >
            {clusters.map((each) => (
              <tr key={each.cluster}>
                <th scope="row"><a href={clusterLink(each.cluster)}>{each.cluster}</a></th>
                <td>{each.engine ?? "–"}</td>
                <td class="number">{count(each.jobs)}</td>
                {hasHosts && (
                  <>
                    <td class="number">{count(each.hosts || null)}</td>
                    <td class="number">{count(each.units || null)}</td>
                    <td class="number">{dollars(each.rent_per_day)}</td>
                  </>
                )}
                <td>{each.policy ?? "none"}</td>
              </tr>
            ))}
          </Table>
        </section>
      )}
    </>
  );
}
