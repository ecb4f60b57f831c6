/** A trace that its authors publish. */
export interface PublicTrace {
  readonly name: string;
  /** One line that describes the trace. */
  readonly about: string;
  readonly url: string;
  /** Name of the file that it is saved as. */
  readonly file: string;
  /** The format that kvlab reads it in; absent for an archive. */
  readonly format?: string;
  readonly bytes?: number;
  /** SHA-256 of the file; absent where it is not known. */
  readonly sha256?: string;
  readonly licence: string;
  /** The publication to cite, or the project. */
  readonly cite: string;
}

/** The raw file of a repository at a commit. */
const raw = (repository: string, commit: string, path: string) =>
  `https://raw.githubusercontent.com/${repository}/${commit}/${path}`;

const mooncake = (path: string) => ({
  url: raw("kvcache-ai/Mooncake", "3b5a594133958449a1feaf1c9e0fc1b553e34a28", `FAST25-release/traces/${path}`),
  format: "mooncake",
  licence: "Apache-2.0",
  cite: "Qin et al., Mooncake: Trading More Storage for Less Computation, FAST 2025",
});

const azure2023 = (path: string) => ({
  url: raw("Azure/AzurePublicDataset", "b469a113cedca53ddc3bdea71a143dc4b7d8700c", `data/${path}`),
  format: "azure",
  licence: "CC-BY-4.0",
  cite: "Patel et al., Splitwise: Efficient Generative LLM Inference Using Phase Splitting, ISCA 2024",
});

const azure2024 = (path: string) => ({
  url: `https://azurepublicdatasettraces.blob.core.windows.net/azurellminfererencetrace/${path}`,
  format: "azure",
  licence: "CC-BY-4.0",
  cite: "Stojkovic et al., DynamoLLM: Designing LLM Inference Clusters for Performance and Energy Efficiency, 2024",
});

const burstgpt = (path: string) => ({
  url: `https://github.com/HPMLL/BurstGPT/releases/download/v1.2/${path}`,
  format: "burstgpt",
  licence: "CC-BY-4.0",
  cite: "Wang et al., BurstGPT: A Real-World Workload Dataset to Optimize LLM Serving Systems, KDD 2025",
});

const qwenBailian = (path: string) => ({
  url: raw("alibaba-edu/qwen-bailian-usagetraces-anon", "HEAD", path),
  format: "qwen-bailian",
  licence: "Apache-2.0",
  cite: "Wang et al., KVCache Cache in the Wild, USENIX ATC 2025",
});

const llmServingSim = (path: string) => ({
  url: raw("casys-kaist/LLMServingSim", "5daddb21a545658d5150b535712d0494584b5278", `workloads/${path}`),
  format: "token-ids",
  licence: "MIT",
  cite: "LLMServingSim, github.com/casys-kaist/LLMServingSim",
});

const aibrix = (path: string) => ({
  url: raw(
    "vllm-project/aibrix",
    "e3e10f9e4aebe9aac5e7d992fb87d2648e01628b",
    `benchmarks/scenarios/autoscaling/workload/${path}`,
  ),
  format: "aibrix",
  licence: "Apache-2.0",
  cite: "AIBrix, github.com/vllm-project/aibrix",
});

const agent = (path: string) => ({
  url: raw("LMCache/lmcache-agent-trace", "16a14adaad43e1a7213f17277726e0abb66ece11", path),
  format: "agents",
  licence: "Apache-2.0",
  cite: "LMCache agent traces, github.com/LMCache/lmcache-agent-trace",
});

type Entry = Omit<PublicTrace, "name" | "file"> & { readonly file?: string };

const entries: Readonly<Record<string, Entry>> = {
  "mooncake-conversation": {
    ...mooncake("conversation_trace.jsonl"),
    about: "an hour of a chat service: 12,031 requests with content ids",
    bytes: 3_029_533,
    sha256: "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
  },
  "mooncake-toolagent": {
    ...mooncake("toolagent_trace.jsonl"),
    about: "an hour of tool calls and agents, with content ids",
  },
  "mooncake-synthetic": {
    ...mooncake("synthetic_trace.jsonl"),
    about: "requests composed from public data sets, with content ids",
    bytes: 1_136_313,
    sha256: "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
  },
  "qwen-bailian-a": {
    ...qwenBailian("qwen_traceA_blksz_16.jsonl"),
    about: "two hours of a consumer service, with sessions and content ids of 16 tokens",
  },
  "qwen-bailian-b": {
    ...qwenBailian("qwen_traceB_blksz_16.jsonl"),
    about: "two hours of API calls of businesses, with content ids of 16 tokens",
  },
  "qwen-bailian-coder": {
    ...qwenBailian("qwen_coder_blksz_16.jsonl"),
    about: "a coding model, with content ids of 16 tokens",
  },
  "qwen-bailian-thinking": {
    ...qwenBailian("qwen_thinking_blksz_16.jsonl"),
    about: "a reasoning model, with content ids of 16 tokens",
  },
  "azure-2023-conversation": {
    ...azure2023("AzureLLMInferenceTrace_conv.csv"),
    about: "an hour of chat: 19,366 arrivals with lengths",
    bytes: 719_188,
    sha256: "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
  },
  "azure-2023-code": {
    ...azure2023("AzureLLMInferenceTrace_code.csv"),
    about: "an hour of code completion: arrivals with lengths",
    bytes: 320_117,
    sha256: "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
  },
  "azure-2024-conversation": {
    ...azure2024("AzureLLMInferenceTrace_conv_1week.csv"),
    about: "a week of chat: arrivals with lengths",
  },
  "azure-2024-code": {
    ...azure2024("AzureLLMInferenceTrace_code_1week.csv"),
    about: "a week of code completion: arrivals with lengths",
  },
  "burstgpt-1": { ...burstgpt("BurstGPT_1.csv"), about: "two months of ChatGPT and GPT-4: arrivals with lengths" },
  "burstgpt-2": { ...burstgpt("BurstGPT_2.csv"), about: "two more months: arrivals with lengths" },
  "burstgpt-3": { ...burstgpt("BurstGPT_3.csv"), about: "110 more days: arrivals with lengths" },
  "llmservingsim-llama": {
    ...llmServingSim("sharegpt-llama-3.1-8b-300-sps10.jsonl"),
    about: "300 ShareGPT requests with the token ids of Llama 3.1",
    bytes: 2_574_379,
    sha256: "05e48b32da530d4a3dd77f3d47c6fe694ac8308d611aa088e38bb10fba2b3b3a",
  },
  "llmservingsim-qwen": {
    ...llmServingSim("sharegpt-qwen3-32b-300-sps10.jsonl"),
    about: "300 ShareGPT requests with the token ids of Qwen 3",
    bytes: 2_566_919,
    sha256: "4af54eb2f7ac12b0856a1668e367fc8a330acd37c4f6c3e336ae02229e21a8bb",
  },
  sharegpt: {
    url: "https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json",
    about: "conversations with ChatGPT as text, without times",
    format: "sharegpt",
    licence: "not stated",
    cite: "huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered",
  },
  "aibrix-5s": {
    ...aibrix("5s.jsonl"),
    about: "a burst of prompts as text",
    file: "aibrix-5s.jsonl",
    bytes: 741_466,
    sha256: "9c2af6813a35377e335b3715b5cc44dfd9773a261ec8d27d695ea8baac9c5098",
  },
  "aibrix-8min": {
    ...aibrix("8min_up_and_down.jsonl"),
    about: "eight minutes of rising and falling load, prompts as text",
    file: "aibrix-8min.jsonl",
    bytes: 2_958_588,
    sha256: "24262c28409039c702bd8b9dddfb96672b1569acb71957fe98328b7cbc6b2491",
  },
  "agent-miniswe": {
    ...agent("miniswe/063925220f0d2954505eb37612b11ab3.jsonl"),
    about: "a session of mini-SWE-agent as text",
    file: "agent-miniswe.jsonl",
    bytes: 561_614,
    sha256: "58a48008ded2d551f55ed9414351c9191ba9ff84b16f65718c07edfeefd10fae",
  },
  "agent-magagent": {
    ...agent("magagent/1aa87db6c3e23580155e9025b327e7be.openai_chat.jsonl"),
    about: "a session of a multi-agent system as text",
    file: "agent-magagent.jsonl",
    bytes: 255_425,
    sha256: "3ce33f22a5069ec0812e4fa1c27d78bd202e01340e16476c5f7c78f1c7a405b5",
  },
  "kv-cache-tester": {
    url: "https://codeload.github.com/callanjfox/kv-cache-tester/tar.gz/94f6046dfd9c0c8bc0cdb24a5aa6579bac8669bf",
    about: "an archive (tar.gz) with 739 sessions of coding agents in its folder traces",
    file: "kv-cache-tester.tar.gz",
    licence: "Apache-2.0",
    cite: "WEKA, github.com/callanjfox/kv-cache-tester",
  },
};

/** The traces that `kvlab trace fetch` knows by name. */
export const publicTraces: readonly PublicTrace[] = Object.entries(entries).map(([name, entry]) => ({
  file: entry.url.slice(entry.url.lastIndexOf("/") + 1),
  ...entry,
  name,
}));
