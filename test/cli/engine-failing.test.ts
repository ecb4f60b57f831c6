import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ended, fromBuild, newFolder, start } from "./program.ts";

/** Terminates the executor's worker at its request number `requests`. */
const killing = (requests: number) =>
  `data:text/javascript,${encodeURIComponent(`
  import { MessagePort } from "node:worker_threads";
  const { postMessage } = MessagePort.prototype;
  let starter, n = 0;
  process.on("worker", (worker) => { starter = worker; });
  MessagePort.prototype.postMessage = function (message, ...others) {
    // This request is not sent: terminating a thread in the middle of a step would crash the program.
    if (message?.kind && ++n === ${requests}) return void starter.terminate();
    return postMessage.call(this, message, ...others);
  };`)}`;

test.each(["replay", "compare"])(
  "%s reports in one line that its worker died, and leaves no files",
  async (command) => {
    const folder = newFolder();
    const args = [command, "example", "--limit", "40", "--target", "cpu", "--eviction", "lru", "--out", "run"];
    const program = ["--import", killing(300), ...fromBuild()];
    const child = start(folder, args, { XDG_CACHE_HOME: join(folder, "cache") }, program);
    expect(await ended(child)).toEqual({
      code: 1,
      stdout: "",
      stderr: "kvlab: the executor's worker thread died: it exited with code 1\n",
    });
    expect(readdirSync(folder)).toEqual(["cache"]);
  },
);
