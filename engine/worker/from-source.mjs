// Starts a program in a checkout, where it is TypeScript: a thread does not inherit the main program's loader.
import { workerData } from "node:worker_threads";
import { register } from "tsx/esm/api";

register();
await import(workerData.source);
