/** With thousands separators: 12,031. */
export const grouped = (value: number) => Math.round(value).toLocaleString("en-US");

/** "1 request", "2 requests". */
export const counted = (count: number, noun: string) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

/** "a", "a or b", "a, b or c". */
export const alternatives = (all: readonly (string | number)[]): string =>
  all.length < 2 ? all.join() : `${all.slice(0, -1).join(", ")} or ${all[all.length - 1]}`;
