import fc from "fast-check";

/**
 * `npm test` draws the same cases every time, so that it says the same of the same code. `KVLAB_SEED=random` draws others
 * each time, as the long form does, and `KVLAB_SEED=N` those of N.
 */
const wanted = process.env["KVLAB_SEED"] ?? (process.env["KVLAB_LONG"] === "1" ? "random" : "1");
if (wanted !== "random") fc.configureGlobal({ seed: Number(wanted) });
