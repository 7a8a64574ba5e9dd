/* QUO_ndevices, QUO_device, QUO_device_is_near, QUO_device_in_type, QUO_assign_device,
 * QUO_visible_devices: on any machine, and on the golden one with two GPUs. */
#include "check.h"

static void
check_two_gpus(QUO_context q)
{
    char *bus = NULL, *list = NULL, *variables = NULL;
    int qid = -1, near_it = -1, index = -1;

    CHECK_OK(QUO_id(q, &qid));
    CHECK_OK(QUO_device(q, QUO_DEVICE_GPU, 1, &bus, &list));
    CHECK_STRING(bus, "0000:c1:00.0");
    CHECK_STRING(list, "4-7");
    CHECK_OK(QUO_ptr_free(bus));
    CHECK_OK(QUO_ptr_free(list));
    CHECK_OK(QUO_visible_devices(q, 1, &variables));
    CHECK_STRING(variables, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1");
    CHECK_OK(QUO_ptr_free(variables));
    CHECK_OK(QUO_device_in_type(q, QUO_DEVICE_GPU, 0, QUO_OBJ_NUMANODE, 0, &near_it));
    CHECK_INT(near_it, 1);
    CHECK_OK(QUO_device_in_type(q, QUO_DEVICE_GPU, 0, QUO_OBJ_NUMANODE, 1, &near_it));
    CHECK_INT(near_it, 0);
    /* Odd ranks in the second package, near the second GPU. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PACKAGE, qid % 2));
    CHECK_OK(QUO_device_is_near(q, QUO_DEVICE_GPU, 1, &near_it));
    CHECK_INT(near_it, qid % 2);
    CHECK_OK(QUO_assign_device(q, QUO_DEVICE_GPU, &index));
    CHECK_INT(index, qid % 2);
    CHECK_OK(QUO_bind_pop(q));
}

CHECK_CONTEXT(q)
{
    static const QUO_device_kind_t kinds[] = {QUO_DEVICE_GPU, QUO_DEVICE_NETWORK,
                                              QUO_DEVICE_STORAGE};
    char *bus = NULL, *list = NULL, *variables = NULL;
    int count = -1, near_it = -1, index = -1, size = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int kind = 0; kind < CHECK_COUNT(kinds); ++kind) {
        CHECK_OK(QUO_ndevices(q, kinds[kind], &count));
        CHECK(count >= 0);
        for (int device = 0; device < count; ++device) {
            CHECK_OK(QUO_device(q, kinds[kind], device, &bus, &list));
            CHECK(NULL != bus && strlen(bus) >= 7 && NULL != list);
            CHECK_OK(QUO_ptr_free(bus));
            CHECK_OK(QUO_ptr_free(list));
            CHECK_OK(QUO_device_is_near(q, kinds[kind], device, &near_it));
            CHECK_OK(QUO_device_in_type(q, kinds[kind], device, QUO_OBJ_MACHINE, 0, &near_it));
            CHECK_INT(near_it, 1);
        }
        CHECK_OK(QUO_assign_device(q, kinds[kind], &index));
        CHECK(count > 0 ? index >= 0 && index < count : -1 == index);
        bus = list = (char *)&count;
        CHECK_CODE(QUO_device(q, kinds[kind], count, &bus, &list), QUO_ERR_INVLD_ARG);
        CHECK(NULL == bus && NULL == list);
        CHECK_CODE(QUO_device_is_near(q, kinds[kind], -1, &near_it), QUO_ERR_INVLD_ARG);
    }
    CHECK_OK(QUO_ndevices(q, QUO_DEVICE_GPU, &count));
    if (2 == count && 8 == check_nobjs(q, QUO_OBJ_PU)) check_two_gpus(q);

    CHECK_CODE(QUO_ndevices(q, (QUO_device_kind_t)3, &count), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_ndevices(q, QUO_DEVICE_GPU, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_device(q, QUO_DEVICE_GPU, 0, NULL, &list), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_device_is_near(q, QUO_DEVICE_GPU, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_device_in_type(q, QUO_DEVICE_GPU, 0, QUO_OBJ_PU, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_visible_devices(q, -1, &variables), QUO_ERR_INVLD_ARG);
    CHECK(NULL == variables);
    CHECK_CODE_EVERYWHERE(QUO_assign_device(q, (QUO_device_kind_t)-1, &index), QUO_ERR_INVLD_ARG);
    if (size > 1) {
        CHECK_CODE_EVERYWHERE(QUO_assign_device(q, 0 == check_rank ? (QUO_device_kind_t)9
                                                                   : QUO_DEVICE_GPU, &index),
                              QUO_ERR_DISAGREE);
        CHECK_CODE_EVERYWHERE(QUO_assign_device(q, 0 == check_rank ? QUO_DEVICE_STORAGE
                                                                   : QUO_DEVICE_GPU, &index),
                              QUO_ERR_DISAGREE);
    }
    CHECK_REFUSES_BAD_HANDLES(QUO_ndevices(bad, QUO_DEVICE_GPU, &count));
    CHECK_REFUSES_BAD_HANDLES(QUO_device(bad, QUO_DEVICE_GPU, 0, &bus, &list));
    CHECK_REFUSES_BAD_HANDLES(QUO_device_is_near(bad, QUO_DEVICE_GPU, 0, &near_it));
    CHECK_REFUSES_BAD_HANDLES(QUO_device_in_type(bad, QUO_DEVICE_GPU, 0, QUO_OBJ_PU, 0, &near_it));
    CHECK_REFUSES_BAD_HANDLES(QUO_assign_device(bad, QUO_DEVICE_GPU, &index));
    CHECK_REFUSES_BAD_HANDLES(QUO_visible_devices(bad, 0, &variables));
}
