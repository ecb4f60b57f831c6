import { expect, test } from "vitest";
import { startThread } from "../../../engine/cpu/thread.ts";
import { Remote } from "../../../engine/worker/remote.ts";
import { startPlainThread } from "../../../engine/worker/thread.ts";

/** The URL of a program that runs this code for each message. */
function programOf(code: string): { file: string } {
  const whole = `import { workerData } from "node:worker_threads"; workerData.port.on("message", (message) => { ${code} });`;
  return { file: `data:text/javascript,${encodeURIComponent(whole)}` };
}

const starts = [
  ["a plain thread", startPlainThread],
  ["a thread that flushes denormals", startThread],
] as const;
const deaths = [
  ["throw new Error('lightning');", "lightning"],
  ["process.exit(3);", "it exited with code 3"],
  ["for (const all = []; ; ) all.push({});", "memory"],
] as const;

test.each(starts.flatMap(([name, start]) => deaths.map(([code, cause]) => ({ name, start, code, cause }))))(
  "$name that dies by $code is reported with its cause",
  async ({ start, code, cause }) => {
    const remote = new Remote(start(programOf(code), {}, { maxOldGenerationSizeMb: 16 }));
    await expect(remote.call({ kind: "read", blocks: [0] })).rejects.toThrow(cause);
    await expect(remote.call({ kind: "read", blocks: [0] })).rejects.toThrow("the executor's worker thread died");
    await remote.close();
  },
);

test.each(starts)("%s receives transferred buffers, and its errors reach the client", async (_name, start) => {
  const answer =
    "workerData.port.postMessage(message.kind === 'write' ? { value: message.data } : { error: { name: 'Error', message: 'no' } });";
  const remote = new Remote(start(programOf(answer), {}));
  const keys = new Float32Array([1, 2]);
  const data = [{ keys, values: keys }];
  expect(await remote.call({ kind: "write", blocks: [0], data }, [keys.buffer])).toEqual([
    { keys: new Float32Array([1, 2]), values: new Float32Array([1, 2]) },
  ]);
  expect(keys).toHaveLength(0);
  await expect(remote.call({ kind: "read", blocks: [0] })).rejects.toThrow("the executor failed: no");
  await expect(remote.close()).rejects.toThrow("no");
});
