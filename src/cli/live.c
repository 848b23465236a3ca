/* SPDX-License-Identifier: MIT */
/*
 * Reading the live state.  A relay that was killed leaves its file behind, so
 * whether it lives is asked of the lock, which the kernel frees.
 */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hex.h"
#include "postbag/linux.h"

static const struct {
    const char *key;
    size_t offset;
    size_t size; /* of a text; 0: a number */
} fields[] = {
#define NUMBER(key, name) \
    { \
        key, offsetof(struct live, name), 0 \
    }
#define TEXT(key, name) \
    { \
        key, offsetof(struct live, name), sizeof(((struct live *)0)->name) \
    }
    TEXT("link", link),
    TEXT("inbound", inbound),
    TEXT("error", error),
    TEXT("stalled", stalled),
    NUMBER("link_attempts", link_attempts),
    NUMBER("next_try_ms", next_try_ms),
    NUMBER("in_flight", in_flight),
    NUMBER("last_puback_ms", last_puback_ms),
    NUMBER("rate_delivered_milli", rate_milli),
    NUMBER("wal_frames", wal_frames),
    NUMBER("accepted", accepted),
    NUMBER("duplicates", duplicates),
    NUMBER("nacks", nacks),
    NUMBER("server", server),
    NUMBER("held_full", held_full),
    NUMBER("bulk_rate", bulk_rate),
    NUMBER("bulk_bytes_rate", bulk_bytes_rate),
    NUMBER("pace_all", pace_all),
    NUMBER("own_certificate_end_s", own_certificate_end_s),
    NUMBER("server_certificate_end_s", server_certificate_end_s),
};

static void take(struct live *out, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char *field = (char *)out + fields[i].offset;

        if (strcmp(key, fields[i].key) != 0)
            continue;
        if (fields[i].size > 0)
            (void)snprintf(field, fields[i].size, "%s", value);
        else
            *(int64_t *)(void *)field = strtoll(value, NULL, 10);
    }
}

static int is_this_boot(const char *text)
{
    const struct postbag_port *port = postbag_linux_port();
    uint8_t boot[16];
    char hex[33];

    return port->boot_id(port->ctx, boot) == POSTBAG_OK &&
           strcmp(hex_of(hex, sizeof(hex), boot, sizeof(boot)), text) == 0;
}

void live_read(struct live *out, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int is_owner = 0;

    *out = (struct live){0};
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, '=');

        line[strcspn(line, "\n")] = '\0';
        if (value == NULL)
            continue;
        *value++ = '\0';
        if (strcmp(line, "boot") == 0)
            out->is_known = is_this_boot(value);
        else if (strcmp(line, "role") == 0)
            is_owner = strcmp(value, "owner") == 0;
        else
            take(out, line, value);
    }
    (void)fclose(file);
    out->is_known = out->is_known && is_owner;
}

static int state_of_lock(const char *db, const char *middle, const char *dest)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX + 300];
    int life = RELAY_UNKNOWN;
    int fd;

    (void)snprintf(path, sizeof(path), "%s%s%s", db, middle, dest);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? RELAY_STOPPED : RELAY_UNKNOWN;
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0)
        life = lock.l_type == F_UNLCK ? RELAY_STOPPED : RELAY_RUNS;
    (void)close(fd);
    return life;
}

int live_relay(const char *db_path, const char *dest)
{
    char real[PATH_MAX];
    int life;

    if (realpath(db_path, real) == NULL)
        return RELAY_UNKNOWN;
    life = state_of_lock(real, "-relay-", dest);
    return life == RELAY_STOPPED ? state_of_lock(real, "-relay2-", dest) : life;
}

int live_any_relay(const char *db_path)
{
    char real[PATH_MAX];
    char *base;
    size_t len;
    int life = RELAY_STOPPED;
    const struct dirent *entry;
    DIR *folder;

    if (realpath(db_path, real) == NULL)
        return RELAY_UNKNOWN;
    base = strrchr(real, '/');
    *base++ = '\0';
    len = strlen(base);
    folder = opendir(base - 1 == real ? "/" : real);
    if (folder == NULL)
        return RELAY_UNKNOWN;
    while (life != RELAY_RUNS) {
        /* nobody else reads from this one */
        entry = readdir(folder); /* NOLINT(concurrency-mt-unsafe) */
        if (entry == NULL)
            break;
        if (strncmp(entry->d_name, base, len) == 0 &&
            strncmp(entry->d_name + len, "-relay", 6) == 0)
            life = state_of_lock(real, "/", entry->d_name);
    }
    (void)closedir(folder);
    return life;
}
