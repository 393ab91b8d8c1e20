"""Muon (Jordan et al. 2024): momentum steps whose matrices are made nearly orthogonal."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor


def orthogonalize(m: Tensor, dtype: torch.dtype, steps: int = 5) -> Tensor:
    """Pushes the singular values of each matrix in m [count, rows, columns] towards one.

    Newton-Schulz iteration x <- a x + (b xx' + c (xx')^2) x with the quintic coefficients of the Muon
    paper, which do not converge exactly but bring every value near 1 in five steps; a `dtype` of bf16 is enough.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = m.to(dtype)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return (x.mT if tall else x).to(m.dtype)


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, for 2-D parameters.

    `pieces` maps a fused parameter to the heights of the matrices stacked in it: each is
    orthogonalized by itself, together with all others of its shape in one batch.
    Data-parallel processes share the matrices out and exchange the results.
    """

    def __init__(self, parameters: Iterable[Tensor], pieces: dict[Tensor, list[int]], dtype: torch.dtype,
                 lr: float, momentum: float = 0.95, weight_decay: float = 0.1) -> None:
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.pieces, self.dtype = pieces, dtype

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            targets: list[Tensor] = []
            updates: list[Tensor] = []
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                average = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                heights = self.pieces.get(p, [len(p)])
                targets += p.split(heights)
                updates += p.grad.lerp(average, group["momentum"]).split(heights)
            for target, update in zip(targets, self._orthogonalize_all(updates)):
                rows, columns = target.shape
                target.mul_(1 - group["lr"] * group["weight_decay"])
                target.sub_(update, alpha=group["lr"] * max(1, rows / columns) ** 0.5)

    def _orthogonalize_all(self, matrices: list[Tensor]) -> list[Tensor]:
        rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        flat = torch.zeros(sum(m.numel() for m in matrices), device=matrices[0].device)
        results = [part.view_as(m) for part, m in zip(flat.split([m.numel() for m in matrices]), matrices)]
        by_shape: dict[torch.Size, list[int]] = {}
        for i, m in enumerate(matrices):
            by_shape.setdefault(m.shape, []).append(i)
        for indices in by_shape.values():
            if mine := indices[rank::size]:
                for i, result in zip(mine, orthogonalize(torch.stack([matrices[i] for i in mine]), self.dtype)):
                    results[i].copy_(result)
        if size > 1:
            dist.all_reduce(flat)
        return results
