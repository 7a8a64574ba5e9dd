// Heat on a plate with fixed edges, in explicit time steps, on a grid of MPI ranks, which may change.
// usage: elastic ROWS COLUMNS STEPS FILE

#include <quo-elastic.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

using Part = quo::Part<double>;

// A cold plate with waves of heat along its upper edge.
static void start(const Part &part)
{
    for (std::size_t row = 0; row <= part.rows + 1; ++row) {
        for (std::size_t column = 0; column <= part.columns + 1; ++column) {
            const double place = double(part.first_column + column);
            part(row, column) = part.first_row + row == 0 ? 100 + 50 * std::sin(0.1 * place) : 0;
        }
    }
}

// Computes the next step. Returns the largest change of a cell.
static double advance(const Part &now, const Part &next)
{
    double change = 0;
    for (std::size_t row = 1; row <= now.rows; ++row) {
        for (std::size_t column = 1; column <= now.columns; ++column) {
            const double around = now(row - 1, column) + now(row + 1, column) +
                                  now(row, column - 1) + now(row, column + 1);
            next(row, column) = now(row, column) + 0.2 * (around - 4 * now(row, column));
            change = std::max(change, std::fabs(next(row, column) - now(row, column)));
        }
    }
    return change;
}

// Writes the cells of all ranks into one file, row by row.
static void write(const Part &part, std::size_t columns, MPI_Comm plate, const char *name)
{
    MPI_File file;
    MPI_File_open(plate, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (std::size_t row = 0; row < part.rows; ++row) {
        const std::size_t cell = (part.first_row + row) * columns + part.first_column;
        MPI_File_write_at(file, MPI_Offset(cell * sizeof(double)), &part(row + 1, 1),
                          int(part.columns), MPI_DOUBLE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    if (argc != 5) return EXIT_FAILURE;
    const std::size_t rows = std::strtoul(argv[1], nullptr, 10);
    const std::size_t columns = std::strtoul(argv[2], nullptr, 10);
    const int steps = std::atoi(argv[3]);

    MPI_Init(&argc, &argv);
    quo::World world;
    if (world.is_new()) {
        world.add<double>("now", {rows, columns}, quo::Halo::edge(1));
        world.add<double>("next", {rows, columns}, quo::Halo::edge(1));
        start(world.part<double>("now"));
        start(world.part<double>("next"));
    }

    int step = 0;
    world.run(step, [&] {
        world.exchange_halo("now");
        double change = advance(world.part<double>("now"), world.part<double>("next")), largest;
        world.swap("now", "next");
        MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, world.comm());
        if (world.rank() == 0 && step % 100 == 0) std::printf("step %d: change %g\n", step, largest);
        return ++step < steps;
    });

    if (world.is_rank()) write(world.part<double>("now"), columns, world.comm(), argv[4]);
    world.end();
    return MPI_Finalize();
}
