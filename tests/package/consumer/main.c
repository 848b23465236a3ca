/* SPDX-License-Identifier: MIT */
/*
 * A stranger's program: sees only what is installed, calls each library once
 * and fails unless they answer.  Built in the ways that tests/package names.
 */
#include <stdio.h>
#include <string.h>

#include <postbag/linux.h>
#include <postbag/paho.h>
#include <postbag/postbag.h>
#include <sqlite3.h>

static int core_answers(void)
{
    return strcmp(postbag_version(), POSTBAG_VERSION) == 0 &&
           strcmp(postbag_error_name(POSTBAG_EBUSY), "EBUSY") == 0 &&
           sqlite3_libversion_number() >= 3037000;
}

static int port_answers(void)
{
    struct postbag_id a;
    struct postbag_id b;

    if (postbag_id_new(postbag_linux_port(), &a) != POSTBAG_OK ||
        postbag_id_new(postbag_linux_port(), &b) != POSTBAG_OK)
        return 0;
    return memcmp(a.b, b.b, sizeof(a.b)) != 0;
}

static int transport_answers(void)
{
    struct postbag_paho_config config = {
        .struct_size = sizeof(config),
        .uri = "tcp://127.0.0.1:1883",
        .client_id = "consumer",
    };
    struct postbag_transport *transport;

    if (postbag_paho_new(&transport, &config, NULL) != POSTBAG_OK)
        return 0;
    transport->ops->destroy(transport);
    return 1;
}

int main(void)
{
    int core = core_answers();
    int port = port_answers();
    int transport = transport_answers();

    printf("core %d, port %d, transport %d\n", core, port, transport);
    return core && port && transport ? 0 : 1;
}
