"""Which parameter of the model is which tensor of a `qwen35` GGUF file, and in what form it is stored there.

The model's layout is the file's, so that values are copied; the exceptions are norm gains, stored whole
instead of as offsets from one, and `ssm_a`, stored as -exp(A_log).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from model import GatedAttention, Model


@dataclass(frozen=True)
class Form:
    """How the file stores a parameter: `stored` and `parameter` are inverses of each other."""

    stored: Callable[[Tensor], Tensor]
    parameter: Callable[[Tensor], Tensor]
    is_matrix: bool = False             # may be quantised


MATRIX = Form(lambda p: p, lambda s: s, is_matrix=True)
VECTOR = Form(lambda p: p, lambda s: s)
GAIN = Form(lambda offset: 1 + offset, lambda gain: gain - 1)
DECAY = Form(lambda a_log: -a_log.exp(), lambda a: (-a).log())


def tensors(model: Model) -> Iterator[tuple[str, Tensor, Form]]:
    """(GGUF name, parameter, form) of everything the file holds; the output matrix is the embedding."""
    yield "token_embd.weight", model.embedding.weight, MATRIX
    yield "output_norm.weight", model.norm.offset, GAIN
    for i, block in enumerate(model.blocks):
        mixer = block.mixer
        matrices = {"ffn_gate": block.gate, "ffn_up": block.up, "ffn_down": block.down}
        vectors = {"attn_norm.weight": (block.mixer_norm.offset, GAIN),
                   "post_attention_norm.weight": (block.ffn_norm.offset, GAIN)}
        if isinstance(mixer, GatedAttention):
            matrices |= {"attn_q": mixer.q, "attn_k": mixer.k, "attn_v": mixer.v, "attn_output": mixer.out}
            vectors |= {"attn_q_norm.weight": (mixer.q_norm.offset, GAIN),
                        "attn_k_norm.weight": (mixer.k_norm.offset, GAIN)}
        else:
            matrices |= {"attn_qkv": mixer.qkv, "attn_gate": mixer.gate, "ssm_alpha": mixer.alpha,
                         "ssm_beta": mixer.beta, "ssm_out": mixer.out}
            vectors |= {"ssm_conv1d.weight": (mixer.conv, VECTOR), "ssm_dt.bias": (mixer.dt_bias, VECTOR),
                        "ssm_a": (mixer.A_log, DECAY), "ssm_norm.weight": (mixer.norm, VECTOR)}
        for name, linear in matrices.items():
            yield f"blk.{i}.{name}.weight", linear.weight, MATRIX
        for name, (parameter, form) in vectors.items():
            yield f"blk.{i}.{name}", parameter, form
