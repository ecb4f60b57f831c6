import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { kvlab, newFolder, refusal } from "./program.ts";

const config = {
  model_type: "llama",
  vocab_size: 32_000,
  hidden_size: 4096,
  intermediate_size: 11_008,
  num_hidden_layers: 32,
  num_attention_heads: 32,
};
const requests = [
  { timestamp: 0, input_length: 1000, output_length: 10, hash_ids: [7, 8] },
  { timestamp: 0, input_length: 700, output_length: 10, hash_ids: [7, 9] },
];

/** The input files of the commands below. */
function folderOfInput(): string {
  const folder = newFolder();
  const file = (name: string, content: string) => writeFileSync(join(folder, name), content);
  file("once.jsonl", requests.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const turn = { ...requests[1], session_id: 1, parent: 0, think_ns: -5 };
  file("think.jsonl", `${JSON.stringify({ ...requests[0], session_id: 1 })}\n${JSON.stringify(turn)}\n`);
  file("unknown.json", JSON.stringify({ ...config, frobnicate: 1 }));
  file("missing.json", JSON.stringify({ ...config, hidden_size: undefined }));
  file("half.json", "{");
  execFileSync("mkfifo", [join(folder, "pipe")]);
  symlinkSync("once.jsonl", join(folder, "link"));
  mkdirSync(join(folder, "folder"));
  return folder;
}

describe("invalid options of a simulation are refused in one line, and no file is written", () => {
  const cases: [args: string, message: string | RegExp][] = [
    // A model and its hardware.
    [
      "--model llama-3.1-405b --gpu rtx-4090",
      /^llama-3\.1-405b does not fit: its weights are 756\.0 GiB per device; with activations and runtime they exceed 0\.9 of the 24\.0 GiB of rtx-4090 by 738\.3 GiB; --tp 64 is enough$/,
    ],
    ["--model llama-3.1-70b", /; --tp 2 is enough$/],
    ["--model llama-3.1-8", 'no model "llama-3.1-8": did you mean "llama-3.1-8b"?'],
    ["--gpu h20", 'no GPU "h20": did you mean "h200"?'],
    ["--gpu none-such", /^no GPU "none-such": expected one of a100-40gb, /],
    [
      "--tp 7",
      /^--tp is 7, which does not divide the heads of llama-3\.1-8b \(32 heads, 8 KV heads\); expected 1, 2, 4/,
    ],
    ["--gpu h100,h200", '--gpu is "h100,h200", expected one name'],
    [
      "--tp 1,2",
      '--tp is "1,2", expected one number; kvlab size and a vary of kvlab sweep (tp: [1, 2, 4]) compare several',
    ],
    ["--tp 0", '--tp is "0", expected a whole number from 1 to 1024'],
    ["--ep", "--ep: llama-3.1-8b has no experts"],
    ["--model qwen3-30b-a3b --ep", "--ep has no effect on one GPU; give --tp or --dp"],
    ["--model mixtral-8x7b --dp 16 --ep", "--ep: 16 GPUs are more than the 8 experts of mixtral-8x7b"],
    ["--dp 2 --replicas 2", /^--dp excludes --replicas, --prefill-replicas and --decode-replicas/],
    ["--model qwen3-30b-a3b --expert-exchange all-to-all", /^--expert-exchange needs a model with experts and --dp/],
    ["--dp 2 --expert-exchange ring", '--expert-exchange is "ring", expected gather or all-to-all'],
    ["--pp 33", "--pp is 33, more than the 32 layers of llama-3.1-8b"],
    ["--model qwen3-30b-a3b --pp 2 --dp 2", /^--pp and --dp exclude each other for a model with experts/],
    ["--pp 2 --prefill-replicas 1 --decode-replicas 1", "--pp and --prefill-replicas exclude each other"],
    [
      "--pp 2 --preset sglang",
      "--pp is 2: scheduler lpm plans one batch at a time; those with several in flight are those of vLLM v1",
    ],
    ["--kv-dtype fp4", /^no type "fp4" for keys and values: expected auto/],
    ["--gpu-memory 1.5", "--gpu-memory is 1.5, expected a share above 0, up to 1"],
    ["--capacity 1KiB", "1024 bytes are less than the 2097152 bytes of one block of 16 tokens"],
    ["--capacity 1GiB --blocks 10", /^--blocks and --capacity exclude each other/],
    ["--capacity 16", '--capacity is "16", expected a size such as 16GiB or 500MB'],
    ["--swap-space -1GiB", /^--swap-space is "-1GiB", expected a size/],
    // A model's config.json.
    ["--model none.json", "none.json: no such file"],
    ["--model half.json", /^half\.json: is not JSON/],
    ["--model missing.json", "missing.json: hidden_size is missing, expected a whole number from 1"],
    ["--model unknown.json", /^unknown\.json: unknown field "frobnicate" of a llama model/],
    // Names.
    ["--replicas 2 --router prefix-afinity", 'unknown router "prefix-afinity": did you mean "prefix-affinity"?'],
    ["--scheduler fcfs-chunkd", 'unknown scheduler "fcfs-chunkd": did you mean "fcfs-chunked"?'],
    [
      "--scheduler-option max-num-seq=4",
      'scheduler fcfs-chunked has no option "max-num-seq": did you mean "max-num-seqs"?',
    ],
    ["--replicas 2 --router-option x=1", 'router round-robin has no option "x": it has none'],
    ["--efficiency memry=0.5", '--efficiency has no factor "memry": did you mean "memory"?'],
    ["--efficiency memory=1.5", "--efficiency memory is 1.5, expected a share above 0, up to 1"],
    ["--efficiency memory=fast", '--efficiency memory is "fast", expected a number'],
    ["--efficiency memory", '--efficiency is "memory", expected NAME=NUMBER'],
    // Combinations of options.
    ["--router random", "--router random has no effect with one replica; give --replicas"],
    ["--router-option x=1", "--router-option has no effect with one replica; give --replicas"],
    ["--rate 2 --speed 2", "--rate and --speed exclude each other: both set the arrival rate"],
    ["--cost once.jsonl --efficiency memory=1", /^--cost and --efficiency exclude each other/],
    ["--timeline t.json --repeat 2", /^--timeline and --repeat exclude each other/],
    ["--target cache --gpu h200", "--gpu needs --target sim: target cache has no clock"],
    ["--target cache --slo ttft=1s", "--slo needs --target sim: target cache has no clock"],
    ["--target cache --timeline t.json", "--timeline needs --target sim: target cache has no clock"],
    ["--target cache --tp 2", "--tp needs --target sim or --capacity"],
    ["--target cache --capacity 1GiB", "--capacity needs --model, which determines the bytes of a token"],
    ["--target cache --network client=1ms", "--network needs --target sim: target cache has no clock"],
    ["--target cpu --network client=1ms", "--network needs --target sim"],
    // Separate replicas for prefill and decode.
    ["--prefill-replicas 2", "--prefill-replicas needs --decode-replicas"],
    ["--kv-link 1GB/s", "--kv-link needs --prefill-replicas and --decode-replicas"],
    [
      "--prefill-replicas 1 --decode-replicas 1 --replicas 2",
      "--replicas and --prefill-replicas exclude each other: every replica is of one pool",
    ],
    [
      "--prefill-replicas 2 --decode-replicas 1 --decode-router random",
      "--decode-router random has no effect with one decode replica",
    ],
    [
      "--prefill-replicas 1 --decode-replicas 1 --router random",
      "--router random has no effect with one prefill replica",
    ],
    [
      "--prefill-replicas 1 --decode-replicas 1 --kv-link fast",
      '--kv-link is "fast", expected a bandwidth and a latency, such as 50GB/s,10us',
    ],
    ["--target cpu --prefill-replicas 1", "--prefill-replicas needs --target sim"],
    [
      "--prefill-replicas 1 --decode-replicas 1 --dp 2",
      "--dp excludes --replicas, --prefill-replicas and --decode-replicas: one server is simulated",
    ],
    // Speculative decoding.
    [
      "--model qwen3-30b-a3b --dp 2 --speculate tokens=4,acceptance=1",
      "--speculate and --dp exclude each other for a model with experts, whose replicas step together",
    ],
    ["--speculate 4", /^--speculate has "4", expected tokens=N, acceptance=SHARE and draft=SHARE or a model$/],
    ["--speculate tokens=4", /^--speculate has no acceptance, expected one/],
    ["--speculate tokens=0,acceptance=1", '--speculate tokens is "0", expected a whole number from 1 to 64'],
    ["--speculate tokens=4,acceptance=2", "--speculate acceptance is 2, expected a share from 0 to 1"],
    ["--speculate tokens=4,acceptance=1,draft=-1", "--speculate draft is -1, expected a share from 0, or a model"],
    ["--speculate tokens=4,acceptance=1,draft=llama-8", /^no model "llama-8"/],
    ["--target cpu --speculate tokens=4,acceptance=1", "--speculate needs --target sim"],
    // Networks.
    ["--network 2ms", '--network has "2ms", expected client or router with a time, such as client=2ms'],
    ["--network client=2", '--network has "client=2", expected client or router with a time, such as client=2ms'],
    ["--network client=1ms,client=2ms", "--network has client twice"],
    // Numbers.
    ["--replicas 5000", '--replicas is "5000", expected a whole number from 1 to 4096'],
    ["--rate 0", "--rate is 0, expected a number above 0"],
    ["--rate -3", "--rate is -3, expected a number above 0"],
    ["--speed 0", "--speed is 0, expected a number above 0"],
    ["--rate 1e308", "--rate is 1e+308, which is too fast"],
    ["--rate 1e999", '--rate is "1e999", expected a number'],
    ["--rate 1e-7", /^--rate is 1e-7, which is so slow that the trace would last longer than 104 days/],
    ["--slo ttft=0ms", "--slo has ttft=0ms, expected more than 0"],
    ["--slo ttft=-5ms", /^--slo has "ttft=-5ms", expected ttft, tpot or e2e with a time/],
    ["--slo ttf=5ms", /^--slo has "ttf=5ms", expected ttft, tpot or e2e with a time/],
    ["--slo ttft=5ms,ttft=6ms", "--slo has ttft twice"],
    [
      "--slo ttft=5ms:p0",
      '--slo has "ttft=5ms:p0", expected a percentile above p0, up to p100, such as ttft=500ms:p99',
    ],
    ["--slo ttft=5ms:p101", /^--slo has "ttft=5ms:p101", expected a percentile/],
    ["--slo ttft=5ms:99", /^--slo has "ttft=5ms:99", expected a percentile/],
    ["--slo ttft=5ms:p9:p9", /^--slo has "ttft=5ms:p9:p9", expected ttft, tpot or e2e with a time/],
    // Traces.
    ["once.jsonl --rate 5", "--rate needs arrival times that differ; all requests of this trace arrive at once"],
    ["once.jsonl --concurrency 0", /^--concurrency is "0", expected a whole number from 1 to 1000000$/],
    [
      "once.jsonl --concurrency 4 --rate 2",
      /^--concurrency and --rate exclude each other: both set when requests arrive$/,
    ],
    ["once.jsonl --loop closed", /^--loop closed needs sessions of several turns, which this trace does not have$/],
    ["think.jsonl --loop closed", /^think\.jsonl:2: think_ns is -5, expected an integer of nanoseconds, 0 or more$/],
    // Outputs.
    ["--timeline folder", "folder: is not a regular file, so it is not replaced"],
    ["--timeline pipe", "pipe: is not a regular file, so it is not replaced"],
    ["--timeline none/t.json", "none/t.json: cannot be written (ENOENT)"],
    ["--timeline link once.jsonl", "link: is read by this run, so it is not replaced"],
    ["--timeline unknown.json --model unknown.json", "unknown.json: is read by this run, so it is not replaced"],
    ["--replicas 2 --operations once.jsonl", "--operations needs a single replica, because operations do not name one"],
    ["--timeline t.json --model none", /^no model "none"/],
    ["--cost folder", /^folder\/steps\.parquet: no such file$/],
  ];
  const folder = folderOfInput();
  // Sequential, because each test checks that the folder is unchanged.
  test.each(cases)("kvlab replay --target sim %s", async (args, message) => {
    const target = args.includes("--target") ? [] : ["--target", "sim"];
    const found = await refusal(folder, ["replay", ...target, "--limit", "50", ...args.split(" ")]);
    if (typeof message === "string") expect(found).toBe(message);
    else expect(found).toMatch(message);
  });

  test.each([
    ["--router random", "--router has no effect with one replica; give --replicas"],
    ["--rate 5,0", "--rate is 0, expected a number above 0"],
    ["--replicas 1,1", '--replicas has "1" twice'],
    ["--gpu h100,h200", '--gpu is "h100,h200", expected one name'],
    ["--target cache --model llama-3.1-8b --capacity 1GiB", "--capacity needs --target sim"],
    ["--target cache --scheduler-option max-num-seqs=1", "--scheduler-option needs --target sim"],
    ["--target cache --first-difference --gpu h200", /^--gpu needs --target sim/],
    ["--target cache --blocks unlimited", /^--blocks contains unlimited, which compare always shows/],
    ["--blocks 10 --capacity 1GiB", /^--blocks and --capacity exclude each other/],
    ["--first-difference", "--first-difference needs --target cache"],
    ["--metric block", /^--metric needs --target cache/],
    ["--scheduler fcfs,fcfz", 'unknown scheduler "fcfz": did you mean "fcfs"?'],
  ])("kvlab compare --target sim %s", async (args, message) => {
    const target = args.includes("--target") ? [] : ["--target", "sim"];
    const found = await refusal(folder, ["compare", ...target, "--limit", "50", ...args.split(" ")]);
    if (typeof message === "string") expect(found).toBe(message);
    else expect(found).toMatch(message);
  });
});

test("an SLO that no request can meet is valid, and so is a swap space of 0", async () => {
  const args = "replay --target sim --limit 50 --no-save --slo ttft=1ms --swap-space 0".split(" ");
  const { code, stdout } = await kvlab(newFolder(), args);
  expect(code).toBe(0);
  expect(stdout).toContain("SLO TTFT ≤ 1.00 ms: met by 0.0 % of requests; goodput 0 requests/s");
});
