import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { defaultBackend } from "../engine/backends.ts";
import { evictionRegistry } from "../policies/registry.ts";
import { type Measurement, traceName } from "./measure.ts";

/**
 * `npm run bench [-- PART]`: the performance measurements of the README, as ratios within one run. Every row is measured in a
 * separate process, so that code compiled for one policy does not slow down the next.
 */
const capacities = ["10000", "50000"];
const replays: [index: string, eviction: string][] = [
  ["hash-table", "lru"],
  ["block-trie", "lru"],
  ["radix-tree", "lru"],
  ["sorted-list", "lru"],
  ["none", "lru"],
  ...evictionRegistry.all
    .filter(({ name }) => name !== "lru")
    .map(({ name }): [string, string] => ["hash-table", name]),
];

function figures(...args: string[]): readonly Measurement[] {
  return child("./measure.ts", args);
}

function child(program: string, args: readonly string[]): readonly Measurement[] {
  const measure = fileURLToPath(new URL(program, import.meta.url));
  // A large young generation, so that no garbage collection runs while bytes are counted.
  const flags = ["--expose-gc", "--max-semi-space-size=64", "--import", "tsx"];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...flags, measure, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")} failed:\n${stderr}`);
  return JSON.parse(stdout);
}

const short = (value: number) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

function printReplays(): void {
  console.log(`\nReplay of ${traceName}, requests one at a time, as a multiple of a hard-coded LRU over typed arrays`);
  console.log(`${"".padEnd(26)}${capacities.map((n) => `${n} blocks`.padStart(24)).join("")}`);
  for (const [index, eviction] of replays) {
    const cells = capacities.map((blocks) => {
      const [ratio, ms] = figures("replay", index, eviction, blocks);
      return `${short(ratio.value)} × (${short(ms.value)} ms)`.padStart(24);
    });
    console.log(`${`${index} + ${eviction}`.padEnd(26)}${cells.join("")}`);
  }
}

const indexes = ["hash-table", "block-trie", "radix-tree"];
const sizes = ["10000", "100000", "1000000"];

function printScaling(): void {
  console.log("\nCost of a block reference in a full cache with LRU (in brackets: the hard-coded LRU)");
  console.log(`${"".padEnd(26)}${sizes.map((n) => `${n} blocks`.padStart(24)).join("")}`);
  for (const index of indexes) {
    const cells = sizes.map((blocks) => {
      const [cost, yardstick] = figures("scaling", index, blocks);
      return `${short(cost.value)} ns (${short(yardstick.value)} ns)`.padStart(24);
    });
    console.log(`${index.padEnd(26)}${cells.join("")}`);
  }
  console.log("\nThe same for one path of 100,000 blocks with 100 branches, and for one block with 100,000 children");
  for (const index of indexes) {
    const cells = figures("shapes", index).map(({ name, value, unit }) =>
      `${name} ${short(value)} ${unit}`.padStart(24),
    );
    console.log(`${index.padEnd(26)}${cells.join("")}`);
  }
}

function printFigures(title: string, ...calls: readonly (readonly string[])[]): void {
  console.log(`\n${title}`);
  for (const { name, value, unit } of calls.flatMap((call) => figures(...call)))
    console.log(`${name.padEnd(40)}${short(value).padStart(10)} ${unit}`);
}

function printCluster(): void {
  console.log(
    "\nA cluster of 4 replicas, router round-robin, simulated in one thread and in two: the median of three pairs",
  );
  for (const requests of ["100000", "400000"])
    for (const { name, value, unit } of child("./simulate.ts", ["cluster", requests]))
      console.log(`${name.padEnd(90)}${short(value).padStart(10)} ${unit}`);
}

function printSimulation(): void {
  const print = (title: string, calls: readonly (readonly string[])[]) => {
    console.log(`\n${title}`);
    for (const { name, value, unit } of calls.flatMap((call) => child("./simulate.ts", call)))
      console.log(`${name.padEnd(40)}${short(value).padStart(10)} ${unit}`);
  };
  print(
    `Simulation of ${traceName} on one H200 with Llama 3.1 8B, preset vllm, fastest of 10 runs in one process by CPU time`,
    [["conversation"], ["profile"]],
  );
  print(
    "Chat requests, fed batch by batch",
    ["1000", "10000", "100000", "1000000"].map((n) => ["scale", n]),
  );
  print(
    "12,000 chat requests on replicas, router prefix-affinity, constant load per replica",
    ["1", "8", "64"].map((n) => ["replicas", n]),
  );
}

function printEngine(): void {
  const print = (title: string, calls: readonly (readonly string[])[]) => {
    console.log(`\n${title}`);
    for (const { name, value, unit } of calls.flatMap((call) => child("./engine.ts", call)))
      console.log(`${name.padEnd(44)}${short(value).padStart(10)} ${unit}`);
  };
  print(
    `Engine on ${defaultBackend.device}, random:anchors, compared with the peak rates measured in the same minute`,
    [["speed"]],
  );
  print("Time outside ONNX Runtime, random:160m", [["overhead"]]);
  print(
    "The same steps over a growing pool, random:anchors",
    ["1024", "8192", "65536"].map((slots) => ["pool", slots]),
  );
}

function printPrefill(): void {
  console.log("\nPrefill by cached share, random:anchors");
  for (const { name, value, unit } of child("./engine.ts", ["prefill"]))
    console.log(`${name.padEnd(44)}${short(value).padStart(10)} ${unit}`);
}

function printLlamaCpp(): void {
  console.log("\nCompared with llama.cpp, the same random weights in 32 bits (random:anchors)");
  for (const { name, value, unit } of child("./llama-cpp.ts", []))
    console.log(unit === "" ? name : `${name.padEnd(44)}${short(value).padStart(10)} ${unit}`);
}

function printDashboard(): void {
  const program = fileURLToPath(new URL("./dashboard.ts", import.meta.url));
  const { status } = spawnSync(process.execPath, ["--import", "tsx", program], { stdio: "inherit" });
  if (status !== 0) throw new Error("dashboard failed");
}

function printSweep(): void {
  console.log("\nSweeps: the speed-up of a second worker, and time beyond the runs themselves");
  for (const { name, value, unit } of ["replays", "simulations", "local", "redis", "slurm"].flatMap((part) =>
    child("./sweep.ts", [part]),
  ))
    console.log(`${name.padEnd(44)}${short(value).padStart(10)} ${unit}`);
}

function printServe(): void {
  console.log(
    "\nThe server, random:tiny: text workers in threads of their own, and in the server's (medians of pairs)",
  );
  for (const { name, value, unit } of child("./serve.ts", []))
    console.log(`${name.padEnd(44)}${short(value).padStart(10)} ${unit}`);
}

const parts: Record<string, () => void> = {
  replay: printReplays,
  scaling: printScaling,
  allocation: () => printFigures("Heap allocated by a replay, hash table + LRU", ["allocation"]),
  memory: () =>
    printFigures("Memory of a cache with LRU, 1,000,000 blocks", ...indexes.map((index) => ["memory", index])),
  hashing: () => printFigures("Hashing token ids", ["hashing"]),
  simulation: printSimulation,
  engine: printEngine,
  prefill: printPrefill,
  "llama-cpp": printLlamaCpp,
  dashboard: printDashboard,
  sweep: printSweep,
  serve: printServe,
  cluster: printCluster,
  curve: () => printFigures(`Hit ratio of LRU at six sizes in one pass over ${traceName}, CPU time`, ["curve"]),
  reading: () => printFigures("Reading a trace (plain file)", ["reading"]),
};

const chosen = process.argv.slice(2);
const unknown = chosen.find((part) => !(part in parts));
if (unknown !== undefined) {
  console.error(`bench: unknown part "${unknown}", expected one of ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0].model}`);
for (const part of chosen.length > 0 ? chosen : Object.keys(parts)) parts[part]();
