/* SPDX-License-Identifier: MIT */
/*
 * Child processes that are brokers; see broker.h.
 *
 * A port is chosen by binding to port 0 and letting go of it, so another
 * process may snatch it; a mosquitto that ends at once is started again on
 * another port.  The scripted broker binds to port 0 itself and says which.
 */
#include "broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 10000
#define SETTING_COUNT 16

struct broker {
    char folder[64];
    char path[160];
    char uri[64];
    char log[128];
    int port;
    pid_t pid;
    unsigned is_tls, is_tls12;
    /* the scripted one */
    unsigned is_fake;
    char settings[SETTING_COUNT][64];
    FILE *tell;
};

static void die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *format, ...)
{
    int error = errno;
    va_list args;
    va_start(args, format);
    fputs("broker: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (errno: %s)\n", strerror(error));
    va_end(args);
    exit(1);
}

/* ---- waiting ------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

static int has_ended(struct broker *b)
{
    if (b->pid > 0 && waitpid(b->pid, NULL, WNOHANG) == b->pid)
        b->pid = 0;
    return b->pid == 0;
}

/* ---- ports --------------------------------------------------------------- */

static int open_socket(struct sockaddr_in *a, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    *a = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    return fd;
}

int broker_free_port(void)
{
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    int fd = open_socket(&a, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        die("no free port");
    close(fd);
    return ntohs(a.sin_port);
}

static int accepts(int port)
{
    struct sockaddr_in a;
    int fd = open_socket(&a, port);
    int connected = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return connected;
}

/* 0 if the process has ended instead. */
static int wait_until_accepting(struct broker *b)
{
    int64_t end = now_ms() + WAIT_MS;
    while (!accepts(b->port)) {
        if (has_ended(b))
            return 0;
        if (now_ms() > end)
            die("does not accept on port %d, see %s", b->port, b->log);
        pause_ms(5);
    }
    return 1;
}

/* ---- folders and files --------------------------------------------------- */

static void make_folder(struct broker *b)
{
    const char *base = getenv("TMPDIR");
    int len = snprintf(b->folder, sizeof(b->folder), "%s/broker-XXXXXX",
        base != NULL && base[0] != '\0' ? base : "/tmp");
    if (len < 0 || (size_t)len >= sizeof(b->folder) ||
        mkdtemp(b->folder) == NULL)
        die("no folder %s", b->folder);
    (void)snprintf(b->log, sizeof(b->log), "%s/log", b->folder);
}

static int remove_entry(
    const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    return remove(path);
}

const char *broker_file(struct broker *b, const char *name)
{
    (void)snprintf(b->path, sizeof(b->path), "%s/%s", b->folder, name);
    return b->path;
}

static FILE *create(struct broker *b, const char *name)
{
    FILE *file = fopen(broker_file(b, name), "we");
    if (file == NULL)
        die("cannot write %s", b->path);
    return file;
}

static void finish(FILE *file)
{
    if (fclose(file) != 0)
        die("fclose");
}

void broker_write(struct broker *b, const char *name, const char *text)
{
    FILE *file = create(b, name);
    fputs(text, file);
    finish(file);
}

/* ---- processes ----------------------------------------------------------- */

/* in, out: descriptors for the child, or -1; what it says besides goes to the
   log. */
static pid_t start(struct broker *b, char *const argv[], int in, int out)
{
    int log = open(b->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (log < 0 || pid < 0)
        die("cannot start %s", argv[0]);
    if (pid > 0) {
        close(log);
        return pid;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    if (in >= 0)
        dup2(in, 0);
    dup2(out >= 0 ? out : log, 1);
    dup2(log, 2);
    execvp(argv[0], argv);
    _exit(127);
}

static void run(struct broker *b, const char *script)
{
    char shell[] = "sh";
    char flag[] = "-ec";
    char text[4096];
    (void)snprintf(text, sizeof(text), "cd %s\n%s", b->folder, script);
    char *argv[] = {shell, flag, text, NULL};
    int status = 0;
    pid_t pid = start(b, argv, -1, -1);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("failed, see %s: %s", b->log, script);
}

void broker_replace(struct broker *b, const char *to, const char *from)
{
    char script[256];
    (void)snprintf(
        script, sizeof(script), "cp -p %s new\nmv new %s\n", from, to);
    run(b, script);
}

/* ---- mosquitto ----------------------------------------------------------- */

static void make_certificates(struct broker *b)
{
    run(b, "sh " POSTBAG_CERTIFICATES);
}

static void write_listener(struct broker *b, FILE *f,
    const struct broker_options *o, const char *address)
{
    const char *certificate =
        o->certificate != NULL ? o->certificate : "server";
    fprintf(f, "listener %d %s\n", b->port, address);
    if (o->psk != NULL)
        fprintf(f, "psk_file %s/psk\npsk_hint postbag\n", b->folder);
    else if (o->tls)
        fprintf(f,
            "cafile %s/ca.pem\ncertfile %s/%s.pem\nkeyfile %s/server.key\n",
            b->folder, b->folder, certificate, b->folder);
}

static void write_config(struct broker *b, const struct broker_options *o)
{
    FILE *f = create(b, "conf");
    if (o->is_dual)
        write_listener(b, f, o, "::1");
    write_listener(b, f, o, "127.0.0.1");
    fprintf(f, "persistence_location %s/\n", b->folder);
    fprintf(f, "log_dest stderr\nlog_type all\nconnection_messages true\n");
    fprintf(f, "allow_anonymous %s\n", o->user == NULL ? "true" : "false");
    if (o->user != NULL)
        fprintf(f, "password_file %s/passwords\n", b->folder);
    if (geteuid() == 0)
        fprintf(f, "user root\n"); /* else it could not read the folder */
    if (o->config != NULL)
        fputs(o->config, f);
    finish(f);
}

static void write_passwords(struct broker *b, const struct broker_options *o)
{
    FILE *f = create(b, "passwords");
    fprintf(f, "%s:%s\n", o->user, o->password);
    finish(f);
    run(b, "mosquitto_passwd -U passwords");
}

static void start_mosquitto(struct broker *b)
{
    char env[] = "env"; /* becomes mosquitto, with the same pid */
    char name[] = "mosquitto";
    char flag[] = "-c";
    char conf[80];
    char tls[100];
    (void)snprintf(conf, sizeof(conf), "%s/conf", b->folder);
    (void)snprintf(tls, sizeof(tls), "OPENSSL_CONF=%s/%s", b->folder,
        b->is_tls12 ? "tls12.conf" : "none");
    char *argv[] = {env, tls, name, flag, conf, NULL};
    b->pid = start(b, argv, -1, -1);
}

static void name_uri(struct broker *b)
{
    (void)snprintf(b->uri, sizeof(b->uri),
        b->is_tls ? "ssl://localhost:%d" : "tcp://127.0.0.1:%d", b->port);
}

static struct broker *make(void)
{
    struct broker *b = calloc(1, sizeof(*b));
    if (b == NULL)
        die("out of memory");
    make_folder(b);
    return b;
}

struct broker *broker_start_mosquitto(const struct broker_options *options)
{
    static const struct broker_options plain;
    const struct broker_options *o = options != NULL ? options : &plain;
    struct broker *b = make();
    b->is_tls = o->tls || o->psk != NULL;
    b->is_tls12 = o->is_tls12;
    if (b->is_tls)
        make_certificates(b);
    if (o->psk != NULL)
        broker_write(b, "psk", o->psk);
    if (o->user != NULL)
        write_passwords(b, o);
    for (int tries = 0; tries < 5; tries++) {
        b->port = broker_free_port();
        write_config(b, o);
        start_mosquitto(b);
        if (wait_until_accepting(b)) {
            name_uri(b);
            return b;
        }
    }
    die("mosquitto ends at once, see %s", b->log);
}

/* ---- the scripted one ---------------------------------------------------- */

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("pipe");
}

static void read_port(struct broker *b, int fd)
{
    FILE *f = fdopen(fd, "r");
    if (f == NULL || fscanf(f, "port %d", &b->port) != 1)
        die("the scripted broker does not start, see %s", b->log);
    fclose(f);
}

static void start_fake(struct broker *b)
{
    char python[] = "python3";
    char script[] = POSTBAG_FAKEBROKER;
    char port[24];
    char *argv[SETTING_COUNT + 5] = {python, script, b->log, port};
    for (int i = 0; i < SETTING_COUNT && b->settings[i][0] != '\0'; i++)
        argv[4 + i] = b->settings[i];
    (void)snprintf(port, sizeof(port), "port=%d", b->port);
    int in[2];
    int out[2];
    make_pipe(in);
    make_pipe(out);
    b->pid = start(b, argv, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    b->tell = fdopen(in[1], "w");
    if (b->tell == NULL)
        die("fdopen");
    read_port(b, out[0]);
}

struct broker *broker_start_fake(const char *const settings[])
{
    struct broker *b = make();
    b->is_fake = 1;
    for (int i = 0; settings != NULL && settings[i] != NULL; i++) {
        if (i == SETTING_COUNT)
            die("too many settings");
        (void)snprintf(
            b->settings[i], sizeof(b->settings[i]), "%s", settings[i]);
        b->is_tls |= strncmp(settings[i], "tls=", 4) == 0;
    }
    if (b->is_tls)
        make_certificates(b);
    start_fake(b);
    name_uri(b);
    return b;
}

void broker_tell(struct broker *b, const char *format, ...)
{
    char line[1024] = "did ";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + 4, sizeof(line) - 4, format, args);
    va_end(args);
    size_t before = broker_count(b, line);
    if (fprintf(b->tell, "%s\n", line + 4) < 0 || fflush(b->tell) != 0)
        die("the scripted broker is gone, see %s", b->log);
    if (!broker_wait(b, line, before + 1))
        die("the scripted broker does not do: %s", line + 4);
}

/* ---- both ---------------------------------------------------------------- */

static void end_process(struct broker *b, int signal)
{
    if (b->tell != NULL)
        fclose(b->tell);
    b->tell = NULL;
    if (b->pid == 0)
        return;
    /* a stopped process takes no SIGTERM */
    (void)kill(b->pid, SIGCONT);
    /* mosquitto forgets one that comes just before its main loop */
    do {
        (void)kill(b->pid, signal);
        pause_ms(2);
    } while (!has_ended(b));
}

void broker_stop(struct broker *b)
{
    if (b == NULL)
        return;
    end_process(b, SIGTERM);
    if (nftw(b->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        die("cannot remove %s", b->folder);
    free(b);
}

void broker_kill(struct broker *b)
{
    end_process(b, SIGKILL);
}

void broker_restart(struct broker *b)
{
    end_process(b, SIGTERM);
    if (b->is_fake) {
        start_fake(b);
        return;
    }
    start_mosquitto(b);
    if (!wait_until_accepting(b))
        die("does not start again, see %s", b->log);
}

/* The parent sees that the child stands still (WUNTRACED) or runs again. */
static void signal_and_wait(struct broker *b, int signal, int option)
{
    if (kill(b->pid, signal) != 0 || waitpid(b->pid, NULL, option) != b->pid)
        die("signal %d", signal);
}

void broker_pause(struct broker *b)
{
    signal_and_wait(b, SIGSTOP, WUNTRACED);
}

void broker_resume(struct broker *b)
{
    signal_and_wait(b, SIGCONT, WCONTINUED);
}

int broker_port(const struct broker *b)
{
    return b->port;
}

const char *broker_uri(const struct broker *b)
{
    return b->uri;
}

const char *broker_log(const struct broker *b)
{
    return b->log;
}

size_t broker_count(struct broker *b, const char *text)
{
    char *line = NULL;
    size_t size = 0;
    size_t count = 0;
    FILE *f = fopen(b->log, "re");
    if (f == NULL)
        die("no log %s", b->log);
    while (getline(&line, &size, f) >= 0)
        count += strstr(line, text) != NULL;
    free(line);
    fclose(f);
    return count;
}

int broker_wait(struct broker *b, const char *text, size_t count)
{
    int64_t end = now_ms() + WAIT_MS;
    while (broker_count(b, text) < count) {
        if (now_ms() > end)
            return 0;
        pause_ms(2);
    }
    return 1;
}
