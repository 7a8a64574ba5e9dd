"""Gray and Scott's reaction and diffusion of two substances, periodic, on a grid of MPI ranks.

usage: plain.py SIZE STEPS FILE
"""

import sys

import numpy as np
from mpi4py import MPI


def divide(size, place, places):
    """Returns the first cell of a place along one dimension, and the number of its cells."""
    first = size // places * place + min(place, size % places)
    return first, size // places + (place < size % places)


def exchange(cells, grid):
    """Gets the cells of the neighbours, which are the outermost of a block."""
    for axis in (0, 1):
        low, high = grid.Shift(axis, 1)
        lines = np.moveaxis(cells, axis, 0)
        for mine, to, ghost, source in ((1, low, -1, high), (-2, high, 0, low)):
            received = np.empty_like(lines[0])
            grid.Sendrecv(np.ascontiguousarray(lines[mine]), to, 0, received, source)
            lines[ghost] = received


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

    dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 2)
    grid = MPI.COMM_WORLD.Create_cart(dims, periods=(True, True))
    row, rows = divide(size, grid.coords[0], dims[0])
    column, columns = divide(size, grid.coords[1], dims[1])
    u = np.empty((rows + 2, columns + 2))
    v = np.empty_like(u)
    start(u, v, (row, column), size)
    for _ in range(steps):
        exchange(u, grid)
        exchange(v, grid)
        advance(u, v)
    write(v, (row, column), size, grid, name)


main()
