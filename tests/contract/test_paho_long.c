/* SPDX-License-Identifier: MIT */
/*
 * What shows only after many connections or many messages.
 *
 * POSTBAG_FULL=1: 500 connections of each kind and 12,000 bursts.
 */
#include <dirent.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "paho_test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static unsigned is_full;

static struct rig *begin(void **state, struct broker *b)
{
    struct rig *rig = rig_new(b);
    *state = rig;
    return rig;
}

/* ---- connections --------------------------------------------------------- */

/* After so many the caches of libc, Paho and OpenSSL have their size. */
static unsigned warm_cycles(void)
{
    return is_full ? 100 : 10;
}

static unsigned all_cycles(void)
{
    return is_full ? 500 : 40;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    (void)fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* One connection that carries a message and is cut. */
static void cycle(struct rig *rig, unsigned i, unsigned is_cut_by_broker)
{
    unsigned losts = rig->r.losts;
    memset(rig->r.outcomes, 0, sizeof(rig->r.outcomes[0]));
    rig_up(rig);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    if (is_cut_by_broker) {
        broker_tell(rig->broker, "cut");
        assert_true(recorder_wait(&rig->r, &rig->r.losts, losts + 1));
    }
    rig_disconnect(rig, i % 2 == 0);
}

/* Paho leaves 56 bytes of OpenSSL's behind each time that it begins anew,
   over TCP as well, and none without its TLS variant: README.md beside the
   port.  The rest is what the heap's holes make of it. */
#ifdef POSTBAG_WITH_TLS
enum { TCP_MOST = 128, TLS_MOST = 800 };
#else
enum { TCP_MOST = 64 };
#endif

static void run_cycles(
    struct rig *rig, unsigned is_cut_by_broker, long most_growth)
{
    unsigned count = all_cycles();
    unsigned descriptors = 0;
    long resident = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i == warm_cycles()) {
            descriptors = count_descriptors();
            resident = resident_bytes();
        }
        cycle(rig, i, is_cut_by_broker);
    }
    long growth = (resident_bytes() - resident) / (long)(count - warm_cycles());
    (void)printf("%u cycles: %u descriptors, %ld bytes resident more a cycle\n",
        count, descriptors, growth);
    assert_int_equal(count_descriptors(), descriptors);
    assert_int_equal(rig->r.late, 0);
    /* a page more or less says nothing of a few cycles, and a sanitizer keeps
       what is freed */
    if (is_full && !IS_SANITIZED)
        assert_true(growth < most_growth);
}

static void test_paho_cut_cycles_leak_nothing(void **state)
{
    run_cycles(begin(state, broker_start_fake(NULL)), 1, TCP_MOST);
}

#ifdef POSTBAG_WITH_TLS
/* Both ends show a certificate. */
static void test_paho_tls_cycles_leak_nothing(void **state)
{
    static const struct broker_options tls = {
        .tls = 1,
        .config = "require_certificate true\n",
    };
    char ca[256];
    char cert[256];
    char key[256];
    struct rig *rig = begin(state, broker_start_mosquitto(&tls));
    (void)snprintf(ca, sizeof(ca), "%s", broker_file(rig->broker, "ca.pem"));
    (void)snprintf(
        cert, sizeof(cert), "%s", broker_file(rig->broker, "client.pem"));
    (void)snprintf(
        key, sizeof(key), "%s", broker_file(rig->broker, "client.key"));
    rig->config.ca_file = ca;
    rig->config.cert_file = cert;
    rig->config.key_file = key;
    run_cycles(rig, 0, TLS_MOST);
}
#endif

/* ---- messages ------------------------------------------------------------ */

/* More than the 65535 packet ids: each is used again and again by Paho, and
   each message settles once. */
static void test_paho_packet_ids_are_used_again(void **state)
{
    enum { MESSAGES = 70000, WINDOW = 500 };
    static const struct broker_options all_at_once = {
        .config = "max_inflight_messages 0\nlog_type none\nlog_type debug\n",
    };
    struct rig *rig = begin(state, broker_start_mosquitto(&all_at_once));
    rig_up(rig);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (i >= WINDOW)
            assert_true(
                recorder_wait(&rig->r, &rig->r.settled, i - WINDOW + 1));
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
    }
    assert_true(recorder_wait(&rig->r, &rig->r.settled, MESSAGES));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.settled, MESSAGES);
    for (uint32_t i = 0; i < RECORDER_TOKENS; i++) {
        assert_int_equal(rig->r.outcomes[i].count,
            MESSAGES / RECORDER_TOKENS + (i < MESSAGES % RECORDER_TOKENS));
        assert_int_equal(rig->r.outcomes[i].err, POSTBAG_OK);
    }
    assert_int_equal(broker_count(rig->broker, "PUBLISH from rig"), MESSAGES);
    assert_int_equal(broker_count(rig->broker, ", m1, "), 2);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Paho's sending thread may miss that there is something to send and look
   again a second later; it does look again. */
static void test_paho_missed_wakeups_are_made_up_for(void **state)
{
    enum { BURST = 3 };
    unsigned bursts = is_full ? 12000 : 500;
    double longest = 0;
    struct rig *rig = begin(state, broker_start_fake(NULL));
    rig_up(rig);
    for (unsigned i = 0; i < bursts; i++) {
        double begun = seconds();
        for (uint32_t n = 0; n < BURST; n++)
            assert_int_equal(rig_send(rig, "x", n), POSTBAG_OK);
        assert_true(recorder_wait(&rig->r, &rig->r.settled, (i + 1) * BURST));
        if (seconds() - begun > longest)
            longest = seconds() - begun;
    }
    (void)printf("%u bursts, the longest took %.3f s\n", bursts, longest);
    assert_int_equal(rig->r.losts, 0);
}

static const struct CMUnitTest tests[] = {
    TEST(test_paho_packet_ids_are_used_again),
    TEST(test_paho_missed_wakeups_are_made_up_for),
    TEST(test_paho_cut_cycles_leak_nothing),
#ifdef POSTBAG_WITH_TLS
    TEST(test_paho_tls_cycles_leak_nothing),
#endif
};

int main(void)
{
    const char *full = getenv("POSTBAG_FULL");
    is_full = full != NULL && strcmp(full, "1") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
