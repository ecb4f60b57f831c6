import fc from "fast-check";

/**
 * `npm test` generates the same property-test cases every time. `KVLAB_SEED=random` generates others each time, as does the
 * long form (`KVLAB_LONG=1`); `KVLAB_SEED=N` generates those of seed N.
 */
const wanted = process.env["KVLAB_SEED"] ?? (process.env["KVLAB_LONG"] === "1" ? "random" : "1");
if (wanted !== "random") fc.configureGlobal({ seed: Number(wanted) });
