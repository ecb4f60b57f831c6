import { InputError } from "../core/errors.ts";
import { throwIfInterrupted } from "../lab/control.ts";
import type { PluginHost } from "../lab/user-plugins/host.ts";
import { runningCalls } from "../lab/user-plugins/running-calls.ts";
import { fileOf, isOurs, messageOf } from "../lab/user-plugins/user-code.ts";
import { interruption, releaseSignals, watchingSignals } from "./interrupt.ts";
import { complain, exitNow, keepStdoutClean } from "./output/print.ts";
import { watchPlugins } from "./plugin-watch.ts";

/**
 * Shields the program from plug-in code: its output is redirected to stderr, it cannot end the program, its uncaught
 * errors are reported with the file's name, and a signal ends the program even if the code loops.
 */
export const commandLineHost: PluginHost = { prepare, withoutPluginCode: watchingSignals };

/** @throws Interrupted if a signal arrived before: none is handled while plug-in code runs */
function prepare(): void {
  throwIfInterrupted(interruption);
  releaseSignals();
  keepStdoutClean();
  process.exit = (code) => {
    throw new InputError(`a plug-in must not call process.exit(${code ?? ""})`);
  };
  let isReported = false;
  for (const event of ["uncaughtException", "unhandledRejection"] as const) {
    process.on(event, (error: unknown) => {
      isReported = true;
      if (isOurs(error)) {
        process.stderr.write(`${(error as Error).stack}\nkvlab: this is a bug in kvlab, please report it\n`);
        exitNow(70);
      }
      exitNow(complain(`${fileOf(error)}: threw outside of any call: ${messageOf(error)}`, 2));
    });
  }
  process.on("exit", () => {
    const call = runningCalls.awaited;
    if (call === undefined || isReported) return;
    const { code, method } = call;
    process.exitCode = complain(`${code.file}: ${code.describe(method)} awaits a promise that never settles`, 2);
  });
  // Last, because no message can be written after its handler of `exit`.
  watchPlugins();
}
