// What the token of this tab may change, and the requests that change it.
import { signal } from "@preact/signals";
import { ApiError, get, send, setToken } from "./client";
import type { AccessDocument, OperationDocument } from "./documents";

/** What the token may do; null until the service has said so. */
export const access = signal<AccessDocument | null>(null);

/** Whether somebody who may only read wants to give another token. */
export const signingIn = signal(false);

export async function askAccess(): Promise<void> {
  try {
    access.value = await get<AccessDocument>("access");
  } catch {
    access.value = null; // without a token, or the service is away: it is asked again with the next token or connection
  }
}

export async function signIn(token: string): Promise<void> {
  setToken(token);
  signingIn.value = false;
  await askAccess();
}

/** Return a key that no other request has: the same request may be sent again with it, and takes effect once. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Ask for a change; throws ApiError with the service's own words, or with status 0 when it does not answer. */
export async function post(path: string, key: string, body: Record<string, unknown>): Promise<OperationDocument> {
  let answer: Response;
  try {
    const headers = { Accept: "application/json", "Content-Type": "application/json", "Idempotency-Key": key };
    answer = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new ApiError("The state service does not answer. Try again: it takes effect once.", 0);
  }
  if (answer.ok) return (await answer.json()) as OperationDocument;
  const told = (await answer.json().catch(() => ({}))) as { error?: string };
  throw new ApiError(told.error ?? `${answer.status} ${answer.statusText}`, answer.status);
}
