import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

// Writes docs/experiments.md: each experiment with its command and output.
//   KVLAB_TRACES=/path/to/traces npx tsx scripts/experiments.ts         (or with names: only their sections are made anew)

const root = fileURLToPath(new URL("..", import.meta.url));
const traces = process.env["KVLAB_TRACES"];
if (traces === undefined)
  throw new Error("KVLAB_TRACES is not set; some experiments require the folder of recorded traces");

const outputOf = (args: readonly string[]) =>
  execFileSync(process.execPath, ["--import", "tsx", "cli/main.ts", "experiment", ...args], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  }).trimEnd();

/** A command and its output, as Markdown. */
const shown = (command: string, args: readonly string[]) =>
  `\`\`\`sh\nnpm run -s kvlab -- experiment ${command}\n\`\`\`\n\n\`\`\`text\n${outputOf(args)}\n\`\`\``;

const head = `# Published measurements, repeated

\`kvlab experiment NAME\` serves the requests of a published measurement on simulated engines, or replays them without a clock if
only hits are published, and prints the published metrics beside ours. (\`KVLAB_TRACES=/path/to/traces npx tsx scripts/experiments.ts\` writes this file.)

Ratios are compared, because the absolute numbers are those of other engines, often of another year, and most sources do not
name the GPU; each experiment states its assumptions. Nothing is fitted to the published numbers: the cost model's efficiency
factors are the defaults, except in rows that isolate a cause and say so. A ratio has "the same shape" as
the published one if it lies between its square root and its square, on the same side of 1: its gain is at least half and at
most twice the published one, as a factor. If a ratio deviates or is close to that limit, the text below the table explains it,
with the row that shows the cause.

A "–" means that the source gives no number.`;

const { experiments } = JSON.parse(outputOf(["--json"])) as {
  experiments: { readonly name: string; readonly about: string }[];
};
/** The same experiment with recorded requests. */
const recorded: Readonly<Record<string, { readonly about: string; readonly file: string }>> = {
  routers: {
    about: "Mooncake's conversation trace (FAST'25), which has no session ids",
    file: "mooncake/conversation_trace.jsonl.gz",
  },
  "mooncake-toolagent": {
    about: "Mooncake's conversation trace, because the toolagent trace is not among the recorded ones",
    file: "mooncake/conversation_trace.jsonl.gz",
  },
};

/** The section of an experiment, made anew. */
const sectionOf = ({ name, about }: (typeof experiments)[number]): string => {
  const other = recorded[name];
  return [
    `## ${name}`,
    `${about[0].toUpperCase()}${about.slice(1)}.`,
    shown(name, [name]),
    ...(other
      ? [
          `The same on ${other.about}:`,
          shown(`${name} --trace ${basename(other.file)}`, [name, "--trace", join(traces, other.file)]),
        ]
      : []),
  ].join("\n\n");
};

const document = join(root, "docs/experiments.md");
const names = process.argv.slice(2);
const unknown = names.find((name) => !experiments.some((experiment) => experiment.name === name));
if (unknown !== undefined) throw new Error(`${unknown} is not an experiment`);
const written = readFileSync(document, "utf8")
  .trimEnd()
  .split(/\n\n(?=## )/);
const parts = experiments.map((experiment) => {
  const isKept = names.length > 0 && !names.includes(experiment.name);
  const before = isKept ? written.find((section) => section.startsWith(`## ${experiment.name}\n`)) : undefined;
  return before ?? sectionOf(experiment);
});
writeFileSync(document, `${[head, ...parts].join("\n\n")}\n`);
