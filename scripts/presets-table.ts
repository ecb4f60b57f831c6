// The table of docs/presets.md: hit ratios of every preset per trace, at five cache sizes and unlimited, as Markdown.
//   npm run -s presets -- TRACE…        (none: the built-in example)
import { execFileSync } from "node:child_process";
import { presetRegistry } from "../policies/registry.ts";

interface Run {
  readonly trace: { readonly files: readonly string[]; readonly requests: number; readonly inputTokens: number };
  readonly policy: {
    readonly preset: string | null;
    readonly eviction: string;
    readonly blocks: number | null;
    readonly blockTokens: number;
    readonly rules: Readonly<Record<string, unknown>>;
  };
  readonly cache: { readonly hitRatio: { readonly token: number } };
}

/** The JSON output of a kvlab command. */
function kvlab<Document>(...args: readonly string[]): Document {
  const output = execFileSync(process.execPath, ["--import", "tsx", "cli/main.ts", ...args, "--json"], {
    maxBuffer: 2 ** 28,
    encoding: "utf8",
  });
  return JSON.parse(output) as Document;
}

const shown = (run: Run) => run.cache.hitRatio.token.toFixed(4).replace(/^0/, "");
const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const grouped = (count: number) => count.toLocaleString("en-US");

function table(trace: string): string {
  const { runs } = kvlab<{ runs: Run[] }>("compare", trace, "--preset", "all");
  const unlimited = (name: string) =>
    kvlab<Run>("replay", trace, "--preset", name, "--blocks", "unlimited", "--no-save");
  const ofPreset = (name: string) => runs.filter(({ policy }) => policy.preset === name);
  const bounds = runs.filter(({ policy }) => policy.preset === null);
  const optimum = (cacheGenerated: string) =>
    bounds.filter(({ policy }) => policy.eviction === "belady" && policy.rules["cache-generated"] === cacheGenerated);
  const all = bounds.find(({ policy }) => policy.eviction === "unbounded")!;
  const sizes = optimum("false").map(({ policy }) => grouped(policy.blocks! * policy.blockTokens));
  const { requests, inputTokens } = runs[0].trace;
  const lines = presetRegistry.all.map(({ name }) => {
    const own = ofPreset(name);
    return row([`\`${name}\``, String(own[0].policy.blockTokens), ...own.map(shown), shown(unlimited(name))]);
  });
  return [
    `${grouped(requests)} requests, ${grouped(inputTokens)} prompt tokens.`,
    "",
    row(["tokens of cache", "block", ...sizes, "unlimited"]),
    row(["---", "---:", ...sizes.map(() => "---:"), "---:"]),
    ...lines,
    ...["false", "true"].map((cacheGenerated) => {
      const runs = optimum(cacheGenerated);
      const name = `offline optimum${cacheGenerated === "true" ? ", outputs cached" : ""}`;
      return row([name, String(runs[0].policy.blockTokens), ...runs.map(shown), shown(all)]);
    }),
  ].join("\n");
}

const traces = process.argv.slice(2);
for (const trace of traces.length === 0 ? ["example"] : traces)
  process.stdout.write(`### ${trace.replace(/^.*\//, "")}\n\n${table(trace)}\n\n`);
