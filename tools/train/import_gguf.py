"""Reads a file that export_gguf.py wrote back into a model and its tokenizer.

What quantisation rounded off stays lost; everything else is as it was.
"""

from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from gguf_layout import tensors
from model import Config, Model
from tokens import SPECIAL, build_tokenizer

CONFIG_KEYS = {
    "vocab": "vocab_size",
    "width": "embedding_length",
    "layers": "block_count",
    "ffn": "feed_forward_length",
    "attention_every": "full_attention_interval",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "head_size": "attention.key_length",
    "rotary": "rope.dimension_count",
    "rope_base": "rope.freq_base",
    "gdn_key_heads": "ssm.group_count",
    "gdn_value_heads": "ssm.time_step_rank",
    "gdn_size": "ssm.state_size",
    "conv": "ssm.conv_kernel",
    "eps": "attention.layer_norm_rms_epsilon",
}


def read_model(path: Path, dropout: float) -> Model:
    """The model of sizes and weights as the file says, matrices dequantised to f32."""
    reader = gguf.GGUFReader(path)
    sizes = {field: reader.get_field(f"qwen35.{key}").contents() for field, key in CONFIG_KEYS.items()}
    model = Model(Config(**sizes, dropout=dropout))
    stored = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    with torch.no_grad():
        for name, parameter, form in tensors(model):
            values = torch.from_numpy(np.array(stored.pop(name), np.float32))
            if values.shape != parameter.shape:
                raise SystemExit(f"{path}: {name} is {tuple(values.shape)}, not {tuple(parameter.shape)}")
            parameter.copy_(form.parameter(values))
    if stored:
        raise SystemExit(f"{path}: not a file of export_gguf.py, it also holds {', '.join(stored)}")
    return model


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer with the file's ids; split and special tokens are those of tokens.py."""
    reader = gguf.GGUFReader(path)
    listed = reader.get_field("tokenizer.ggml.tokens").contents()
    merges = [tuple(line.split(" ")) for line in reader.get_field("tokenizer.ggml.merges").contents()]
    if tuple(listed[-len(SPECIAL):]) != SPECIAL:
        raise SystemExit(f"{path}: not a file of export_gguf.py, its last tokens are {listed[-len(SPECIAL):]}")
    return build_tokenizer({token: i for i, token in enumerate(listed[:-len(SPECIAL)])}, merges)
