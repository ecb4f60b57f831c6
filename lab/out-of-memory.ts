/**
 * Whether an array or a map could not be allocated, because the machine or the process has not enough memory, or because it would
 * have more elements than JavaScript allows.
 */
export const isOutOfMemory = (error: unknown): boolean =>
  error instanceof RangeError &&
  /^(Array buffer allocation failed|Invalid typed array length: \d{9,}|(Map|Set) maximum size exceeded)$/.test(
    error.message,
  );

/** The options that reduce the memory of a run. */
export const memoryOptions = "--limit N reads fewer requests, --blocks N bounds the cache";
