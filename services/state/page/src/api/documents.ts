// Made by `make page` from docs/reference/openapi.json, whose SHA-256 is 86b7683569f7ea3f733d2b87f2ddaf18ac6d0985bbf6b1f4757b3fac4c55f07a.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export type components = {
    schemas: {
        /**
         * JobOverview
         * @description A job in one line. A figure that is not known is null.
         */
        JobOverview: {
            parallelism: number | null;
            load_records_per_minute: number | null;
            utilisation: number | null;
            backlog_records: number | null;
            backlog_ms: number | null;
            latency_ms: number | null;
            rent_per_day: number | null;
            job: string;
            state: string | null;
            generation: number | null;
            tasks: number;
            /** @enum {unknown} */
            mode: "act" | "advise" | "observe";
            window_end_ms: number | null;
            completeness: number | null;
            age_minutes: number | null;
            action: string | null;
            outcome: string | null;
            gate_phase: string | null;
            wake_up_ms: number | null;
            /** @enum {unknown} */
            status: "advised" | "down" | "ended" | "fine" | "held" | "observed" | "overloaded" | "paused" | "restarting" | "resting" | "scaling" | "stalled" | "starting" | "unknown" | "unmeasured" | "warming";
            overloaded_tasks: number | null;
            configured_parallelism: number | null;
            /** @default 0 */
            scalable_tasks: number;
            /** @default null */
            ran: number | null;
            /** @default null */
            saved_per_day: number | null;
            /** @default false */
            is_at_limit: boolean;
            /** @default null */
            decided_ms: number | null;
            /** @default null */
            came: string | null;
            /** @default null */
            policy_in_use: string | null;
            /** @default null */
            fallback_reason: string | null;
            /** @default null */
            applied_generation: number | null;
            /** @default null */
            feature_drift: number | null;
            /** @default null */
            feature_drift_usual: number | null;
            /** @default null */
            restarts: number | null;
            /** @default null */
            seen_ms: number | null;
            /** @default null */
            began_ms: number | null;
            pipeline?: string;
            /** @default null */
            stale: components["schemas"]["Stale"] | null;
            unreadable?: string[];
        };
        /**
         * Stale
         * @description What has not come although it is due.
         */
        Stale: {
            /** @enum {unknown} */
            role: "agent" | "monitor" | "rescaler" | "spark" | "state";
            minutes: number;
            words: string;
        };
        /**
         * JobDocument
         * @description Everything the view holds about one job. A part that no topic has written yet is null.
         */
        JobDocument: {
            job: string;
            topology: components["schemas"]["AppendedJobTopology"] | null;
            settings: components["schemas"]["AppendedJobSettings"] | null;
            /** @enum {unknown} */
            mode: "act" | "advise" | "observe";
            /** @enum {unknown} */
            mode_set_by: "default" | "engine" | "label" | "name" | "settings";
            window: components["schemas"]["WindowDocument"] | null;
            age_minutes: number | null;
            decision: components["schemas"]["DecisionDocument"] | null;
            gate: components["schemas"]["AppendedJobControl"] | null;
            command: components["schemas"]["CommandDocument"] | null;
            rent: components["schemas"]["JobRent"] | null;
            /** @enum {unknown} */
            status: "advised" | "down" | "ended" | "fine" | "held" | "observed" | "overloaded" | "paused" | "restarting" | "resting" | "scaling" | "stalled" | "starting" | "unknown" | "unmeasured" | "warming";
            minute_by_task: components["schemas"]["TaskMinuteDocument"][];
            /** @default null */
            engine: components["schemas"]["Capabilities"] | null;
            /** @default [] */
            bounds: components["schemas"]["TaskBoundsDocument"][];
            /** @default null */
            total_most: number | null;
            /** @default [] */
            conditions: components["schemas"]["Condition"][];
            /** @default null */
            stale: components["schemas"]["Stale"] | null;
            /** @default null */
            next_decision: components["schemas"]["NextDecision"] | null;
            /** @default  */
            next_in_words: string;
            pipeline?: string;
            unreadable?: string[];
        };
        /**
         * AppendedJobTopology
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedJobTopology: {
            record: components["schemas"]["JobTopology"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * JobTopology
         * @description A job's graph, parallelism and units. ``version`` grows with every change; ``generation`` is the last one applied.
         *
         *     ``epoch`` names one submission of the job and changes with an upgrade. ``requirement_id`` names the requirements in force.
         *     Both are empty where the engine has none. A job is ``resting`` while its engine is asked for no subtask, and none runs.
         */
        JobTopology: {
            /** @enum {unknown} */
            type: "topology/1";
            job: string;
            version: number;
            at_ms: number;
            tasks: components["schemas"]["TaskSpec"][];
            /** @default 0 */
            generation: number;
            /** @default 0 */
            attempt: number;
            /**
             * @default running
             * @enum {unknown}
             */
            state: "created" | "failed" | "finished" | "restarting" | "resting" | "running" | "suspended" | "waiting";
            /** @default simulated */
            engine: string;
            /** @default  */
            epoch: string;
            /** @default  */
            requirement_id: string;
            /** @default  */
            engine_name: string;
            /** @default {} */
            labels: {
                [key: string]: string;
            };
            /** @default null */
            checkpointing: components["schemas"]["Checkpointing"] | null;
            /** @default null */
            restart_ms: number | null;
            /** @default null */
            began_ms: number | null;
            /** @default [] */
            groups: components["schemas"]["ConsumerGroup"][];
            /** @default null */
            quiet: components["schemas"]["Quiet"] | null;
        };
        /**
         * TaskSpec
         * @description One vertex of a job's graph as the engine runs it.
         */
        TaskSpec: {
            task: string;
            /** @default [] */
            upstream: string[];
            /** @default 1 */
            parallelism: number;
            /** @default 10 */
            max_parallelism: number;
            /** @default true */
            scalable: boolean;
            /** @default false */
            stateful: boolean;
            /** @default default */
            sharing_group: string;
            /** @default null */
            configured_parallelism: number | null;
            /** @default [] */
            units: number[];
            /** @default 256 */
            vnodes: number;
            /** @default  */
            label: string;
            /** @default [] */
            inputs: components["schemas"]["Input"][];
            /** @default  */
            tied: string;
            /** @default null */
            required: number | null;
            /** @default null */
            useful_max: number | null;
            /** @default [] */
            carries: [
                number,
                number
            ][];
            /**
             * @default running
             * @enum {unknown}
             */
            state: "finished" | "running" | "starting";
            /** @default  */
            hindrance: string;
            /** @default  */
            fixed: string;
            /** @default  */
            backlog_partly_unknown: string;
            /** @default null */
            memory: components["schemas"]["TaskMemory"] | null;
        };
        /**
         * Input
         * @description One edge into a task, and how records travel along it.
         */
        Input: {
            task: string;
            /**
             * @default other
             * @enum {unknown}
             */
            ship: "broadcast" | "forward" | "hash" | "other" | "rebalance" | "rescale";
        };
        /**
         * TaskMemory
         * @description Memory of the process that runs a task, of the one that has least room if several do. Null: unknown, never 0.
         */
        TaskMemory: {
            /** @default null */
            gc_share: number | null;
            /** @default null */
            heap_share: number | null;
            /** @default null */
            managed_share: number | null;
        };
        /**
         * Checkpointing
         * @description How a job takes checkpoints.
         */
        Checkpointing: {
            interval_ms: number | null;
            /** @default true */
            exactly_once: boolean;
            /** @default false */
            unaligned: boolean;
            /** @default null */
            last_completed_ms: number | null;
            /** @default null */
            last_duration_ms: number | null;
            /** @default null */
            last_bytes: number | null;
        };
        /**
         * ConsumerGroup
         * @description A consumer group as people look at it. The lists are cut; what waits most, and what has a problem, stays.
         */
        ConsumerGroup: {
            task: string;
            group: string;
            /** @enum {unknown} */
            state: "dead" | "empty" | "rebalancing" | "stable";
            assignor: string;
            topics: string[];
            lag: number | null;
            lag_unknown: number;
            oldest_ms: number | null;
            partitions: components["schemas"]["GroupPartition"][];
            /** @default 0 */
            partitions_left_out: number;
            members: components["schemas"]["GroupMember"][];
            /** @default 0 */
            members_left_out: number;
            /** @default [] */
            workers: components["schemas"]["GroupWorker"][];
            /** @default 0 */
            workers_left_out: number;
        };
        /**
         * GroupPartition
         * @description One partition that a consumer group reads. Null is unknown, except where another meaning is named.
         */
        GroupPartition: {
            topic: string;
            partition: number;
            subtask: number | null;
            end: number | null;
            committed: number | null;
            lag: number | null;
            /** @default  */
            problem: string;
            arrived_per_minute: number | null;
            read_per_minute: number | null;
            stands_since_ms: number | null;
        };
        /**
         * GroupMember
         * @description One member of a consumer group. Null is unknown.
         */
        GroupMember: {
            subtask: number;
            client_id: string;
            host: string;
            partitions: number;
            lag: number | null;
            read_per_minute: number | null;
        };
        /**
         * GroupWorker
         * @description One process that surescale keeps running for a consumer group. Times are of the wall.
         */
        GroupWorker: {
            index: number;
            pid: number | null;
            started_ms: number | null;
            /** @default false */
            is_ending: boolean;
            /** @default 0 */
            failures: number;
            /** @default  */
            failure: string;
            /** @default  */
            log: string;
        };
        /**
         * Quiet
         * @description Whether a job has nothing to do, by offsets alone: no allowance is made for markers of transactions or old records.
         */
        Quiet: {
            since_ms: number | null;
            waiting: number;
            /** @default  */
            why: string;
        };
        /**
         * AppendedJobSettings
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedJobSettings: {
            record: components["schemas"]["JobSettings"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * JobSettings
         * @description The limits the user sets for a job. ``version`` grows with every change.
         *
         *     Of a record whose job is ``CLUSTER/*`` only ``pause`` counts: it holds for every job of the cluster.
         *
         *     Where a limit is null nobody set it: the job's label decides, else its default (``effective``).
         */
        JobSettings: {
            /** @enum {unknown} */
            type: "job-settings/1";
            job: string;
            /** @default 0 */
            version: number;
            /** @default null */
            mode: ("act" | "advise" | "observe") | null;
            /** @default null */
            parallelism_min: number | null;
            /** @default null */
            parallelism_max: number | null;
            /** @default null */
            total_limit: number | null;
            /** @default null */
            tasks: {
                [key: string]: components["schemas"]["TaskLimits"];
            } | null;
            /** @default null */
            step_up_max: number | null;
            /** @default null */
            step_down_max: number | null;
            /** @default null */
            backlog_hold_minutes: number | null;
            /** @default null */
            gc_pressure_max: number | null;
            /** @default null */
            heap_usage_max: number | null;
            /** @default null */
            scale_down_after_minutes: number | null;
            /** @default null */
            excluded: components["schemas"]["ExcludedPeriod"][] | null;
            /** @default null */
            minimum_within: components["schemas"]["PeriodBounds"][] | null;
            /** @default null */
            rescales_a_day_max: number | null;
            /** @default null */
            block_ineffective: boolean | null;
            /** @default null */
            emergency_growth: boolean | null;
            /** @default null */
            align: boolean | null;
            /** @default null */
            cpu_limit: number | null;
            /** @default null */
            memory_limit: number | null;
            /** @default null */
            feature_drift_max: number | null;
            /** @default null */
            calibrated_spread: boolean | null;
            /** @default null */
            catch_up_minutes: number | null;
            /** @default null */
            restart_seconds: number | null;
            /** @default null */
            objective: ("balanced" | "cost" | "latency") | components["schemas"]["LatencyBound"] | null;
            /** @default null */
            utilisation: number | null;
            /** @default null */
            minutes_known_min: number | null;
            /** @default null */
            safe_size: number | null;
            /** @default null */
            safe_after_minutes: number | null;
            /** @default null */
            idle_to_zero_minutes: number | null;
            /** @default null */
            activation_lag: number | null;
            /** @default null */
            on_drift: ("adopt" | "insist" | "stop") | null;
            /** @default null */
            priority: number | null;
            /** @default null */
            policy: string | null;
            /** @default 0 */
            adopted_at_ms: number;
            /** @default 0 */
            reapplied_at_ms: number;
            /** @default null */
            pause: components["schemas"]["Pause"] | null;
            /** @default null */
            approval: components["schemas"]["Approval"] | null;
            /** @default null */
            applied_from: string | null;
            /** @default null */
            request: string | null;
            /** @default default */
            set_by: string;
            /** @default 0 */
            set_at_ms: number;
        };
        /**
         * TaskLimits
         * @description What the user allows for one task; where a bound is null, the job's holds.
         */
        TaskLimits: {
            /** @default null */
            parallelism_min: number | null;
            /** @default null */
            parallelism_max: number | null;
            /** @default false */
            pinned: boolean;
        };
        /**
         * ExcludedPeriod
         * @description A time in which nothing is rescaled: on these weekdays, between two local times, from one day to another.
         *
         *     A period that ends before it starts ends on the next day, and belongs to the day it starts on. Flink's autoscaler calls these
         *     ``job.autoscaler.excluded.periods``.
         */
        ExcludedPeriod: {
            /** @default [] */
            days: ("fri" | "mon" | "sat" | "sun" | "thu" | "tue" | "wed")[];
            /** @default 00:00 */
            starts: string;
            /** @default 24:00 */
            ends: string;
            /** @default UTC */
            zone: string;
            /** @default null */
            first_day: string | null;
            /** @default null */
            last_day: string | null;
            /** @default true */
            emergencies: boolean;
        };
        /**
         * PeriodBounds
         * @description What the owner wants within a period: of every task, and of the job. The strictest of all that hold at a time counts.
         */
        PeriodBounds: {
            period: components["schemas"]["ExcludedPeriod"];
            /** @default 1 */
            least: number;
            /** @default null */
            most: number | null;
            /** @default null */
            objective: ("balanced" | "cost" | "latency") | components["schemas"]["LatencyBound"] | null;
        };
        /**
         * LatencyBound
         * @description The least subtasks with which at most ``share`` of a job's minutes have a latency above ``seconds``, source to sink.
         */
        LatencyBound: {
            seconds: number;
            /** @default 0.01 */
            share: number;
        };
        /**
         * Pause
         * @description Somebody has stopped rescales in these directions, until a time or until further notice (``contracts.pauses``).
         */
        Pause: {
            /**
             * @default both
             * @enum {unknown}
             */
            direction: "both" | "down" | "up";
            /** @default null */
            until_ms: number | null;
            why: string;
            by: string;
            at_ms: number;
        };
        /**
         * Approval
         * @description Somebody wants the advice of one decision carried out, exactly as it was given.
         */
        Approval: {
            decision_id: string;
            by: string;
            at_ms: number;
        };
        /**
         * WindowDocument
         * @description The summary of a job's newest window.
         */
        WindowDocument: {
            record: components["schemas"]["WindowSummary"];
            appended_ms: number;
            partition: number;
            offset: number;
            freshness_ms?: number;
        };
        /**
         * WindowSummary
         * @description A window's identity, how much of it is known, and the load and counts of its newest minute.
         */
        WindowSummary: {
            closed_append_ms: number | null;
            completeness: number;
            duplicates: number;
            late: number;
            load_records_per_minute: number | null;
            minutes_known: number;
            reached_wall_ms: number | null;
            samples: number;
            tasks: number;
            window_end_ms: number;
            window_id: string;
            window_minutes: number;
            minute: components["schemas"]["JobMinute"];
            restarts: number;
        };
        /**
         * JobMinute
         * @description One minute of a whole job; null where no task knows.
         */
        JobMinute: {
            /** @default null */
            backlog: number | null;
            /** @default null */
            latency_ms: number | null;
            /** @default 0 */
            overloaded: number;
            /** @default null */
            parallelism: number | null;
            /** @default null */
            ran: number | null;
            /** @default null */
            slots: number | null;
            /** @default null */
            slots_configured: number | null;
            /** @default null */
            utilisation: number | null;
        };
        /**
         * DecisionDocument
         * @description A decision, its last outcome, and the command it led to.
         *
         *     Of what a task looked at it has the snapshots with the highest weight; in lists of decisions, none.
         */
        DecisionDocument: {
            record: components["schemas"]["Decision"];
            appended_ms: number;
            partition: number;
            offset: number;
            freshness_ms?: number;
            /** @default null */
            outcome: components["schemas"]["AppendedOutcome"] | null;
            /** @default null */
            command: components["schemas"]["CommandDocument"] | null;
            unreadable?: string[];
        };
        /**
         * Decision
         * @description A policy's answer for one job and span, act or hold. Identity: ``decision_id``.
         *
         *     It depends only on (window, policy hash, settings version, seed) and carries no wall time.
         */
        Decision: {
            /** @enum {unknown} */
            type: "decision/1";
            decision_id: string;
            job: string;
            span_end_ms: number;
            window_id: string;
            policy: components["schemas"]["PolicyUsed"];
            seed: number;
            settings_version: number;
            topology_version: number;
            /** @enum {unknown} */
            action: "act" | "hold";
            reason: string;
            completeness: number;
            minutes_known: number;
            tasks: components["schemas"]["TaskDecision"][];
            /** @default null */
            load_records_per_minute: number | null;
            /** @default null */
            closed_append_ms: number | null;
            /** @default null */
            reached_wall_ms: number | null;
            /** @default null */
            compared: components["schemas"]["ChangeScore"] | null;
            /** @default null */
            outlook: components["schemas"]["LoadOutlook"] | null;
            /** @default null */
            emergency: components["schemas"]["Overload"] | null;
            /** @default null */
            drift: components["schemas"]["FeatureDrift"] | null;
            /** @default false */
            undecided: boolean;
            /** @default null */
            figures_until_ms: number | null;
            /** @default null */
            budget: components["schemas"]["LatencyBudget"] | null;
        };
        /**
         * PolicyUsed
         * @description The policy that answered. ``fallback_reason`` is set when the rule took over from the requested policy.
         */
        PolicyUsed: {
            name: string;
            /** @default  */
            sha256: string;
            /** @default  */
            asked: string;
            /** @default null */
            fallback_reason: string | null;
            /** @default null */
            release: components["schemas"]["ReleaseTarget"] | null;
            /** @default null */
            left: string | null;
        };
        /**
         * ReleaseTarget
         * @description The part of a cluster's jobs that the release behind a decision is for.
         */
        ReleaseTarget: {
            /** @enum {unknown} */
            scope: "canary" | "cluster" | "job";
            /** @default null */
            share_permille: number | null;
            valid_from_ms: number;
            /** @default null */
            tuned: components["schemas"]["Tuning"] | null;
        };
        /**
         * Tuning
         * @description What a release sets in its policy beyond name and hash (``policies.tuned``).
         */
        Tuning: {
            /** @default {} */
            constants: {
                [key: string]: number | string;
            };
            /** @default {} */
            sizes: {
                [key: string]: number;
            };
        };
        /**
         * TaskDecision
         * @description How the parallelism that a policy wants for one task became the final one.
         */
        TaskDecision: {
            task: string;
            current: number;
            ratio: number;
            proposed: number;
            desired: number;
            /** @default 0 */
            floor: number;
            /** @default [] */
            amendments: components["schemas"]["Amendment"][];
            /** @default [] */
            looked_at: components["schemas"]["SampledMinute"][];
            /** @default false */
            overloaded: boolean;
            /** @default null */
            records_per_minute: number | null;
            /** @default null */
            utilisation: number | null;
            /** @default null */
            waiting_records: number | null;
        };
        /**
         * Amendment
         * @description One guardrail changed one figure.
         */
        Amendment: {
            rule: string;
            before: number;
            after: number;
        };
        /**
         * SampledMinute
         * @description One sampled snapshot of a task: an anchor minute, its weight, and the neighbours sampled in it.
         */
        SampledMinute: {
            minute_end_ms: number;
            weight: number;
            /** @default [] */
            neighbours: string[];
            /** @default [] */
            neighbour_weights: number[];
        };
        /**
         * ChangeScore
         * @description How the best change compared with no change, of a policy that scores both. Scores are in ``unit``; higher is better.
         *
         *     Where the guardrails change the present size in any case, ``present_score`` is that of what they make of it.
         */
        ChangeScore: {
            subtasks: number;
            score: number;
            present_subtasks: number;
            present_score: number;
            gain_needed: number;
            unit: string;
            /** @default null */
            candidates: components["schemas"]["Candidates"] | null;
        };
        /**
         * Candidates
         * @description What sizes would come to that a policy compared: their rent in subtasks against the late minutes that it expects.
         */
        Candidates: {
            subtasks: number[];
            late_minutes: number[];
            minutes: number;
            late_seconds: number;
            /** @default [] */
            slots: number[];
        };
        /**
         * LoadOutlook
         * @description The load that a policy expected, in stages of one length from the span's end on.
         */
        LoadOutlook: {
            stage_minutes: number;
            means: number[];
            /** @default [] */
            spread: number[];
        };
        /**
         * Overload
         * @description The overload that a decision answers at once (``policies.emergency``).
         */
        Overload: {
            task: string;
            load_records_per_minute: number;
            grown_records: number;
        };
        /**
         * FeatureDrift
         * @description How far what a policy saw lies from what it was trained on. A feature outside is one in a hundred's, in training.
         */
        FeatureDrift: {
            outside: number;
            usual: number;
            feature: string;
            feature_outside: number;
            mean: number;
            low: number;
            high: number;
        };
        /**
         * LatencyBudget
         * @description How many of a job's minutes were above its bound on latency in the last 24 hours, whole hours but for the present one.
         */
        LatencyBudget: {
            seconds: number;
            allowed_minutes: number;
            used_minutes: number;
            known_minutes: number;
        };
        /**
         * AppendedOutcome
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedOutcome: {
            record: components["schemas"]["Outcome"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * Outcome
         * @description What the rescaler did with a decision. An act gets any number of ``pending`` outcomes, then exactly one of the others.
         *
         *     ``pending`` promises another outcome for the same decision at ``until_ms``.
         */
        Outcome: {
            /** @enum {unknown} */
            type: "outcome/1";
            cluster: string;
            job: string;
            decision_id: string;
            span_end_ms: number;
            /** @enum {unknown} */
            status: "commanded" | "held" | "pending" | "refused" | "superseded";
            reason: string;
            at_ms: number;
            /** @default 0 */
            sequence: number;
            /** @default null */
            until_ms: number | null;
            /** @default null */
            command_id: string | null;
            /** @default  */
            detail: string;
            /** @default  */
            code: string;
            /** @default 0 */
            checkpoint: number;
        };
        /**
         * CommandDocument
         * @description A command and its progress.
         */
        CommandDocument: {
            record: components["schemas"]["RescheduleCommand"];
            appended_ms: number;
            partition: number;
            offset: number;
            /** @default [] */
            progress: components["schemas"]["AppendedProgress"][];
        };
        /**
         * RescheduleCommand
         * @description One step for an actuator. Identity: ``command_id``. Applying it twice changes nothing; an older one is refused.
         *
         *     A rescale is either one ``commit``, or a ``prepare`` (learners restore the state that will move while the job runs on)
         *     followed by another step: ``commit``, a ``prepare`` elsewhere, or ``abort``. A commit without warm state runs cold.
         *     ``standby`` changes only the standbys.
         */
        RescheduleCommand: {
            /** @enum {unknown} */
            type: "command/1";
            command_id: string;
            cluster: string;
            job: string;
            desired_generation: number;
            step: number;
            /** @default 1 */
            steps: number;
            /**
             * @default commit
             * @enum {unknown}
             */
            action: "abort" | "commit" | "prepare" | "standby";
            base_placement_generation: number;
            decision_id: string;
            /** @enum {unknown} */
            gate_reason: "desired" | "forced" | "sufficient";
            gate_cause: string;
            issued_at_ms: number;
            changes: components["schemas"]["TaskChange"][];
            /** @default false */
            advice: boolean;
            /** @default null */
            placement: components["schemas"]["Placement"] | null;
            /** @default null */
            deadline_ms: number | null;
            /** @default null */
            standbys: components["schemas"]["SlotStandbys"][] | null;
            /** @default null */
            expected: components["schemas"]["Expected"] | null;
        };
        /**
         * TaskChange
         * @description The change a command makes to one task.
         */
        TaskChange: {
            task: string;
            before: number;
            after: number;
            /** @default [] */
            added_units: number[];
            /** @default [] */
            removed_units: number[];
            /** @default [] */
            units: number[];
            /** @default 0 */
            vnodes_moved: number;
        };
        /**
         * Placement
         * @description The hosts a job pays for after a command, and their price.
         */
        Placement: {
            algorithm: string;
            hosts: string[];
            rent_per_s: number;
            /** @default null */
            rent_before_per_s: number | null;
            /** @default null */
            rent_round_robin_per_s: number | null;
            /** @default null */
            rent_default_per_s: number | null;
        };
        /**
         * SlotStandbys
         * @description The hosts that keep a copy of one parallel unit's state in case its own host dies.
         */
        SlotStandbys: {
            unit: number;
            hosts: string[];
        };
        /**
         * Expected
         * @description The state of the job that a command was made for. An engine where it has changed since refuses the command.
         *
         *     ``required`` is the parallelism in force by task, as the engine was last asked for it.
         */
        Expected: {
            /** @default  */
            epoch: string;
            /** @default  */
            requirement_id: string;
            /** @default {} */
            required: {
                [key: string]: number;
            };
        };
        /**
         * AppendedProgress
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedProgress: {
            record: components["schemas"]["Progress"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * Progress
         * @description What an actuator did with a command. Identity: (command_id, status); of several ``warming`` records the last counts.
         *
         *     The rescaler writes it in the transaction that changes its memory, so a command ends exactly once, as the memory says. If no
         *     actuator reports an end in time, the rescaler ends the command by what the engine shows, and ``detail`` says so.
         *
         *     ``partly``: the engine runs fewer subtasks than asked for and goes on by itself when it can.
         *     A ``prepare`` is ``applied`` when its learners are ready. ``lag_bytes`` is the state all of them still have to restore.
         */
        Progress: {
            /** @enum {unknown} */
            type: "progress/1";
            cluster: string;
            job: string;
            command_id: string;
            desired_generation: number;
            /** @enum {unknown} */
            status: "accepted" | "applied" | "failed" | "partly" | "warming";
            at_ms: number;
            /** @default 0 */
            duration_ms: number;
            /** @default  */
            code: string;
            /** @default  */
            detail: string;
            /** @default 0 */
            learners: number;
            /** @default null */
            lag_bytes: number | null;
            /** @default [] */
            units: number[];
            /** @default {} */
            reached: {
                [key: string]: number;
            };
            /**
             * @default
             * @enum {unknown}
             */
            waiting_for: "" | "checkpoint" | "cooldown" | "slots";
            /** @default null */
            waited_ms: number | null;
            /** @default null */
            still_ms: number | null;
        };
        /**
         * AppendedJobControl
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedJobControl: {
            record: components["schemas"]["JobControl"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * JobControl
         * @description How the rescaler's control of one job stands.
         */
        JobControl: {
            /** @default null */
            phase: string | null;
            /** @default null */
            mode: string | null;
            /** @default null */
            pending: components["schemas"]["WaitingAct"] | null;
            /** @default null */
            underway: components["schemas"]["CommandUnderway"] | null;
            /** @default null */
            wake_at_ms: number | null;
            /** @default 0 */
            desired_generation: number;
            /** @default 0 */
            applied_generation: number;
            /** @default null */
            observed_generation: number | null;
            /** @default 0 */
            failures: number;
            /** @default [] */
            conditions: components["schemas"]["Condition"][];
            /** @default [] */
            standbys: components["schemas"]["SlotStandbys"][];
        };
        /**
         * WaitingAct
         * @description An act that the rescaler has accepted and not yet carried out.
         */
        WaitingAct: {
            decision_id: string;
            /** @default  */
            reason: string;
            /** @default null */
            until_ms: number | null;
        };
        /**
         * CommandUnderway
         * @description A command whose end is not known yet.
         */
        CommandUnderway: {
            decision_id: string;
            command_id: string;
            /** @default null */
            step: ("barrier" | "prepare" | "undo_prepare") | null;
            /** @default  */
            given_up: string;
        };
        /**
         * Condition
         * @description One statement about a job, in the style of Kubernetes conditions.
         */
        Condition: {
            type: string;
            status: boolean | null;
            reason: string;
            message: string;
            last_transition_ms: number;
            observed_generation: number;
        };
        /**
         * JobRent
         * @description What a job costs now. Where the rescaler places, every host on which it has a unit counts in full; else its slots count.
         */
        JobRent: {
            hosts: string[];
            per_s: number;
            per_day: number;
            algorithm: string | null;
            saved_round_robin_per_day: number | null;
            saved_default_per_day: number | null;
            /** @default null */
            slots: number | null;
            /** @default null */
            saved_configured_per_day: number | null;
            /** @default [] */
            days: components["schemas"]["SummedCost"][];
            /** @default null */
            month: components["schemas"]["SummedCost"] | null;
            /** @default  */
            frees_no_host: string;
        };
        /**
         * SummedCost
         * @description What a job cost over some days, at the price that a slot had at the end of each: of its slots, minute by minute.
         */
        SummedCost: {
            since: string;
            minutes: number;
            dollars: number;
            saved_configured: number | null;
        };
        /**
         * TaskMinuteDocument
         * @description One minute of one task; null where the engine does not know or nobody reported.
         */
        TaskMinuteDocument: {
            task: string;
            parallelism: number | null;
            utilisation: number | null;
            backpressured: number | null;
            records: number | null;
            backlog: number | null;
            latency_ms: number | null;
        };
        /**
         * Capabilities
         * @description What one engine can do.
         *
         *     Attributes:
         *         engine: kind of engine: ``simulated``, ``flink``, ``kubernetes``, ``kafka``.
         *         version: the engine's own version; empty if it has none.
         *         acts: what a command may name: nothing (the engine can only be watched), a parallelism per task, or parallel units.
         *         scope: whether tasks can be resized one by one, or only the whole job.
         *         warms: new subtasks restore state before they take over (learners).
         *         standbys: copies of state can be kept on other hosts.
         *         places: whether the command chooses the hosts, or the engine does.
         *         takes_part: what the engine does when it has room for only a part of a command: refuse, or run what fits.
         *         grows_hosts: hosts are added when subtasks need them.
         *         takes_effect: when a command takes effect: at once, at the next checkpoint, by a restart, instance by instance.
         *         cooldown_ms: least time that the engine itself leaves between two rescales.
         *         stabilization_ms: how long the engine itself waits for steady resources before it rescales.
         *         remembers: how a command can be found again in the engine: by our generation, by the id of the engine's requirements, or
         *             not at all, so that states must be compared.
         *         can_withdraw: a command that has not taken effect can be taken back.
         *         can_checkpoint_now: a checkpoint can be requested.
         *         can_rest: a job can be asked for no subtask at all, and started again later.
         */
        Capabilities: {
            engine: string;
            /** @default  */
            version: string;
            /**
             * @default none
             * @enum {unknown}
             */
            acts: "counts" | "none" | "units";
            /**
             * @default task
             * @enum {unknown}
             */
            scope: "job" | "task";
            /** @default false */
            warms: boolean;
            /** @default false */
            standbys: boolean;
            /**
             * @default itself
             * @enum {unknown}
             */
            places: "commanded" | "itself";
            /**
             * @default refuses
             * @enum {unknown}
             */
            takes_part: "as many as fit" | "refuses";
            /** @default false */
            grows_hosts: boolean;
            /**
             * @default restart
             * @enum {unknown}
             */
            takes_effect: "at once" | "checkpoint" | "restart" | "rolling";
            /** @default null */
            cooldown_ms: number | null;
            /** @default null */
            stabilization_ms: number | null;
            /**
             * @default nothing
             * @enum {unknown}
             */
            remembers: "generation" | "nothing" | "requirement";
            /** @default false */
            can_withdraw: boolean;
            /** @default false */
            can_checkpoint_now: boolean;
            /** @default false */
            can_rest: boolean;
        };
        /**
         * TaskBoundsDocument
         * @description The sizes that are in force for one scalable task: of settings, labels, periods, engine and topics the narrowest.
         */
        TaskBoundsDocument: {
            task: string;
            least: number;
            most: number;
            most_in_words: string;
            pinned: boolean;
        };
        /**
         * NextDecision
         * @description The next regular decision. One on an emergency comes as soon as that shows.
         */
        NextDecision: {
            at_ms: number;
            minutes_missing: number;
            words: string;
        };
        /**
         * HistoryDocument
         * @description A job's last minutes in columns of one length, oldest first; null where a figure is not known.
         */
        HistoryDocument: {
            job: string;
            window_end_ms: number[];
            figures: {
                [key: string]: (number | null)[];
            };
            decisions: components["schemas"]["DecisionMark"][];
            /** @default [] */
            expected: components["schemas"]["ExpectedLoad"][];
            unreadable?: string[];
        };
        /**
         * DecisionMark
         * @description A decision, as a mark on a time axis.
         */
        DecisionMark: {
            decision_id: string;
            at_ms: number;
            /** @enum {unknown} */
            action: "act" | "hold";
            outcome: string | null;
            came: string;
            before: number;
            after: number;
            reason: string;
        };
        /**
         * ExpectedLoad
         * @description The load that a decision expected of a stretch of time.
         */
        ExpectedLoad: {
            from_ms: number;
            until_ms: number;
            mean: number;
            low: number | null;
            high: number | null;
        };
        /**
         * TaskHistoryDocument
         * @description A task's last minutes in columns of one length, oldest first; null where a figure is not known.
         */
        TaskHistoryDocument: {
            job: string;
            task: string;
            window_end_ms: number[];
            figures: {
                [key: string]: (number | null)[];
            };
            unreadable?: string[];
        };
        /**
         * AppendedStoredAnswer
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedStoredAnswer: {
            record: components["schemas"]["StoredAnswer"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * StoredAnswer
         * @description What a shadow policy made of one window, as the view keeps it.
         */
        StoredAnswer: {
            shadow_id: string;
            job: string;
            span_end_ms: number;
            policy: string;
            sha256: string;
            served: components["schemas"]["ServedDecision"];
            /** @enum {unknown} */
            status: "answered" | "failed" | "late" | "skipped";
            reason: string;
            comparison: components["schemas"]["ShadowComparison"] | null;
        };
        /**
         * ServedDecision
         * @description The decision that was made, and by which policy.
         */
        ServedDecision: {
            decision_id: string;
            policy: string;
            /** @default  */
            sha256: string;
            took_ms: number;
        };
        /**
         * ShadowComparison
         * @description The decision and the shadow's answer to one window.
         */
        ShadowComparison: {
            served: components["schemas"]["Verdict"];
            shadow: components["schemas"]["Verdict"];
            took_ms: number;
            tasks: number;
            differing: number;
            largest: components["schemas"]["TaskDifference"][];
        };
        /**
         * Verdict
         * @description What one policy's answer came to once the guardrails had amended it.
         */
        Verdict: {
            /** @enum {unknown} */
            action: "act" | "hold";
            subtasks: number;
            /** @default null */
            utilisation: number | null;
        };
        /**
         * TaskDifference
         * @description A scalable task to which the two policies give another parallelism.
         */
        TaskDifference: {
            task: string;
            current: number;
            served: number;
            shadow: number;
        };
        /**
         * ClusterOverview
         * @description A cluster in one line. A figure that is not known is null.
         */
        ClusterOverview: {
            cluster: string;
            engine: string | null;
            hosts: number | null;
            units: number | null;
            jobs: number;
            rent_per_day: number | null;
            policy: string | null;
        };
        /**
         * ClusterDocument
         * @description What the view holds about one cluster. A part that no topic has written yet is null.
         */
        ClusterDocument: {
            cluster: string;
            topology: components["schemas"]["AppendedClusterTopology"] | null;
            placement: components["schemas"]["AppendedClusterMemory"] | null;
            balance: components["schemas"]["AppendedBalanceMemory"] | null;
            balances: components["schemas"]["AppendedBalance"][];
            policy_release: components["schemas"]["AppendedRelease"] | null;
            pause: components["schemas"]["Pause"] | null;
            jobs: string[];
            rent: components["schemas"]["ClusterRent"] | null;
            events: components["schemas"]["AppendedEngineEvent"][];
            unreadable?: string[];
        };
        /**
         * AppendedClusterTopology
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedClusterTopology: {
            record: components["schemas"]["ClusterTopology"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * ClusterTopology
         * @description The hosts of a cluster with their units. Dead hosts are not listed.
         */
        ClusterTopology: {
            /** @enum {unknown} */
            type: "cluster/1";
            cluster: string;
            version: number;
            at_ms: number;
            hosts: components["schemas"]["Host"][];
            /**
             * @default {
             *       "engine": "simulated",
             *       "version": "",
             *       "acts": "units",
             *       "scope": "task",
             *       "warms": true,
             *       "standbys": true,
             *       "places": "commanded",
             *       "takes_part": "refuses",
             *       "grows_hosts": false,
             *       "takes_effect": "at once",
             *       "cooldown_ms": null,
             *       "stabilization_ms": null,
             *       "remembers": "generation",
             *       "can_withdraw": false,
             *       "can_checkpoint_now": false,
             *       "can_rest": false
             *     }
             */
            engine: components["schemas"]["Capabilities"];
            /** @default null */
            worker_price_per_s: number | null;
            /** @default [] */
            slot_prices: components["schemas"]["SlotPrice"][];
            /** @default  */
            monitor: string;
        };
        /**
         * Host
         * @description A machine that offers parallel units.
         */
        Host: {
            host: string;
            /** @default [] */
            units: number[];
            /** @default null */
            slots: number | null;
            /** @default null */
            free_slots: number | null;
            /**
             * @default running
             * @enum {unknown}
             */
            state: "removed_soon" | "running";
            /** @default 4 */
            cpu_cores: number;
            /** @default 8 */
            memory_gb: number;
            /** @default 0 */
            price_per_s: number;
            /** @default  */
            zone: string;
        };
        /**
         * SlotPrice
         * @description What a slot costs from an instant on, in dollars per second, where the engine places.
         */
        SlotPrice: {
            at_ms: number;
            per_s: number;
        };
        /**
         * AppendedClusterMemory
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedClusterMemory: {
            record: components["schemas"]["ClusterMemory"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * ClusterMemory
         * @description What is known about the cluster as a whole.
         */
        ClusterMemory: {
            placement_generation: number;
        };
        /**
         * AppendedBalanceMemory
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedBalanceMemory: {
            record: components["schemas"]["BalanceMemory"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * BalanceMemory
         * @description What the rescaler knows about the hosts, and how far its jobs have followed them.
         *
         *     ``generation`` counts changes of the set of hosts. While ``status`` is moving, another look is due at ``until_ms``.
         */
        BalanceMemory: {
            generation: number;
            hosts: [
                string,
                string
            ][];
            hosts_version: number;
            /** @enum {unknown} */
            status: "moving" | "settled";
            reason: string;
            at_ms: number;
            /** @default -1 */
            sequence: number;
            /** @default -1 */
            settled_sequence: number;
            /** @default null */
            until_ms: number | null;
            /** @default false */
            is_balanced: boolean;
            /** @default [] */
            new: string[];
            /** @default [] */
            avoided: string[];
            /** @default  */
            detail: string;
            /** @default {} */
            under_replicated: {
                [key: string]: number;
            };
            /** @default [] */
            seen: string[];
            /** @default [] */
            left_out: string[];
        };
        /**
         * AppendedBalance
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedBalance: {
            record: components["schemas"]["Balance"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * Balance
         * @description The rescaler's reaction to hosts that joined, leave or died. Identity: (cluster, generation, sequence).
         *
         *     ``generation`` counts changes to the set of hosts. ``moving`` promises another look at ``until_ms``; after ``settled``
         *     nothing moves until the hosts change again.
         */
        Balance: {
            /** @enum {unknown} */
            type: "balance/1";
            cluster: string;
            generation: number;
            sequence: number;
            /** @enum {unknown} */
            status: "moving" | "settled";
            reason: string;
            at_ms: number;
            hosts_version: number;
            /** @default null */
            until_ms: number | null;
            /** @default [] */
            moves: components["schemas"]["SlotMove"][];
            /** @default  */
            detail: string;
        };
        /**
         * SlotMove
         * @description Everything a job has on one parallel unit moves to another.
         */
        SlotMove: {
            job: string;
            unit: number;
            host: string;
            to_unit: number;
            to_host: string;
        };
        /**
         * AppendedRelease
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedRelease: {
            record: components["schemas"]["Release"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * Release
         * @description A policy for some of a cluster's jobs, a shadow policy, or the end of either, from an event minute on.
         *
         *     With ``job`` it is for that job, with ``share_permille`` for that share of the cluster's jobs (`is_in_share`), with neither
         *     for all of them.
         */
        Release: {
            /** @enum {unknown} */
            type: "policy-release/1";
            cluster: string;
            policy: string;
            sha256: string;
            valid_from_ms: number;
            /**
             * @default serve
             * @enum {unknown}
             */
            role: "serve" | "shadow";
            /** @default null */
            job: string | null;
            /** @default null */
            share_permille: number | null;
            /** @default false */
            withdrawn: boolean;
            /** @default  */
            set_by: string;
            /** @default null */
            set_at_ms: number | null;
            /** @default null */
            note: string | null;
            /** @default null */
            tuned: components["schemas"]["Tuning"] | null;
            /** @default null */
            expected: components["schemas"]["Expectation"] | null;
            /** @default null */
            tournament: components["schemas"]["TournamentResult"] | null;
        };
        /**
         * Expectation
         * @description What the twin predicted of the job under the winner, already widened by the twin's error (``policies.departure``).
         *
         *     Work is busy subtask-milliseconds per record that comes to the job; waiting is minutes a record waits, by Little's law.
         */
        Expectation: {
            work_least: number;
            work_most: number;
            waiting_most: number;
        };
        /**
         * TournamentResult
         * @description Why a tournament released a policy to a job; rewards are means over the hours played.
         */
        TournamentResult: {
            from_ms: number;
            until_ms: number;
            policies: number;
            draws: number;
            reward: number;
            against: string;
            against_reward: number;
            difference: number;
            difference_low: number;
            twin_error: number;
            why: string;
        };
        /**
         * ClusterRent
         * @description What all hosts cost on which any job has a unit, each counted once; where the engine places, all its hosts.
         */
        ClusterRent: {
            hosts: string[];
            per_s: number;
            per_day: number;
            /** @default null */
            free_slots: number | null;
            /** @default [] */
            spare_hosts: string[];
        };
        /**
         * AppendedEngineEvent
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedEngineEvent: {
            record: components["schemas"]["EngineEvent"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * EngineEvent
         * @description Something that happened in the engine. Identity: (cluster, ``identity``).
         *
         *     ``event_id`` follows from what happened, so an engine or a monitor that restarts gives the same event the same id.
         *     ``sequence`` only orders the events of one job: a later one has a higher number, also after such a restart.
         */
        EngineEvent: {
            /** @enum {unknown} */
            type: "engine-event/1";
            cluster: string;
            sequence: number;
            /** @default  */
            event_id: string;
            at_ms: number;
            /** @enum {unknown} */
            kind: "checkpoint_completed" | "checkpoint_failed" | "exception" | "host_joined" | "host_leaving" | "host_lost" | "job_failed" | "job_restarted" | "job_started" | "job_stopped" | "requirement_changed" | "rescaled" | "standbys_ready";
            /** @default null */
            job: string | null;
            /** @default null */
            host: string | null;
            /** @default  */
            detail: string;
        };
        /**
         * ClusterInfo
         * @description Workers and fragments, as RisingWave's GetClusterInfo: the ``cluster`` of a request to `surescale dev reschedule`.
         */
        ClusterInfo: {
            cluster: string;
            generation: number;
            vnodes: number;
            workers: components["schemas"]["WorkerDocument"][];
            fragments: components["schemas"]["FragmentDocument"][];
            jobs_without_units: string[];
            unknown_units: number[];
            unreadable_jobs?: string[];
        };
        /**
         * WorkerDocument
         * @description A host that offers parallel units.
         */
        WorkerDocument: {
            id: number;
            host: string;
            parallel_units: number[];
            /** @enum {unknown} */
            state: "removed_soon" | "running";
        };
        /**
         * FragmentDocument
         * @description A task and the units it occupies.
         */
        FragmentDocument: {
            id: number;
            job: string;
            task: string;
            /** @enum {unknown} */
            distribution: "hash" | "single";
            stateful: boolean;
            parallel_units: number[];
            mapping?: number[];
        };
        /**
         * PoliciesDocument
         * @description Which policy serves where.
         */
        PoliciesDocument: {
            in_use: components["schemas"]["PolicyInUse"][];
            releases: components["schemas"]["AppendedRelease"][];
            shadows: components["schemas"]["ShadowSummary"][];
        };
        /**
         * PolicyInUse
         * @description A policy, and where its answers come from: jobs are counted by their latest decision.
         */
        PolicyInUse: {
            name: string;
            sha256: string;
            jobs: string[];
            stands_in: string[];
            fallback_reasons: string[];
            /** @default null */
            judged: string | null;
        };
        /**
         * ShadowSummary
         * @description The record of one shadow policy: all its answers that are kept, beside the decisions that were made.
         *
         *     Differences are the shadow's figure less the one of the decision. Each answer starts from the sizes that the decisions had led
         *     to, so these are no figures of a cluster that the shadow rules.
         */
        ShadowSummary: {
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
            acts: number;
            served_acts: number;
            subtasks_difference: number | null;
            subtask_minutes_per_day: number | null;
            dollars_per_day: number | null;
            utilisation: number | null;
            served_utilisation: number | null;
            overloaded: number | null;
            served_overloaded: number | null;
            took_ms: number | null;
            took_ms_max: number | null;
            served_took_ms: number | null;
            newest_problem?: string;
        };
        /**
         * PipelineDocument
         * @description The pipeline as the view sees it.
         */
        PipelineDocument: {
            stages: components["schemas"]["StageDocument"][];
            freshness_ms: number | null;
            dead_letters: {
                [key: string]: number;
            };
            unreadable_records: {
                [key: string]: number;
            };
            late_samples: number;
            clocks: {
                [key: string]: components["schemas"]["AppendedClockSegment"];
            };
        };
        /**
         * StageDocument
         * @description One role, as what it last wrote tells.
         */
        StageDocument: {
            role: string;
            writes: string;
            records: number;
            newest_ms: number | null;
            appended_ms: number | null;
            /** @default null */
            problem: string | null;
            /** @default [] */
            notes: string[];
        };
        /**
         * AppendedClockSegment
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedClockSegment: {
            record: components["schemas"]["ClockSegment"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * ClockSegment
         * @description One stretch of the pipeline's clock: ``now = min(e0 + speed * (wall - w0), until)``.
         *
         *     A clock in lockstep sets ``told`` in every segment. A segment with ``e0_ms == until_ms`` means the clock is stopped and
         *     everything up to there has been read. Without ``told`` the clock runs free.
         */
        ClockSegment: {
            /** @enum {unknown} */
            type: "clock/1";
            pipeline: string;
            sequence: number;
            e0_ms: number;
            w0_ms: number;
            speed: number;
            until_ms: number;
            /** @default null */
            end_ms: number | null;
            /** @default null */
            told: components["schemas"]["ClockPrerequisites"] | null;
        };
        /**
         * ClockPrerequisites
         * @description What had happened when the clock stopped; a role must know all of it before it acts at that time.
         */
        ClockPrerequisites: {
            hosts: number;
            events: number;
            /** @default {} */
            jobs: {
                [key: string]: number;
            };
        };
        /**
         * AppendedDeadLetter
         * @description A record of Kafka, and where and when it came there.
         */
        AppendedDeadLetter: {
            record: components["schemas"]["DeadLetter"];
            appended_ms: number;
            partition: number;
            offset: number;
        };
        /**
         * DeadLetter
         * @description A refused record: where it is and why it was refused. Identity: (topic, partition, offset).
         */
        DeadLetter: {
            /** @enum {unknown} */
            type: "dead-letter/1";
            topic: string;
            partition: number;
            offset: number;
            reason: string;
            field: string;
            message: string;
            refused_by: string;
            /** @default  */
            payload: string;
        };
        /**
         * CounterfactualDocument
         * @description What would have been decided if the figures of one task, or of one minute, had not been seen.
         */
        CounterfactualDocument: {
            decision_id: string;
            without: string;
            /** @enum {unknown} */
            action: "act" | "hold";
            reason: string;
            sizes: components["schemas"]["SizeWithout"][];
            stand_in_reason: string | null;
            is_same_with_all: boolean;
        };
        /**
         * SizeWithout
         * @description One task whose size would have been another.
         */
        SizeWithout: {
            task: string;
            decided: number;
            without: number;
        };
        /**
         * HealthDocument
         * @description Answer of ``/health``.
         */
        HealthDocument: {
            role: string;
            ready: boolean;
            records: number;
            rebuilds: number;
        };
        /**
         * IndexDocument
         * @description Answer of ``/``.
         */
        IndexDocument: {
            name: string;
            links: string[];
        };
        /**
         * ErrorDocument
         * @description Answer with a status from 400.
         */
        ErrorDocument: {
            error: string;
            near?: string[];
            links?: string[];
        };
        /**
         * ChangeDocument
         * @description Data of an event of ``/events``: the view has changed, or cannot be read.
         */
        ChangeDocument: {
            records: number;
            topics: string[];
            /** @default null */
            problem: string | null;
        };
        /**
         * AccessDocument
         * @description Answer of ``/access``: what the token that asked may do.
         */
        AccessDocument: {
            name: string;
            may_operate: boolean;
            operable: boolean;
        };
        /**
         * OperationDocument
         * @description Answer to a pause, a resume or an approval.
         */
        OperationDocument: {
            target: string;
            /** @enum {unknown} */
            done: "approved" | "paused" | "resumed";
            written: boolean;
            repeated: boolean;
            version: number;
            by: string;
            at_ms: number;
            paused: string;
        };
        /**
         * PauseBody
         * @description Stop rescales of a job, or of all jobs of a cluster.
         */
        PauseBody: {
            /** @default null */
            version: number | null;
            why: string;
            /**
             * @default both
             * @enum {unknown}
             */
            direction: "both" | "down" | "up";
            /** @default null */
            until: string | null;
            /** @default null */
            for: string | null;
        };
        /**
         * ResumeBody
         * @description End a pause of a job, or of a cluster.
         */
        ResumeBody: {
            /** @default null */
            version: number | null;
        };
        /**
         * ApproveBody
         * @description Have carried out what was advised for a job in mode advise.
         */
        ApproveBody: {
            /** @default null */
            version: number | null;
            decision_id: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
};
export type JobOverview = components['schemas']['JobOverview'];
export type Stale = components['schemas']['Stale'];
export type JobDocument = components['schemas']['JobDocument'];
export type AppendedJobTopology = components['schemas']['AppendedJobTopology'];
export type JobTopology = components['schemas']['JobTopology'];
export type TaskSpec = components['schemas']['TaskSpec'];
export type Input = components['schemas']['Input'];
export type TaskMemory = components['schemas']['TaskMemory'];
export type Checkpointing = components['schemas']['Checkpointing'];
export type ConsumerGroup = components['schemas']['ConsumerGroup'];
export type GroupPartition = components['schemas']['GroupPartition'];
export type GroupMember = components['schemas']['GroupMember'];
export type GroupWorker = components['schemas']['GroupWorker'];
export type Quiet = components['schemas']['Quiet'];
export type AppendedJobSettings = components['schemas']['AppendedJobSettings'];
export type JobSettings = components['schemas']['JobSettings'];
export type TaskLimits = components['schemas']['TaskLimits'];
export type ExcludedPeriod = components['schemas']['ExcludedPeriod'];
export type PeriodBounds = components['schemas']['PeriodBounds'];
export type LatencyBound = components['schemas']['LatencyBound'];
export type Pause = components['schemas']['Pause'];
export type Approval = components['schemas']['Approval'];
export type WindowDocument = components['schemas']['WindowDocument'];
export type WindowSummary = components['schemas']['WindowSummary'];
export type JobMinute = components['schemas']['JobMinute'];
export type DecisionDocument = components['schemas']['DecisionDocument'];
export type Decision = components['schemas']['Decision'];
export type PolicyUsed = components['schemas']['PolicyUsed'];
export type ReleaseTarget = components['schemas']['ReleaseTarget'];
export type Tuning = components['schemas']['Tuning'];
export type TaskDecision = components['schemas']['TaskDecision'];
export type Amendment = components['schemas']['Amendment'];
export type SampledMinute = components['schemas']['SampledMinute'];
export type ChangeScore = components['schemas']['ChangeScore'];
export type Candidates = components['schemas']['Candidates'];
export type LoadOutlook = components['schemas']['LoadOutlook'];
export type Overload = components['schemas']['Overload'];
export type FeatureDrift = components['schemas']['FeatureDrift'];
export type LatencyBudget = components['schemas']['LatencyBudget'];
export type AppendedOutcome = components['schemas']['AppendedOutcome'];
export type Outcome = components['schemas']['Outcome'];
export type CommandDocument = components['schemas']['CommandDocument'];
export type RescheduleCommand = components['schemas']['RescheduleCommand'];
export type TaskChange = components['schemas']['TaskChange'];
export type Placement = components['schemas']['Placement'];
export type SlotStandbys = components['schemas']['SlotStandbys'];
export type Expected = components['schemas']['Expected'];
export type AppendedProgress = components['schemas']['AppendedProgress'];
export type Progress = components['schemas']['Progress'];
export type AppendedJobControl = components['schemas']['AppendedJobControl'];
export type JobControl = components['schemas']['JobControl'];
export type WaitingAct = components['schemas']['WaitingAct'];
export type CommandUnderway = components['schemas']['CommandUnderway'];
export type Condition = components['schemas']['Condition'];
export type JobRent = components['schemas']['JobRent'];
export type SummedCost = components['schemas']['SummedCost'];
export type TaskMinuteDocument = components['schemas']['TaskMinuteDocument'];
export type Capabilities = components['schemas']['Capabilities'];
export type TaskBoundsDocument = components['schemas']['TaskBoundsDocument'];
export type NextDecision = components['schemas']['NextDecision'];
export type HistoryDocument = components['schemas']['HistoryDocument'];
export type DecisionMark = components['schemas']['DecisionMark'];
export type ExpectedLoad = components['schemas']['ExpectedLoad'];
export type TaskHistoryDocument = components['schemas']['TaskHistoryDocument'];
export type AppendedStoredAnswer = components['schemas']['AppendedStoredAnswer'];
export type StoredAnswer = components['schemas']['StoredAnswer'];
export type ServedDecision = components['schemas']['ServedDecision'];
export type ShadowComparison = components['schemas']['ShadowComparison'];
export type Verdict = components['schemas']['Verdict'];
export type TaskDifference = components['schemas']['TaskDifference'];
export type ClusterOverview = components['schemas']['ClusterOverview'];
export type ClusterDocument = components['schemas']['ClusterDocument'];
export type AppendedClusterTopology = components['schemas']['AppendedClusterTopology'];
export type ClusterTopology = components['schemas']['ClusterTopology'];
export type Host = components['schemas']['Host'];
export type SlotPrice = components['schemas']['SlotPrice'];
export type AppendedClusterMemory = components['schemas']['AppendedClusterMemory'];
export type ClusterMemory = components['schemas']['ClusterMemory'];
export type AppendedBalanceMemory = components['schemas']['AppendedBalanceMemory'];
export type BalanceMemory = components['schemas']['BalanceMemory'];
export type AppendedBalance = components['schemas']['AppendedBalance'];
export type Balance = components['schemas']['Balance'];
export type SlotMove = components['schemas']['SlotMove'];
export type AppendedRelease = components['schemas']['AppendedRelease'];
export type Release = components['schemas']['Release'];
export type Expectation = components['schemas']['Expectation'];
export type TournamentResult = components['schemas']['TournamentResult'];
export type ClusterRent = components['schemas']['ClusterRent'];
export type AppendedEngineEvent = components['schemas']['AppendedEngineEvent'];
export type EngineEvent = components['schemas']['EngineEvent'];
export type ClusterInfo = components['schemas']['ClusterInfo'];
export type WorkerDocument = components['schemas']['WorkerDocument'];
export type FragmentDocument = components['schemas']['FragmentDocument'];
export type PoliciesDocument = components['schemas']['PoliciesDocument'];
export type PolicyInUse = components['schemas']['PolicyInUse'];
export type ShadowSummary = components['schemas']['ShadowSummary'];
export type PipelineDocument = components['schemas']['PipelineDocument'];
export type StageDocument = components['schemas']['StageDocument'];
export type AppendedClockSegment = components['schemas']['AppendedClockSegment'];
export type ClockSegment = components['schemas']['ClockSegment'];
export type ClockPrerequisites = components['schemas']['ClockPrerequisites'];
export type AppendedDeadLetter = components['schemas']['AppendedDeadLetter'];
export type DeadLetter = components['schemas']['DeadLetter'];
export type CounterfactualDocument = components['schemas']['CounterfactualDocument'];
export type SizeWithout = components['schemas']['SizeWithout'];
export type HealthDocument = components['schemas']['HealthDocument'];
export type IndexDocument = components['schemas']['IndexDocument'];
export type ErrorDocument = components['schemas']['ErrorDocument'];
export type ChangeDocument = components['schemas']['ChangeDocument'];
export type AccessDocument = components['schemas']['AccessDocument'];
export type OperationDocument = components['schemas']['OperationDocument'];
export type PauseBody = components['schemas']['PauseBody'];
export type ResumeBody = components['schemas']['ResumeBody'];
export type ApproveBody = components['schemas']['ApproveBody'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
