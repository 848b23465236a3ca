/* SPDX-License-Identifier: MIT */
/* A life of what needs nothing below it, or only the port's luck; and of the
 * transport that is made before anything else. */
#include "lives.h"

#include <string.h>

#include "postbag/admin.h"
#include "postbag/care.h"
#include "postbag/linux.h"
#include "postbag/profile.h"
#include "postbag/transport.h"
#include "scene.h"
#ifdef TORTURE_PAHO
#include "postbag/paho.h"
#endif

static void set_up_nothing(struct torture *t)
{
    (void)t;
}

static int act_texts(struct torture *t)
{
    const struct postbag_profile *aws = NOTE(t, postbag_profile_find, "aws");

    EXPECT(t, aws != NULL && aws->max_packet > 0, "no profile aws");
    EXPECT(t,
        strcmp(NOTE_BARE(t, postbag_version), POSTBAG_VERSION) == 0 &&
            strcmp(NOTE(t, postbag_error_name, POSTBAG_EIO), "EIO") == 0 &&
            NOTE(t, postbag_error_text, POSTBAG_EIO)[0] != '\0' &&
            strcmp(NOTE(t, postbag_row_state_name, POSTBAG_ROW_DEAD), "dead") ==
                0,
        "a text is another one");
    EXPECT(t,
        NOTE(t, postbag_is_mqtt_text, "a\x01", 2) == 0 &&
            strcmp(NOTE(t, postbag_reason_text, 0x87, 0), "not authorized") ==
                0,
        "what MQTT says is another thing");
    EXPECT(t, NOTE(t, postbag_sqlite_version, NULL)[0] == '3', "no SQLite 3");
    EXPECT(t, NOTE_BARE(t, postbag_linux_port)->uuid != NULL, "no port");
    return POSTBAG_OK;
}

const struct life life_texts = {.name = "texts",
    .base = STAGE_NONE,
    .set_up = set_up_nothing,
    .act = act_texts,
    .flags = LIFE_NO_END};

static int act_ids(struct torture *t)
{
    struct postbag_id parsed;
    char text[37];
    int err = CALL(t, postbag_id_new, &t->sim.port, &t->ids[0]);

    if (err != POSTBAG_OK)
        return err;
    NOTE(t, postbag_id_format, &t->ids[0], text);
    err = CALL(t, postbag_id_parse, &parsed, text);
    EXPECT(t, memcmp(&parsed, &t->ids[0], sizeof(parsed)) == 0, "another id");
    return err;
}

const struct life life_ids = {.name = "ids",
    .base = STAGE_NONE,
    .set_up = set_up_nothing,
    .act = act_ids,
    .flags = LIFE_NO_END};

#ifdef TORTURE_PAHO
static int act_paho(struct torture *t)
{
    const struct postbag_paho_config c = {.struct_size = sizeof(c),
        .uri = "ssl://a.example:8883,ssl://b.example:8883",
        .client_id = "gateway",
        .username = "me",
        .password = "secret",
        .will_topic = "state",
        .will_payload = "gone",
        .server_name = "broker.example",
        .ca_file = "/etc/ssl/ca.pem",
        .cert_file = "/etc/ssl/own.pem",
        .key_file = "/etc/ssl/own.key",
        .alpn = "x-amzn-mqtt-ca"};
    struct postbag_transport *one = NULL;
    int err = CALL(t, postbag_paho_new, &one, &c, &t->why);

    EXPECT(t, (err == POSTBAG_OK) == (one != NULL), "a transport, and %s",
        postbag_error_name(err));
    if (one != NULL)
        one->ops->destroy(one);
    return err;
}

const struct life life_paho = {.name = "paho",
    .base = STAGE_NONE,
    .set_up = set_up_nothing,
    .act = act_paho,
    .flags = LIFE_NO_END};
#endif
