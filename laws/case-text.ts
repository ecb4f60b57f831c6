import type { Case } from "./trial.ts";
import type { WorkloadRequest } from "./workloads.ts";

/** A test case as readable text: the cache, then the requests. */
export function caseText({ workload, config, script, batchOf }: Case, decisions: readonly string[] = []): string {
  const blockTokens = workload.unitTokens * config.blockUnits;
  const blocks = config.blocks === undefined || config.eviction.unlimited ? undefined : config.blocks;
  const rules = Object.entries(config.rules).map(([name, value]) => `${name}=${value}`);
  const cache = [
    `cache of ${blocks === undefined ? "any number of blocks" : counted(blocks, "block")}`,
    `blocks of ${counted(blockTokens, "token")}`,
    `index ${config.index.name}`,
    `policy ${config.eviction.name}`,
    ...(rules.length > 0 ? [`rules ${rules.join(" ")}`] : []),
    `seed ${config.seed}`,
  ];
  const manySpaces = workload.requests.some(({ namespace }) => namespace !== workload.requests[0].namespace);
  const lines = [
    cache.join(", "),
    ...workload.requests.map((request) => requestText(request, workload.unitTokens, manySpaces)),
  ];
  if (batchOf !== undefined) lines.push(`in batches of ${counted(batchOf, "request")}`);
  if (decisions.length > 0) return [...lines, ...last(decisions)].join("\n");
  if (script === undefined) lines.push("requests are served one after the other");
  else if (script.length === 0) lines.push("requests overlap");
  else if (script.length > 40) lines.push(`requests overlap, by a script of ${script.length} numbers`);
  else lines.push(`requests overlap, by the script ${script.join(" ")}`);
  return lines.join("\n");
}

const mostDecisions = 16;

function last(decisions: readonly string[]): readonly string[] {
  const before = decisions.length - mostDecisions;
  return before > 0 ? [`… ${counted(before, "decision")} before`, ...decisions.slice(-mostDecisions)] : decisions;
}

function requestText(request: WorkloadRequest, unitTokens: number, manySpaces: boolean): string {
  const { id, prompt, output, namespace, maxOutputTokens } = request;
  const generated = unitTokens === 1 ? `output ${output.join(" ")}` : `${counted(output.length, "output token")}`;
  const space = manySpaces ? `, namespace ${namespace}` : "";
  return `request ${id}: prompt ${prompt.join(" ")}, ${generated} (at most ${maxOutputTokens})${space}`;
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;
