"""Trains the model for a given time and keeps the checkpoint with the lowest held-out loss.

    train.py --corpus corpus.jsonl --out run --minutes 95 [--start FILE.gguf --peak 0.7]

Everything lies in the output folder: tokenizer.json, last.pt (to resume from: run the same command
again), best.pt (weights only, for export).  The learning rate follows elapsed time, so that the cosine
ends when the time does, however fast the machine is.

With --start the weights and the tokenizer are those of a file that export_gguf.py wrote.  The optimizers start
afresh, so that the learning rate warms up as it does without; a lower peak loses less of what was learned.
"""

import argparse
import math
import time
import timeit
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from import_gguf import read_model, read_tokenizer
from model import Config, GatedDeltaNet, Model
from muon import Muon
from tokens import Stream, held_out_windows, load_documents, train_tokenizer

MUON_RATE, ADAM_RATE = 0.02, 3e-3
WARM_UP, FINAL = 0.01, 0.02         # share of the time; share of the peak rate at the end
CLIP = 1.0


@dataclass(frozen=True)
class Group:
    """Data-parallel processes.  All keep the same weights by applying the same summed gradient.

    On a CPU that others use too, processes of one thread each wait for one another once a step, where
    the threads of one process would do so in every operator.
    """

    rank: int
    size: int

    def share(self, windows: Tensor) -> Tensor:
        return windows[self.rank::self.size]

    def add_up(self, x: Tensor) -> None:
        """Replaces x by its sum over the processes."""
        if self.size > 1:
            dist.all_reduce(x)

    def average_gradients(self, model: Model) -> None:
        if self.size == 1:
            return
        gradients = [p.grad for p in model.parameters()]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        for gradient, averaged in zip(gradients, flat.split([g.numel() for g in gradients])):
            gradient.copy_(averaged.view_as(gradient))

    def agree(self, value: float) -> float:
        """The first process's value."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(shared, 0)
        return shared.item()

    def log(self, line: str) -> None:
        if self.rank == 0:
            print(line, flush=True)


def schedule(progress: float) -> float:
    """Learning-rate factor at `progress` in [0, 1]: linear warm-up, then a cosine."""
    if progress < WARM_UP:
        return progress / WARM_UP
    turn = (min(progress, 1) - WARM_UP) / (1 - WARM_UP)
    return FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * turn))


def fastest_type(device: torch.device) -> torch.dtype:
    """bf16 where matrix products in it are quicker than in f32; a CPU without instructions for it emulates it."""
    if device.type != "cpu":
        return torch.bfloat16
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(512, 512, dtype=dtype)
        seconds[dtype] = min(timeit.repeat(lambda: x @ x, number=1, repeat=5))
    return min(seconds, key=seconds.__getitem__)


def make_optimizers(model: Model, dtype: torch.dtype) -> list[torch.optim.Optimizer]:
    """Muon for the blocks' matrices; AdamW without decay for embedding, norms, gates' small projections, conv."""
    matrices, others, pieces = [], [], {}
    c = model.c
    for name, p in model.named_parameters():
        is_small = name.endswith(("alpha.weight", "beta.weight", "conv"))
        is_matrix = p.ndim == 2 and name.startswith("blocks") and not is_small
        (matrices if is_matrix else others).append(p)
    for block in model.blocks:
        if isinstance(block.mixer, GatedDeltaNet):
            pieces[block.mixer.qkv.weight] = [c.key_width, c.key_width, c.value_width]
    return [Muon(matrices, pieces, dtype, lr=MUON_RATE),
            torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0)]


@torch.compile
def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def loss_of(model: Model, windows: Tensor, dtype: torch.dtype) -> Tensor:
    """Mean nats per token over windows [B, T + 1]."""
    with torch.autocast(windows.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        logits = model(windows[:, :-1])
    return cross_entropy(logits, windows[:, 1:])


@torch.no_grad()
def evaluate(model: Model, held_out: dict[str, Tensor], group: Group, dtype: torch.dtype) -> dict[str, float]:
    """Held-out nats per token by source; "all" weighs the prose sources by tokens and leaves chat out."""
    model.eval()
    sums = torch.zeros(len(held_out))
    with torch.compiler.set_stance("force_eager"):      # not worth a second compilation
        for i, windows in enumerate(held_out.values()):
            mine = group.share(windows)                     # none, of a source with fewer windows than processes
            for batch in mine.split(2) if len(mine) else ():
                sums[i] += loss_of(model, batch, dtype).item() * len(batch)
    model.train()
    group.add_up(sums)
    losses = {source: total / len(held_out[source]) for source, total in zip(held_out, sums.tolist())}
    prose = {s: len(w) for s, w in held_out.items() if s != "chat"}
    losses["all"] = sum(losses[s] * n for s, n in prose.items()) / sum(prose.values())
    return losses


def save(path: Path, content: dict) -> None:
    """Writes beside the target and renames, so that an interrupted run never leaves half a file."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)


def run(rank: int, arguments: argparse.Namespace) -> None:
    """One process of the training run."""
    started = time.monotonic()
    group = Group(rank, arguments.workers)
    if group.size > 1:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{arguments.out.resolve()}/rendezvous",
                                rank=rank, world_size=group.size)
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if group.agree(fastest_type(device) == torch.bfloat16) else torch.float32

    documents = load_documents(arguments.corpus)
    training = [d for d in documents if not d["held_out"]]
    tokenizer = Tokenizer.from_file(str(arguments.out / "tokenizer.json"))
    stream = Stream(training, tokenizer, arguments.context, arguments.seed)
    held_out = {s: torch.from_numpy(w).to(device) for s, w in held_out_windows(documents, tokenizer, arguments.context)}

    start = arguments.start
    model = (read_model(start, arguments.dropout) if start else Model(Config(dropout=arguments.dropout))).to(device)
    optimizers = make_optimizers(model, dtype)
    step, elapsed_before, best = 0, 0.0, math.inf
    last = arguments.out / "last.pt"
    if last.exists():
        saved = torch.load(last, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        step, elapsed_before, best = saved["step"], saved["elapsed"], saved["best"]
        stream.restore(saved["stream"])
        group.log(f"resumed at step {step}, {elapsed_before / 60:.1f} min")
    torch.manual_seed(arguments.seed + group.size * step + rank)         # dropout differs between processes
    for block in model.blocks:
        block.compile()
    base_rates = [arguments.peak * (ADAM_RATE if isinstance(o, torch.optim.AdamW) else MUON_RATE) for o in optimizers]
    group.log(f"{sum(p.numel() for p in model.parameters()):,} parameters, "
              f"{sum(map(len, stream.encoded)):,} training tokens, device {device}, {dtype}, {group.size} processes")

    total = arguments.minutes * 60
    next_evaluation = elapsed_before + min(60 * arguments.evaluate_every, 180)
    running, since, tick = 0.0, 0, time.monotonic()
    while True:
        elapsed = group.agree(elapsed_before + time.monotonic() - started)
        finished = elapsed >= total
        if finished or elapsed >= next_evaluation:
            losses = evaluate(model, held_out, group, dtype)
            improved = losses["all"] < best
            best = min(best, losses["all"])
            elapsed = group.agree(elapsed_before + time.monotonic() - started)
            if rank == 0:
                weights = {"model": model.state_dict(), "config": asdict(model.c), "losses": losses, "step": step}
                if improved:
                    save(arguments.out / "best.pt", weights)
                save(last, weights | {
                    "optimizers": [o.state_dict() for o in optimizers],
                    "stream": stream.state(), "elapsed": elapsed, "best": best,
                })
            by_source = " ".join(f"{source} {loss:.4f}" for source, loss in losses.items())
            group.log(f"step {step} held out {by_source} best {best:.4f}")
            if finished:
                return
            next_evaluation = elapsed + 60 * arguments.evaluate_every
            tick, since, running = time.monotonic(), 0, 0.0

        factor = schedule(elapsed / total)
        for optimizer, rate in zip(optimizers, base_rates):
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate * factor
        windows = torch.from_numpy(stream.batch(arguments.batch))
        loss = loss_of(model, group.share(windows).to(device), dtype)
        loss.backward()
        group.average_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running, since, step = running + loss.item(), since + 1, step + 1
        if since == 20:
            seconds = time.monotonic() - tick
            group.log(f"step {step} {elapsed / 60:.1f} min epoch {stream.epoch} loss {running / since:.4f} "
                      f"rate {factor:.3f} {since * arguments.batch * arguments.context / seconds:.0f} tokens/s")
            tick, since, running = time.monotonic(), 0, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="time of the whole run, evaluation included")
    parser.add_argument("--evaluate-every", type=float, default=5, metavar="MINUTES")
    parser.add_argument("--context", type=int, default=1024, help="tokens in a window")
    parser.add_argument("--batch", type=int, default=4, help="windows in a step, of all processes together")
    parser.add_argument("--workers", type=int, default=1, help="data-parallel processes")
    parser.add_argument("--dropout", type=float, default=Config.dropout,
                        help="0 if the text is seen only once or twice")
    parser.add_argument("--start", type=Path, metavar="FILE.gguf", help="begin with this file's weights and tokenizer")
    parser.add_argument("--peak", type=float, default=1, help="factor on the learning rates")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = arguments.out / "tokenizer.json"
    if arguments.start and not tokenizer.exists():
        read_tokenizer(arguments.start).save(str(tokenizer))
    elif not tokenizer.exists():
        texts = [p for d in load_documents(arguments.corpus) if not d["held_out"] for p in d["paragraphs"]]
        train_tokenizer(texts, Config().vocab).save(str(tokenizer))
    if arguments.workers == 1:
        run(0, arguments)
    else:
        (arguments.out / "rendezvous").unlink(missing_ok=True)
        torch.multiprocessing.spawn(run, (arguments,), arguments.workers)


if __name__ == "__main__":
    main()
