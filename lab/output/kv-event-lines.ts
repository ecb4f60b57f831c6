import { closeSync, openSync, writeFileSync } from "node:fs";
import { EventLog } from "../../core/log/event-log.ts";
import { KvEventReader } from "../../core/log/kv-events.ts";
import { yieldToEvents } from "../control.ts";
import type { LogStore } from "./log-store.ts";
import type { TableFile } from "./parquet.ts";

/** A line for each KV event in order, one replica after the other. */
export async function writeKvEvents({ path, signal }: TableFile, logs: readonly LogStore[]): Promise<void> {
  const file = openSync(path, "w");
  try {
    for (const [replica, stored] of logs.entries()) {
      const log = new EventLog();
      const reader = new KvEventReader(log);
      const write = (keepsLast: boolean) => {
        const events = reader.take(keepsLast).map((event) => (logs.length === 1 ? event : { replica, ...event }));
        writeFileSync(file, events.map((event) => `${JSON.stringify(event)}\n`).join(""));
      };
      for (const { kind, timeNs, request, block, key, value } of stored.pieces()) {
        log.keepLast(0);
        for (let i = 0; i < kind.length; i++) log.add(kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
        write(true);
        await yieldToEvents(signal);
      }
      write(false);
    }
  } finally {
    closeSync(file);
  }
}
