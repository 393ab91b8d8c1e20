"""The network of `stemma-tiny`: a small hybrid decoder of the GGUF architecture `qwen35`.

Every fourth layer's mixer is full attention, the others are gated delta nets (GDN),
each followed by a SwiGLU feed-forward network.  Shapes in comments use

    B batch, T time, D width, Hk/Hv key/value heads of the GDN, S their head size,
    H/G query/key-value heads of the attention, E its head size, C chunk length, N chunks.

Conventions follow the file format, so that export is a copy and never a permutation: value head `h`
of the GDN reads key head `h % Hk` ("tiled" order), and the attention's query projection interleaves
query and gate head by head.  RMS-norm gains are held as offsets from one, except the GDN's own.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes of the network; the names in comments are the GGUF keys that they become."""

    vocab: int = 4096
    width: int = 256            # embedding_length
    layers: int = 4             # block_count
    ffn: int = 1024             # feed_forward_length
    attention_every: int = 4    # full_attention_interval
    heads: int = 4              # attention.head_count
    kv_heads: int = 2           # attention.head_count_kv
    head_size: int = 64         # attention.key_length, attention.value_length
    rotary: int = 32            # rope.dimension_count
    rope_base: float = 1e6      # rope.freq_base
    gdn_key_heads: int = 2      # ssm.group_count
    gdn_value_heads: int = 4    # ssm.time_step_rank
    gdn_size: int = 64          # ssm.state_size
    conv: int = 4               # ssm.conv_kernel
    eps: float = 1e-6           # attention.layer_norm_rms_epsilon
    dropout: float = 0.1        # training only

    @property
    def key_width(self) -> int:
        return self.gdn_key_heads * self.gdn_size

    @property
    def value_width(self) -> int:
        return self.gdn_value_heads * self.gdn_size

    def is_attention(self, layer: int) -> bool:
        return (layer + 1) % self.attention_every == 0


def gdn_sequential(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """Gated delta rule, one token at a time (Yang et al. 2024, arXiv 2412.06464, equation 10).

    q, k, v are [B, H, T, S], the log-decay g and the write strength beta [B, H, T]; returns [B, H, T, S].
    With the state M [S, S] (key by value):  M = e^g M;  u = beta (v - k M);  M = M + k^T u;  o = q M / sqrt(S).
    """
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    outputs = []
    for t in range(q.shape[2]):
        kt = k[:, :, t, :, None]
        state = state * g[:, :, t, None, None].exp()
        u = beta[:, :, t, None] * (v[:, :, t] - (state * kt).sum(-2))
        state = state + kt * u.unsqueeze(-2)
        outputs.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=2) * q.shape[-1] ** -0.5


@torch.compiler.disable         # unrolled, it would take minutes to compile and run no faster
def scan_chunks(X: Tensor, Y: Tensor, P: Tensor, q_in: Tensor, k_out: Tensor, total: Tensor) -> Tensor:
    """The part of `gdn_chunked` that is sequential; arguments [B, H, N, ...], result [B, H, T, S]."""
    state = X.new_zeros(*X.shape[:2], X.shape[-1], X.shape[-1])
    outputs = []
    for x, y, p, q, k, decay in zip(*(a.unbind(2) for a in (X, Y, P, q_in, k_out, total))):
        u = x - y @ state
        outputs.append(q @ state + p @ u)
        state = decay * state + k @ u
    return torch.cat(outputs, dim=2)


def gdn_chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk: int = 64) -> Tensor:
    """The same recurrence as matrix products over chunks of C tokens; T must be a multiple of C.

    Within a chunk let G be the running sum of g and M the state before it.  The writes U obey
        (I + A) U = beta (V - e^G K M),   A[t,i] = beta[t] e^(G[t]-G[i]) k[t].k[i]  for i < t,
    so one triangular solve per chunk, independent of M, gives U = X - Y M with
    X = (I+A)^-1 (beta V) and Y = (I+A)^-1 (beta e^G K).  Then
        O = e^G Q M + P U,   P[t,i] = e^(G[t]-G[i]) q[t].k[i]  for i <= t,
        M' = e^(G_C) M + (e^(G_C-G) K)^T U.
    """
    B, H, T, S = q.shape
    q, k, v = (x.reshape(B, H, T // chunk, chunk, S) for x in (q * S ** -0.5, k, v))    # [B, H, N, C, S]
    beta = beta.reshape(B, H, T // chunk, chunk, 1)
    G = g.reshape(B, H, T // chunk, chunk).cumsum(-1)

    causal = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    # Masked before exp: above the diagonal the differences are positive and could overflow.
    decay = (G.unsqueeze(-1) - G.unsqueeze(-2)).masked_fill(~causal, -torch.inf).exp()  # [B, H, N, C, C]
    growth = G.exp().unsqueeze(-1)                                                      # [B, H, N, C, 1]
    total = growth[..., -1:, :]                                                         # [B, H, N, 1, 1]

    A = (beta * (k @ k.mT) * decay).tril(-1)
    X, Y = torch.linalg.solve_triangular(
        A, torch.cat((beta * v, beta * growth * k), dim=-1), upper=False, unitriangular=True
    ).split(S, dim=-1)
    P = (q @ k.mT) * decay
    q_in = q * growth
    k_out = (k * decay[..., -1, :, None]).mT

    return scan_chunks(X, Y, P, q_in, k_out, total)


class RMSNorm(nn.Module):
    """x / rms(x) * (1 + offset) over the last axis, in f32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], 1 + self.offset, self.eps)


class GatedDeltaNet(nn.Module):
    """GDN mixer [B, T, D] -> [B, T, D]: projections, short causal convolution, recurrence, gated norm."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        channels = 2 * c.key_width + c.value_width
        self.qkv = nn.Linear(c.width, channels, bias=False)
        self.gate = nn.Linear(c.width, c.value_width, bias=False)
        self.alpha = nn.Linear(c.width, c.gdn_value_heads, bias=False)
        self.beta = nn.Linear(c.width, c.gdn_value_heads, bias=False)
        self.conv = nn.Parameter(torch.empty(channels, c.conv).uniform_(-1, 1) * c.conv ** -0.5)
        # Decay e^(-e^A_log softplus(alpha + dt_bias)): rates U(1, 16), steps log-uniform in 1e-3 .. 1e-1.
        self.A_log = nn.Parameter(torch.empty(c.gdn_value_heads).uniform_(1, 16).log())
        step = torch.empty(c.gdn_value_heads).uniform_(-3, -1).mul(2.302585093).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = nn.Parameter(torch.ones(c.gdn_size))
        self.out = nn.Linear(c.value_width, c.width, bias=False)

    def forward(self, x: Tensor, sequential: bool = False) -> Tensor:
        c = self.c
        B, T, _ = x.shape
        mixed = self.qkv(x).float()                                               # [B, T, channels]
        padded = F.pad(mixed, (0, 0, c.conv - 1, 0))
        mixed = F.silu(sum(padded[:, i:i + T] * self.conv[:, i] for i in range(c.conv)))
        q, k, v = mixed.split((c.key_width, c.key_width, c.value_width), dim=-1)
        q, k, v = (y.reshape(B, T, -1, c.gdn_size).transpose(1, 2) for y in (q, k, v))
        q, k = (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + c.eps) for y in (q, k))
        q, k = (y.repeat(1, c.gdn_value_heads // c.gdn_key_heads, 1, 1) for y in (q, k))   # head h % Hk
        step = F.softplus(self.alpha(x).float() + self.dt_bias)
        g = (-self.A_log.exp() * step).transpose(1, 2)                            # [B, Hv, T]
        beta = self.beta(x).float().sigmoid().transpose(1, 2)

        with torch.autocast(x.device.type, enabled=False):
            rule = gdn_sequential if sequential else gdn_chunked
            o = rule(q, k, v, g, beta)                                            # [B, Hv, T, S]
        o = F.rms_norm(o, (c.gdn_size,), self.norm, c.eps).transpose(1, 2).reshape(B, T, -1)
        return self.out(o * F.silu(self.gate(x).float()))


def rotate(x: Tensor, rotary: int, base: float) -> Tensor:
    """RoPE on the first `rotary` channels of x [B, H, T, E], halves paired (NEOX order).

    Plain text has one position per token, for which the interleaved multi-axis RoPE (IMROPE) is this.
    """
    half = rotary // 2
    rate = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rate     # [T, half]
    a, b, rest = x.split((half, half, x.shape[-1] - rotary), dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), dim=-1)


class GatedAttention(nn.Module):
    """Causal grouped-query attention [B, T, D] -> [B, T, D] with q/k norms and a sigmoid output gate."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.q = nn.Linear(c.width, 2 * c.heads * c.head_size, bias=False)        # per head: query, gate
        self.k = nn.Linear(c.width, c.kv_heads * c.head_size, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_size, bias=False)
        self.q_norm = RMSNorm(c.head_size, c.eps)
        self.k_norm = RMSNorm(c.head_size, c.eps)
        self.out = nn.Linear(c.heads * c.head_size, c.width, bias=False)

    def forward(self, x: Tensor, sequential: bool = False) -> Tensor:
        c = self.c
        B, T, _ = x.shape
        q, gate = self.q(x).view(B, T, c.heads, 2 * c.head_size).chunk(2, dim=-1)
        k, v = (f(x).view(B, T, c.kv_heads, c.head_size).transpose(1, 2) for f in (self.k, self.v))
        q = rotate(self.q_norm(q.transpose(1, 2)), c.rotary, c.rope_base)
        k = rotate(self.k_norm(k), c.rotary, c.rope_base)
        k, v = (y.repeat_interleave(c.heads // c.kv_heads, dim=1) for y in (k, v))
        o = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        o = o.transpose(1, 2).reshape(B, T, -1) * gate.reshape(B, T, -1).sigmoid()
        return self.out(o)


class ChannelDropout(nn.Module):
    """Dropout of whole channels of x [B, T, D], one mask for all of a window's tokens (Gal & Ghahramani 2016).

    It needs B * D random numbers instead of B * T * D, whose making took a tenth of a step on a CPU.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return x
        mask = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.probability
        return x * (mask / (1 - self.probability))


class Block(nn.Module):
    """x += mixer(norm(x));  x += down(silu(gate(h)) * up(h)) with h = norm(x)."""

    def __init__(self, c: Config, layer: int) -> None:
        super().__init__()
        self.mixer_norm = RMSNorm(c.width, c.eps)
        self.mixer = GatedAttention(c) if c.is_attention(layer) else GatedDeltaNet(c)
        self.ffn_norm = RMSNorm(c.width, c.eps)
        self.gate = nn.Linear(c.width, c.ffn, bias=False)
        self.up = nn.Linear(c.width, c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.width, bias=False)
        self.dropout = ChannelDropout(c.dropout)

    def forward(self, x: Tensor, sequential: bool = False) -> Tensor:
        x = x + self.dropout(self.mixer(self.mixer_norm(x), sequential))
        h = self.ffn_norm(x)
        return x + self.dropout(self.down(F.silu(self.gate(h)) * self.up(h)))


class Model(nn.Module):
    """Token ids [B, T] -> logits [B, T, vocab]; the output matrix is the embedding."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(Block(c, i) for i in range(c.layers))
        self.norm = RMSNorm(c.width, c.eps)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for block in self.blocks:                       # every block starts as the identity
            nn.init.zeros_(block.mixer.out.weight)
            nn.init.zeros_(block.down.weight)

    def forward(self, tokens: Tensor, sequential: bool = False) -> Tensor:
        """`sequential` runs the recurrences token by token, for any T (the chunked form needs T % 64 == 0)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, sequential)
        return F.linear(self.norm(x), self.embedding.weight)


def check_chunked() -> float:
    """Largest difference between the two forms of the recurrence in f64, keys strongly correlated."""
    torch.manual_seed(0)
    shape = (2, 3, 256, 32)
    q, k, v = (torch.randn(shape, dtype=torch.float64) for _ in range(3))
    k = F.normalize(k + 3 * k.mean(dim=(2, 3), keepdim=True) + 1, dim=-1)
    q = F.normalize(q, dim=-1)
    g = -torch.rand(shape[:3], dtype=torch.float64) * 0.5
    beta = torch.rand(shape[:3], dtype=torch.float64)
    return (gdn_chunked(q, k, v, g, beta) - gdn_sequential(q, k, v, g, beta)).abs().max().item()


if __name__ == "__main__":
    error = check_chunked()
    print(f"chunked against sequential, f64: {error:.1e}")
    assert error < 1e-10
    print(f"parameters: {sum(p.numel() for p in Model(Config()).parameters()):,}")
