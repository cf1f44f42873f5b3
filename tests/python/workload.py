"""What the wheel's compiler counts: programs as people run them, on the device that there is.

Run by `cargo xtask python --wheel --profiled`. A decode loop written as mlx-lm writes it, training steps,
and single calls; sizes are small, because what is counted is what the host does.
"""

import functools

import bench
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

WIDTH, HEADS, KEY_HEADS, HEAD, INNER, LAYERS, WORDS = 256, 4, 2, 64, 512, 28, 1024
TOKENS, STEPS, CALLS = 300, 20, 2000


class Cache:
    """Keys and values of the tokens so far, in arrays that have room for more."""

    def __init__(self):
        self.offset, self.keys, self.values = 0, None, None

    def update(self, keys, values):
        start, self.offset = self.offset, self.offset + keys.shape[2]
        if self.keys is None or self.offset > self.keys.shape[2]:
            self.keys, self.values = self.grown(self.keys, keys), self.grown(self.values, values)
        self.keys[..., start : self.offset, :] = keys
        self.values[..., start : self.offset, :] = values
        return self.keys[..., : self.offset, :], self.values[..., : self.offset, :]

    def grown(self, kept, more):
        """What is kept, in an array of its own with room for more."""
        room = mx.zeros((*more.shape[:2], 256, more.shape[3]), more.dtype)
        return room if kept is None else mx.concatenate([kept, room], axis=2)


@functools.partial(mx.compile, shapeless=True)
def swiglu(gate, x):
    return nn.silu(gate) * x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        linear = functools.partial(nn.Linear, bias=False)
        self.q_proj, self.o_proj = linear(WIDTH, HEADS * HEAD), linear(HEADS * HEAD, WIDTH)
        self.k_proj, self.v_proj = linear(WIDTH, KEY_HEADS * HEAD), linear(WIDTH, KEY_HEADS * HEAD)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD), nn.RMSNorm(HEAD)
        self.rope = nn.RoPE(HEAD, base=1e6)

    def __call__(self, x, cache):
        batch, length, _ = x.shape
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        queries = self.q_norm(queries.reshape(batch, length, HEADS, -1)).transpose(0, 2, 1, 3)
        keys = self.k_norm(keys.reshape(batch, length, KEY_HEADS, -1)).transpose(0, 2, 1, 3)
        values = values.reshape(batch, length, KEY_HEADS, -1).transpose(0, 2, 1, 3)
        offset = cache.offset if cache is not None else 0
        queries, keys = self.rope(queries, offset=offset), self.rope(keys, offset=offset)
        if cache is not None:
            keys, values = cache.update(keys, values)
        mask = "causal" if length > 1 else None
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=HEAD**-0.5, mask=mask)
        return self.o_proj(attended.transpose(0, 2, 1, 3).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = functools.partial(nn.Linear, bias=False)
        self.self_attn = Attention()
        self.gate_proj, self.up_proj = linear(WIDTH, INNER), linear(WIDTH, INNER)
        self.down_proj = linear(INNER, WIDTH)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def __call__(self, x, cache):
        x = x + self.self_attn(self.input_layernorm(x), cache)
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(swiglu(self.gate_proj(y), self.up_proj(y)))


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH)
        self.layers = [Block() for _ in range(layers)]

    def __call__(self, tokens, caches=None):
        x = self.embed_tokens(tokens)
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers)):
            x = layer(x, cache)
        return self.embed_tokens.as_linear(self.norm(x))


def generate():
    """Tokens of a quantized model, the next one's graph built while the present one is computed."""
    model = Model(LAYERS)
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    stream = mx.new_stream(mx.default_device())
    caches = [Cache() for _ in range(LAYERS)]

    def step(tokens):
        with mx.stream(stream):
            logits = model(tokens[None], caches)[:, -1, :]
            logprobs = logits - mx.logsumexp(logits, keepdims=True)
            return mx.argmax(logprobs, axis=-1), logprobs

    token, logprobs = step(mx.arange(32))
    mx.async_eval(token, logprobs)
    for _ in range(TOKENS):
        after, logprobs = step(token)
        mx.async_eval(after, logprobs)
        token.item()
        token = after


def train():
    """Steps of a small model, compiled and not."""
    model, optimizer = Model(4), optim.AdamW(1e-4)
    optimizer.init(model.trainable_parameters())
    tokens = mx.random.randint(0, WORDS, (2, 16))
    state = [model.state, optimizer.state]

    def loss(model, tokens):
        return nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")

    def step(tokens):
        value, gradients = nn.value_and_grad(model, loss)(model, tokens)
        optimizer.update(model, gradients)
        return value

    for step in (step, mx.compile(step, inputs=state, outputs=state)):
        for _ in range(STEPS):
            mx.eval(step(tokens), state)


def call():
    """Every call that is timed beside upstream's."""
    names = bench.names()
    for statement in bench.CALLS.values():
        code = compile(statement, "workload", "eval")
        for _ in range(CALLS):
            eval(code, names)


if __name__ == "__main__":
    generate()
    train()
    call()
