// Keeps documents fresh: the stream says that the view has changed, and what is shown is asked for again.
// EventSource cannot send a token, so the stream is read with fetch.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, send, tokenNeeded } from "./client";
import type { ChangeDocument } from "./documents";

export type Connection = "connecting" | "live" | "lost" | "problem";

export const connection = signal<Connection>("connecting");
export const problem = signal("");
export const isStale = signal(false); // a role does not write what is due
export const lostAt = signal<number | null>(null); // since when nothing comes from the service

type Listener = (topics: ReadonlySet<string> | "all") => void;

const SILENT_MS = 40_000; // the service says that it is alive every 15 s
const AGAIN_MS = 60_000; // that nothing comes any more changes what is said of a job, and no event tells it
const WAIT_MS = [500, 1_000, 2_000, 5_000];
const listeners = new Set<Listener>();
let lastId = "";
let lost = false;

export function startStream(): void {
  void follow();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) tell("all");
  });
  setInterval(() => {
    if (!lost) tell("all");
  }, AGAIN_MS);
}

async function follow(): Promise<never> {
  for (let failures = 0; ; ) {
    try {
      await read(() => (failures = 0));
    } catch {
      // Whatever ended it, the answer is to come back.
    }
    lost = true;
    connection.value = "lost";
    lostAt.value ??= Date.now();
    await new Promise((done) => setTimeout(done, WAIT_MS[Math.min(failures, WAIT_MS.length - 1)]));
    failures += 1;
  }
}

async function read(connected: () => void): Promise<void> {
  const stop = new AbortController();
  let watch = setTimeout(() => stop.abort(), SILENT_MS);
  try {
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const answer = await send("events", { headers, signal: stop.signal, cache: "no-store" });
    if (!answer.ok || !answer.body) return;
    connected();
    connection.value = "live";
    lostAt.value = null;
    // Documents that failed while nobody answered are asked for again, even if the view has not moved.
    if (lost) tell("all");
    lost = false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(), SILENT_MS);
      const blocks = (text + value).split("\n\n");
      text = blocks.pop() ?? "";
      blocks.forEach(take);
    }
  } finally {
    clearTimeout(watch);
    stop.abort();
  }
}

function take(block: string): void {
  const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  const data = fields.get("data");
  if (!data) return;
  const change = JSON.parse(data) as ChangeDocument;
  problem.value = change.problem ?? "";
  connection.value = change.problem ? "problem" : "live";
  lastId = fields.get("id") ?? lastId;
  if (!change.problem) tell(new Set(change.topics));
}

function tell(topics: ReadonlySet<string> | "all"): void {
  if (!document.hidden) listeners.forEach((listener) => listener(topics));
}

/** Return the present time; whoever uses it is shown again every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

export interface Live<T> {
  document: T | null;
  error: ApiError | null;
}

/** Return a document and keep it fresh: it is asked for again when records came on one of the topics. */
export function useLive<T>(path: string | null, topics: readonly string[]): Live<T> {
  const [found, setFound] = useState<Live<T> & { path: string | null }>({ document: null, error: null, path: null });
  const key = topics.join();
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    let isAsking = false;
    let isStale = false;
    const ask = async (): Promise<void> => {
      if (isAsking) {
        isStale = true; // one request at a time, and one more if something came meanwhile
        return;
      }
      isAsking = true;
      try {
        const document = await get<T>(path, stop.signal);
        setFound({ document, error: null, path });
      } catch (error) {
        if (stop.signal.aborted) return;
        const told = error instanceof ApiError ? error : new ApiError(String(error), 0);
        setFound((before) => ({ document: before.path === path && told.status !== 404 ? before.document : null, error: told, path }));
      } finally {
        isAsking = false;
        if (isStale && !stop.signal.aborted) {
          isStale = false;
          void ask();
        }
      }
    };
    const listener: Listener = (changed) => {
      if (changed === "all" || topics.some((topic) => changed.has(topic))) void ask();
    };
    const onToken = tokenNeeded.subscribe((needed) => {
      if (!needed) void ask();
    });
    listeners.add(listener);
    return () => {
      stop.abort();
      listeners.delete(listener);
      onToken();
    };
  }, [path, key]);
  return found.path === path ? found : { document: null, error: null };
}
