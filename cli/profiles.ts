import type { Command } from "commander";
import { listProfiles, type ProfileFolder } from "../lab/profiles/catalogue.ts";
import { print } from "./output/print.ts";
import { aligned, colors, wrapped } from "./output/table.ts";

const examples = `
Examples:
  kvlab profiles
  kvlab profiles ./my-profiles --json
  kvlab replay trace.jsonl --target sim --preset vllm \\
    --cost profile:rtx4090-llama-3.1-8b`;

/** Adds `kvlab profiles`. */
export function addProfiles(program: Command): void {
  program
    .command("profiles")
    .description("list operator times of GPUs, which the simulator predicts step times from")
    .argument("[FOLDER]", "a folder of profiles, or one profile (default: those of kvlab)")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(async (folder: string | undefined, { json }: { json?: boolean }) => {
      const profiles = await listProfiles(folder);
      const document = { schema: "profiles/1", profiles };
      print(`${json ? JSON.stringify(document, undefined, 2) : text(profiles)}\n`);
    });
}

function text(profiles: readonly ProfileFolder[]): string {
  const head = ["profile", "gpu", "model", "tp", "tokens", "sequences", "engine", "measured"];
  const rows = profiles.map(({ name, gpu, model, tensorParallel, maxTokens, maxSequences, engine, measuredAt }) => [
    ...[name, gpu, model, tensorParallel.join(", "), String(maxTokens), String(maxSequences)],
    ...[engine, measuredAt.slice(0, 10)],
  ]);
  const note =
    "tokens and sequences: the largest step that was measured; times of larger ones are extrapolated. Without --cost, " +
    "--target sim uses the profile of its --gpu, --model and --tp if there is one, and the roofline otherwise.";
  return `${aligned([head, ...rows], "lllrrrll")}\n\n${colors.dim(wrapped(note, 0))}`;
}
