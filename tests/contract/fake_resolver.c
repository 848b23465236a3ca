/* SPDX-License-Identifier: MIT */
/* See fake_resolver.h. */
#include "fake_resolver.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_S 10
/* Longer than any wait of a test; then it is the test that hangs. */
#define HANG_S 12
#define ADDRESS_COUNT 4

typedef int look_up(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **out);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    const char *addresses[ADDRESS_COUNT + 1];
    int error;
    unsigned is_hanging;
    unsigned calls;
    unsigned inside;
    unsigned unshielded;
} fake;

static struct timespec in_seconds(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    return t;
}

static void change(void)
{
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- what the test says -------------------------------------------------- */

void resolver_answer_with(const char *const addresses[])
{
    pthread_mutex_lock(&lock);
    memset(&fake, 0, sizeof(fake));
    for (size_t i = 0; i < ADDRESS_COUNT && addresses[i] != NULL; i++)
        fake.addresses[i] = addresses[i];
    change();
}

void resolver_fail_with(int error)
{
    pthread_mutex_lock(&lock);
    memset(&fake, 0, sizeof(fake));
    fake.error = error;
    change();
}

void resolver_hang(void)
{
    pthread_mutex_lock(&lock);
    fake.is_hanging = 1;
    change();
}

void resolver_release(void)
{
    pthread_mutex_lock(&lock);
    fake.is_hanging = 0;
    change();
}

static unsigned get(const unsigned *number)
{
    pthread_mutex_lock(&lock);
    unsigned value = *number;
    pthread_mutex_unlock(&lock);
    return value;
}

unsigned resolver_calls(void)
{
    return get(&fake.calls);
}

unsigned resolver_inside(void)
{
    return get(&fake.inside);
}

int resolver_was_shielded(void)
{
    return get(&fake.unshielded) == 0;
}

int resolver_wait_calls(unsigned count)
{
    struct timespec until = in_seconds(WAIT_S);
    int timed_out = 0;
    pthread_mutex_lock(&lock);
    while (fake.calls < count && !timed_out)
        timed_out = pthread_cond_timedwait(&changed, &lock, &until) != 0;
    int reached = fake.calls >= count;
    pthread_mutex_unlock(&lock);
    return reached;
}

/* ---- in place of libc's -------------------------------------------------- */

static look_up *libc_look_up(void)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    look_up *function = NULL;
    if (symbol == NULL)
        abort();
    memcpy(&function, &symbol, sizeof(function));
    return function;
}

/* One call for each address; glibc frees a list element by element. */
static int make_list(const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo **end = out;
    *out = NULL;
    for (size_t i = 0; fake.addresses[i] != NULL; i++) {
        int error = libc_look_up()(fake.addresses[i], NULL, hints, end);
        if (error != 0)
            abort();
        end = &(*end)->ai_next;
    }
    return 0;
}

static int look_up_here(const struct addrinfo *hints, struct addrinfo **out)
{
    struct timespec until = in_seconds(HANG_S);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_mutex_lock(&lock);
    fake.unshielded += !sigismember(&blocked, SIGTERM);
    fake.calls++;
    fake.inside++;
    pthread_cond_broadcast(&changed);
    while (fake.is_hanging) {
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0)
            abort();
    }
    fake.inside--;
    int error = fake.error != 0 ? fake.error : make_list(hints, out);
    change();
    return error;
}

int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **out)
{
    const char *end = node != NULL ? strrchr(node, '.') : NULL;
    if (end != NULL && strcmp(end, ".test") == 0)
        return look_up_here(hints, out);
    return libc_look_up()(node, service, hints, out);
}
