// The documents of the API, as far as the page reads them; `/openapi.json` describes them in full.

export type Status =
  | "fine" | "scaling" | "warming" | "held" | "paused" | "advised" | "observed" | "overloaded" | "restarting" | "down" | "starting"
  | "unmeasured" | "silent" | "ended" | "unknown";

export interface JobOverview {
  job: string;
  status: Status;
  mode: string;
  tasks: number;
  parallelism: number;
  configured_parallelism: number | null;
  window_end_ms: number | null;
  load_records_per_minute: number | null;
  utilisation: number | null;
  backlog_records: number | null;
  latency_ms: number | null;
  rent_per_day: number | null;
  wake_up_ms: number | null;
}

export interface Task {
  task: string;
  label: string;
  upstream: string[];
  parallelism: number;
  max_parallelism: number;
  scalable: boolean;
  stateful: boolean;
  units: number[];
  configured_parallelism: number | null;
}

export interface TaskMinute {
  task: string;
  parallelism: number | null;
  utilisation: number | null;
  backpressured: number | null;
  records: number | null;
  backlog: number | null;
  latency_ms: number | null;
}

export interface Condition {
  type: string;
  status: boolean | null;
  reason: string;
  message: string;
  last_transition_ms: number;
}

export interface Gate {
  phase: string | null;
  pending_reason: string | null;
  pending_decision_id: string | null;
  outstanding_command_id: string | null;
  step: string | null;
  wake_up_ms: number | null;
  conditions: Condition[];
}

export interface Amendment {
  rule: string;
  before: number;
  after: number;
}

export interface LookedAt {
  minute_end_ms: number;
  weight: number;
  neighbours: string[];
  neighbour_weights: number[];
}

export interface TaskDecision {
  task: string;
  current: number;
  proposed: number;
  desired: number;
  floor: number;
  ratio: number;
  amendments: Amendment[];
  looked_at?: LookedAt[];
  overloaded: boolean;
  records_per_minute: number | null;
  utilisation: number | null;
  waiting_records: number | null;
}

export interface Outcome {
  status: string;
  reason: string;
  at_ms: number;
  until_ms: number | null;
  detail: string;
  command_id: string | null;
  appended_ms: number;
}

export interface Progress {
  status: string;
  at_ms: number;
  duration_ms: number;
  code: string;
  detail: string;
  learners: number;
  lag_bytes: number | null;
  still_ms: number | null;
}

export interface Command {
  command_id: string;
  job: string;
  decision_id: string;
  action: string;
  step: number;
  advice: boolean;
  issued_at_ms: number;
  gate_reason: string;
  gate_cause: string;
  changes: { task: string; before: number; after: number; added_units: number[]; removed_units: number[]; vnodes_moved: number }[];
  placement: {
    algorithm: string;
    hosts: string[];
    rent_per_s: number;
    rent_before_per_s: number | null;
  } | null;
  progress: Progress[];
}

export interface Decision {
  decision_id: string;
  job: string;
  span_end_ms: number;
  policy: { name: string; sha256: string; asked: string; fallback_reason: string | null };
  settings_version: number;
  topology_version: number;
  action: "act" | "hold";
  reason: string;
  completeness: number;
  minutes_known: number;
  load_records_per_minute: number | null;
  tasks: TaskDecision[];
  appended_ms: number;
  freshness_ms?: number;
  outcome: Outcome | null;
  command: Command | null;
  drift: FeatureDrift | null;
  compared: { unit: string } | null;
}

export interface FeatureDrift {
  outside: number;
  usual: number;
  feature: string;
  feature_outside: number;
  mean: number;
  low: number;
  high: number;
}

export interface Counterfactual {
  decision_id: string;
  without: string;
  action: "act" | "hold";
  reason: string;
  sizes: { task: string; decided: number; without: number }[];
  stand_in_reason: string | null;
  is_same_with_all: boolean;
}

export interface JobDocument {
  job: string;
  status: Status;
  topology: { tasks: Task[]; generation: number; state: string; engine: string; at_ms: number } | null;
  settings: { version: number; total_limit: number; set_by: string; pause?: { by: string; why: string } } | null;
  mode: string;
  mode_set_by: string;
  window: { window_end_ms: number; completeness: number; minutes_known: number; window_minutes: number;
    load_records_per_minute: number | null;
    minute: { backlog: number | null; latency_ms: number | null; overloaded: number; parallelism: number | null;
      utilisation: number | null } | null } | null;
  decision: Decision | null;
  gate: Gate | null;
  command: Command | null;
  rent: { hosts: string[]; per_day: number; algorithm: string | null; saved_round_robin_per_day: number | null;
    saved_default_per_day: number | null } | null;
  minute_by_task: TaskMinute[];
  conditions: Condition[];
}

export interface Mark {
  decision_id: string;
  at_ms: number;
  action: "act" | "hold";
  outcome: string | null;
  came: string;
  before: number;
  after: number;
  reason: string;
}

export interface History {
  job: string;
  window_end_ms: number[];
  load_records_per_minute: (number | null)[];
  parallelism: (number | null)[];
  utilisation: (number | null)[];
  backlog_records: (number | null)[];
  latency_ms: (number | null)[];
  rent_per_day: (number | null)[];
  decisions: Mark[];
  expected: ExpectedLoad[];
}

export interface ExpectedLoad {
  from_ms: number;
  until_ms: number;
  mean: number;
  low: number | null;
  high: number | null;
}

export interface ClusterOverview {
  cluster: string;
  engine: string | null;
  hosts: number | null;
  units: number | null;
  jobs: number;
  rent_per_day: number | null;
  policy: string | null;
}

export interface Host {
  host: string;
  units: number[];
  slots: number | null;
  free_slots: number | null;
  state: string;
  cpu_cores: number;
  memory_gb: number;
  price_per_s: number;
  zone: string;
}

export interface HostLook {
  generation: number;
  sequence: number;
  status: string;
  reason: string;
  at_ms: number;
  detail: string;
  moves: { job: string; unit: number; host: string; to_unit: number; to_host: string }[];
}

export interface ClusterDocument {
  cluster: string;
  topology: { hosts: Host[]; at_ms: number; engine: { engine: string } } | null;
  pause?: { by: string; why: string };
  balance: { status: string; reason: string; detail: string } | null;
  balances: HostLook[];
  policy_release: { policy: string; valid_from_ms: number; set_by: string } | null;
  jobs: string[];
  rent: { hosts: string[]; per_day: number } | null;
  events: { kind: string; at_ms: number; job: string | null; host: string | null; detail: string }[];
}

export interface ClusterInfo {
  workers: { id: number; host: string; parallel_units: number[]; state: string }[];
  fragments: { job: string; task: string; parallel_units: number[] }[];
}

export interface Release {
  cluster: string;
  policy: string;
  sha256: string;
  valid_from_ms: number;
  role: "serve" | "shadow";
  job: string | null;
  share_permille: number | null;
  set_by: string;
  note?: string;
}

export interface Shadow {
  cluster: string;
  policy: string;
  sha256: string;
  beside: string[];
  jobs: string[];
  from_ms: number;
  to_ms: number;
  answered: number;
  failed: number;
  late: number;
  skipped: number;
  decisions_equal: number | null;
  tasks_equal: number | null;
  subtasks_difference: number | null;
  dollars_per_day: number | null;
  utilisation: number | null;
  served_utilisation: number | null;
  overloaded: number | null;
  served_overloaded: number | null;
  took_ms: number | null;
  served_took_ms: number | null;
  newest_problem?: string;
}

export interface PackageScores {
  reward: number;
  jobs: number;
  beside: Record<string, number>;
  command: string;
}

export interface PolicyInUse {
  name: string;
  sha256: string;
  jobs: string[];
  stands_in: string[];
  fallback_reasons: string[];
  scores: PackageScores | null;
}

export interface Policies {
  in_use: PolicyInUse[];
  releases: Release[];
  shadows: Shadow[];
}

export interface Pipeline {
  stages: { role: string; writes: string; records: number; newest_ms: number | null; appended_ms: number | null }[];
  freshness_ms: number | null;
  dead_letters: Record<string, number>;
  unreadable_records: Record<string, number>;
  late_samples: number;
  clocks: Record<string, { speed: number; e0_ms: number; until_ms: number; end_ms: number | null; told?: unknown }>;
}

export interface DeadLetter {
  topic: string;
  partition: number;
  offset: number;
  reason: string;
  field: string;
  message: string;
  refused_by: string;
  appended_ms: number;
}
