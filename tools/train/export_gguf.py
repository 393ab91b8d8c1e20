"""Writes a checkpoint as a GGUF file of architecture `qwen35`, tokenizer and chat template included.

    export_gguf.py --run run --out stemma-tiny.gguf [--type q8_0|f32]

With q8_0 the matrices are quantised; norms, convolutions and the decay's parameters stay f32.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
import torch

from gguf_layout import tensors
from model import Config, Model
from tokens import CHAT_TEMPLATE, END_OF_TEXT, PRE_TOKENIZER, SPECIAL, TURN_END

CONTEXT_LENGTH = 4096


def load(run: Path) -> tuple[Model, dict]:
    """The best model of a run folder, in evaluation mode, and what was saved beside its weights."""
    saved = torch.load(run / "best.pt", map_location="cpu", weights_only=True)
    model = Model(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    return model.eval(), saved


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
    for name, parameter, form in tensors(model):
        data = np.ascontiguousarray(form.stored(parameter.detach().float()).numpy())
        if quantised and form.is_matrix:
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
