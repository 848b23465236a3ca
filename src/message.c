/* SPDX-License-Identifier: MIT */
/* What SQL cannot check (UTF-8) or would name less clearly. */
#include "message.h"

#include <string.h>

#include "error.h"
#include "postbag/transport.h"
#include "utf8.h"

enum { STRING_MAX = 65535 }; /* MQTT 5, 1.5.4 */

static int check_text(
    const char *field, const char *text, struct postbag_fault *why)
{
    size_t len = text == NULL ? 0 : strlen(text);

    if (len > STRING_MAX)
        return postbag__fail(why, POSTBAG_EINVAL,
            "%s has %zu bytes, MQTT allows 65535", field, len);
    if (text != NULL && !postbag__utf8_is_valid(text, len))
        return postbag__fail(
            why, POSTBAG_EINVAL, "%s is not well-formed UTF-8", field);
    /* JSON may have line ends between its tokens */
    if (text != NULL && strcmp(field, "headers") != 0 &&
        !postbag_is_mqtt_text(text, len))
        return postbag__fail(
            why, POSTBAG_EINVAL, "%s has a control character", field);
    return POSTBAG_OK;
}

static int check_topic(const char *topic, struct postbag_fault *why)
{
    if (topic == NULL || topic[0] == '\0')
        return postbag__fail(why, POSTBAG_EINVAL, "topic is empty");
    if (strpbrk(topic, "+#") != NULL)
        return postbag__fail(
            why, POSTBAG_EINVAL, "topic must not contain + or #");
    return check_text("topic", topic, why);
}

static int check_texts(
    const struct postbag_message *m, struct postbag_fault *why)
{
    const struct {
        const char *field, *text;
    } all[] = {
        {"key", m->key},
        {"type", m->type},
        {"content_type", m->content_type},
        {"headers", m->headers},
        {"dest", m->dest},
        {"coalesce", m->coalesce},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int err = check_text(all[i].field, all[i].text, why);

        if (err != POSTBAG_OK)
            return err;
    }
    return POSTBAG_OK;
}

int postbag__message_check(
    const struct postbag_message *m, struct postbag_fault *why)
{
    int err = check_topic(m->topic, why);

    if (err == POSTBAG_OK)
        err = check_texts(m, why);
    if (err != POSTBAG_OK)
        return err;
    if (m->payload == NULL && m->payload_len != 0)
        return postbag__fail(
            why, POSTBAG_EINVAL, "payload is NULL but has a length");
    if (m->is_text && m->payload_len != 0 &&
        !postbag__utf8_is_valid(m->payload, m->payload_len))
        return postbag__fail(
            why, POSTBAG_EINVAL, "payload is marked as text but is not UTF-8");
    if (m->priority > 3)
        return postbag__fail(why, POSTBAG_EINVAL, "priority must be 0..3");
    if (m->ttl_ms < 0 || m->key_version < 0)
        return postbag__fail(
            why, POSTBAG_EINVAL, "ttl_ms and key_version must not be negative");
    return POSTBAG_OK;
}
