// The page: a bar on top, and below it what the address names.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { tokenNeeded } from "./api/client";
import { connection, problem, startStream } from "./api/live";
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
import { PipelinePage } from "./pages/pipeline";

const NAV = [
  ["#/", "Jobs", /^\/(jobs|decisions)?(\/|$)/],
  ["#/clusters", "Clusters", /^\/clusters/],
  ["#/policies", "Policies", /^\/policies/],
  ["#/road", "Pipeline", /^\/road/],
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
  if (place === "decisions" && names.length) return <DecisionPage key={names.join("/")} id={names.join("/")} />;
  if (place === "clusters" && names.length) return <ClusterPage key={names[0]} cluster={names[0] ?? ""} />;
  if (place === "clusters") return <ClustersPage />;
  if (place === "policies") return <PoliciesPage />;
  if (place === "road") return <PipelinePage />;
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
};

function Bar({ address }: { address: string }): JSX.Element {
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
      <p class={`connection connection-${connection.value}`} role="status" title={problem.value || undefined}>
        <span class="dot" aria-hidden="true" /> {CONNECTION[connection.value]}
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

function Page(): JSX.Element {
  const address = useAddress();
  return (
    <>
      <StatusShapes />
      <Bar address={address} />
      {problem.value && (
        <p class="banner" role="alert">
          {problem.value}. The page shows what it last read, and keeps trying.
        </p>
      )}
      <main>{tokenNeeded.value || signingIn.value ? <TokenForm /> : <View address={address} />}</main>
    </>
  );
}

connection.subscribe((state) => {
  if (state === "live" && access.value === null) void askAccess();
});
startStream();
render(<Page />, document.getElementById("app")!);
