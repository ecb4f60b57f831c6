/*
 * Every trial of a `property` case is checked for all of this: free, cached and held blocks are all blocks; no block or
 * slot belongs to two but for what a shared prefix means; what a hit finds was written for the same tokens; a prefix is
 * no longer than its prompt, and in whole blocks; a request has the blocks that its tokens need; who has ended holds
 * nothing; a block's count is the number of its holders; a reserved block is never handed out.
 *
 * A case says in words or in a formula which of it it means. A sentence is known if it speaks of one of these things, in
 * no word but those that one needs for it.
 */

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/));

/** Words for the subjects of the invariants. */
const topics =
  words(`free freed allocated cached held used leak leaks leaked lost conserved conservation accounted owner
  owners twice two share shared shares sharing disjoint unique distinct duplicate duplicates duplicated double overlap
  overlaps overlapping prefix hit hits ref refs reference references count counts counted reserved released returned slots`);

const others =
  words(`a an the of in on at to by for with from and or as is are be been has have had it its their that this
  these those which who every each all any after before when once while during always still never no not none nor
  without cannot must can may ever only exactly either also again more than one another other both same different
  live active running concurrent simultaneously time times everything nothing end
  block blocks slot id ids list pool size num len number total sum plus equal equals add adds up constant capacity
  state states allocation allocations allocator request requests req reqs sequence sequences cache trie radix tree step
  iteration iterations operation operations invariant holder holders owned own belong belongs handed out given assigned
  use evictable idle private stored negative multiple positive least most exceed exceeds longer length prompt prompts token
  tokens text content contents hold holds contain contains match matches matched matching written asked computed common
  beyond non except zero null first remove removed removing missing gone disappear disappears most`);

/** Whether every trial checks the sentence. */
export function isKnownInvariant(sentence: string): boolean {
  const said = sentence.toLowerCase().match(/[a-z]+/g) ?? [];
  return said.some((word) => topics.has(word)) && said.every((word) => topics.has(word) || others.has(word));
}
