import { grouped } from "../../core/counted.ts";
import { type Random, seededRandom } from "../../core/random.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { codingAgent } from "../../traces/generators/coding-agent.ts";
import { generated } from "../../traces/generators/generator.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { commonMetrics, type ExperimentRunner, type Machine, type Measured } from "./runner.ts";

const requests = 800;
/** New agent sessions per second: with the default seed nothing is evicted too early at the first rate. */
const loads = [0.1, 0.15, 0.2] as const;
const agents = { agents: 4, systemTokens: 4000, steps: 20, toolTokens: 800, outputTokens: 150, contextTokens: 32_000 };
/** A part of the GPU's memory, so that the paused sessions do not fit. */
const blocks = 16_000;

/** Tools by the share of calls, with the least and the longest pause in seconds: 86.5 % end within 1 s, 95.1 % within 10 s. */
const tools = [
  { share: 0.865, leastS: 0.05, mostS: 1 },
  { share: 0.086, leastS: 1, mostS: 10 },
  { share: 0.049, leastS: 10, mostS: 60 },
] as const;

const configurations = {
  lru: { eviction: "lru", scheduler: "fcfs-chunked" },
  continuum: { eviction: "continuum", scheduler: "fcfs-chunked" },
  "lru, by session": { eviction: "lru", scheduler: "session-priority" },
  "continuum, by session": { eviction: "continuum", scheduler: "session-priority" },
  // More blocks than all sessions need.
  "no eviction": { eviction: "lru", scheduler: "fcfs-chunked", blocks: 200_000 },
} as const;
type Name = keyof typeof configurations;

/** Sessions of coding agents that call one of the tools after each request and are closed after their last one. */
async function agentTrace(seed: number, sessionsPerS: number): Promise<Trace> {
  const trace = await readTrace(generated(codingAgent, { ...agents, requests, seed, unitTokens: 16, sessionsPerS }));
  const random = seededRandom(seed ^ 0x746f_6f6c);
  const { session } = trace.optional;
  const calls = Array.from({ length: trace.requestCount }, () => toolCall(random));
  const lastOf = new Map<number, number>();
  const tool = Uint32Array.from(calls, (call) => call.tool);
  const sessionEnd = new Uint32Array(trace.requestCount);
  // The think time of a turn is the pause after the one before it.
  const thinkNs = Float64Array.from(calls, (_, row) => {
    const before = lastOf.get(session![row]);
    lastOf.set(session![row], row);
    return before === undefined ? 0 : calls[before].pauseNs;
  });
  for (const row of lastOf.values()) {
    tool[row] = 0;
    sessionEnd[row] = 1;
  }
  return { ...trace, optional: { ...trace.optional, tool, sessionEnd, thinkNs } };
}

function toolCall(random: Random): { readonly tool: number; readonly pauseNs: number } {
  let left = random.unit();
  const at = tools.findIndex(({ share }) => (left -= share) < 0);
  const { leastS, mostS } = tools[at < 0 ? 0 : at];
  return { tool: at + 1, pauseNs: Math.round(1e9 * leastS * (mostS / leastS) ** random.unit()) };
}

interface SessionTime {
  firstNs: number;
  lastNs: number;
  requestsNs: number;
}

/** Mean time of a session from its first arrival to its last output, and the part of it in which it does not pause. */
function sessionTimes({ requests: outcomes }: Measured, { optional }: Trace) {
  const times = new Map<number, SessionTime>();
  outcomes.arrivalNs.forEach((arrivalNs, row) => {
    const session = optional.session![row];
    const time = times.get(session) ?? { firstNs: arrivalNs, lastNs: 0, requestsNs: 0 };
    time.firstNs = Math.min(time.firstNs, arrivalNs);
    time.lastNs = Math.max(time.lastNs, outcomes.finishedNs[row]);
    time.requestsNs += outcomes.finishedNs[row] - arrivalNs;
    times.set(session, time);
  });
  const meanS = (of: (time: SessionTime) => number) =>
    [...times.values()].reduce((sum, time) => sum + of(time), 0) / times.size / 1e9;
  return { jobS: meanS(({ firstNs, lastNs }) => lastNs - firstNs), delayS: meanS(({ requestsNs }) => requestsNs) };
}

export const continuum: Experiment = {
  name: "continuum",
  about: "agents with tool pauses: LRU and Continuum's time to live, by arrival and by session",
  source: "Continuum (arXiv 2511.02230): jobs of agents 1.12 to 3.66 times as fast as in vLLM",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const rows: Row[] = [];
    const jobS: Record<string, number> = {};
    const hits: Record<string, number> = {};
    for (const load of loads) {
      const trace = await agentTrace(runner.seed, load);
      for (const [name, setup] of Object.entries(configurations)) {
        const arrivals = { loop: "closed" } as const;
        const run = await runner.run(trace, { machine, blocks, blockTokens: 16, arrivals, ...setup });
        const times = sessionTimes(run, trace);
        const { hitRatioToken } = commonMetrics(run);
        const configuration = `${load}/s ${name}`;
        jobS[configuration] = times.jobS;
        hits[configuration] = hitRatioToken;
        const { p50 = 0, p99 = 0 } = run.latency.ttftMs ?? {};
        rows.push({ configuration, simulated: { ...times, hitRatioToken, ttftMsP50: p50, ttftMsP99: p99 } });
      }
    }
    const gain = (load: number, name: Name) => jobS[`${load}/s lru`] / jobS[`${load}/s ${name}`];
    const [low, , high] = loads;
    const headlines: Headline[] = loads.flatMap((load) => [
      { ratio: `${load}/s: job time, lru ÷ continuum`, simulated: gain(load, "continuum") },
      {
        ratio: `${load}/s: job time, lru ÷ continuum, by session`,
        // Below its capacity a system has nothing to gain; the source measures loads above it.
        ...(load > low && { published: [1.12, 3.66] as const }),
        simulated: gain(load, "continuum, by session"),
      },
    ]);
    const hit = (name: Name) => percent(hits[`${high}/s ${name}`]);
    return {
      workload:
        `${grouped(requests)} requests of coding agents with ${agents.steps} requests a session on average, each of which sends the whole context; sessions arrive as a Poisson process. ` +
        `Tool calls: 86.5 % take up to 1 s, 95.1 % up to 10 s, the others up to 60 s, by three tools. ${nameOf(machine.model)} on ${machine.gpu} with ${grouped(blocks)} blocks of 16. ` +
        "By arrival: vLLM's scheduler; by session: requests of older sessions first.",
      rows,
      headlines,
      explanations: [
        `At ${low} sessions/s every policy has nearly the hits of a cache without evictions (${percent(hits[`${low}/s no eviction`])}): contexts are used again before LRU reaches them. ` +
          `At ${high}/s they are not: returning requests also wait in the queue, and LRU evicts contexts meanwhile: ${hit("lru")} hits, ${hit("continuum")} with the time to live. ` +
          "The rate at which this begins depends on the seed, which determines how many sessions overlap.",
        `The order of requests matters more: by session LRU has ${hit("lru, by session")} and the time to live ${hit("continuum, by session")}, because older sessions finish first. ` +
          "Continuum also serves programs in the order of their arrival; its gain is that of both.",
        `In a cache with more blocks than all sessions need, nothing is evicted and jobs are ${gain(high, "no eviction").toFixed(2)} times as fast as with LRU at ${high}/s. ` +
          "That run is a reference, not a proven bound of the job time: without evictions requests are also batched differently. Two differences to the source: " +
          "it pins contexts, so that new programs wait until a pin ends, while an eviction policy of kvlab cannot make entries unevictable, only evict them last; and it replays agents of SWE-bench and BFCL, also with offloading to host memory, whose contexts, loads and GPUs are others than these.",
      ],
    };
  },
};

const nameOf = (model: Machine["model"]) => (typeof model === "string" ? model : model.name);
