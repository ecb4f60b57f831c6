// Runs checks against a library built with AddressSanitizer, in a process of its own: `sanitized.ts LIBRARY CHECK…`. An access out
// of bounds ends the process with AddressSanitizer's report.
import { checks } from "./checks.ts";
import { Device } from "./device.ts";

const [library, ...names] = process.argv.slice(2);
const device = new Device(library);
for (const name of names as (keyof typeof checks)[]) {
  const result = checks[name](device) ? "correct" : "wrong";
  process.stdout.write(`${name}: ${result}\n`);
}
