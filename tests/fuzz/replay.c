/* SPDX-License-Identifier: MIT */
/*
 *     fuzz_NAME FOLDER ...
 *
 * Hands each file of the folders, and the empty input, to the target, in the
 * order of their names.  With libFuzzer linked in its place the same program
 * looks for new inputs.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proof.h"

enum { MOST_BYTES = 1 << 20 };

static uint64_t trials;

static void replay_file(const char *folder, const char *name)
{
    static uint8_t buffer[MOST_BYTES];
    char path[1024];
    uint8_t *exact;
    size_t len;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rbe");
    MUST(file != NULL);
    len = fread(buffer, 1, sizeof(buffer), file);
    MUST(!ferror(file) && len < sizeof(buffer));
    (void)fclose(file);
    exact = malloc(len > 0 ? len : 1);
    MUST(exact != NULL);
    memcpy(exact, buffer, len);
    /* the last line tells which it was, should the program end now */
    (void)fprintf(stderr, "%s\n", name);
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    trials++;
}

static void replay_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);

    MUST(count >= 0);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            replay_file(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];
    const char *name = strrchr(argv[0], '/');
    char row[64];

    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s FOLDER ...\n", argv[0]);
        return 2;
    }
    (void)LLVMFuzzerTestOneInput(nothing, 0);
    for (int i = 1; i < argc; i++)
        replay_folder(argv[i]);
    MUST(trials > 0);
    name = name == NULL ? argv[0] : name + 1;
    (void)snprintf(row, sizeof(row), "F29_%s",
        strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);
    proof_say(row, trials, 0, 0);
    return 0;
}
