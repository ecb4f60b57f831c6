import { Command, CommanderError } from "commander";
import { InputError } from "../core/errors.ts";
import { ExecutorError, UnavailableError } from "../engine/executor.ts";
import { Interrupted } from "../lab/control.ts";
import { isOutOfMemory } from "../lab/out-of-memory.ts";
import { version } from "../lab/package.ts";
import { setPluginHost } from "../lab/user-plugins/host.ts";
import { userCodeRuns } from "../lab/user-plugins/user-code.ts";
import { outOfMemory } from "./address-space.ts";
import { addCalibrate } from "./calibrate.ts";
import { addCheck } from "./check.ts";
import { addCompare } from "./compare.ts";
import { addCompletion } from "./completion.ts";
import { addConformance } from "./conformance.ts";
import { addCurve } from "./curve.ts";
import { addDashboard } from "./dashboard.ts";
import { addDoctor } from "./doctor.ts";
import { addExperiment } from "./experiment.ts";
import { addFidelity } from "./fidelity.ts";
import { addFuzz } from "./fuzz.ts";
import { addGenerate } from "./generate.ts";
import { addInit } from "./init.ts";
import { refuseRepeated } from "./input/repeated.ts";
import { endSoon, watchSignals } from "./interrupt.ts";
import { complain, exitNow, OutputError, outputError, print, printed } from "./output/print.ts";
import { commandLineHost } from "./plugin-host.ts";
import { addPolicies } from "./policies.ts";
import { addProfiles } from "./profiles.ts";
import { addReplay } from "./replay.ts";
import { addServe } from "./serve.ts";
import { addSize } from "./size.ts";
import { addSweep } from "./sweep.ts";
import { addTrace } from "./trace.ts";
import { addUnsupportedCommands } from "./unsupported.ts";
import { addVerify } from "./verify.ts";
import { addWorker } from "./worker.ts";

/** Exit codes; 0: success. */
const Exit = { noOutput: 1, engineFailed: 1, badInput: 2, bug: 70, interrupted: 130 } as const;

const about = `A laboratory for KV-cache policies of LLM serving: replays request
traces against a prefix cache and reports hits, misses and their reasons.`;

const examples = `
Examples:
  kvlab compare                               policies and sizes in one table
  kvlab replay trace.jsonl.gz --blocks 10000  one configuration, in detail
  kvlab trace stats trace.jsonl.gz            statistics of a trace
  kvlab init policy mine && kvlab replay --eviction ./mine.ts
  kvlab check ./mine.ts                       run all laws against a policy
  kvlab dashboard                             the saved runs, at localhost

kvlab COMMAND --help describes a command. Without TRACE: the built-in example.`;

function program(): Command {
  const kvlab = new Command("kvlab")
    .description(about)
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText("after", examples)
    .configureOutput({ writeOut: print, writeErr: () => {} })
    .exitOverride();
  addReplay(kvlab);
  addCompare(kvlab);
  addCurve(kvlab);
  addSweep(kvlab);
  addSize(kvlab);
  addTrace(kvlab);
  addPolicies(kvlab);
  addProfiles(kvlab);
  addInit(kvlab);
  addCheck(kvlab);
  addConformance(kvlab);
  addExperiment(kvlab);
  addDoctor(kvlab);
  addGenerate(kvlab);
  addServe(kvlab);
  addVerify(kvlab);
  addDashboard(kvlab);
  addCalibrate(kvlab);
  addFidelity(kvlab);
  addFuzz(kvlab);
  addWorker(kvlab);
  addUnsupportedCommands(kvlab);
  refuseRepeated(kvlab);
  addCompletion(kvlab);
  return kvlab;
}

/** In a checkout (`npm run kvlab`) npm changes to the package's folder; relative paths refer to the caller's folder. */
function returnToCaller(): void {
  const { INIT_CWD, npm_lifecycle_event: script, npm_package_name: name } = process.env;
  if (INIT_CWD && name === "kvlab" && (script === "kvlab" || script === "demo")) process.chdir(INIT_CWD);
}

/** Ends when the reader of the output closes it (`| head`); any other output error is reported. */
function endWithReader(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    endSoon(error.code === "EPIPE" ? 0 : complain(outputError(error).message, Exit.noOutput));
  });
  process.stderr.on("error", () => exitNow());
}

function fail(error: unknown, words: readonly string[]): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    if (error.code === "commander.help") return complain(missingCommand(words), Exit.badInput);
    const message = error.message.replace(/^error: /, "");
    const hint = error.code === "commander.unknownCommand" && !message.includes("Did you mean");
    return complain(hint ? `${message}; kvlab --help lists all` : message, Exit.badInput);
  }
  if (error instanceof InputError) return complain(error.message, Exit.badInput);
  if (error instanceof OutputError) return complain(error.message, Exit.noOutput);
  if (error instanceof UnavailableError) return complain(error.message, Exit.badInput);
  if (error instanceof ExecutorError) return complain(error.message, Exit.engineFailed);
  if (error instanceof Interrupted) return complain(error.message, Exit.interrupted);
  if (isOutOfMemory(error)) return complain(outOfMemory(), Exit.badInput);
  const what = error instanceof Error ? error.stack : String(error);
  process.stderr.write(
    `${what}\nkvlab: this is a bug in kvlab, please report it with the command and the lines above\n`,
  );
  return Exit.bug;
}

/** The message for a missing subcommand, or for `help` of an unknown command. */
function missingCommand(words: readonly string[]): string {
  const at = words.indexOf("help");
  if (at < 0) return `missing subcommand of ${words.join(" ")}; kvlab ${words.join(" ")} --help lists them`;
  const before = ["kvlab", ...words.slice(0, at)].join(" ");
  return `there is no command "${[...words.slice(0, at), words[at + 1]].join(" ")}"; ${before} --help lists them`;
}

/** Runs a command. Its exit code is in `process.exitCode`, and undefined after success. */
export async function runCommand(words: readonly string[]): Promise<void> {
  try {
    const kvlab = program();
    if (words.length === 0) kvlab.outputHelp();
    else await kvlab.parseAsync(words, { from: "user" });
  } catch (error) {
    process.exitCode = fail(error, words);
  }
}

/** Runs a command in a process of its own. */
export async function main(words: readonly string[]): Promise<void> {
  setPluginHost(commandLineHost);
  watchSignals();
  endWithReader();
  returnToCaller();
  await runCommand(words);
  if (userCodeRuns()) {
    await printed();
    exitNow();
  }
}
