/* World of quo-elastic.hpp: arrays with ghost cells, the loop, and exceptions of its steps. */
#include "check.hpp"
#include "quo-elastic.hpp"

#include <filesystem>
#include <stdlib.h> // mkdtemp

namespace {

using quo::Halo;
using quo::Part;
using quo::World;

/** Each ghost cell is a copy of the cell that is there in the periodic array. */
void
cells_of_three_dimensions_are_where_they_belong(World &world)
{
    world.add<long>("box", {3, 5, 4}, Halo::periodic(1));
    const Part<long> box = world.part<long>("box");
    const auto value = [](std::size_t layer, std::size_t row, std::size_t column) {
        return static_cast<long>((layer % 3 * 10 + row % 5) * 10 + column % 4);
    };
    for (std::size_t layer = 1; layer <= box.layers; ++layer)
        for (std::size_t row = 1; row <= box.rows; ++row)
            for (std::size_t column = 1; column <= box.columns; ++column)
                box(layer, row, column) = value(box.first_layer + layer - 1,
                                                box.first_row + row - 1,
                                                box.first_column + column - 1);
    world.exchange_halo_begin("box");
    world.exchange_halo_end("box");
    for (std::size_t layer = 0; layer < box.all_layers; ++layer)
        for (std::size_t row = 0; row < box.all_rows; ++row)
            for (std::size_t column = 0; column < box.all_columns; ++column)
                CHECK_EQUAL(box(layer, row, column),
                            value(box.first_layer + layer + 2, box.first_row + row + 4,
                                  box.first_column + column + 3));
}

void
edges_stay_and_swapped_arrays_have_each_others_cells(World &world)
{
    world.add<double>("now", {6, 7}, Halo::edge(1));
    world.add<double>("next", {6, 7}, Halo::edge(1));
    const Part<double> now = world.part<double>("now");
    for (std::size_t row = 0; row < now.all_rows; ++row)
        for (std::size_t column = 0; column < now.all_columns; ++column)
            now(row, column) = static_cast<double>(now.first_row + row);
    world.exchange_halo("now");
    world.swap("now", "next");
    const Part<double> next = world.part<double>("next");
    for (std::size_t row = 0; row < next.all_rows; ++row)
        CHECK_EQUAL(next(row, 0), static_cast<double>(next.first_row + row));
    CHECK(now.data == next.data);
    if (now.rows > 0) CHECK_EQUAL(now.before_rows, 1U);
    world.add<int>("line", {10});
    CHECK_THROWS(world.swap("line", "now"), RecoverableError, invalid_argument, "line");
    CHECK_THROWS(world.part<int>("none"), RecoverableError, not_found, "none");
    CHECK_THROWS(world.part<float>("now"), RecoverableError, invalid_argument,
                 "\"now\" has elements of 8 bytes, and the type has 4");
    CHECK_THROWS(world.add<int>("line", {10}), RecoverableError, invalid_argument, "line");
    CHECK_THROWS(world.add<int>("four", {1, 2, 3, 4}), RecoverableError, invalid_argument,
                 "dimensions");
    CHECK_THROWS(world.exchange_halo_end("now"), RecoverableError, invalid_state, "now");
}

/** A ring: row i has an element in column i + 1. */
void
rows_are_multiplied_with_elements_of_other_ranks(World &world)
{
    const std::size_t rows = 11, size = static_cast<std::size_t>(world.size());
    const std::size_t each = (rows + size - 1) / size;
    const std::size_t first = std::min(each * static_cast<std::size_t>(world.rank()), rows);
    const std::size_t own = std::min(each, rows - first);
    std::vector<std::size_t> pointers, columns;
    for (std::size_t row = 0; row <= own; ++row) pointers.push_back(row);
    for (std::size_t row = 0; row < own; ++row) columns.push_back((first + row + 1) % rows);
    const std::vector<float> values(own, 0.5F);
    world.add_matrix("ring", rows, own, pointers.data(), columns.data(), values.data());
    world.add_vector<double>("x", "ring");
    const Part<double> x = world.part<double>("x");
    for (std::size_t row = 0; row < x.columns; ++row) x.data[row] = static_cast<double>(first + row);
    world.exchange_halo("x");
    const quo::MatrixPart<float> ring = world.matrix<float>("ring");
    CHECK_EQUAL(ring.rows, own);
    CHECK_EQUAL(x.all_columns, own + ring.ghosts);
    for (std::size_t row = 0; row < ring.rows; ++row) {
        const double found = x.data[ring.columns[ring.pointers[row]]];
        CHECK_EQUAL(found, static_cast<double>((first + row + 1) % rows));
        CHECK_EQUAL(ring.values[ring.pointers[row]], 0.5F);
    }
    CHECK_THROWS(world.add_vector<double>("y", "none"), RecoverableError, not_found, "none");
}

void
items_are_with_their_owners(World &world)
{
    auto by_number = [](const int &item, int ranks) { return item < 0 ? -1 : item % ranks; };
    world.add_items<int>("numbers", by_number);
    world.resize_items("numbers", 10);
    int number = 0;
    for (int &item : world.items<int>("numbers")) item = number++;
    world.migrate("numbers");
    for (const int item : world.items<int>("numbers")) CHECK_EQUAL(item % world.size(), world.rank());
    if (world.items<int>("numbers").count > 0) world.items<int>("numbers").data[0] = -1;
    CHECK_THROWS(world.migrate("numbers"), RecoverableError, invalid_argument, "rank -1");
    QUO_world_array_remove(world.handle(), "numbers");
}

int
last_rank(const long &, int ranks)
{
    return ranks - 1;
}

void
owners_are_constant_objects_or_functions(World &world)
{
    const int shift = world.size() > 0 ? 1 : 0; // known at run time only: it has to be captured
    const auto next = [shift](const long &item, int ranks) {
        return static_cast<int>(item + shift) % ranks;
    };
    world.add_items<long>("to the next", next);
    world.add_items<long>("to the last", last_rank);
    for (const char *name : {"to the next", "to the last"}) {
        world.resize_items(name, 1);
        world.items<long>(name).data[0] = world.rank();
        world.migrate(name);
    }
    const quo::Items<long> from = world.items<long>("to the next");
    CHECK_EQUAL(from.count, 1U);
    CHECK_EQUAL((static_cast<int>(from.data[0]) + 1) % world.size(), world.rank());
    const std::size_t count = world.items<long>("to the last").count;
    const bool is_last = world.rank() == world.size() - 1;
    CHECK_EQUAL(count, static_cast<std::size_t>(is_last ? world.size() : 0));
    // The owners of the first end here.
    QUO_world_array_remove(world.handle(), "to the next");
    QUO_world_array_remove(world.handle(), "to the last");
}

void
checkpoint_brings_values_and_state_back(World &world)
{
    char folder[] = "/tmp/quo-checkpoint-XXXXXX";
    if (0 == world.rank()) CHECK(nullptr != mkdtemp(folder));
    MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, world.comm());
    world.add<double>("kept", {30});
    Part<double> kept = world.part<double>("kept");
    for (std::size_t i = 0; i < kept.columns; ++i) kept(0, i) = 1.5;
    struct {
        int step;
        double time;
    } state = {3, 0.25};
    CHECK(!world.restore(folder, state));
    world.checkpoint(folder, state);
    state = {0, 0.0};
    for (std::size_t i = 0; i < kept.columns; ++i) kept(0, i) = 0;
    CHECK(world.restore(folder, state));
    CHECK_EQUAL(state.step, 3);
    CHECK_EQUAL(state.time, 0.25);
    kept = world.part<double>("kept");
    for (std::size_t i = 0; i < kept.columns; ++i) CHECK_EQUAL(kept(0, i), 1.5);
    int number = 0;
    CHECK_THROWS(world.restore(folder, number), RecoverableError, invalid_argument, "length is 4");
    MPI_Barrier(world.comm());
    if (0 == world.rank()) std::filesystem::remove_all(folder);
}

void
loops_end_with_false_or_with_an_exception(World &world)
{
    struct {
        int steps;
        double sum;
    } state = {0, 0.0};
    world.run(state, [&] {
        state.sum += 0.5;
        return ++state.steps < 5;
    });
    CHECK_EQUAL(state.steps, 5);
    CHECK_EQUAL(state.sum, 2.5);
    try {
        world.run(state, [&]() -> bool { throw std::out_of_range("step 6"); });
        check::fail(__FILE__, __LINE__, "run() swallows an exception");
    } catch (const std::out_of_range &error) {
        CHECK_EQUAL(std::string(error.what()), std::string("step 6"));
    }
}

} // namespace

int
main(int argc, char **argv)
{
    return check::main(argc, argv, [] {
        World world;
        int ranks = 0;
        MPI_Comm_size(world.comm(), &ranks);
        CHECK(world.is_new() && world.is_rank() && nullptr != world.handle());
        CHECK_EQUAL(world.size(), ranks);
        CHECK_EQUAL(world.rank(), check::rank);
        cells_of_three_dimensions_are_where_they_belong(world);
        edges_stay_and_swapped_arrays_have_each_others_cells(world);
        rows_are_multiplied_with_elements_of_other_ranks(world);
        items_are_with_their_owners(world);
        owners_are_constant_objects_or_functions(world);
        checkpoint_brings_values_and_state_back(world);
        loops_end_with_false_or_with_an_exception(world);
        world.end();
        CHECK(nullptr == world.handle());
        QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
        options.initial_ranks = 1;
        World again(options);
        CHECK_EQUAL(again.is_rank(), 0 == check::rank);
    });
}
