import type { Law } from "./law.ts";

// What can be broken while requests overlap. Laws that are checked alone are in files of their own.

export const victimIsEvictable: Law = {
  name: "may-go",
  says: "a victim is an entry that may go: it was added, and not removed since",
};

export const alwaysVictim: Law = {
  name: "always-a-victim",
  says: "there is a victim whenever an entry may go",
};

export const victimIsPure: Law = {
  name: "asking",
  says: "asking for a victim changes nothing",
};

export const callsReturn: Law = {
  name: "returning",
  says: "every call returns, and none throws",
};

export const conservation: Law = {
  name: "conservation",
  says: "free, private and cached blocks are all blocks; no block has two owners",
};

export const ownContent: Law = {
  name: "own-content",
  says: "a request finds the longest prefix that it may use, and reads nothing but its own tokens",
};

export const addRemoveAlternate: Law = {
  name: "told",
  says: "the policy is told of an entry when it may go, and when it may not any longer, by turns",
};

export const noTrace: Law = {
  name: "no-trace",
  says: "an admission that fails leaves no trace, however often it is tried",
};
