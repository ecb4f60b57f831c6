import fc from "fast-check";
import { InputError } from "../../core/errors.ts";
import { ExecutorError } from "../../engine/executor.ts";
import { casesOf } from "./cases.ts";
import type { Checked, FuzzCase, FuzzKind, Trouble } from "./kinds.ts";
import type { FuzzParts } from "./setup.ts";
import { smaller } from "./smaller.ts";

/** The smallest case that was found. */
export interface Finding extends FuzzCase, Trouble {
  readonly kind: FuzzKind;
}

export interface Searched {
  /** Cases that were served, those that were made smaller not counted. */
  cases: number;
  /** Configurations that there are not, as the parts themselves say. */
  refused: number;
  decisions: Record<string, number>;
  finding: Finding | undefined;
}

export interface SearchOptions {
  readonly cases: number;
  readonly seed: number;
  /** Asked before each case: whether to begin no more. */
  readonly stopped?: () => boolean;
  readonly advance?: () => Promise<void>;
}

/** Attempts to make what a case is drawn from smaller, before the case itself is. */
const mostShrinks = 300;

/** Tries cases at random until one shows trouble, which is then made smaller. */
export async function search(kind: FuzzKind, parts: FuzzParts, options: SearchOptions): Promise<Searched> {
  const { cases, seed, stopped = () => false, advance = async () => {} } = options;
  const searched: Searched = { cases: 0, refused: 0, decisions: {}, finding: undefined };
  let shrinks = 0;
  const property = fc.asyncProperty(casesOf[kind.name](parts), async (one) => {
    const { finding } = searched;
    if (stopped() || (finding && ++shrinks > mostShrinks)) return;
    await advance();
    const checked = await tried(kind, one, parts);
    if (finding === undefined) count(searched, checked);
    const trouble = checked?.trouble;
    if (trouble === undefined || (finding && finding.sort !== trouble.sort)) return;
    searched.finding = { ...one, ...trouble, kind };
    throw new Error(trouble.message);
  });
  await fc.check(property, { numRuns: cases, seed });
  if (searched.finding && !stopped()) searched.finding = await reduced(searched.finding, parts, stopped);
  return searched;
}

/** Without all that the trouble does not need. */
async function reduced(finding: Finding, parts: FuzzParts, stopped: () => boolean): Promise<Finding> {
  for (const one of smaller(finding)) {
    if (stopped()) return finding;
    const trouble = (await tried(finding.kind, one, parts))?.trouble;
    if (trouble?.sort === finding.sort) return reduced({ ...finding, ...one, ...trouble }, parts, stopped);
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

/** What a case did, and what is wrong with it; undefined if there is no such configuration. */
export async function tried(kind: FuzzKind, one: FuzzCase, parts: FuzzParts): Promise<Checked | undefined> {
  try {
    return await kind.check(one, parts);
  } catch (error) {
    if (error instanceof InputError) return undefined;
    if (!(error instanceof Error) || error instanceof ExecutorError) throw error;
    const message = `${error.name}: ${error.message}`;
    return { decisions: {}, trouble: { sort: message.replace(/\d+/g, "N"), message } };
  }
}
