// Requests to the API. The browser keeps answers by their tags, so a document that has not changed costs one short round trip.
import { signal } from "@preact/signals";

const TOKEN = "surescale-token";

/** Whether the service asks for a token that it has not got. */
export const tokenNeeded = signal(false);

/** The state service's wall clock less this machine's, from its last answer. */
export const clockAhead = signal(0);

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly near: string[] = [],
  ) {
    super(message);
  }
}

export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
  tokenNeeded.value = false;
}

/** Send a request with the token. If it is refused although another token was typed meanwhile, it is sent again with that one. */
export async function send(path: string, init: RequestInit & { headers: Record<string, string> }): Promise<Response> {
  const token = sessionStorage.getItem(TOKEN);
  const own: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...init, headers: { ...init.headers, ...own } });
  if (answer.status !== 401) return answer;
  if (sessionStorage.getItem(TOKEN) !== token) return send(path, init);
  tokenNeeded.value = true;
  return answer;
}

/** Return a document; throws ApiError with the service's own words, or with status 0 when it does not answer. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await send(path, { headers: { Accept: "application/json" }, signal: signal ?? null });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The state service does not answer. The page keeps trying.", 0);
  }
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) clockAhead.value = date - Date.now();
  if (answer.ok) return (await answer.json()) as T;
  const told = (await answer.json().catch(() => ({}))) as { error?: string; near?: string[] };
  throw new ApiError(told.error ?? `${answer.status} ${answer.statusText}`, answer.status, told.near ?? []);
}

/** Return the path of a job's documents. */
export function jobPath(job: string): string {
  const slash = job.indexOf("/");
  return `jobs/${encodeURIComponent(job.slice(0, slash))}/${encodeURIComponent(job.slice(slash + 1))}`;
}

/** Return the path of a decision: its slashes belong to it. */
export function decisionPath(id: string): string {
  return `decisions/${inPath(id)}`;
}

/** Return the path of what a decision would have been without a task or a minute. */
export function counterfactualPath(id: string, without: string): string {
  return `counterfactuals/${inPath(id)}?without=${encodeURIComponent(without)}`;
}

function inPath(id: string): string {
  return id.split("/").map(encodeURIComponent).join("/");
}
