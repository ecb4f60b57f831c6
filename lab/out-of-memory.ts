/** Whether an array could not be allocated, because the machine or the process has not enough memory. */
export const isOutOfMemory = (error: unknown): boolean =>
  error instanceof RangeError && error.message === "Array buffer allocation failed";
