import { z } from "zod";
import type { RunRow } from "../api.ts";
import type { EventHistory } from "../log/event-history.ts";
import type { Policy } from "../log/victim.ts";
import { Logs } from "./logs.ts";
import { Refusal } from "./refusal.ts";
import type { Runs } from "./runs.ts";

/** The event log of a saved run, and what is read with it. */
interface SavedLog {
  readonly row: RunRow;
  readonly policy: Policy;
  readonly history: EventHistory;
}

/** The event logs of saved runs. */
export class SavedLogs {
  readonly #runs: Runs;
  readonly #logs = new Logs();

  constructor(runs: Runs) {
    this.#runs = runs;
  }

  /** @throws Refusal if there is no such run, or its log cannot be shown */
  async read(id: string): Promise<SavedLog> {
    const file = await this.#runs.file(id, "events.parquet");
    if (!file) throw new Refusal(404, "the run was saved without its events (kvlab replay --events)");
    const { row, report } = await this.#runs.detail(id);
    return { row, policy: policyOf(report), history: await this.#logs.read(file, row) };
  }
}

/** Rules that a report does not have, or that have been renamed since, have their defaults. */
const rulesOf = z.looseObject({ victims: z.string() }).optional().catch(undefined);
const policies = z.looseObject({ eviction: z.string(), rules: rulesOf });

function policyOf(report: Readonly<Record<string, unknown>>): Policy {
  const { eviction, rules } = policies.parse(report["policy"]);
  return { eviction, leavesOnly: rules?.victims === "leaf" };
}
