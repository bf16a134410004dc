// The sizes that a policy compared: what each costs against the late minutes expected of it, the present and the chosen one marked.
import type { JSX } from "preact";
import type { DecisionDocument as Decision, JobRent } from "../api/documents";
import { Card, Table, figures } from "./basics";
import { count, dollars, plural, signed } from "./words";

const WIDTH = 330;
const HEIGHT = 170;
const [LEFT, RIGHT, TOP, BOTTOM] = [34, 10, 38, 24];

interface Size {
  subtasks: number;
  late: number;
  /** Slots where the engine is paid by them, else subtasks: what the rent grows with. */
  paid: number;
  mark: string;
}

/** `rent` is the job's of now: the price of a slot is not in the decision. */
export function Curve({ decision, rent }: { decision: Decision; rent: JobRent | null }): JSX.Element {
  const compared = decision.record.compared;
  const candidates = compared?.candidates;
  if (!compared || !candidates)
    return (
      <Card title="Sizes that were compared">
        <p class="quiet">None, so there is no curve of rent against late minutes: rules work out one size.</p>
      </Card>
    );
  const present = compared.present_subtasks;
  const chosen = decision.record.tasks.reduce((total, task) => total + task.desired - task.current, present);
  const sizes = candidates.subtasks.map((subtasks, at): Size => {
    const marks = [subtasks === present && "present", subtasks === compared.subtasks && "best score", subtasks === chosen && "chosen"];
    const paid = candidates.slots[at] ?? subtasks;
    return { subtasks, late: candidates.late_minutes[at] ?? 0, paid, mark: marks.filter(Boolean).join(", ") };
  });
  const price = candidates.slots.length && rent?.slots ? rent.per_day / rent.slots : null;
  const now = sizes.find((size) => size.subtasks === present);
  const cost = price === null ? [] : [figures("Cost", undefined, "a day")];
  const columns = ["Subtasks", ...cost, figures("Rent", "Against the present size"), figures("Late", undefined, "minutes")];
  return (
    <Card title="Sizes that were compared" aside={`late minutes, of the next ${candidates.minutes}`}>
      <Chart sizes={sizes} price={price} />
      <Table label="Sizes that were compared, fewest subtasks first" class="narrow" columns={columns}>
        {sizes.map((size) => (
          <tr key={size.subtasks}>
            <th scope="row">
              {size.subtasks} <span class="quiet">{size.mark}</span>
            </th>
            {price !== null && <td class="number">{dollars(size.paid * price)}</td>}
            <td class="number">{now?.paid && size !== now ? `${signed(100 * (size.paid / now.paid - 1), (share) => share.toFixed(0))} %` : ""}</td>
            <td class="number">{size.late.toFixed(1)}</td>
          </tr>
        ))}
      </Table>
      {!candidates.subtasks.includes(chosen) && <p class="quiet">Chosen were {plural(chosen, "subtask")}, none of these, after the guardrails.</p>}
      <p class="quiet">
        Late: records wait longer than {candidates.late_seconds} s, restart included. {rentWords(candidates.slots.length > 0, price)}
      </p>
    </Card>
  );
}

function rentWords(inSlots: boolean, price: number | null): string {
  if (!inSlots) return "Rent: of subtasks; dollars depend on the hosts, which are chosen after the decision.";
  if (price === null) return "Rent: of slots; dollars are unknown, since hosts or workers have no price.";
  return `Rent: of slots, at ${dollars(price)} each a day, the price of now.`;
}

function Chart({ sizes, price }: { sizes: Size[]; price: number | null }): JSX.Element {
  const most = Math.max(...sizes.map((size) => size.paid), 1);
  const latest = Math.max(...sizes.map((size) => size.late), 0.1);
  const x = (size: Size): number => LEFT + ((WIDTH - LEFT - RIGHT) * size.paid) / most;
  const y = (size: Size): number => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * size.late) / latest;
  const place = (size: Size): string => `${x(size).toFixed(1)} ${y(size).toFixed(1)}`;
  const marked = ["present", "chosen"].flatMap((word, row) => {
    const size = sizes.find((each) => each.mark.split(", ").includes(word));
    return size ? [{ word, row, size }] : [];
  });
  const told = marked.map(({ word, size }) => `${word} ${plural(size.subtasks, "subtask")}, ${size.late.toFixed(1)} late minutes`);
  return (
    <svg class="curve" role="img" aria-label={`Late minutes against rent: ${told.join("; ")}.`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
      <path class="curve-axis" d={`M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}`} />
      <text x={LEFT - 5} y={TOP + 4} text-anchor="end">{latest.toFixed(1)}</text>
      <text x={LEFT - 5} y={HEIGHT - BOTTOM} text-anchor="end">0</text>
      <text x={LEFT} y={HEIGHT - 7}>late minutes over rent</text>
      <text x={WIDTH - RIGHT} y={HEIGHT - 7} text-anchor="end">
        {price === null ? `${count(most)} ${sizes.every((size) => size.paid === size.subtasks) ? "subtasks" : "slots"}` : `${dollars(most * price)} a day`}
      </text>
      <path class="curve-line" d={`M${sizes.map(place).join("L")}`} />
      {sizes.map((size) => <circle key={size.subtasks} class="curve-size" cx={x(size)} cy={y(size)} r="2.5" />)}
      {marked.map(({ word, row, size }) => (
        <g key={word} class={`curve-${word}`}>
          <path d={`M${x(size).toFixed(1)} ${y(size).toFixed(1)}V${16 + 14 * row}`} />
          <circle cx={x(size)} cy={y(size)} r={row ? 4.5 : 6.5} />
          <text x={x(size) + (x(size) > WIDTH / 2 ? -5 : 5)} y={16 + 14 * row} text-anchor={x(size) > WIDTH / 2 ? "end" : "start"}>
            {word} {size.subtasks}
          </text>
        </g>
      ))}
    </svg>
  );
}
