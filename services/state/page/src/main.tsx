// The page: a bar on top, and below it what the address names.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { tokenNeeded } from "./api/client";
import type { PipelineDocument } from "./api/documents";
import { connection, isStale, lostAt, problem, startStream, useLive, useNow } from "./api/live";
import { access, askAccess, signIn, signingIn } from "./api/operate";
import { Empty, Heading, StatusShapes } from "./parts/basics";
import { setTheme, theme } from "./parts/theme";
import type { Theme } from "./parts/theme";
import { ClusterPage } from "./pages/cluster";
import { ClustersPage } from "./pages/clusters";
import { DecisionPage } from "./pages/decision";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { PoliciesPage } from "./pages/policies";
import { TaskPage } from "./pages/task";
import { PipelinePage } from "./pages/pipeline";
import { duration } from "./parts/words";

const NAV = [
  ["#/", "Jobs", /^\/(jobs|tasks|decisions)?(\/|$)/],
  ["#/clusters", "Clusters", /^\/clusters/],
  ["#/policies", "Policies", /^\/policies/],
  ["#/pipeline", "Pipeline", /^\/pipeline/],
] as const;

function useAddress(): string {
  const read = (): string => location.hash.slice(1) || "/";
  const [address, setAddress] = useState(read);
  useEffect(() => {
    const changed = (): void => setAddress(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

function View({ address }: { address: string }): JSX.Element {
  const [, place = "", ...names] = address.split("/").map(decoded);
  if (place === "") return <JobsPage />;
  if (place === "jobs" && names.length >= 2) return <JobPage key={names.join("/")} job={names.join("/")} />;
  if (place === "tasks" && names.length === 2) return <TaskPage key={names.join("/")} job={names[0] ?? ""} task={names[1] ?? ""} />;
  if (place === "decisions" && names.length) return <DecisionPage key={names.join("/")} id={names.join("/")} />;
  if (place === "clusters" && names.length) return <ClusterPage key={names[0]} cluster={names[0] ?? ""} />;
  if (place === "clusters") return <ClustersPage />;
  if (place === "policies") return <PoliciesPage />;
  if (place === "pipeline") return <PipelinePage />;
  return (
    <>
      <Heading title="Not found">There is no such page</Heading>
      <Empty title={address}>
        <a href="#/">All jobs</a>
      </Empty>
    </>
  );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const CONNECTION = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost, trying again",
  problem: "view not readable",
  stale: "old figures",
};

function Bar({ address }: { address: string }): JSX.Element {
  const state = connection.value === "live" && isStale.value ? "stale" : connection.value;
  return (
    <header class="bar">
      <a class="skip" href={`#${address}`} onClick={() => document.querySelector<HTMLElement>("h1")?.focus()}>
        Skip to the content
      </a>
      <a class="brand" href="#/">
        <img src="page/icon.svg" alt="" width="22" height="22" /> surescale
      </a>
      <nav aria-label="Pages">
        {NAV.map(([href, name, here]) => (
          <a key={href} href={href} aria-current={here.test(address) ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <p class={`connection connection-${state}`} role="status" title={problem.value || undefined}>
        <span class="dot" aria-hidden="true" /> {CONNECTION[state]}
      </p>
      {access.value?.operable && !access.value.may_operate && (
        <button type="button" class="sign-in" onClick={() => (signingIn.value = true)}>
          Sign in to operate
        </button>
      )}
      <label class="theme">
        <span class="offscreen">Colours</span>
        <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
          <option value="auto">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
    </header>
  );
}

function TokenForm(): JSX.Element {
  const [token, setTyped] = useState("");
  return (
    <form
      class="card token"
      onSubmit={(event) => {
        event.preventDefault();
        void signIn(token);
      }}
    >
      <Heading title="Token">Sign in</Heading>
      <p>
        {tokenNeeded.value
          ? "This state service requires a token (SURESCALE_HTTP_TOKEN_FILE)."
          : "With a token from SURESCALE_HTTP_OPERATE_TOKEN_FILE you may pause, resume and approve."}{" "}
        The token stays in this tab.
      </p>
      <label>
        Token <input type="password" autocomplete="off" value={token} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={!token}>Continue</button>
    </form>
  );
}

/** What makes everything below it old: on every page. */
function Banners(): JSX.Element {
  const { document } = useLive<PipelineDocument>("pipeline", []); // asked for again every minute
  const told = document?.stages.flatMap((stage) => stage.problem ?? []) ?? [];
  useEffect(() => void (isStale.value = told.length > 0), [told.length > 0]);
  if (problem.value) told.unshift(`${problem.value}. The page shows what it last read, and keeps trying.`);
  return (
    <>
      {lostAt.value !== null && <Lost since={lostAt.value} />}
      {told.map((words) => <p key={words} class="banner" role="alert">{words}</p>)}
    </>
  );
}

function Lost({ since }: { since: number }): JSX.Element {
  return (
    <p class="banner">
      <span role="alert">The state service does not answer.</span> The page shows what it last read, {duration(Math.max(0, useNow() - since))}{" "}
      ago or more, and keeps trying.
    </p>
  );
}

function Page(): JSX.Element {
  const address = useAddress();
  return (
    <>
      <StatusShapes />
      <Bar address={address} />
      <Banners />
      <main>{tokenNeeded.value || signingIn.value ? <TokenForm /> : <View address={address} />}</main>
    </>
  );
}

connection.subscribe((state) => {
  if (state === "live" && access.value === null) void askAccess();
});
startStream();
render(<Page />, document.getElementById("app")!);
