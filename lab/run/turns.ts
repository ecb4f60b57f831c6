import { WallClock } from "../../engine/clock.ts";

/**
 * Lets other engines run if this one has run for a slice; resolves when it may continue.
 *
 * @param share completed share of its work, 0 to 1
 */
export type Turn = (share: number) => Promise<void>;

/**
 * Least duration of a turn: shorter than the periods in which a machine is fast or slow, and long compared with refilling its
 * CPU caches.
 */
const sliceNs = 1e9;

/**
 * Runs several engines in one process, a second at a time, always the one with the smallest completed share. All of them thus run
 * under the same conditions, although the machine's speed changes over minutes.
 *
 * @throws the first error of an engine; the others are stopped
 */
export async function inTurn<Results extends readonly unknown[]>(
  ...acts: { readonly [I in keyof Results]: (turn: Turn) => Promise<Results[I]> }
): Promise<Results> {
  const wall = new WallClock();
  const waiting = acts.map(() => ({ share: 0, start: () => {} }));
  const present = new Set(waiting);
  let sinceNs = 0;
  let failed = false;
  let failure: unknown;

  const least = () => [...present].reduce((a, b) => (b.share < a.share ? b : a));
  const startNext = () => {
    sinceNs = wall.now();
    if (present.size > 0) least().start();
  };
  const run = async <Result>(act: (turn: Turn) => Promise<Result>, own: (typeof waiting)[number]) => {
    const started = () => new Promise<void>((start) => Object.assign(own, { start }));
    await started();
    try {
      if (failed) throw failure;
      return await act(async (share) => {
        own.share = share;
        if (wall.now() - sinceNs < sliceNs || least() === own) return;
        const resumed = started();
        startNext();
        await resumed;
        if (failed) throw failure;
      });
    } catch (error) {
      if (!failed) failure = error;
      failed = true;
      throw error;
    } finally {
      present.delete(own);
      startNext();
    }
  };
  const all = Promise.allSettled(acts.map((act, i) => run(act, waiting[i])));
  startNext();
  const ended = await all;
  if (failed) throw failure;
  return ended.map((one) => (one as PromiseFulfilledResult<unknown>).value) as unknown as Results;
}
