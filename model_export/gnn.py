"""The second ONNX graph: from sampled subgraphs to residual and ease per task, by GraphSAGE (Hamilton et al., NeurIPS 2017).

h_i' = relu(norm(W_root h_i + W_neighbours mean of h_u over neighbours u)); a subgraph's embedding concatenates the means of all
layers.
No parameter depends on the number of tasks and no statistic is taken over a batch.
"""

import torch
from torch import Tensor, nn
from torch_geometric.nn import DenseSAGEConv

LAYERS = 3
OUTPUTS = 2  # residual, ease of the restart gate
OUTPUT_SCALE = 0.01  # an untrained network hardly changes the plan


class PolicyNet(nn.Module):
    """sub_x [G, m, H], sub_linked [G, m, m], sub_known [G, m], now [G, H] -> [G, 2].

    ``now`` is the task's own newest embedding: the subgraph may hold other minutes only, and sizes depend on the present.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DenseSAGEConv(hidden, hidden) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(LAYERS)])
        width = LAYERS * hidden
        self.join = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Sequential(nn.Linear(width + hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, OUTPUTS)
        for part in (*self.join, *self.head):
            if isinstance(part, nn.Linear):
                nn.init.orthogonal_(part.weight, 2**0.5)
                nn.init.zeros_(part.bias)
        nn.init.orthogonal_(self.out.weight, OUTPUT_SCALE)
        nn.init.zeros_(self.out.bias)

    def forward(self, sub_x: Tensor, sub_linked: Tensor, sub_known: Tensor, now: Tensor) -> Tensor:
        """Return the outputs."""
        return self.outputs(self.embed(sub_x, sub_linked, sub_known), now)

    def outputs(self, embedded: Tensor, now: Tensor) -> Tensor:
        """Return outputs [G, 2] from subgraph embeddings [G, 3H]."""
        return self.out(self.head(torch.cat([embedded, now], dim=-1)))

    def embed(self, sub_x: Tensor, sub_linked: Tensor, sub_known: Tensor) -> Tensor:
        """Return subgraph embeddings f(g) [G, 3H]."""
        known = sub_known.unsqueeze(-1)
        count = known.sum(dim=1).clamp(min=1.0)
        h, means = sub_x, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = torch.relu(norm(layer(h, sub_linked))) * known
            means.append(h.sum(dim=1) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)

    def embed_whole(self, z: Tensor, mask: Tensor, linked: Tensor) -> Tensor:
        """Return f(G) [B, 3H] of the whole graph: every task-minute of z [B, L, N, H], job edges, and each task over time.

        It shares the weights of ``embed``. Neighbourhoods are two sums, so no (L N)^2 matrix is built.
        """
        known = mask.unsqueeze(-1)
        degree = _around(known, linked)
        count = known.sum(dim=(1, 2)).clamp(min=1.0)
        h, means = z * known, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            near = _around(h, linked) / degree.clamp(min=1.0)
            h = torch.relu(norm(layer.lin_rel(near) + layer.lin_root(h))) * known
            means.append(h.sum(dim=(1, 2)) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)


def _around(h: Tensor, linked: Tensor) -> Tensor:
    """Return the sum over neighbours: linked tasks [N, N] in the same minute, the same task one minute before and after."""
    total = torch.einsum("ij,bljh->blih", linked, h)
    total[:, 1:] += h[:, :-1]
    total[:, :-1] += h[:, 1:]
    return total
