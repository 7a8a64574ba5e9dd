/* QUO_strerror: a separate sentence for every code, and one for numbers that are not codes. */
#include "check.h"

CHECK_PROGRAM
{
    const char *unknown = QUO_strerror(-1);

    for (int code = QUO_SUCCESS; code <= QUO_ERR_NOT_BEGUN; ++code) {
        const char *text = QUO_strerror(code);
        CHECK(NULL != text && strlen(text) > 3);
        CHECK(0 != strcmp(text, unknown));
        for (int other = QUO_SUCCESS; other < code; ++other) {
            CHECK(0 != strcmp(text, QUO_strerror(other)));
        }
    }
    CHECK_STRING(QUO_strerror(QUO_ERR_NOT_BEGUN + 1), unknown);
    CHECK_STRING(QUO_strerror(2147483647), unknown);
}
