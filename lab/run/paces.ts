/** `busy`: arrivals as recorded, with idle time skipped; `real`: as recorded; `none`: all at once. */
export const paces = ["busy", "real", "none"] as const;
export type Pace = (typeof paces)[number];

/** `trace`: outputs as long as recorded; `free`: until an end token of the model, or up to `maxOutputTokens`. */
export const outputLengths = ["trace", "free"] as const;
export type OutputLengths = (typeof outputLengths)[number];
