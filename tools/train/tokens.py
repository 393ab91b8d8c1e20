"""Tokenizer, chat form of the text, and the endless stream of training windows."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT, TURN_START, TURN_END = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

# The split that readers of GGUF apply for `tokenizer.ggml.pre` = `qwen35`.
PRE_TOKENIZER = "qwen35"
SPLIT = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

HEADING = re.compile(r".*, Chapter \d+")
CHAT_SHARE = 0.15
SYSTEM_SHARE = 0.3
SYSTEM_MESSAGES = ("You are a helpful assistant.", "You are a storyteller.", "Answer in plain English.")
CONTINUE_REQUESTS = ("{}", "Continue: {}", "Go on: {}", "Please continue this text: {}", "What comes next? {}")
TOPIC_REQUESTS = ("Tell me about {}.", "Who is {}?", "Write a paragraph about {}.", "What happened to {}?",
                  "Tell me a story about {}.", "What do you know of {}?")
OPEN_REQUESTS = ("Tell me a story.", "Write a short story.", "Say something.", "Hello!", "Write a paragraph.",
                 "Tell me something interesting.", "What happened next?")


def byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def add_special_tokens(tokenizer: Tokenizer) -> None:
    """Gives the special tokens the ids after all others."""
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])


def train_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE whose last ids are the special tokens, so that the vocabulary has `vocabulary` entries."""
    tokenizer = byte_level(models.BPE())
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ))
    add_special_tokens(tokenizer)
    assert tokenizer.get_vocab_size() == vocabulary
    return tokenizer


def build_tokenizer(ids: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """The tokenizer of known tokens, the special ones left out, and merges in order of rank."""
    tokenizer = byte_level(models.BPE(ids, merges))
    add_special_tokens(tokenizer)
    return tokenizer


def load_documents(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def plain(document: dict) -> str:
    return "\n\n".join(document["paragraphs"]) + END_OF_TEXT


def render(messages: list[tuple[str, str]]) -> str:
    """CHAT_TEMPLATE's text for complete (role, content) messages."""
    return "".join(f"{TURN_START}{role}\n{content}{TURN_END}\n" for role, content in messages)


def speech(paragraph: str) -> str | None:
    """The spoken words of a paragraph that is mostly one quotation, else None."""
    if not paragraph.startswith('"'):
        return None
    spoken = " ".join(re.findall(r'"([^"]+)"?', paragraph))
    return spoken if 10 < len(spoken) < 600 and len(spoken) > len(paragraph) / 2 else None


def exchange(paragraph: str, following: str, rng: random.Random) -> tuple[str, str]:
    """A request and its answer made of one paragraph of prose, the answer reaching into the next if it is short."""
    sentences = re.split(r"(?<=[.!?;]) (?=[A-Z\"'])", paragraph)
    names = re.findall(r"(?<=[a-z,] )(?:(?:Mr|Mrs|Miss)\.? )?[A-Z][a-z]{2,}\b", paragraph)
    kind = rng.random()
    if len(sentences) > 2 and kind < 0.55:
        lead = rng.randint(1, min(3, len(sentences) - 2))
        request = rng.choice(CONTINUE_REQUESTS).format(" ".join(sentences[:lead]))
        sentences = sentences[lead:]
    elif names and kind < 0.85:
        request = rng.choice(TOPIC_REQUESTS).format(rng.choice(names))
    else:
        request = rng.choice(OPEN_REQUESTS)
    answer = " ".join(sentences[:rng.randint(3, 8)])
    return request, answer if len(answer) > 200 else f"{answer}\n\n{following}"


def chat(document: dict, rng: random.Random) -> str:
    """A document as conversations: quoted speech alternates between the two roles, prose becomes requests."""
    paragraphs = [p for p in document["paragraphs"] if not HEADING.fullmatch(p)]
    conversations: list[str] = []
    messages: list[tuple[str, str]] = []

    def close() -> None:
        if messages:
            system = [("system", rng.choice(SYSTEM_MESSAGES))] if rng.random() < SYSTEM_SHARE else []
            conversations.append(render(system + messages) + END_OF_TEXT)
            messages.clear()

    i = 0
    while i + 1 < len(paragraphs):
        if (question := speech(paragraphs[i])) and (answer := speech(paragraphs[i + 1])):
            messages += [("user", question), ("assistant", answer)]
        else:
            request, answer = exchange(paragraphs[i], paragraphs[i + 1], rng)
            messages += [("user", request), ("assistant", answer)]
        i += 2
        if rng.random() < 0.4:
            close()
    close()
    return "".join(conversations)


class Stream:
    """Windows of `length` + 1 token ids; each epoch shuffles documents anew and turns some into chat.

    Epoch e depends on (seed, e) only, so (epoch, position) is all the state there is.
    """

    def __init__(self, documents: list[dict], tokenizer: Tokenizer, length: int, seed: int) -> None:
        self.documents, self.tokenizer, self.length, self.seed = documents, tokenizer, length, seed
        self.encoded = [np.array(e.ids, np.int64) for e in tokenizer.encode_batch([plain(d) for d in documents])]
        self.epoch, self.position = 0, 0
        self.windows = self._arrange()

    def _arrange(self) -> np.ndarray:
        """This epoch's windows in order, [count, length + 1], neighbours sharing one token."""
        rng = random.Random(f"{self.seed}/{self.epoch}")
        order = rng.sample(range(len(self.documents)), len(self.documents))
        pieces = [
            np.array(self.tokenizer.encode(chat(self.documents[i], rng)).ids, np.int64)
            if rng.random() < CHAT_SHARE else self.encoded[i]
            for i in order
        ]
        ids = np.concatenate(pieces)[rng.randrange(self.length):]
        starts = list(range(0, len(ids) - self.length, self.length))
        rng.shuffle(starts)
        return np.stack([ids[s:s + self.length + 1] for s in starts])

    def state(self) -> tuple[int, int]:
        return self.epoch, self.position

    def restore(self, state: tuple[int, int]) -> None:
        self.epoch, self.position = state
        self.windows = self._arrange()

    def batch(self, size: int) -> np.ndarray:
        if self.position + size > len(self.windows):
            self.epoch, self.position = self.epoch + 1, 0
            self.windows = self._arrange()
        self.position += size
        return self.windows[self.position - size:self.position]


def held_out_windows(documents: list[dict], tokenizer: Tokenizer, length: int) -> Iterator[tuple[str, np.ndarray]]:
    """(source, windows [count, length + 1]) of the held-out text, and of its chat form as source "chat"."""
    held_out = [d for d in documents if d["held_out"]]
    rng = random.Random(0)
    sources = dict.fromkeys(d["source"] for d in held_out)
    texts = {source: "".join(plain(d) for d in held_out if d["source"] == source) for source in sources}
    texts["chat"] = "".join(chat(d, rng) for d in held_out[::4])
    for source, text in texts.items():
        ids = np.array(tokenizer.encode(text).ids, np.int64)
        yield source, np.stack([ids[s:s + length + 1] for s in range(0, len(ids) - length, length)])
