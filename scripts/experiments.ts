import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { experiments } from "../cli/experiments/index.ts";

/** Writes docs/experiments.md: what each experiment prints, below its command. */

const root = fileURLToPath(new URL("..", import.meta.url));

const outputOf = (name: string) =>
  execFileSync(
    process.execPath,
    ["--import", createRequire(import.meta.url).resolve("tsx"), "cli/main.ts", "experiment", name],
    {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, NO_COLOR: "1" },
    },
  ).trimEnd();

const head = `# Published measurements, done again

\`kvlab experiment NAME\` serves the requests of a published measurement on simulated engines and prints its figures beside
ours. (\`npx tsx scripts/experiments.ts\` writes this file.)

What is compared is ratios. The absolute figures are those of other engines, often of another year, and mostly the GPU is
not even named; each experiment says what is assumed. Nothing is fitted to any of them: the efficiency factors of the cost
model are the default ones everywhere, but in rows that say otherwise, which isolate a cause. A ratio has "the same shape" as
the published one if it lies between its square root and its square, on the same side of 1: its gain is at least half and at
most twice the published one, as a factor. Where it does not, or only just, the text below the table says why, with the row
that shows it.

A "–" means that the source gives no figure.`;

const parts = experiments.map(({ name, about }) =>
  [
    `## ${name}`,
    `${about[0].toUpperCase()}${about.slice(1)}.`,
    `\`\`\`sh\nnpm run -s kvlab -- experiment ${name}\n\`\`\``,
    `\`\`\`text\n${outputOf(name)}\n\`\`\``,
  ].join("\n\n"),
);

writeFileSync(`${root}docs/experiments.md`, `${[head, ...parts].join("\n\n")}\n`);
