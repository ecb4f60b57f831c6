/** Tokenizing and detokenizing in threads of their own, beside the model's, or in the thread of the server. */
export const workerModes = ["three", "one"] as const;
export type WorkerMode = (typeof workerModes)[number];
