import table from "../../words.json";
import type { JobOverview, LatencyBudget } from "../api/documents";

// Figures as people read them. Times are UTC, as everywhere in surescale.

const NONE = "–";
export const MINUTE_MS = 60_000;
export const DAY_S = 86_400;

export function count(value: number | null | undefined): string {
  if (value == null) return NONE;
  if (value >= 10_000_000) return `${(value / 1_000_000).toFixed(0)} M`;
  if (value >= 1_000_000) return `${(value / 1_000_000).toFixed(1)} M`;
  if (value >= 10_000) return `${(value / 1_000).toFixed(0)} k`;
  return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

export function percent(share: number | null | undefined): string {
  return share == null ? NONE : `${Math.round(share * 100)} %`;
}

export function dollars(value: number | null | undefined): string {
  return value == null ? NONE : `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** Return a difference with its sign. */
export function signed(value: number | null | undefined, words: (size: number) => string = count): string {
  if (value == null) return NONE;
  return `${value < 0 ? "−" : "+"}${words(Math.abs(value))}`;
}

export function duration(ms: number | null | undefined): string {
  if (ms == null) return NONE;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min${seconds % 60 >= 1 ? ` ${Math.floor(seconds % 60)} s` : ""}`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value < 2 ** 20 ? `${Math.round(value / 1024)} KiB` : `${(value / 2 ** 20).toFixed(value < 10 * 2 ** 20 ? 1 : 0)} MiB`;
}

/** Return how many of a day's minutes above the job's bound are used up; what is unknown never counts as kept. */
export function budgetFact(budget: LatencyBudget | null | undefined): [string, string, string][] {
  if (!budget) return [];
  const unknown = DAY_S / 60 - budget.known_minutes;
  const used = unknown ? `at least ${budget.used_minutes}` : `${budget.used_minutes}`;
  const about = unknown ? `Minutes in which records waited longer; ${plural(unknown, "minute")} unknown` : "Minutes in which records waited longer";
  return [[`Above ${duration(1_000 * budget.seconds)} today`, `${used} of ${count(budget.allowed_minutes)}`, about]];
}

/** Return how people name a pipeline: by its topic prefix. */
export function pipelineName(prefix: string): string {
  return prefix || "(no prefix)";
}

/** Return hours and minutes; seconds too where they say something. */
export function clock(ms: number | null | undefined): string {
  if (ms == null) return NONE;
  return new Date(ms).toISOString().slice(11, ms % MINUTE_MS ? 19 : 16);
}

export function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export function moment(ms: number | null | undefined): string {
  return ms == null ? NONE : `${day(ms)} ${clock(ms)}`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Return a word of a program as words: ``host_lost`` is host lost. */
export function spoken(word: string): string {
  return word.replaceAll("_", " ");
}

// The one table of what the words of programs mean; services/state/read/words.py reads it for the command line.
const WORDS: Record<"states" | "phases" | "reasons" | "causes" | "guardrails", Record<string, string>> = table;
const FORMS: Record<string, (value: number | null) => string> = { count, percent, duration, dollars };

/** The figures of a job in every list of jobs, and in the charts of its history. */
export const FIGURES = table.figures.map(({ field, form, name, about, chart }) => ({
  field: field as keyof JobOverview,
  form,
  name,
  about,
  chart,
  text: FORMS[form] ?? count,
}));

/** What each guardrail means; in the order in which guardrails come. */
export const GUARDRAILS = WORDS.guardrails;
export const STATES = WORDS.states;

/** Return why something happened to a decision, or what released it. */
export function reason(word: string): string {
  return WORDS.reasons[word] ?? WORDS.causes[word] ?? spoken(word);
}
