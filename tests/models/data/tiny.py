"""Writes tiny.json: logits of tiny Qwen3 and Llama models whose weights follow from their names.

The numbers are those of a float64 implementation in numpy below, written from the models' published
formulas. Before they are kept they are compared with upstream's mlx_lm in float32: both must agree.

Run once, with `pip install "mlx[cpu]" mlx-lm numpy` (0.32.4, 0.32.2 and 2.4.6 then).
"""

import json
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models import llama, qwen3

mx.set_default_device(mx.cpu)

# Queries are wider than the residual stream, as in Qwen3-0.6B. Every width is a multiple of 64, so
# that quantization in groups of 32 and of 64 is possible.
SIZES = dict(
    hidden_size=64, num_hidden_layers=3, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, vocab_size=128, rms_norm_eps=1e-6,
    max_position_embeddings=64,
)
# With a head of 32 features and this base all three of llama3's ranges of frequencies are there.
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
MODELS = {
    "qwen3 tied": dict(model_type="qwen3", rope_theta=1e6, tie_word_embeddings=True),
    "qwen3": dict(model_type="qwen3", rope_theta=1e6, tie_word_embeddings=False),
    "llama": dict(model_type="llama", rope_theta=1e4, tie_word_embeddings=False),
    "llama3": dict(model_type="llama", rope_theta=5e3, rope_scaling=LLAMA3, tie_word_embeddings=True),
}
PROMPT = [1, 127, 64, 3, 3, 90, 17, 0, 55, 101, 28, 76]
# Positions whose logits are kept: the first one, one in the middle and the last one.
POSITIONS = [0, 5, 11]


def fnv1a(name):
    h = np.uint64(0x811C9DC5)
    for byte in name.encode():
        h = ((h ^ np.uint64(byte)) * np.uint64(0x01000193)) & np.uint64(0xFFFFFFFF)
    return np.uint32(h)


def weight(name, shape):
    """Multiples of 2^-25 in [-0.25, 0.25), exact in float32: the low bits of no hash matter. Norms
    are around 1."""
    h = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(0x9E3779B1) + fnv1a(name)
    for shift, factor in [(16, 0x7FEB352D), (15, 0x846CA68B)]:
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(16)
    x = ((h >> np.uint32(8)).astype(np.int64) - (1 << 23)).astype(np.float64) / (1 << 25)
    return (x + 1.0 if len(shape) == 1 else x).reshape(shape)


def shapes(config):
    c = config
    hidden, ffn, dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    out = {"model.embed_tokens.weight": [c["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = [c["vocab_size"], hidden]
    for i in range(c["num_hidden_layers"]):
        layer = {
            "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [q, hidden], "self_attn.k_proj": [kv, hidden],
            "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, q],
            "mlp.gate_proj": [ffn, hidden], "mlp.up_proj": [ffn, hidden],
            "mlp.down_proj": [hidden, ffn],
        }
        if c["model_type"] == "qwen3":
            layer |= {"self_attn.q_norm": [dim], "self_attn.k_norm": [dim]}
        out |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return out


def frequencies(config):
    """Radians per position of each pair, and what llama3's scaling divided them by."""
    dim = config["head_dim"]
    freqs = config["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    s = config.get("rope_scaling")
    if not s:
        return freqs, np.ones_like(freqs)
    # "The Llama 3 herd of models", and transformers' _compute_llama3_parameters.
    wavelength = 2 * np.pi / freqs
    smooth = (s["original_max_position_embeddings"] / wavelength - s["low_freq_factor"]) / (
        s["high_freq_factor"] - s["low_freq_factor"]
    )
    smooth = np.clip(smooth, 0.0, 1.0)
    scaled = (1 - smooth) * freqs / s["factor"] + smooth * freqs
    assert {0.0, 1.0} < set(smooth), smooth
    return scaled, freqs / scaled


def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def rotate(x, freqs):
    """(heads, tokens, features): the first half of the features pairs with the second."""
    angles = np.arange(x.shape[1])[:, None] * freqs
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def forward(config, w, ids):
    c, eps = config, config["rms_norm_eps"]
    freqs, _ = frequencies(c)
    heads, kv, dim, n = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], len(ids)
    mask = np.where(np.tri(n, dtype=bool), 0.0, -np.inf)
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        part = lambda name: w[f"model.layers.{i}.{name}.weight"]
        split = lambda y, h: y.reshape(n, h, dim).transpose(1, 0, 2)
        y = rms_norm(x, part("input_layernorm"), eps)
        q = split(y @ part("self_attn.q_proj").T, heads)
        k = split(y @ part("self_attn.k_proj").T, kv)
        v = split(y @ part("self_attn.v_proj").T, kv)
        if c["model_type"] == "qwen3":
            q = rms_norm(q, part("self_attn.q_norm"), eps)
            k = rms_norm(k, part("self_attn.k_norm"), eps)
        q, k = rotate(q, freqs), rotate(k, freqs)
        k, v = (np.repeat(a, heads // kv, axis=0) for a in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(dim) + mask
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        x = x + (scores @ v).transpose(1, 0, 2).reshape(n, heads * dim) @ part("self_attn.o_proj").T
        y = rms_norm(x, part("post_attention_layernorm"), eps)
        gate, up = y @ part("mlp.gate_proj").T, y @ part("mlp.up_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ part("mlp.down_proj").T
    x = rms_norm(x, w["model.norm.weight"], eps)
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def upstream(config, w, ids):
    module = {"qwen3": qwen3, "llama": llama}[config["model_type"]]
    model = module.Model(module.ModelArgs.from_dict(config))
    assert {name for name, _ in tree_flatten(model.parameters())} == set(w)
    model.load_weights([(name, mx.array(a.astype(np.float32))) for name, a in w.items()])
    return np.array(model(mx.array([ids]))[0])


def run(name, own):
    config = {**SIZES, **own}
    w = {n: weight(n, shape) for n, shape in shapes(config).items()}
    logits = forward(config, w, PROMPT)
    error = np.abs(logits - upstream(config, w, PROMPT)).max()
    print(f"{name}: logits up to {np.abs(logits).max():.3f}; upstream's differ by {error:.1e}")
    assert error < 1e-4
    rows = [[float(f"{x:.8g}") for x in logits[p]] for p in POSITIONS]
    # What GGUF files of scaled models carry as rope_freqs.weight.
    divisors = [float(f"{x:.9g}") for x in frequencies(config)[1]]
    return dict(config=config, tensors=shapes(config), rope_divisors=divisors, logits=rows)


out = dict(prompt=PROMPT, positions=POSITIONS, models={n: run(n, own) for n, own in MODELS.items()})
path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tiny.json")
path.write_text(json.dumps(out) + "\n")
