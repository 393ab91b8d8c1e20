"""Prints text from a run's checkpoint, as plain continuation or as the answer to a chat message.

    sample.py --run run [--chat] [--tokens N] [--temperature T] [--top-p P] "PROMPT"
"""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from export_gguf import load
from model import Model
from tokens import END_OF_TEXT, TURN_END, TURN_START, render


def pick(logits: torch.Tensor, temperature: float, top_p: float) -> int:
    """An id drawn from the smallest set of likeliest tokens whose probabilities sum to `top_p`; 0 K is greedy."""
    if temperature == 0:
        return int(logits.argmax())
    probabilities, ids = (logits / temperature).softmax(-1).sort(descending=True)
    probabilities[probabilities.cumsum(-1) - probabilities > top_p] = 0
    return int(ids[torch.multinomial(probabilities, 1)])


@torch.no_grad()
def generate(model: Model, ids: list[int], count: int, stop: set[int], temperature: float, top_p: float) -> list[int]:
    """Up to `count` new ids; the whole text is run again for each, which is quick enough at this size."""
    start = len(ids)
    while len(ids) < start + count:
        padded = torch.tensor([ids + [0] * (-len(ids) % 64)])       # causal: padding after the end changes nothing
        chosen = pick(model(padded)[0, len(ids) - 1], temperature, top_p)
        if chosen in stop:
            break
        ids = [*ids, chosen]
    return ids[start:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt")
    parser.add_argument("--run", type=Path, required=True, help="output folder of train.py")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    model, _ = load(arguments.run)
    tokenizer = Tokenizer.from_file(str(arguments.run / "tokenizer.json"))
    prompt = arguments.prompt
    if arguments.chat:
        prompt = render([("user", prompt)]) + f"{TURN_START}assistant\n"
    ids = tokenizer.encode(prompt).ids
    stop = {tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(TURN_END)}
    new = generate(model, ids, arguments.tokens, stop, arguments.temperature, arguments.top_p)
    print(tokenizer.decode(new if arguments.chat else ids + new))


if __name__ == "__main__":
    main()
