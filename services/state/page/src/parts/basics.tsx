// Small parts that every page uses.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { JobOverview } from "../api/documents";
import type { ApiError } from "../api/client";
import type { Live } from "../api/live";
import { GUARDRAILS, STATES, spoken } from "./words";

/** One word for a job, with a shape of its own, so that no one needs to see its colour. */
export function StatusWord({ of: { status, stale } }: { of: Pick<JobOverview, "status" | "stale"> }): JSX.Element {
  const isStale = status === "unknown" || status === "stalled";
  return (
    <span class={`status status-${status}`} title={STATES[status]}>
      <svg aria-hidden="true" viewBox="0 0 12 12" class="status-shape">
        <use href={`#shape-${status}`} />
      </svg>
      {isStale && stale ? stale.words : status === "unmeasured" ? "no figures" : status === "resting" ? "at rest" : status}
    </span>
  );
}

/** The shapes, once per page. */
export function StatusShapes(): JSX.Element {
  return (
    <svg class="offscreen" aria-hidden="true" focusable="false">
      <symbol id="shape-fine" viewBox="0 0 12 12"><circle cx="6" cy="6" r="4.2" fill="currentColor" /></symbol>
      <symbol id="shape-scaling" viewBox="0 0 12 12"><path d="M6 1 10.5 6H7.6v5H4.4V6H1.5z" fill="currentColor" /></symbol>
      <symbol id="shape-warming" viewBox="0 0 12 12">
        <path d="M6 1.2a4.8 4.8 0 1 1-4.8 4.8" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />
      </symbol>
      <symbol id="shape-held" viewBox="0 0 12 12"><path d="M2.5 1.5h2.6v9H2.5zM6.9 1.5h2.6v9H6.9z" fill="currentColor" /></symbol>
      <symbol id="shape-paused" viewBox="0 0 12 12"><path d="M2 2h8v8H2z" fill="currentColor" /></symbol>
      <symbol id="shape-advised" viewBox="0 0 12 12">
        <path d="M1 2h10v6.4H6.4L3.5 11V8.4H1z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" />
      </symbol>
      <symbol id="shape-observed" viewBox="0 0 12 12">
        <path d="M1 6c2.6-4.2 7.4-4.2 10 0-2.6 4.2-7.4 4.2-10 0z" fill="none" stroke="currentColor" stroke-width="1.5" />
        <circle cx="6" cy="6" r="1.6" fill="currentColor" />
      </symbol>
      <symbol id="shape-overloaded" viewBox="0 0 12 12"><path d="M6 .8 11.6 11H.4z" fill="currentColor" /></symbol>
      <symbol id="shape-restarting" viewBox="0 0 12 12">
        <path d="M2 6a4 4 0 1 1 1.4 3M1.2 10.4l2.2-1.4-.4-2.6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
      </symbol>
      <symbol id="shape-down" viewBox="0 0 12 12">
        <path d="m2 2 8 8m0-8-8 8" stroke="currentColor" stroke-width="2.6" stroke-linecap="round" />
      </symbol>
      <symbol id="shape-starting" viewBox="0 0 12 12">
        <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.8" />
      </symbol>
      <symbol id="shape-resting" viewBox="0 0 12 12">
        <path d="M9.8 7.6A4.6 4.6 0 1 1 4.4 2.2a3.9 3.9 0 0 0 5.4 5.4z" fill="currentColor" />
      </symbol>
      <symbol id="shape-unmeasured" viewBox="0 0 12 12">
        <path d="M1.5 6h2M5 6h2M8.5 6h2" stroke="currentColor" stroke-width="2.2" />
      </symbol>
      <symbol id="shape-stalled" viewBox="0 0 12 12"><path d="M1.5 6h9" stroke="currentColor" stroke-width="2.2" stroke-dasharray="2 1.5" /></symbol>
      <symbol id="shape-ended" viewBox="0 0 12 12"><path d="M2 2h8v8H2z" fill="currentColor" /></symbol>
      <symbol id="shape-unknown" viewBox="0 0 12 12">
        <circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2 2" />
      </symbol>
    </svg>
  );
}

/** The page's heading; it takes the focus when a page is opened, so that screen readers begin there. */
export function Heading({ children, title }: { children: ComponentChildren; title: string }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · surescale`;
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [title]);
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  );
}

export function Card(props: { title: string; aside?: ComponentChildren; children: ComponentChildren; class?: string }): JSX.Element {
  const id = `card-${props.title.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <section class={`card ${props.class ?? ""}`} aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.aside && <div class="card-aside">{props.aside}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** A figure: its name, its value, and what it is. */
export type Fact = [string, ComponentChildren, string?];

export function Facts({ facts }: { facts: Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(([name, value, about]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          {about && <dd class="fact-about">{about}</dd>}
        </div>
      ))}
    </dl>
  );
}

/** What stands where there is nothing yet: why, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div>{children}</div>}
    </div>
  );
}

function Problem({ error, link }: { error: ApiError; link: (name: string) => string }): JSX.Element {
  return (
    <div class="problem" role="alert">
      <p>{error.near.length ? error.message.split("; known: ")[0] : error.message}</p>
      {error.near.length > 0 && (
        <p>
          Did you mean{" "}
          {error.near.map((name, at) => (
            <span key={name}>
              {at > 0 && ", "}
              <a href={link(name)}>{name}</a>
            </span>
          ))}
          ?
        </p>
      )}
    </div>
  );
}

/** Why a document is missing or old, or that it was asked for. */
export function Notice({ live, link }: { live: Live<unknown>; link: (name: string) => string }): JSX.Element | null {
  if (live.error) return <Problem error={live.error} link={link} />;
  return live.document ? null : <p class="waiting" role="status">Asking the state service …</p>;
}

/** A column: its name, and for figures the class and a title; `about` stands below the name, such as a unit. */
export type Column = string | { name: string; class?: "number" | "lines"; title?: string; about?: string };

export const figures = (name: string, title?: string, about?: string): Column => ({ name, class: "number", title, about });

interface TableProps {
  label: string;
  columns: Column[];
  class?: string;
  caption?: string;
  children: ComponentChildren;
}

/** A table in a frame of its own that scrolls sideways where it must, also by keyboard. */
export function Table({ label, columns, caption, children, ...rest }: TableProps): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table class={rest.class}>
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>
            {columns.map((column) => {
              const { name, about, ...how } = typeof column === "string" ? { name: column, about: "" } : column;
              return (
                <th key={name} scope="col" {...how}>
                  {name}
                  {about && <span class="column-about">{about}</span>}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Guardrail({ rule }: { rule: string }): JSX.Element {
  return (
    <abbr class="rule" title={GUARDRAILS[rule] ?? rule}>
      {spoken(rule)}
    </abbr>
  );
}
