// Replays the traces of docs/eviction.md with every eviction policy, and writes their figures and tables. Without the folder of
// recorded traces (KVLAB_TRACES, by default ../shared/traces) only those of the built-in example.
//   npm run eviction                    (or with names of traces: npm run eviction -- example)
import { readFileSync, writeFileSync } from "node:fs";
import { evictionRegistry } from "../policies/registry.ts";
import { type MeasuredTrace, summary, tables, withSection } from "./eviction/document.ts";
import { figure } from "./eviction/figure.ts";
import { measure } from "./eviction/measure.ts";
import { figureTraces, isAvailable, read } from "./eviction/traces.ts";

const docs = new URL("../docs/", import.meta.url);
const chosen = process.argv.slice(2);
const names = figureTraces.map(({ name }) => name);
const unknown = chosen.find((name) => !names.includes(name));
if (unknown !== undefined) {
  process.stderr.write(`eviction: unknown trace "${unknown}", expected one of ${names.join(", ")}\n`);
  process.exit(2);
}

/** Names the replays under way on stderr: every policy on a terminal, otherwise every trace. */
function report(name: string) {
  const { stderr } = process;
  if (!stderr.isTTY) stderr.write(`${name}: replaying\n`);
  return {
    policy: (policy: string) => void (stderr.isTTY && stderr.write(`\r\x1b[K${name}: ${policy}`)),
    done: () => void (stderr.isTTY && stderr.write("\r\x1b[K")),
  };
}

const write = (section: string, lines: string) => {
  const document = new URL("eviction.md", docs);
  writeFileSync(document, withSection(readFileSync(document, "utf8"), section, lines));
};

const done: MeasuredTrace[] = [];
for (const trace of figureTraces.filter(({ name }) => chosen.length === 0 || chosen.includes(name))) {
  const { name, title, file, blockTokens } = trace;
  if (!isAvailable(trace)) {
    console.log(`${name}: not run, ${file} is not in the folder of recorded traces`);
    continue;
  }
  const progress = report(name);
  const measured = measure(await read(trace), blockTokens, evictionRegistry.all, progress.policy);
  progress.done();
  const picture = `eviction-${name}.svg`;
  writeFileSync(new URL(picture, docs), figure(title, measured));
  write(name, tables(title, picture, measured));
  done.push({ title, measured });
  console.log(`docs/${picture}, and its tables in docs/eviction.md`);
}
if (done.length === figureTraces.length) write("summary", summary(done));
else console.log("docs/eviction.md: the summary is written with all four traces only");
