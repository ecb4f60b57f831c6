/** `busy`: as recorded, but idle time is skipped; `real`: as recorded; `none`: all at once. */
export const paces = ["busy", "real", "none"] as const;
export type Pace = (typeof paces)[number];

/** `trace`: answers as long as recorded; `free`: until the model ends them, or as long as they may be. */
export const outputEnds = ["trace", "free"] as const;
export type OutputEnd = (typeof outputEnds)[number];
