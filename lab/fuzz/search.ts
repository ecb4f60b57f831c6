import fc from "fast-check";
import { InputError } from "../../core/errors.ts";
import { ExecutorError } from "../../engine/executor.ts";
import { casesOf } from "./cases.ts";
import type { Checked, Failure, FuzzCase, FuzzKind } from "./kinds.ts";
import type { FuzzParts } from "./setup.ts";
import { smaller } from "./smaller.ts";

/** A failing case, shrunk. */
export interface Finding extends FuzzCase, Failure {
  readonly kind: FuzzKind;
}

export interface Searched {
  /** Cases that were served, without those of shrinking. */
  cases: number;
  /** Cases whose configuration the plug-ins refuse. */
  refused: number;
  decisions: Record<string, number>;
  finding: Finding | undefined;
}

export interface SearchOptions {
  readonly cases: number;
  readonly seed: number;
  /** Called before each case; true ends the search. */
  readonly stopped?: () => boolean;
  readonly advance?: () => Promise<void>;
}

/** Attempts to shrink the random values of a case, before the case itself is shrunk. */
const mostShrinks = 300;

/** Tries random cases until one fails, and shrinks it. */
export async function search(kind: FuzzKind, parts: FuzzParts, options: SearchOptions): Promise<Searched> {
  const { cases, seed, stopped = () => false, advance = async () => {} } = options;
  const searched: Searched = { cases: 0, refused: 0, decisions: {}, finding: undefined };
  let shrinks = 0;
  const property = fc.asyncProperty(casesOf[kind.name](parts), async (one) => {
    const { finding } = searched;
    if (stopped() || (finding && ++shrinks > mostShrinks)) return;
    await advance();
    const checked = await checkCase(kind, one, parts);
    if (finding === undefined) count(searched, checked);
    const failure = checked?.failure;
    if (failure === undefined || (finding && finding.category !== failure.category)) return;
    searched.finding = { ...one, ...failure, kind };
    throw new Error(failure.message);
  });
  await fc.check(property, { numRuns: cases, seed });
  if (searched.finding && !stopped()) searched.finding = await shrunk(searched.finding, parts, stopped);
  return searched;
}

/** Shrinks the case itself while the failure stays in its category. */
async function shrunk(finding: Finding, parts: FuzzParts, stopped: () => boolean): Promise<Finding> {
  for (const one of smaller(finding)) {
    if (stopped()) return finding;
    const failure = (await checkCase(finding.kind, one, parts))?.failure;
    if (failure?.category === finding.category) return shrunk({ ...finding, ...one, ...failure }, parts, stopped);
  }
  return finding;
}

function count(searched: Searched, checked: Checked | undefined): void {
  searched[checked ? "cases" : "refused"]++;
  addTo(searched.decisions, checked?.decisions ?? {});
}

/** Adds counts by name. */
export function addTo(sum: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, n] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + n;
}

/** The result of a case; undefined if its configuration is not supported. */
export async function checkCase(kind: FuzzKind, one: FuzzCase, parts: FuzzParts): Promise<Checked | undefined> {
  try {
    return await kind.check(one, parts);
  } catch (error) {
    if (error instanceof InputError) return undefined;
    if (!(error instanceof Error) || error instanceof ExecutorError) throw error;
    const message = `${error.name}: ${error.message}`;
    return { decisions: {}, failure: { category: message.replace(/\d+/g, "N"), message } };
  }
}
