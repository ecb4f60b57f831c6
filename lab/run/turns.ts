import { WallClock } from "../../engine/clock.ts";

/**
 * Lets others run, if this one has run for a while; until it may go on.
 *
 * @param share how much of its work is done, 0 to 1
 */
export type Turn = (share: number) => Promise<void>;

/** Of each turn, at least. Shorter than the phases of a machine, and long beside what it takes to get back into its caches. */
const sliceNs = 1e9;

/**
 * Runs several engines in one process, always the one that is least far with its work, a second at a time: all of them see the
 * machine in the same state, however that changes in minutes.
 *
 * @throws what the first of them throws that fails; the others end in the middle
 */
export async function inTurn<Results extends readonly unknown[]>(
  ...acts: { readonly [I in keyof Results]: (turn: Turn) => Promise<Results[I]> }
): Promise<Results> {
  const wall = new WallClock();
  const waiting = acts.map(() => ({ share: 0, go: () => {} }));
  const present = new Set(waiting);
  let sinceNs = 0;
  let failed = false;
  let failure: unknown;

  const least = () => [...present].reduce((a, b) => (b.share < a.share ? b : a));
  const goOn = () => {
    sinceNs = wall.now();
    if (present.size > 0) least().go();
  };
  const run = async <Result>(act: (turn: Turn) => Promise<Result>, own: (typeof waiting)[number]) => {
    const called = () => new Promise<void>((go) => Object.assign(own, { go }));
    await called();
    try {
      if (failed) throw failure;
      return await act(async (share) => {
        own.share = share;
        if (wall.now() - sinceNs < sliceNs || least() === own) return;
        const back = called();
        goOn();
        await back;
        if (failed) throw failure;
      });
    } catch (error) {
      if (!failed) failure = error;
      failed = true;
      throw error;
    } finally {
      present.delete(own);
      goOn();
    }
  };
  const all = Promise.allSettled(acts.map((act, i) => run(act, waiting[i])));
  goOn();
  const ended = await all;
  if (failed) throw failure;
  return ended.map((one) => (one as PromiseFulfilledResult<unknown>).value) as unknown as Results;
}
