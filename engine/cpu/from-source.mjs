// Starts the worker in a checkout, where it is TypeScript: a thread does not inherit what the main program reads it with.
import { register } from "tsx/esm/api";

register();
await import("./worker.ts");
