// Pause, resume and approve: shown to those whose token may operate, and to nobody else.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { access, newKey, post } from "../api/operate";
import type { OperationDocument } from "../api/documents";
import { Card } from "./basics";

const LASTS = [["30m", "30 minutes"], ["2h", "2 hours"], ["8h", "8 hours"], ["1d", "1 day"], ["", "until somebody resumes"]] as const;
const DIRECTIONS = [["both", "both ways"], ["up", "up"], ["down", "down"]] as const;

interface Props {
  /** Path of the job or the cluster. */
  path: string;
  isPaused: boolean;
  /** The decision whose advice is open. */
  advised?: string | null;
}

export function Operate({ path, isPaused, advised }: Props): JSX.Element | null {
  const [told, setTold] = useState<{ text: string; isRefusal: boolean } | null>(null);
  const [isGoing, setGoing] = useState(false);
  const [isPausing, setPausing] = useState(false);
  const asked = useRef({ what: "", key: "" });
  if (!access.value?.may_operate) return null;

  const ask = async (verb: string, body: Record<string, unknown>): Promise<void> => {
    const what = `${path}/${verb} ${JSON.stringify(body)}`;
    // The same again, after no answer: the same key, so that it takes effect once.
    if (asked.current.what !== what) asked.current = { what, key: newKey() };
    setGoing(true);
    try {
      const done = await post(`${path}/${verb}`, asked.current.key, body);
      setTold({ text: inWords(done), isRefusal: false });
      setPausing(false);
      asked.current = { what: "", key: "" };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setTold({ text: error.message, isRefusal: true });
      if (error.status) asked.current = { what: "", key: "" };
    } finally {
      setGoing(false);
    }
  };

  return (
    <Card title="Operate" aside={`as ${access.value.name}`}>
      <div class="operate">
        <button type="button" aria-expanded={isPausing} disabled={isGoing} onClick={() => setPausing(!isPausing)}>
          Pause
        </button>
        {isPaused && (
          <button type="button" disabled={isGoing} onClick={() => void ask("resume", {})}>
            Resume
          </button>
        )}
        {advised && (
          <button type="button" disabled={isGoing} onClick={() => void ask("approve", { decision_id: advised })}>
            Approve the advice
          </button>
        )}
      </div>
      {isPausing && <PauseForm isGoing={isGoing} onPause={(body) => void ask("pause", body)} />}
      <p role="status" class={told?.isRefusal ? "operate-refused" : ""}>{told?.text}</p>
    </Card>
  );
}

function PauseForm({ isGoing, onPause }: { isGoing: boolean; onPause: (body: Record<string, unknown>) => void }): JSX.Element {
  const [why, setWhy] = useState("");
  const [direction, setDirection] = useState("both");
  const [lasts, setLasts] = useState<string>("2h");
  return (
    <form
      class="operate"
      onSubmit={(event) => {
        event.preventDefault();
        onPause({ why, direction, ...(lasts ? { for: lasts } : {}) });
      }}
    >
      <label>
        Rescaling{" "}
        <select value={direction} onChange={(event) => setDirection(event.currentTarget.value)}>
          {DIRECTIONS.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      </label>
      <label>
        For{" "}
        <select value={lasts} onChange={(event) => setLasts(event.currentTarget.value)}>
          {LASTS.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      </label>
      <label>
        Why <input type="text" maxLength={256} value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={isGoing || !why.trim()}>Pause now</button>
    </form>
  );
}

function inWords(done: OperationDocument): string {
  if (done.done === "approved") return "Approved. It is carried out if it is still possible; below is what came of it.";
  const now = done.paused ? `Now in force: ${done.paused}.` : "Nothing is paused.";
  return done.written || done.repeated ? now : `There was nothing to change. ${now}`;
}
