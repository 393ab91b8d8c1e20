"""Writes a checkpoint as a GGUF file of architecture `qwen35`, tokenizer and chat template included.

    export_gguf.py --run run --out stemma-tiny.gguf [--type q8_0|f32]

The model's layout is already the file's, so that tensors are copied; the exceptions are norm gains,
stored whole instead of as offsets from one, and `ssm_a`, stored as -exp(A_log).  With q8_0 the matrices
are quantised; norms, convolutions and the decay's parameters stay f32.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor

from model import Config, GatedAttention, Model
from tokens import CHAT_TEMPLATE, END_OF_TEXT, PRE_TOKENIZER, SPECIAL, TURN_END

CONTEXT_LENGTH = 4096


def load(run: Path) -> tuple[Model, dict]:
    """The best model of a run folder, in evaluation mode, and what was saved beside its weights."""
    saved = torch.load(run / "best.pt", map_location="cpu", weights_only=True)
    model = Model(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval(), saved


def tensors(model: Model) -> Iterator[tuple[str, Tensor, bool]]:
    """(GGUF name, f32 values, whether it is a matrix that may be quantised)."""
    yield "token_embd.weight", model.embedding.weight, True
    yield "output_norm.weight", 1 + model.norm.offset, False
    for i, block in enumerate(model.blocks):
        mixer = block.mixer
        matrices = {"ffn_gate": block.gate, "ffn_up": block.up, "ffn_down": block.down}
        vectors = {"attn_norm.weight": 1 + block.mixer_norm.offset,
                   "post_attention_norm.weight": 1 + block.ffn_norm.offset}
        if isinstance(mixer, GatedAttention):
            matrices |= {"attn_q": mixer.q, "attn_k": mixer.k, "attn_v": mixer.v, "attn_output": mixer.out}
            vectors |= {"attn_q_norm.weight": 1 + mixer.q_norm.offset,
                        "attn_k_norm.weight": 1 + mixer.k_norm.offset}
        else:
            matrices |= {"attn_qkv": mixer.qkv, "attn_gate": mixer.gate, "ssm_alpha": mixer.alpha,
                         "ssm_beta": mixer.beta, "ssm_out": mixer.out}
            vectors |= {"ssm_conv1d.weight": mixer.conv, "ssm_dt.bias": mixer.dt_bias,
                        "ssm_a": -mixer.A_log.exp(), "ssm_norm.weight": mixer.norm}
        for name, linear in matrices.items():
            yield f"blk.{i}.{name}.weight", linear.weight, True
        for name, values in vectors.items():
            yield f"blk.{i}.{name}", values, False


def rope_sections(rotary: int) -> list[int]:
    """Rotary pairs for the time, height, width and extra axes; text uses one position for all of them."""
    pairs = rotary // 2
    return [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3, 0]


def add_metadata(writer: gguf.GGUFWriter, c: Config, quantised: bool) -> None:
    writer.add_name("Stemma Tiny")
    writer.add_description("A small hybrid language model of public-domain English prose, for tests and demonstration")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if quantised else gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(c.vocab)
    writer.add_block_count(c.layers)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(c.width)
    writer.add_feed_forward_length(c.ffn)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_key_length(c.head_size)
    writer.add_value_length(c.head_size)
    writer.add_layer_norm_rms_eps(c.eps)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_rope_dimension_count(c.rotary)
    writer.add_rope_dimension_sections(rope_sections(c.rotary))
    writer.add_full_attention_interval(c.attention_every)
    writer.add_ssm_conv_kernel(c.conv)
    writer.add_ssm_inner_size(c.value_width)
    writer.add_ssm_state_size(c.gdn_size)
    writer.add_ssm_time_step_rank(c.gdn_value_heads)
    writer.add_ssm_group_count(c.gdn_key_heads)


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict) -> None:
    """Tokens in id order, merges as "left right" lines; `tokenizer` is the content of tokenizer.json."""
    ids = dict(tokenizer["model"]["vocab"]) | {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    listed = sorted(ids, key=ids.__getitem__)
    types = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in listed]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list(listed)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(ids[TURN_END])
    writer.add_pad_token_id(ids[END_OF_TEXT])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="output folder of train.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--type", choices=("q8_0", "f32"), default="q8_0")
    arguments = parser.parse_args()

    model, saved = load(arguments.run)
    quantised = arguments.type == "q8_0"
    writer = gguf.GGUFWriter(arguments.out, "qwen35")
    add_metadata(writer, model.c, quantised)
    add_tokenizer(writer, json.loads((arguments.run / "tokenizer.json").read_text(encoding="utf-8")))
    for name, values, is_matrix in tensors(model):
        data = np.ascontiguousarray(values.detach().float().numpy())
        if quantised and is_matrix:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{arguments.out}: step {saved['step']}, held out {saved['losses']['all']:.3f} nats per token, "
          f"{arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
