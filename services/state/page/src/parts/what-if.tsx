// What the decision would have been without a task's figures or a minute's: decided again by the service, on demand.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { CounterfactualDocument as Counterfactual, DecisionDocument as Decision } from "../api/documents";
import { ApiError, counterfactualPath, get } from "../api/client";
import { Card, Table, figures } from "./basics";
import { MINUTE_MS, clock, percent, plural, signed } from "./words";

const NAMES_SHOWN = 4;

interface Props {
  decision: Decision;
  labels: Map<string, string>;
}

export function WhatIf({ decision, labels }: Props): JSX.Element {
  const weights = useMemo(() => weightsOf(decision), [decision]);
  const tasks = useMemo(() => {
    const name = (task: string): string => labels.get(task) ?? task;
    const weight = (task: string): number => weights.neighbours.get(task) ?? 0;
    return decision.record.tasks
      .map(({ task }) => ({ task, name: name(task), weight: weight(task) }))
      .sort((a, b) => b.weight - a.weight || a.name.localeCompare(b.name));
  }, [decision, labels, weights]);
  const [chosen, setChosen] = useState<string | null>(null);
  const [answers, setAnswers] = useState<Counterfactual[]>([]);
  const [refusal, setRefusal] = useState("");
  const [isAsking, setAsking] = useState(false);
  const without = chosen ?? tasks[0]?.task ?? "0";

  const ask = async (): Promise<void> => {
    setAsking(true);
    setRefusal("");
    try {
      const answer = await get<Counterfactual>(counterfactualPath(decision.record.decision_id, without));
      setAnswers((before) => [...before.filter((each) => each.without !== answer.without), answer]);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setRefusal(error.message);
    } finally {
      setAsking(false);
    }
  };
  const named = (left: string): string => leftOut(left, decision, labels);
  return (
    <Card title="What if a task or minute were missing" aside="decides again on the same window, without one task or minute">
      <form
        class="operate"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <label>
          Without{" "}
          <select value={without} onChange={(event) => setChosen(event.currentTarget.value)}>
            <optgroup label="Tasks">
              {tasks.map(({ task, name, weight }) => <option key={task} value={task}>{withWeight(name, weight)}</option>)}
            </optgroup>
            <optgroup label="Minutes">
              {minutesOf(decision, weights).map(([back, weight]) => (
                <option key={back} value={String(back)}>{withWeight(named(String(back)), weight)}</option>
              ))}
            </optgroup>
          </select>
        </label>
        <button type="submit" disabled={isAsking}>Decide again</button>
        {weights.neighbours.size > 0 && <span class="quiet">in brackets: its share of the attention shown above</span>}
      </form>
      <p role="status" class={refusal ? "operate-refused" : "quiet"}>
        {isAsking ? `Deciding again without ${named(without)} …` : refusal}
      </p>
      {refusal && (
        <p class="quiet">
          The command line answers it as well: <code>surescale job explain {decision.record.decision_id} --without {without}</code>
        </p>
      )}
      {answers.length > 0 && <Answers decision={decision} labels={labels} answers={answers} named={named} />}
    </Card>
  );
}

interface AnswersProps extends Props {
  answers: Counterfactual[];
  named: (left: string) => string;
}

function Answers({ decision, labels, answers, named }: AnswersProps): JSX.Element {
  const changed = decision.record.tasks.filter((task) => task.current !== task.desired).length;
  const difference = (answer: Counterfactual): number => answer.sizes.reduce((sum, each) => sum + each.without - each.decided, 0);
  return (
    <>
      <Table
        label="Answers with everything, and without one task or minute"
        columns={["Left out", "Answer", figures("Subtasks", "Compared with the decision"), "Sizes that differ from the decision"]}
      >
        <tr>
          <th scope="row">nothing</th>
          <td><span class={`action action-${decision.record.action}`}>{decision.record.action}</span></td>
          <td class="number">–</td>
          <td class="quiet">the decision: {changed ? `${plural(changed, "task")} changed` : "no task changed"}</td>
        </tr>
        {answers.map((answer) => (
          <tr key={answer.without}>
            <th scope="row">{named(answer.without)}</th>
            <td><span class={`action action-${answer.action}`}>{answer.action}</span></td>
            <td class="number">{answer.sizes.length ? signed(difference(answer)) : "–"}</td>
            <td>
              {answer.sizes.length ? <span title={answer.reason}>{differing(answer, labels)}</span> : <span class="quiet">none: it made no difference</span>}
              {answer.stand_in_reason && <p class="quiet">A rule would have stood in: {answer.stand_in_reason}</p>}
            </td>
          </tr>
        ))}
      </Table>
      {answers.some((answer) => !answer.is_same_with_all) && (
        <p class="operate-refused">
          With nothing left out, this version of surescale does not decide as recorded. What differs here need not come from what was left out.
        </p>
      )}
    </>
  );
}

/** Return which tasks differ; those with the same two sizes share a place. */
function differing(answer: Counterfactual, labels: Map<string, string>): string {
  const alike = new Map<string, string[]>();
  answer.sizes.forEach(({ task, decided, without }) => {
    const sizes = `${without} instead of ${decided}`;
    alike.set(sizes, [...(alike.get(sizes) ?? []), labels.get(task) ?? task]);
  });
  return [...alike].map(([sizes, names]) => `${several(names)}: ${sizes}`).join("; ");
}

function several(names: string[]): string {
  const rest = names.length - NAMES_SHOWN;
  return rest > 0 ? `${names.slice(0, NAMES_SHOWN).join(", ")} and ${rest} more` : names.join(", ");
}

interface Weights {
  neighbours: Map<string, number>;
  minutes: Map<number, number>;
}

/** Return how much of the attention that is shown each neighbour and each minute has, of all tasks together. */
function weightsOf(decision: Decision): Weights {
  const looked = decision.record.tasks.flatMap((task) => task.looked_at);
  const all = looked.reduce((sum, each) => sum + each.weight, 0) || 1;
  const neighbours = new Map<string, number>();
  const minutes = new Map<number, number>();
  looked.forEach((each) => {
    const back = Math.round((each.minute_end_ms - decision.record.span_end_ms) / MINUTE_MS);
    minutes.set(back, (minutes.get(back) ?? 0) + each.weight / all);
    each.neighbours.forEach((name, at) => {
      neighbours.set(name, (neighbours.get(name) ?? 0) + (each.weight * (each.neighbour_weights[at] ?? 0)) / all);
    });
  });
  return { neighbours, minutes };
}

/** Return the minutes of the window, newest first, each with its weight. */
function minutesOf(decision: Decision, { minutes }: Weights): [number, number][] {
  const oldest = Math.min(1 - decision.record.minutes_known, ...minutes.keys(), 0);
  return Array.from({ length: 1 - oldest }, (_, at): [number, number] => [0 - at, minutes.get(0 - at) ?? 0]);
}

function withWeight(name: string, weight: number): string {
  return weight >= 0.005 ? `${name} (${percent(weight)})` : name;
}

function leftOut(without: string, decision: Decision, labels: Map<string, string>): string {
  if (decision.record.tasks.some((task) => task.task === without)) return labels.get(without) ?? without;
  return `${clock(decision.record.span_end_ms + Number(without) * MINUTE_MS)}, ${Number(without) === 0 ? "the last minute" : `${without} min`}`;
}
