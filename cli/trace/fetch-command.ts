import type { Command } from "commander";
import { grouped } from "../../core/counted.ts";
import {
  type FetchedTrace,
  type FetchTraceOptions,
  fetchTrace,
  listPublicTraces,
} from "../../lab/traces/fetch-trace.ts";
import { path } from "../input/options.ts";
import { interruption } from "../interrupt.ts";
import { print } from "../output/print.ts";
import { Progress } from "../output/progress.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

const examples = `
Without NAME: the traces that can be fetched by name, from their authors' sites.
An interrupted download is resumed by the same command. The file has its final
name only after its SHA-256 was checked. FILE.source.json beside it records the
address, the checksum and the licence. A proxy is used with NODE_USE_ENV_PROXY=1
and HTTPS_PROXY (Node 22.21 or later).

Examples:
  kvlab trace fetch
  kvlab trace fetch mooncake-conversation --to traces
  kvlab trace fetch https://example.com/trace.jsonl --sha256 0123…`;

interface FetchCommandOptions extends FetchTraceOptions {
  readonly json?: boolean;
}

export function addFetch(trace: Command): void {
  trace
    .command("fetch")
    .description("download a public trace by name, or list them")
    .argument("[NAME]", "name of the trace, or an address that begins with https://")
    .option("--to <FOLDER>", "folder to save the trace in (default: the current one)", path("--to", "a folder"))
    .option("--sha256 <HEX>", "SHA-256 that the file must have (default: the catalogue's)")
    .option("--force", "replace the file if it exists")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action((name: string | undefined, options: FetchCommandOptions) =>
      name === undefined ? list(options) : fetchNamed(name, options),
    );
}

function list({ json }: FetchCommandOptions): void {
  const traces = listPublicTraces();
  if (json) {
    print(`${JSON.stringify({ schema: "public-traces/1", traces }, undefined, 2)}\n`);
    return;
  }
  const rows = traces.map(({ name, format, bytes, licence, sha256, about }) => [
    ...[name, format ?? "archive", bytes === undefined ? "" : megabytes(bytes), licence, sha256 ? "yes" : "no", about],
  ]);
  const note =
    "checked: the catalogue has the file's SHA-256. Please cite the authors; --json has the publications and the addresses.";
  const head = ["name", "format", "size", "licence", "checked", "contents"];
  print(`${aligned([head, ...rows], "llrlll")}\n\n${colors.dim(wrapped(note, 0))}\n`);
}

async function fetchNamed(name: string, { json, ...options }: FetchCommandOptions): Promise<void> {
  const progress = new Progress();
  try {
    const fetched = await fetchTrace(name, { ...options, progress: progress.follow, signal: interruption });
    progress.done();
    print(json ? `${JSON.stringify({ schema: "fetched-trace/1", ...fetched }, undefined, 2)}\n` : text(fetched));
  } finally {
    progress.done();
  }
}

function text({ path, bytes, sha256, isChecked, isPresent, resumedFrom, trace }: FetchedTrace): string {
  const resumed = resumedFrom > 0 ? `, resumed after ${megabytes(resumedFrom)}` : "";
  const lines = [
    isPresent ? `${path} is there already (${megabytes(bytes)})` : `Saved ${path} (${megabytes(bytes)}${resumed})`,
    isChecked
      ? `sha256 ${sha256}, as expected`
      : `sha256 ${sha256}, unknown to the catalogue: --sha256 checks it next time`,
  ];
  if (trace) lines.push(`licence ${trace.licence}; cite: ${trace.cite}`);
  return `${lines.join("\n")}\n`;
}

/** 3.0 MB, 741 kB. */
const megabytes = (bytes: number) =>
  bytes >= 1e6
    ? `${(bytes / 1e6).toFixed(1)} MB`
    : bytes >= 1e3
      ? `${Math.round(bytes / 1e3)} kB`
      : `${grouped(bytes)} B`;
