// Heat on a plate with fixed edges, in explicit time steps, on a grid of MPI ranks.
// usage: plain ROWS COLUMNS STEPS FILE

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

// The cells of this rank; around them one cell of each neighbour, or of the edge.
struct Part {
    double *data;
    std::size_t rows, columns, first_row, first_column, all_columns;

    double &operator()(std::size_t row, std::size_t column) const
    {
        return data[row * all_columns + column];
    }
};

// Divides cells among the ranks along one dimension.
static void divide(std::size_t cells, int place, int places, std::size_t &first, std::size_t &count)
{
    const std::size_t at = std::size_t(place), all = std::size_t(places);
    first = cells / all * at + std::min(at, cells % all);
    count = cells / all + (at < cells % all ? 1 : 0);
}

// Gets the cells of the four neighbours.
static void exchange(const Part &part, MPI_Comm plate, MPI_Datatype column)
{
    int up, down, left, right;
    const int width = int(part.columns);
    const auto pass = [&](double &from, int to, double &into, int source, int count, MPI_Datatype type) {
        MPI_Sendrecv(&from, count, type, to, 0, &into, count, type, source, 0, plate, MPI_STATUS_IGNORE);
    };
    MPI_Cart_shift(plate, 0, 1, &up, &down);
    MPI_Cart_shift(plate, 1, 1, &left, &right);
    pass(part(1, 1), up, part(part.rows + 1, 1), down, width, MPI_DOUBLE);
    pass(part(part.rows, 1), down, part(0, 1), up, width, MPI_DOUBLE);
    pass(part(1, 1), left, part(1, part.columns + 1), right, 1, column);
    pass(part(1, part.columns), right, part(1, 0), left, 1, column);
}

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
    int ranks, rank, grid[2] = {0, 0}, place[2];
    const int periods[2] = {0, 0};
    MPI_Comm plate;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, grid);
    MPI_Cart_create(MPI_COMM_WORLD, 2, grid, periods, 0, &plate);
    MPI_Comm_rank(plate, &rank);
    MPI_Cart_coords(plate, rank, 2, place);

    Part now, next;
    divide(rows, place[0], grid[0], now.first_row, now.rows);
    divide(columns, place[1], grid[1], now.first_column, now.columns);
    now.all_columns = now.columns + 2;
    next = now;
    std::vector<double> one((now.rows + 2) * now.all_columns), other(one);
    now.data = one.data();
    next.data = other.data();
    MPI_Datatype column;
    MPI_Type_vector(int(now.rows), 1, int(now.all_columns), MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    start(now);
    start(next);

    for (int step = 0; step < steps; ++step) {
        exchange(now, plate, column);
        double change = advance(now, next), largest;
        std::swap(now.data, next.data);
        MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, plate);
        if (rank == 0 && step % 100 == 0) std::printf("step %d: change %g\n", step, largest);
    }

    write(now, columns, plate, argv[4]);
    MPI_Type_free(&column);
    MPI_Comm_free(&plate);
    return MPI_Finalize();
}
