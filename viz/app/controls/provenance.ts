import type { RunRow } from "../../api.ts";
import { workloadOf } from "../data/answer.ts";
import { getRun } from "../data/server.ts";

/** What a saved figure states about its runs. */
export interface Provenance {
  /** The traces, numbers of requests and targets. */
  readonly workload: string;
  /** The commands that reproduce the runs, at most `mostCommands`. */
  readonly commands: readonly string[];
  /** Number of runs whose commands are left out. */
  readonly left: number;
}

const mostCommands = 12;
const sources = new WeakMap<Element, () => readonly RunRow[]>();

/** States which runs the figures inside an element show. */
export function describeRuns(element: Element, rowsOf: () => readonly RunRow[]): void {
  sources.set(element, rowsOf);
}

/** The provenance of a figure: of the runs that the nearest element around it was described with. */
export async function provenanceOf(figure: Element): Promise<Provenance | undefined> {
  let rowsOf: (() => readonly RunRow[]) | undefined;
  for (let at: Element | null = figure; at && !rowsOf; at = at.parentElement) rowsOf = sources.get(at);
  const rows = rowsOf?.() ?? [];
  if (rows.length === 0) return undefined;
  const found = await Promise.allSettled(rows.slice(0, mostCommands).map(({ id }) => getRun(id)));
  const commands = found.flatMap((each) =>
    each.status === "fulfilled" && each.value.command ? [each.value.command] : [],
  );
  const workload = [...new Set(rows.map(workloadOf))].slice(0, 3).join("; ");
  return { workload, commands, left: rows.length - commands.length };
}
