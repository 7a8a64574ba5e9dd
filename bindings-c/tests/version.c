/* QUO_version: callable before everything, returns the number of libquo.so.8. */
#include "check.h"

int
main(int argc, char **argv)
{
    int version = -1, subversion = -1;

    CHECK_OK(QUO_version(&version, &subversion));
    CHECK_INT(version, 8);
    CHECK(subversion >= 0);

    CHECK_CODE(QUO_version(NULL, &subversion), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_version(&version, NULL), QUO_ERR_INVLD_ARG);
    CHECK_INT(version, 8);

    CHECK_INT(QUO_API_VERSION, 0x00010401);
    CHECK_INT(QUO_HAS_API_VERSIONING, 1);
    CHECK_INT(LIBQUO, 1);

    check_init(&argc, &argv);
    CHECK_OK(QUO_version(&version, &subversion));
    return check_finish();
}
