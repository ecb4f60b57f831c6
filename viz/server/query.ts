import type { Request } from "express";
import { z } from "zod";
import { Refusal } from "./refusal.ts";

export const wholeNumber = z
  .string()
  .regex(/^\d{1,16}$/, "expected a whole number")
  .transform(Number);

/** A whole number, or `initial` if there is none. */
export const between = (least: number, most: number, initial: number) =>
  wholeNumber.pipe(z.number().min(least).max(most)).default(initial);

/** The parsed query. @throws Refusal if it is invalid */
export function queryOf<Query>(query: z.ZodType<Query>, request: Request): Query {
  const parsed = query.safeParse(request.query);
  if (parsed.success) return parsed.data;
  const [{ path, message }] = parsed.error.issues;
  throw new Refusal(400, `${path.join(".") || "the query"}: ${message}`);
}
