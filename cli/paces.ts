/** `busy`: as recorded, but nobody waits for a request to come; `real`: as recorded; `none`: all at once. */
export const paces = ["busy", "real", "none"] as const;
export type Pace = (typeof paces)[number];
