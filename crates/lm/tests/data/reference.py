"""Writes reference.json: what upstream's mlx_lm computes for tiny models with made-up weights.

Run once, with `pip install "mlx[cpu]" mlx-lm` (0.32.4 and 0.32.2 then); the numbers are kept as data.
Every weight follows from its place, so that the tests make the same ones: see `unit`.
"""

import json
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models import gpt_oss, llama, qwen2, qwen3, qwen3_moe
from mlx_lm.models.cache import make_prompt_cache

mx.set_default_device(mx.cpu)

SIZES = dict(
    hidden_size=64, num_hidden_layers=2, intermediate_size=96, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=96, rms_norm_eps=1e-6, max_position_embeddings=512,
)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
QWEN3_MOE = dict(
    model_type="qwen3_moe", head_dim=32, rope_theta=1e6, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=32, decoder_sparse_step=1, num_hidden_layers=3,
)
GPT_OSS = dict(
    model_type="gpt_oss", head_dim=32, rope_theta=150000, num_hidden_layers=4, num_local_experts=8,
    num_experts_per_tok=4, sliding_window=16, rms_norm_eps=1e-5,
    rope_scaling=dict(rope_type="yarn", factor=32.0, original_max_position_embeddings=64),
)
AFFINE = {"group_size": 32, "bits": 4, "mode": "affine"}
EIGHT = {"group_size": 64, "bits": 8}
# What mlx_lm makes of a published gpt-oss: experts stay as they are, the rest is affine.
MXFP4 = {
    "group_size": 32, "bits": 4, "mode": "mxfp4", "model.embed_tokens": AFFINE, "lm_head": AFFINE,
    **{f"model.layers.{i}.mlp.router": EIGHT for i in range(4)},
    **{f"model.layers.{i}.self_attn.{p}_proj": AFFINE for i in range(4) for p in "qkvo"},
}
CASES = {
    "qwen3": (qwen3, dict(model_type="qwen3", head_dim=32, rope_theta=1e6, tie_word_embeddings=True), None),
    "qwen3 quantized": (
        qwen3,
        dict(model_type="qwen3", head_dim=32, rope_theta=1e6, tie_word_embeddings=False),
        {"group_size": 32, "bits": 4, "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8}},
    ),
    "llama with llama3 scaling": (
        llama,
        dict(model_type="llama", rope_theta=5e5, rope_scaling=LLAMA3, tie_word_embeddings=False),
        None,
    ),
    "llama with linear scaling": (
        llama,
        dict(
            model_type="llama",
            rope_theta=1e4,
            rope_scaling={"type": "linear", "factor": 4.0},
            tie_word_embeddings=True,
        ),
        None,
    ),
    "qwen3_moe": (
        qwen3_moe,
        dict(QWEN3_MOE, mlp_only_layers=[1], norm_topk_prob=True, tie_word_embeddings=True),
        None,
    ),
    "qwen3_moe quantized": (
        qwen3_moe,
        dict(QWEN3_MOE, mlp_only_layers=[], norm_topk_prob=False, tie_word_embeddings=False),
        {"group_size": 32, "bits": 4, **{f"model.layers.{i}.mlp.gate": EIGHT for i in range(3)}},
    ),
    "gpt_oss": (gpt_oss, GPT_OSS, None),
    "gpt_oss mxfp4": (gpt_oss, GPT_OSS, MXFP4),
    "qwen2": (qwen2, dict(model_type="qwen2", rope_theta=1e6, tie_word_embeddings=True), None),
}


def unit(tensor, count):
    """Numbers in [0, 1) from a hash of (tensor's place in the order of names, element's place)."""
    h = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(tensor * 40503 + 1)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return (h >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)


def weight(tensor, name, shape):
    centered = unit(tensor, int(np.prod(shape))).reshape(shape) - np.float32(0.5)
    if len(shape) >= 2:
        return centered * np.float32(3.0 / np.sqrt(shape[-1]))
    return centered * np.float32(0.5) + np.float32(0.0 if name.endswith("bias") else 1.0)


def quantize(model, block):
    default = {k: block[k] for k in ("group_size", "bits", "mode") if k in block}
    nn.quantize(model, class_predicate=lambda p, m: hasattr(m, "to_quantized") and block.get(p, default))


def run(module, overrides, block):
    config = {**SIZES, **overrides}
    model = module.Model(module.ModelArgs.from_dict(config))
    shapes = {name: list(a.shape) for name, a in tree_flatten(model.parameters())}
    names = sorted(shapes)
    model.load_weights([(n, mx.array(weight(i, n, shapes[n]))) for i, n in enumerate(names)])
    if block:
        quantize(model, block)
        config["quantization"] = block
    prompt = [(7 * i * i + 3 * i + 1) % SIZES["vocab_size"] for i in range(90)]
    cache = make_prompt_cache(model)
    logits = model(mx.array([prompt]), cache=cache)[0, -1]
    first, ids = logits.tolist(), []
    for _ in range(8):
        ids.append(int(mx.argmax(logits)))
        logits = model(mx.array([[ids[-1]]]), cache=cache)[0, -1]
    return dict(
        config=config, tensors=shapes, prompt=prompt, ids=ids,
        first=[round(x, 6) for x in first], last=[round(x, 6) for x in logits.tolist()],
    )


out = {name: run(*case) for name, case in CASES.items()}
with open(sys.argv[1] if len(sys.argv) > 1 else "reference.json", "w") as f:
    json.dump(out, f)
for name, case in out.items():
    top = sorted(case["first"], reverse=True)[:3]
    print(name, case["ids"], top)
