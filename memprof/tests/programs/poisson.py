"""Solves Poisson's equation on a square with PETSc, and checks the residual."""

import sys

import petsc4py

petsc4py.init(sys.argv)

from petsc4py import PETSc  # noqa: E402 (after the initialization)

EDGE = 200

grid = PETSc.DMDA().create([EDGE, EDGE], stencil_width=1)
matrix = grid.createMatrix()
(left, right), (low, high) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for y in range(low, high):
    for x in range(left, right):
        row.index = (x, y)
        for dx, dy, value in ((0, 0, 4.0), (-1, 0, -1.0), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0)):
            if 0 <= x + dx < EDGE and 0 <= y + dy < EDGE:
                column.index = (x + dx, y + dy)
                matrix.setValueStencil(row, column, value)
matrix.assemble()
source = matrix.createVecLeft()
source.set(1.0)
solution = matrix.createVecRight()
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("bjacobi")
solver.setTolerances(rtol=1e-8)
solver.solve(source, solution)
residual = (source - matrix * solution).norm() / source.norm()
PETSc.Sys.Print("solved" if residual < 1e-6 else f"residual {residual}")
