/** With thousands separators: 12,031. */
export const grouped = (value: number) => Math.round(value).toLocaleString("en-US");

/** "1 request", "2 requests". */
export const counted = (count: number, noun: string) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
