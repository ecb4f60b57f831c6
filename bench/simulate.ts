import { createRouter } from "../core/replica/compose.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import { median } from "../core/serving/distribution.ts";
import { Metrics } from "../core/serving/metrics.ts";
import { readTrace } from "../core/trace/trace.ts";
import { profileOf } from "../lab/profiles/catalogue.ts";
import { readProfile } from "../lab/profiles/read-profile.ts";
import { inMemory } from "../lab/run/block-stream.ts";
import { simulateInThreads } from "../lab/run/cluster-threads.ts";
import { partsNamed, type RunConfig } from "../lab/run/configuration.ts";
import { runSimulation } from "../lab/run/run-simulation.ts";
import { discarded } from "../lab/run/run-sink.ts";
import { simulatedFrom, simulationConfig } from "../lab/run/simulation.ts";
import { presetRegistry, routerRegistry, schedulerRegistry } from "../policies/registry.ts";
import { cacheBytes } from "../sim/cost/capacity.ts";
import type { CostModel } from "../sim/cost/cost-model.ts";
import { hardwareNamed } from "../sim/cost/hardware.ts";
import { kvTokenBytes } from "../sim/cost/kv-bytes.ts";
import { modelNamed } from "../sim/cost/models.ts";
import { Profiled } from "../sim/cost/profile/profiled.ts";
import { Roofline, type RooflineOptions } from "../sim/cost/roofline.ts";
import { Simulation, type SimulationConfig, simulate } from "../sim/simulation.ts";
import { chatSource } from "../traces/generators/chat.ts";
import { spreadArrivals } from "../traces/spread.ts";
import { benchTrace, type Measurement } from "./measure.ts";

/** vLLM with Llama 3.1 8B on an H200, or on another GPU with the step times of `costOn`. */
function vllmOn(
  blockTokens: number,
  { seed = 1, gpu = "h200", costOn = (options: RooflineOptions): CostModel => new Roofline(options) } = {},
): SimulationConfig {
  const shape = modelNamed("llama-3.1-8b");
  const hardware = hardwareNamed(gpu);
  const vllm = presetRegistry.get("vllm");
  const { index, eviction, allocator, rules } = vllm;
  const bytes = cacheBytes({ shape, hardware, memoryShare: 0.9 });
  const cost = costOn({ shape, hardware, blockTokens });
  return {
    ...{ index, eviction, allocator, rules, blockTokens, seed },
    scheduler: schedulerRegistry.get(vllm.scheduler),
    blocks: Math.floor(bytes / (kvTokenBytes(shape, shape.numberBytes) * blockTokens)),
    cost: () => cost,
  };
}

/** Seconds of CPU time that the process has used: unlike wall-clock time, it hardly depends on other processes. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Runs of one simulation in the process that measures it: the first ones compile the code, which the fastest does not. */
const runs = 10;

/** Runs a simulation `times` times; returns the CPU time of the fastest in seconds, and the simulation. */
function fastest(times: number, run: () => Simulation): { readonly seconds: number; readonly simulation: Simulation } {
  let seconds = Number.POSITIVE_INFINITY;
  let simulation: Simulation | undefined;
  for (let i = 0; i < times; i++) {
    const from = cpuSeconds();
    simulation = run();
    seconds = Math.min(seconds, cpuSeconds() - from);
  }
  return { seconds, simulation: simulation! };
}

/** The conversation trace, slowed down to a utilisation of the replica of about 0.8. */
async function conversation(): Promise<Measurement[]> {
  const trace = spreadArrivals(await benchTrace());
  const config = { ...vllmOn(trace.unitTokens), arrivals: { speed: 0.15 } };
  const { seconds, simulation } = fastest(runs, () => simulate(trace, config));
  const every = fastest(2, () => simulate(trace, { ...config, everyStep: true }));
  const [replica] = new Metrics(simulation).cluster().replicas;
  return [
    { name: "requests simulated", value: trace.requestCount / seconds, unit: "/s" },
    { name: "requests simulated, planning every step", value: trace.requestCount / every.seconds, unit: "/s" },
    { name: "steps", value: replica.steps / seconds, unit: "/s" },
    { name: "utilisation", value: replica.utilisation, unit: "" },
  ];
}

/** The same on a GPU with an operator profile, which is slower, at about the same utilisation. */
async function profile(): Promise<Measurement[]> {
  const trace = spreadArrivals(await benchTrace());
  const gpu = "rtx-pro-6000";
  const times = await readProfile((await profileOf(gpu, "llama-3.1-8b", 1))!, 1);
  const config = vllmOn(trace.unitTokens, { gpu, costOn: (options) => new Profiled({ ...options, profile: times }) });
  const { seconds, simulation } = fastest(runs, () => simulate(trace, { ...config, arrivals: { speed: 0.05 } }));
  const [replica] = new Metrics(simulation).cluster().replicas;
  return [
    { name: "requests simulated, operator profile", value: trace.requestCount / seconds, unit: "/s" },
    { name: "utilisation, operator profile", value: replica.utilisation, unit: "" },
  ];
}

/** Simulates `requests` chat requests at a fixed rate, read in batches. */
async function scale(requests: number): Promise<Measurement[]> {
  const simulation = new Simulation(vllmOn(16));
  let seconds = 0;
  let served = 0;
  for await (const batch of chatSource({ requests }).batches()) {
    const from = performance.now();
    simulation.feed(batch);
    simulation.run();
    seconds += (performance.now() - from) / 1000;
    served += batch.requestCount;
  }
  simulation.end();
  const from = performance.now();
  simulation.run();
  seconds += (performance.now() - from) / 1000;
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return [
    { name: `${served} requests`, value: (seconds / served) * 1e6, unit: "µs a request" },
    { name: "  memory", value: (heapUsed + arrayBuffers) / 2 ** 20, unit: "MiB" },
  ];
}

/** `count` times the load on `count` replicas. */
async function replicas(count: number): Promise<Measurement[]> {
  const trace = await readTrace(chatSource({ requests: 12_000 }));
  const config = vllmOn(16);
  const router = () =>
    createRouter({ router: routerRegistry.get("prefix-affinity"), replicaCount: count, blockTokens: 16, seed: 1 });
  const run = () => simulate(trace, { ...config, replicas: count, router: router(), arrivals: { speed: count } });
  const { seconds } = fastest(2, run);
  return [{ name: `${count} replicas`, value: trace.requestCount / seconds, unit: "requests/s" }];
}

/** Four replicas behind a round-robin router, in one thread and in two, in turn: wall-clock time with the start of the threads. */
async function cluster(requests: number): Promise<Measurement[]> {
  const trace = await readTrace(chatSource({ requests }));
  const parts = await partsNamed({ preset: "vllm" }, {}, "sim");
  const simulated = await simulatedFrom({ replicas: 4, router: "round-robin", gpu: "l40s", rate: 10 }, trace);
  const config: RunConfig = { ...parts, blockTokens: 16, blocks: 20_000, seed: 1, simulated };
  const input = inMemory(trace, CacheReplay.blockKeys(config, trace));
  /** CPU time of the whole process, in seconds. */
  const measured = async (run: () => Promise<unknown>) => {
    const [busy, wall] = [cpuSeconds(), performance.now()];
    await run();
    return { cpuS: cpuSeconds() - busy, wallS: (performance.now() - wall) / 1000 };
  };
  const walls: number[] = [];
  const cpus: number[] = [];
  for (let i = 0; i < 3; i++) {
    const single = async () =>
      await runSimulation(input, await simulationConfig(config, simulated), { sink: discarded });
    const [one, two] = [
      await measured(single),
      await measured(() => simulateInThreads(input, config, simulated, {}, 2)),
    ];
    walls.push(one.wallS / two.wallS);
    cpus.push(two.cpuS / one.cpuS);
  }
  const name = `${requests} requests on 4 replicas`;
  return [
    { name: `${name}: wall-clock time of one thread ÷ two threads`, value: median(walls), unit: "×" },
    { name: `${name}: CPU time of two threads ÷ one thread`, value: median(cpus), unit: "×" },
  ];
}

const [part, argument] = process.argv.slice(2);
const parts: Readonly<Record<string, () => Measurement[] | Promise<Measurement[]>>> = {
  conversation,
  profile,
  scale: () => scale(Number(argument)),
  replicas: () => replicas(Number(argument)),
  cluster: () => cluster(Number(argument)),
};
if (!Object.hasOwn(parts, part ?? ""))
  throw new Error(`unknown part "${part}", expected one of ${Object.keys(parts).join(", ")}`);
const figures = parts[part]();
console.log(JSON.stringify(await figures));
