/* QUO_explain: text and JSON that name every rank of the node. */
#include "check.h"

CHECK_CONTEXT(q)
{
    char *text = NULL, *json = NULL;

    CHECK_OK(QUO_explain(q, 0, &text));
    CHECK(NULL != text && strlen(text) > 20);
    CHECK_OK(QUO_explain(q, 1, &json));
    CHECK(NULL != json && '{' == json[0] && '}' == json[strlen(json) - 1]);
    if (NULL != getenv("QUO_TOPOLOGY")) {
        CHECK(NULL != text && NULL != strstr(text, "simulated"));
        CHECK(NULL != json && NULL != strstr(json, "simulated"));
    }
    free(text);
    free(json);

    text = (char *)check_handle(1);
    CHECK_CODE(QUO_explain(q, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_explain(bad, 0, &text));
    CHECK(NULL == text);
}
