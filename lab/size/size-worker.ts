import { Turns } from "../../core/serving/turns.ts";
import type { BlockBatch } from "../run/block-stream.ts";
import { partsNamed } from "../run/configuration.ts";
import { serveTasks } from "../threads/serve-tasks.ts";
import { type Measured, type MeasuredTrace, measure } from "./measure.ts";
import type { MeasureTask, SizeThreadData } from "./measurements.ts";

/** The turns of a closed loop, computed once in this thread. */
let turns: Turns | undefined;

function turnsOf(batches: readonly BlockBatch[]): Turns {
  if (turns) return turns;
  turns = new Turns();
  for (const { trace } of batches) turns.add(trace);
  return turns;
}

/** The program of a thread that simulates one cluster after the other. */
serveTasks<SizeThreadData, MeasureTask, Measured>(
  async ({ names, rules, cluster }, { batches, totals, groups }, advance) => {
    const trace: MeasuredTrace = {
      inputs: batches.map((each) => ({ batches: () => each })),
      totals,
      turns: cluster.load.loop === "closed" ? turnsOf(batches[cluster.input]) : undefined,
      groups,
    };
    return await measure(await partsNamed(names, rules, "sim"), cluster, trace, { advance });
  },
);
