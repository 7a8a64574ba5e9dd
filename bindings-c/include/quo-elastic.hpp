/**
 * @file quo-elastic.hpp
 * C++ interface of the elastic world: header only, C++17 and later. Since quo 0.1.
 *
 * This header is built on quo-elastic.h, whose terms and rules apply here too, and on quo.hpp:
 * results are returned, errors are exceptions of type quo::Error, and destructors never throw. Names
 * are the C interface's. What it does not have is called in C, with World::handle().
 *
 * @code{.cpp}
 * quo::World world;
 * if (world.is_new()) world.add<double>("heat", {1000, 1000}, quo::Halo::edge(1));
 * int done = 0; // joiners get its value
 * world.run(done, [&] {
 *     world.exchange_halo("heat");
 *     const quo::Part<double> heat = world.part<double>("heat"); // anew in each step
 *     for (std::size_t row = 1; row <= heat.rows; ++row) heat(row, 1) += 1;
 *     return ++done < 100;
 * });
 * world.end();
 * @endcode
 */

#ifndef QUO_ELASTIC_HPP_INCLUDED
#define QUO_ELASTIC_HPP_INCLUDED

#include "quo-elastic.h"
#include "quo.hpp"

namespace quo {

/** Ghost cells along one dimension, as QUO_halo_t. */
struct Halo {
    /** Ghost cells before the block of a rank. */
    std::size_t before = 0;
    /** Ghost cells after it. */
    std::size_t after = 0;
    /** The last cell of the dimension is followed by the first one. */
    bool is_periodic = false;

    /** As many ghost cells on both sides, which are the edge at the ends of the dimension. */
    static constexpr Halo edge(std::size_t width) noexcept { return {width, width, false}; }
    /** As many ghost cells on both sides of a periodic dimension. */
    static constexpr Halo periodic(std::size_t width) noexcept { return {width, width, true}; }
};

/** A rank's part of an array, as QUO_array_part_t. Valid until the next resize or swap. */
template <class T>
struct Part {
    /** The beginning of the memory, with the ghost cells. */
    T *data = nullptr;
    /** Size of the block, without ghost cells and edges. */
    std::size_t layers = 0, rows = 0, columns = 0;
    /** Place of the block's first cell in the array. */
    std::size_t first_layer = 0, first_row = 0, first_column = 0;
    /** Size of the memory, with ghost cells. */
    std::size_t all_layers = 0, all_rows = 0, all_columns = 0;
    /** Ghost cells before the block. */
    std::size_t before_layers = 0, before_rows = 0, before_columns = 0;

    /** The cell in a row and a column of the memory of a matrix that is stored by rows. */
    T &operator()(std::size_t row, std::size_t column) const noexcept
    {
        return data[row * all_columns + column];
    }
    /** The cell in a layer, a row and a column of the memory of an array that is stored by rows. */
    T &operator()(std::size_t layer, std::size_t row, std::size_t column) const noexcept
    {
        return data[(layer * all_rows + row) * all_columns + column];
    }
};

/** Rows of a sparse matrix on a rank, as QUO_matrix_part_t. Valid until the next resize. */
template <class T>
struct MatrixPart {
    /** Number of rows; number of the first row in the matrix, from 0; number of ghost columns. */
    std::size_t rows = 0, first_row = 0, ghosts = 0;
    /** Beginning of the elements of each row, and the end of the last one's. */
    const std::size_t *pointers = nullptr;
    /** Column of each element, as index in a vector of the matrix. */
    const int *columns = nullptr;
    /** Value of each element. */
    T *values = nullptr;
    /** Number in the matrix of each ghost column. */
    const std::size_t *ghost_columns = nullptr;
};

/** Items of a list on a rank. Valid until the next resize, migration or change of their number. */
template <class T>
struct Items {
    /** The first item. */
    T *data = nullptr;
    /** Number of items. */
    std::size_t count = 0;

    T *begin() const noexcept { return data; }
    T *end() const noexcept { return data + count; }
};

/**
 * The elastic world. Creation, end() and the destructor are collective over all its processes, after
 * MPI_Init and before MPI_Finalize. The destructor ends the world unless an exception unwinds the
 * stack through it: the other ranks may then be elsewhere, and the process must end without
 * MPI_Finalize.
 */
class World {
public:
    /** As QUO_world_create() with the default options, which `quo-elastic launch` completes. */
    World() { detail::check(QUO_world_create(&handle_, nullptr)); }
    /** As QUO_world_create(). */
    explicit World(const QUO_world_options_t &options)
    {
        detail::check(QUO_world_create(&handle_, &options));
    }
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    ~World()
    {
        if (nullptr != handle_ && std::uncaught_exceptions() <= exceptions_) {
            (void)QUO_world_end(handle_);
        }
    }

    /** As QUO_world_end(). */
    void end() { detail::check(QUO_world_end(std::exchange(handle_, nullptr))); }

    /** For the functions of quo-elastic.h. */
    QUO_world handle() const noexcept { return handle_; }

    /** As QUO_world_status(). */
    QUO_world_status_t status() const
    {
        return static_cast<QUO_world_status_t>(number(QUO_world_status));
    }
    /** Whether this process is a rank since the beginning of the job: it adds the arrays. */
    bool is_new() const { return QUO_WORLD_NEW == status(); }
    /** Whether this process is a rank. */
    bool is_rank() const { return MPI_UNDEFINED != rank(); }
    /** As QUO_world_rank(). */
    int rank() const { return number(QUO_world_rank); }
    /** As QUO_world_size(). */
    int size() const { return number(QUO_world_size); }
    /** As QUO_world_comm(). */
    MPI_Comm comm() const
    {
        MPI_Comm comm = MPI_COMM_NULL;
        detail::check(QUO_world_comm(handle_, &comm));
        return comm;
    }

    /** As QUO_world_array_add() of #QUO_ARRAY_HALO: columns, rows and columns, or layers, rows and
        columns, each dimension with the same ghost cells. */
    template <class T>
    void add(const char *name, std::initializer_list<std::size_t> shape, Halo halo = {})
    {
        static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");
        if (shape.size() < 1 || shape.size() > 3) {
            detail::raise(Errc::invalid_argument, "quo::World::add: an array has 1 to 3 dimensions");
        }
        QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
        const QUO_halo_t ghosts = {halo.before, halo.after, halo.is_periodic ? 1U : 0U};
        const std::size_t *last = shape.end();
        spec.kind = QUO_ARRAY_HALO;
        spec.element = sizeof(T);
        spec.columns = last[-1];
        spec.halo_columns = ghosts;
        if (shape.size() > 1) {
            spec.rows = last[-2];
            spec.halo_rows = ghosts;
        }
        if (shape.size() > 2) {
            spec.layers = last[-3];
            spec.halo_layers = ghosts;
        }
        add(name, spec);
    }
    /** As QUO_world_array_add(). */
    void add(const char *name, const QUO_array_spec_t &spec)
    {
        detail::check(QUO_world_array_add(handle_, name, &spec));
    }

    /** As QUO_world_array_part(). The type is that of the elements; one of another size is refused. */
    template <class T>
    Part<T> part(const char *name) const
    {
        QUO_array_part_t part = QUO_ARRAY_PART_INIT;
        detail::check(QUO_world_array_part(handle_, name, &part));
        require_size<T>("part", name, part.element);
        return {static_cast<T *>(part.data), part.layers,      part.rows,
                part.columns,                part.first_layer, part.first_row,
                part.first_column,           part.all_layers,  part.all_rows,
                part.all_columns,            part.before_layers, part.before_rows,
                part.before_columns};
    }

    /** As QUO_world_matrix_add(), of values of this type. */
    template <class T>
    void add_matrix(const char *name, std::size_t rows, std::size_t own_rows,
                    const std::size_t *pointers, const std::size_t *columns, const T *values)
    {
        static_assert(std::is_trivially_copyable_v<T>, "values are moved as bytes");
        detail::check(QUO_world_matrix_add(handle_, name, sizeof(T), rows, own_rows, pointers,
                                           columns, values));
    }
    /** As QUO_world_vector_add(), of elements of this type; part() has the elements and ghosts. */
    template <class T>
    void add_vector(const char *name, const char *matrix)
    {
        static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");
        detail::check(QUO_world_vector_add(handle_, name, sizeof(T), matrix));
    }
    /** As QUO_world_matrix(). The type must be that of the values. */
    template <class T>
    MatrixPart<T> matrix(const char *name) const
    {
        QUO_matrix_part_t part = QUO_MATRIX_PART_INIT;
        detail::check(QUO_world_matrix(handle_, name, &part));
        require_size<T>("matrix", name, part.element);
        return {part.rows,    part.first_row,
                part.ghosts,  part.pointers,
                part.columns, static_cast<T *>(part.values),
                part.ghost_columns};
    }

    /** As QUO_world_items_add(): owner(item, ranks), a function or an object, returns the rank of an item and
        does not throw. An object lives until the world ends or the list is removed. */
    template <class T, class Owner>
    void add_items(const char *name, Owner &owner)
    {
        static_assert(std::is_trivially_copyable_v<T>, "items are moved as bytes");
        void *data = nullptr;
        if constexpr (std::is_function_v<Owner>)
            data = reinterpret_cast<void *>(&owner);
        else
            data = const_cast<void *>(static_cast<const void *>(std::addressof(owner)));
        const auto call = [](void *given, const void *item, int ranks) noexcept -> int {
            return (*reinterpret_cast<Owner *>(given))(*static_cast<const T *>(item), ranks);
        };
        detail::check(QUO_world_items_add(handle_, name, sizeof(T), call, data));
    }
    /** As QUO_world_items(). The type must be that of the items. */
    template <class T>
    Items<T> items(const char *name) const
    {
        void *data = nullptr;
        std::size_t count = 0;
        detail::check(QUO_world_items(handle_, name, &data, &count));
        return {static_cast<T *>(data), count};
    }
    /** As QUO_world_items_resize(). */
    void resize_items(const char *name, std::size_t count)
    {
        detail::check(QUO_world_items_resize(handle_, name, count));
    }
    /** As QUO_world_migrate(). */
    void migrate(const char *name) { detail::check(QUO_world_migrate(handle_, name)); }

    /** As QUO_world_exchange_halo(). */
    void exchange_halo(const char *name) { detail::check(QUO_world_exchange_halo(handle_, name)); }
    /** As QUO_world_exchange_halo_begin(). */
    void exchange_halo_begin(const char *name)
    {
        detail::check(QUO_world_exchange_halo_begin(handle_, name));
    }
    /** As QUO_world_exchange_halo_end(). */
    void exchange_halo_end(const char *name)
    {
        detail::check(QUO_world_exchange_halo_end(handle_, name));
    }
    /** As QUO_world_array_swap(). */
    void swap(const char *name, const char *other)
    {
        detail::check(QUO_world_array_swap(handle_, name, other));
    }

    /** As QUO_world_checkpoint(). */
    template <class State>
    void checkpoint(const char *folder, const State &state)
    {
        static_assert(std::is_trivially_copyable_v<State>, "the state is written as bytes");
        detail::check(QUO_world_checkpoint(handle_, folder, &state, sizeof(state)));
    }
    /** As QUO_world_restore(). Returns false if there is no checkpoint. */
    template <class State>
    bool restore(const char *folder, State &state)
    {
        static_assert(std::is_trivially_copyable_v<State>, "the state is read as bytes");
        int restored = 0;
        detail::check(QUO_world_restore(handle_, folder, &state, sizeof(state), &restored));
        return 0 != restored;
    }

    /** As QUO_world_run(): calls step() until it returns false. An exception of it leaves this call. */
    template <class State, class Step>
    void run(State &state, Step &&step)
    {
        static_assert(std::is_trivially_copyable_v<State>, "joiners get the state as bytes");
        struct Call {
            Step &step;
            std::exception_ptr thrown;
        } call = {step, nullptr};
        const auto once = [](QUO_world, void *data) -> int {
            Call &mine = *static_cast<Call *>(data);
            try {
                return mine.step() ? 1 : 0;
            } catch (...) {
                mine.thrown = std::current_exception();
                return -1;
            }
        };
        const int code = QUO_world_run(handle_, once, &call, &state, sizeof(state));
        if (nullptr != call.thrown) {
            (void)QUO_last_error(); // which only says that the step failed
            std::rethrow_exception(call.thrown);
        }
        detail::check(code);
    }

private:
    template <class T>
    static void require_size(const char *call, const char *name, std::size_t element)
    {
        if (element == sizeof(T)) return;
        const std::string text = std::string("quo::World::") + call + ": \"" + name + "\" has elements of " +
                                 std::to_string(element) + " bytes, and the type has " +
                                 std::to_string(sizeof(T));
        detail::raise(Errc::invalid_argument, text);
    }
    int number(int (*function)(QUO_world, int *)) const
    {
        int value = 0;
        detail::check(function(handle_, &value));
        return value;
    }

    QUO_world handle_ = nullptr;
    int exceptions_ = std::uncaught_exceptions();
};

} // namespace quo

#endif
