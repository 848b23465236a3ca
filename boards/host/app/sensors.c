/* SPDX-License-Identifier: MIT */
/* See sensors.h.  All from /proc and /sys, which never block. */
#include "sensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512, ZONES = 10 };
/* As for a SIM card that is paid by the megabyte. */
enum { ALARM_EVERY = 256 * 1024 };
/* Columns of /proc/net/dev. */
enum { RECEIVED_BYTES = 0, SENT_BYTES = 8 };

/* The number at *text; moves *text behind it. */
static int take_number(char **text, double *out)
{
    char *end = *text;

    errno = 0;
    *out = strtod(*text, &end);
    if (end == *text || errno != 0)
        return 0;
    *text = end;
    return 1;
}

/* The number that a file begins with. */
static int read_first_number(const char *path, double *out)
{
    char line[LINE];
    char *at = line;
    FILE *f = fopen(path, "re");
    int found;

    if (f == NULL)
        return 0;
    found = fgets(line, sizeof(line), f) != NULL && take_number(&at, out);
    (void)fclose(f);
    return found;
}

static int read_load(double *value)
{
    return read_first_number("/proc/loadavg", value);
}

static int read_memory_available(double *value)
{
    static const char field[] = "MemAvailable:";
    char line[LINE];
    FILE *f = fopen("/proc/meminfo", "re");
    int found = 0;

    if (f == NULL)
        return 0;
    while (!found && fgets(line, sizeof(line), f) != NULL) {
        char *at = line + strlen(field);

        found =
            strncmp(line, field, strlen(field)) == 0 && take_number(&at, value);
    }
    (void)fclose(f);
    *value *= 1024; /* the kernel says kB */
    return found;
}

/* The column of one line of /proc/net/dev; 0 for its head lines. */
static int read_interface(char *line, int column, double *value)
{
    char *at = strchr(line, ':');
    int found = at != NULL;

    for (int i = 0; i <= column && found; i++) {
        at += i == 0; /* the colon */
        found = take_number(&at, value);
    }
    return found;
}

/* The sum of all interfaces: here the broker is behind the loopback one. */
static int read_network(int column, double *value)
{
    char line[LINE];
    double one = 0;
    int found = 0;
    FILE *f = fopen("/proc/net/dev", "re");

    *value = 0;
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (!read_interface(line, column, &one))
            continue;
        *value += one;
        found = 1;
    }
    (void)fclose(f);
    return found;
}

static int read_network_received(double *value)
{
    return read_network(RECEIVED_BYTES, value);
}

static int read_network_sent(double *value)
{
    return read_network(SENT_BYTES, value);
}

/* The first of some numbered folders that has the file, in thousandths. */
static int read_zone(const char *folder, const char *file, double *value)
{
    char path[80];

    for (int i = 0; i < ZONES; i++) {
        (void)snprintf(path, sizeof(path), "%s%d/%s", folder, i, file);
        if (read_first_number(path, value)) {
            *value /= 1000;
            return 1;
        }
    }
    return 0;
}

static int read_temperature(double *value)
{
    return read_zone("/sys/class/thermal/thermal_zone", "temp", value) ||
           read_zone("/sys/class/hwmon/hwmon", "temp1_input", value);
}

static const struct sensor all[] = {
    {"load", "1", 0, read_load},
    {"memory_available", "By", 0, read_memory_available},
    {"network_received", "By", ALARM_EVERY, read_network_received},
    {"network_sent", "By", 0, read_network_sent},
    {"temperature", "Cel", 0, read_temperature},
};

const struct sensor *sensors_all(size_t *count_out)
{
    *count_out = sizeof(all) / sizeof(all[0]);
    return all;
}
