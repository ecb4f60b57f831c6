"""Random checkpoints and their logits, by torch and transformers: the reference of `npm run gpu:check`.

Usage: oracle.py FOLDER

Writes FOLDER/NAME/{config.json, model.safetensors, prompt.json, logits.f32} for Llama (GQA), Qwen3 (QK-norm) and BLOOM (ALiBi).
The weights are rounded to bfloat16; the logits, [prompt, vocabulary] 32-bit floats, are computed from them with 32-bit floats on
the CPU. Exit code 3: torch or transformers is not installed.
"""

import json
import os
import sys

try:
    import torch
    from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
except ImportError as error:
    print(error)
    sys.exit(3)

VOCABULARY = 512
PROMPT = [(37 * i * i + 11 * i + 5) % VOCABULARY for i in range(90)]
TOKENS = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def models():
    rotary = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=8, **TOKENS)
    yield "llama", LlamaForCausalLM(
        LlamaConfig(num_key_value_heads=2, max_position_embeddings=4096, tie_word_embeddings=False, **rotary)
    )
    yield "qwen3", Qwen3ForCausalLM(
        Qwen3Config(num_key_value_heads=4, head_dim=32, max_position_embeddings=4096, tie_word_embeddings=True, **rotary)
    )
    yield "bloom", BloomForCausalLM(BloomConfig(hidden_size=96, n_layer=3, n_head=6, **TOKENS))


def randomize(model):
    """Weights with which attention, norms and biases all change the logits, rounded to bfloat16."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight.shape[-1] ** -0.5)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1)
            else:
                weight.normal_(1, 0.1)
            weight.copy_(weight.to(torch.bfloat16).to(torch.float32))


def main(folder):
    torch.manual_seed(1)
    for name, model in models():
        model = model.to(torch.float32).eval()
        randomize(model)
        path = os.path.join(folder, name)
        model.save_pretrained(path)
        with torch.no_grad():
            logits = model(torch.tensor([PROMPT])).logits[0]
        with open(os.path.join(path, "logits.f32"), "wb") as file:
            file.write(logits.to(torch.float32).contiguous().numpy().astype("<f4").tobytes())
        with open(os.path.join(path, "prompt.json"), "w") as file:
            json.dump(PROMPT, file)
        print(name, tuple(logits.shape), flush=True)


main(sys.argv[1])
