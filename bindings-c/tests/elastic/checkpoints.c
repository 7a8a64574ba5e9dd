/* A checkpoint of a vector and a list of items is written on some ranks (`checkpoints FOLDER write`) and read on others
 * (`checkpoints FOLDER read`), and wrong arguments of one rank fail on all. */
#include "../check.h"
#include "quo-elastic.h"

enum { ALL = 100 };

typedef struct {
    int step;
    double time;
} state_t;

static int
owner(void *data, const void *item, int ranks)
{
    (void)data;
    return *(const int *)item * ranks / ALL;
}

static void
add_vector(QUO_world w)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    spec.columns = ALL;
    CHECK_OK(QUO_world_array_add(w, "vector", &spec));
}

static void
check_vector(QUO_world w, double plus)
{
    QUO_array_part_t part = QUO_ARRAY_PART_INIT;
    CHECK_OK(QUO_world_array_part(w, "vector", &part));
    for (size_t i = 0; i < part.columns; ++i)
        CHECK(((const double *)part.data)[i] == (double)(part.first_column + i) + plus);
}

static void
write_all(QUO_world w, const char *folder, int rank, int size)
{
    state_t state = {7, 2.5};
    QUO_array_part_t part = QUO_ARRAY_PART_INIT;
    void *items;
    size_t count;
    const int is_last = rank == size - 1;

    add_vector(w);
    CHECK_OK(QUO_world_array_part(w, "vector", &part));
    for (size_t i = 0; i < part.columns; ++i)
        ((double *)part.data)[i] = (double)(part.first_column + i) + 0.5;
    /* The first rank has all items: the restore brings them to their owners. */
    CHECK_OK(QUO_world_items_resize(w, "items", 0 == rank ? ALL : 0));
    CHECK_OK(QUO_world_items(w, "items", &items, &count));
    for (size_t i = 0; i < count; ++i) ((int *)items)[i] = (int)i;

    CHECK_CODE(QUO_world_checkpoint(w, is_last ? NULL : folder, &state, sizeof(state)), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the argument folder is NULL");
    CHECK_CODE(QUO_world_checkpoint(w, folder, is_last ? NULL : &state, sizeof(state)), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the argument state is NULL");
    CHECK_OK(QUO_world_checkpoint(w, folder, &state, sizeof(state)));
    if (0 != rank) state.step = 8; /* that of rank 0 counts */
    CHECK_OK(QUO_world_checkpoint(w, folder, &state, sizeof(state)));
}

static void
read_all(QUO_world w, const char *folder, const char *file, int rank, int size)
{
    state_t state = {1, 1.0};
    int restored = -1, step = 0;
    void *items;
    size_t count;
    const int is_last = rank == size - 1;
    QUO_carry_t callbacks = QUO_CARRY_INIT;

    CHECK_CODE(QUO_world_restore(w, folder, &step, sizeof(step), &restored), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the state of the checkpoint has 16 bytes, and length is 4");
    CHECK_CODE(QUO_world_restore(w, folder, &state, sizeof(state), is_last ? NULL : &restored), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the argument out_restored is NULL");
    CHECK_CODE(QUO_world_restore(w, is_last ? NULL : folder, &state, sizeof(state), &restored), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the path of the folder is empty");
    CHECK_CODE(QUO_world_restore(w, file, &state, sizeof(state), &restored), QUO_ERR_SYS);
    CHECK_ERROR_NAMES("is no folder");
    CHECK_OK(QUO_world_array_remove(w, "items"));
    CHECK_CODE(QUO_world_restore(w, folder, &state, sizeof(state), &restored), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the checkpoint has the list `items`");
    CHECK_OK(QUO_world_items_add(w, "items", sizeof(int), owner, NULL));
    CHECK_INT(restored, -1);
    CHECK_OK(QUO_world_restore(w, "/nowhere/at/all", &state, sizeof(state), &restored));
    CHECK(0 == restored && 1 == state.step && 1.0 == state.time);
    CHECK_CODE(QUO_world_array(w, "vector", &items, &count, &count), QUO_ERR_NOT_FOUND);

    CHECK_OK(QUO_world_restore(w, folder, &state, sizeof(state), &restored));
    CHECK(1 == restored && 7 == state.step && 2.5 == state.time);
    check_vector(w, 0.5);
    CHECK_OK(QUO_world_items(w, "items", &items, &count));
    for (size_t i = 0; i < count; ++i) CHECK_INT(owner(NULL, (int *)items + i, size), rank);

    /* Callbacks move data that only the program knows. */
    CHECK_OK(QUO_world_carry(w, "words", &callbacks));
    CHECK_CODE(QUO_world_checkpoint(w, folder, &state, sizeof(state)), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the callback `words`");
    CHECK_CODE(QUO_world_restore(w, folder, &state, sizeof(state), &restored), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the callback `words`");
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int rank, size;

    check_init(&argc, &argv);
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_OK(QUO_world_rank(w, &rank));
    CHECK_OK(QUO_world_size(w, &size));
    CHECK_OK(QUO_world_items_add(w, "items", sizeof(int), owner, NULL));
    if (argc > 2 && 0 == strcmp(argv[2], "write")) {
        write_all(w, argv[1], rank, size);
    } else {
        read_all(w, argv[1], argv[0], rank, size);
    }
    CHECK_OK(QUO_world_end(w));
    return check_finish();
}
