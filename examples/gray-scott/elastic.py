"""Gray and Scott's reaction and diffusion of two substances, periodic, on ranks that may change.

usage: elastic.py SIZE STEPS FILE
"""

import sys

import numpy as np
from libquo import Status, World


def start(u, v, first, size):
    """A square of the second substance in the middle of the first."""
    u[...], v[...] = 1.0, 0.0
    rows = first[0] - 1 + np.arange(u.shape[0])[:, None]
    columns = first[1] - 1 + np.arange(u.shape[1])[None, :]
    square = (abs(rows - size // 2) < size // 8) & (abs(columns - size // 2) < size // 5)
    u[square], v[square] = 0.5, 0.25


def laplacian(cells):
    """Returns the sum of the differences of each cell from its neighbours."""
    around = cells[:-2, 1:-1] + cells[2:, 1:-1] + cells[1:-1, :-2] + cells[1:-1, 2:]
    return around - 4 * cells[1:-1, 1:-1]


def advance(u, v):
    """Computes the next step in place."""
    inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    reaction = inner_u * inner_v * inner_v
    change_u = 0.16 * laplacian(u) - reaction + 0.035 * (1 - inner_u)
    change_v = 0.08 * laplacian(v) + reaction - 0.095 * inner_v
    inner_u += change_u
    inner_v += change_v


def write(cells, first, size, comm, name):
    """Writes the cells of all ranks into one file, row by row."""
    parts = comm.gather((first, cells[1:-1, 1:-1].copy()))
    if comm.rank == 0:
        whole = np.empty((size, size))
        for (row, column), part in parts:
            whole[row : row + part.shape[0], column : column + part.shape[1]] = part
        whole.tofile(name)


def main():
    size, steps, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

    with World() as world:
        if world.status is Status.NEW:
            u = world.add_array("u", (size, size), halo=1, periodic=True).part
            v = world.add_array("v", (size, size), halo=1, periodic=True).part
            start(u.whole, v.whole, u.first, size)
        for state in world.run({"step": 0}):
            u, v = world.array("u"), world.array("v")
            u.exchange_halo()
            v.exchange_halo()
            advance(u.part.whole, v.part.whole)
            state["step"] += 1
            if state["step"] == steps:
                break
        if world.rank is not None:
            v = world.array("v").part
            write(v.whole, v.first, size, world.comm, name)


main()
