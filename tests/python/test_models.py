"""Models as they are written in Python: what they compute, and in how many kernels."""

import mlx.core as mx

DECODER = """
    import os

    import mlx.nn as nn

    # Statistics come at the end, where errors do.
    os.dup2(1, 2)


    class Cache:
        def __init__(self):
            self.keys = self.values = None
            self.offset = 0

        def update(self, keys, values):
            if self.keys is None:
                self.keys = mx.zeros((1, 2, 64, 64), keys.dtype)
                self.values = mx.zeros((1, 2, 64, 64), values.dtype)
            before = self.offset
            self.offset += keys.shape[2]
            self.keys[..., before : self.offset, :] = keys
            self.values[..., before : self.offset, :] = values
            return self.keys[..., : self.offset, :], self.values[..., : self.offset, :]


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = [nn.Linear(128, n, bias=False) for n in (256, 128, 128)]
            self.o = nn.Linear(256, 128, bias=False)
            self.norm, self.q_norm, self.k_norm = nn.RMSNorm(128), nn.RMSNorm(64), nn.RMSNorm(64)
            self.rope = nn.RoPE(64, traditional=False, base=1e6)

        def __call__(self, x, cache):
            normal = self.norm(x)
            q = self.q_norm(self.q(normal).reshape(1, 1, 4, -1)).transpose(0, 2, 1, 3)
            k = self.k_norm(self.k(normal).reshape(1, 1, 2, -1)).transpose(0, 2, 1, 3)
            v = self.v(normal).reshape(1, 1, 2, -1).transpose(0, 2, 1, 3)
            q, k = self.rope(q, offset=cache.offset), self.rope(k, offset=cache.offset)
            keys, values = cache.update(k, v)
            y = mx.fast.scaled_dot_product_attention(q, keys, values, scale=64**-0.5)
            return x + self.o(y.transpose(0, 2, 1, 3).reshape(1, 1, -1))


    mx.random.seed(7)
    layer, cache = Layer(), Cache()
    layer.set_dtype(mx.bfloat16)
    mx.eval(layer.parameters())
    x = mx.random.normal((1, 1, 128)).astype(mx.bfloat16)
    with mx.stream(mx.new_thread_local_stream(mx.default_device())):
        for _ in range(4):
            x = layer(x, cache)
            mx.async_eval(x)
        print(mx.abs(x).max().item() > 0, mx.isnan(x).any().item())
"""


def test_a_token_of_a_layer_is_one_attention(device, in_child):
    printed = in_child(DECODER, MLX_VK_STATS="1")
    assert printed.startswith("True False\n")
    if device == mx.gpu:
        assert "4 norm rope cache attention 4:2x64" in printed
