"""Collects the training text from installed packages into one JSON-lines file of documents.

A document is a chapter, or part of a long one: {"source", "held_out", "paragraphs": [...]}.
One document in every HELD_OUT_EVERY of each source is never trained on.

    corpus.py --sentencepiece SDIST.tar.gz --out corpus.jsonl
"""

import argparse
import json
import math
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pysword.modules import SwordModules

HELD_OUT_EVERY = 25
PART_CHARACTERS = 12_000

NOVELS = {
    "emma": "Emma",
    "mansfieldpark": "Mansfield Park",
    "northangerabbey": "Northanger Abbey",
    "persuasion": "Persuasion",
    "prideprejudice": "Pride and Prejudice",
    "sensesensibility": "Sense and Sensibility",
}
CHAPTER = re.compile(r"^\s*chapter\s+[ivxlc\d]+\.?\s*$", re.IGNORECASE | re.MULTILINE)
PLAIN_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "\u00a0": " "})


@dataclass
class Document:
    source: str
    held_out: bool
    paragraphs: list[str]


def tidy(text: str) -> str:
    """One paragraph: straight quotes, single spaces, no emphasis marks, none before punctuation."""
    text = re.sub(r"\s+", " ", text.translate(PLAIN_QUOTES).replace("_", "")).strip()
    return re.sub(r" ([,.;:?!])", r"\1", text)


def novels() -> Iterator[list[str]]:
    """Chapters of the six novels in Debian's r-cran-janeaustenr (lines wrapped, blank line = new paragraph)."""
    for name, title in NOVELS.items():
        text = subprocess.run(
            ["Rscript", "-e", f"writeLines(janeaustenr::{name})"], check=True, capture_output=True, text=True
        ).stdout
        for number, body in enumerate(CHAPTER.split(text)[1:], start=1):
            body = re.sub(r"^\s*(VOLUME [IVX]+|FINIS|THE END)\s*$", "", body, flags=re.MULTILINE)
            yield [f"{title}, Chapter {number}", *re.split(r"\n\s*\n", body)]


def bible() -> Iterator[list[str]]:
    """Chapters of the translation in Debian's sword-text-web; notes, titles and markup are dropped."""
    modules = SwordModules("/usr/share/sword")
    (name,) = modules.parse_modules()
    reader = modules.get_bible_from_module(name)
    for books in reader.get_structure().get_books().values():
        for book in books:
            for number in range(1, book.num_chapters + 1):
                text = reader.get(books=[book.name], chapters=[number], clean=False, join=" ")
                text = re.sub(r"<(note|title)\b.*?</\1>", " ", text, flags=re.DOTALL)
                text = re.sub(r'<div sID="[^"]*" type="x-p"/>|<lg sID="[^"]*"/>', "\n\n", text)
                text = re.sub(r"<l\b[^>]*>", " ", text)
                text = re.sub(r"<[^>]*>", "", text)
                yield [f"{book.name}, Chapter {number}", *text.split("\n\n")]


def botchan(sdist: Path) -> Iterator[list[str]]:
    """Chapters of the novel in sentencepiece's test data: wrapped lines, a short line ends a paragraph."""
    with tarfile.open(sdist) as archive:
        member = next(m for m in archive if m.name.endswith("test/botchan.txt"))
        text = archive.extractfile(member).read().decode("utf-8-sig").replace("\r\n", "\n")
    text = text[: text.index("*** END OF")]
    text = re.sub(r"\[Footnote.*?\]\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\[\d+\]", "", text)
    for number, body in enumerate(CHAPTER.split(text)[1:], start=1):
        body = re.sub(r"^(.{1,60})\n(?=[A-Z\"'])", r"\1\n\n", body, flags=re.MULTILINE)
        yield [f"Botchan, Chapter {number}", *body.split("\n\n")]


def parts(chapter: list[str]) -> Iterator[list[str]]:
    """A chapter's tidy paragraphs, cut between paragraphs into equal parts of at most about PART_CHARACTERS."""
    paragraphs = [p for p in map(tidy, chapter) if p]
    total = sum(map(len, paragraphs))
    limit = total / math.ceil(total / PART_CHARACTERS)
    part: list[str] = []
    for paragraph in paragraphs:
        if part and sum(map(len, part)) + len(paragraph) / 2 > limit:
            yield part
            part = []
        part.append(paragraph)
    yield part


def documents(sdist: Path) -> Iterator[Document]:
    for source, chapters in (("austen", novels()), ("bible", bible()), ("botchan", botchan(sdist))):
        cut = [part for chapter in chapters for part in parts(chapter) if sum(map(len, part)) > 200]
        for index, part in enumerate(cut):
            yield Document(source, index % HELD_OUT_EVERY == HELD_OUT_EVERY // 2, part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentencepiece", type=Path, required=True, help="source distribution of sentencepiece")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    totals: dict[tuple[str, bool], list[int]] = {}
    with arguments.out.open("w", encoding="utf-8") as out:
        for document in documents(arguments.sentencepiece):
            out.write(json.dumps(asdict(document), ensure_ascii=False) + "\n")
            count = totals.setdefault((document.source, document.held_out), [0, 0])
            count[0] += 1
            count[1] += sum(len(p) + 2 for p in document.paragraphs)
    for (source, held_out), (count, size) in totals.items():
        print(f"{source:8} {'held out' if held_out else 'training'} {count:5} documents {size / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
